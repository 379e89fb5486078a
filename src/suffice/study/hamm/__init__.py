"""Hamm, Cao & Belkin 2016: many parties train one classifier."""
