"""The mean operator of private labels and public rows: planned, summed, noised."""
