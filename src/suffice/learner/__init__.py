"""The learner's side of the wall: estimators that work from releases.

What a learner is given is data that its caller may see: `fit(X, y)` and `score` take plain labels
and promise nothing about them.
"""
