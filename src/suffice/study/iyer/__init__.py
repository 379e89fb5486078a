"""Iyer, Nath & Sarawagi 2016: private label proportions and class ratios."""
