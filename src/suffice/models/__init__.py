"""Neutral maths that owner and learner both use: losses, penalties, problems and their solvers.

Arrays in, arrays out. Nothing here knows of releases, tables or who calls it.
"""
