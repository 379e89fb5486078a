"""Noisy second moments of private records: summed, noised, planned."""
