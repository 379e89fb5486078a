"""Patrini, Nielsen & Nock 2016: losses that factor, and what label privacy costs."""
