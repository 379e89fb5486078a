"""Four ways to know little about labels, one learner."""

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

flipped = np.where(rng.random(len(y)) < 0.2, 1 - y, y)
few = np.where(rng.random(len(y)) < 0.1, y.astype(float), np.nan)
positive = (y == 1) & (rng.random(len(y)) < 0.3)
bags = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.25, 0.5, 0.75]))
shares = np.array([[np.mean(y[bags == b] == k) for k in (0, 1)] for b in range(4)])

sources = {
    "a fifth of the labels flipped": FlippedLabels(flipped, (0, 1), (0.2, 0.2)),
    "a tenth of the labels known": SemiSupervised(few, (0, 1)),
    "some positives and their share": PositiveUnlabelled(positive, y.mean(), (0, 1)),
    "class shares of four groups": KnownProportions(bags, shares, (0, 1), "alternating-min"),
}
for name, source in sources.items():
    model = sf.FactoredClassifier().fit_weak(X, source)
    print(f"{name}: accuracy {model.score(X, y):.3f}")
