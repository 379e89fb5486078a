"""Rademacher observations: crafted, noised, planned."""
