"""Learning from randomised records by the spread likelihood (Barber 2020)."""
