"""Learning from Rademacher observations (rados), and the boosting of examples as their baseline.

`boosting` is the loop that `RadoBoost` and `AdaBoostLinear` share; `RadoRidge` takes the mean and
the covariance of rados alone; `risks` says what each minimises, on rados and on examples.
"""
