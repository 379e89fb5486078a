"""Studies on data declared public: the demo, reproductions, simulations and baselines."""
