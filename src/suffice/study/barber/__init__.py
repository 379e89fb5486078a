"""Barber 2020: learning from randomised responses."""
