"""Whole records are private: noisy second moments leave, and a learner needs no row.

The scaling comes from public rows that are not among the private ones.
"""

import numpy as np

import suffice as sf

rng = np.random.default_rng(0)
X = rng.normal(size=(8_000, 6))
y = (X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.normal(size=8_000) > 0.5).astype(int)
public, private, new = X[:1_000], slice(1_000, 7_000), slice(7_000, 8_000)

# The owner: a plan reads no cell; the release protects each record.
print(sf.plan_moments(X[private], 1.0, 1e-6, standardize=public))
moments = sf.Moments(epsilon=1.0, delta=1e-6, standardize=public)
release = moments.release(X[private], y[private], ledger=None)
print(release.guarantee)

# The learner: nothing but the file.
model = sf.MomentClassifier().fit_release(release)
least, most = model.accuracy_interval_
print(f"expected accuracy {least:.2f} to {most:.2f}: {model.score(X[new], y[new]):.2f} on new rows")
intervals = model.coefficient_intervals(0.9)
for name, low, high in zip(intervals.names, intervals.low, intervals.high, strict=True):
    print(f"{name}: {low:.2f} to {high:.2f}")
