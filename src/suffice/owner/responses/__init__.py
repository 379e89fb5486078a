"""Randomised records, from one owner or from the participants of a survey."""
