"""Studies on data declared public: the demo and reproductions; later simulations, baselines."""
