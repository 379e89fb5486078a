"""Learning from a mean operator and public rows: a classifier, its penalty, how sure it is."""
