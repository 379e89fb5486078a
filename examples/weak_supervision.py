"""Train one classifier from four kinds of incomplete information about labels."""

import numpy as np
from sklearn.datasets import load_breast_cancer

import suffice as sf
from suffice.learner.weak import (
    FlippedLabels,
    KnownProportions,
    PositiveUnlabelled,
    SemiSupervised,
)

X, y = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)

# What is known about the labels y, four times:
flipped = np.where(rng.random(len(y)) < 0.2, 1 - y, y)
few = np.where(rng.random(len(y)) < 0.1, y.astype(float), np.nan)
positive = (y == 1) & (rng.random(len(y)) < 0.3)
bags = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.25, 0.5, 0.75]))
proportions = np.array([[np.mean(y[bags == b] == k) for k in (0, 1)] for b in range(4)])

sources = {
    "20 % of the labels are wrong": FlippedLabels(flipped, (0, 1), (0.2, 0.2)),
    "10 % of the labels are known": SemiSupervised(few, (0, 1)),
    "some positive rows, and the proportion": PositiveUnlabelled(positive, y.mean(), (0, 1)),
    "class proportions of four bags": KnownProportions(
        bags, proportions, (0, 1), "alternating-min"
    ),
}

# The same learner takes each of them.
for name, source in sources.items():
    model = sf.FactoredClassifier().fit_weak(X, source)
    print(f"{name}: accuracy {model.score(X, y):.3f}")
