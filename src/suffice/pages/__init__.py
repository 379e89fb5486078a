"""Plots and HTML pages of the commands, the studies and the auditor."""
