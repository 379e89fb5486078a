"""Many parties: contributions, their private sum, what to expect of it."""
