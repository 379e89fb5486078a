"""Label proportions of sets: counted, noised, planned."""
