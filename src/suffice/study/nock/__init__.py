"""Nock, Patrini & Friedman 2015: Rademacher observations."""
