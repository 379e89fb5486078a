"""Learning by any classifier from randomised labels of public rows."""
