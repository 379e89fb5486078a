"""Studies on data declared public: the demo, and later reproductions, simulations and baselines."""
