"""Label proportions of bags: counted, noised, planned."""
