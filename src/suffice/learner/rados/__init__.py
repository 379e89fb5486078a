"""Learning from Rademacher observations, and the boosting of examples that they are held against.

`boosting` is the loop that `RadoBoost` and `AdaBoostLinear` share; `RadoRidge` takes the mean and
the covariance of rados alone; `risks` says what each minimises, on rados and on examples.
"""
