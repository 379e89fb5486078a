"""The learner's side of the wall: estimators that learn from releases.

A learner works with data that its caller may see. `fit(X, y)` and `score` take exact labels and
protect nothing about them.
"""
