"""A one-stage kernel operator: the operator of public kernel components, as many as pay.

Rows become ranks, then the features of a Gaussian kernel at the median squared distance (Nystroem:
Williams & Seeger 2001), then their principal components z_j of variance l_j. Component j enters as
z_j l_j^((p - 1) / 2). Their number k and the shape p minimise the error that public rows predict
for labels spread as the components are:

    sum_{j <= k} t_j n_j / (t_j + n_j) + sum_{j > k} t_j,
    t = .5 v l / sum l,  n_j = (c D sigma / m)^2 / l_j^p + v / m

D is the length at which rows are clipped, c D how far one label moves the sum (c = 2 for two
classes, sqrt 2 for more), c D sigma the deviation of the noise, m the number of rows, v the
variance of a column's labels: 1 for -1 and +1, (K - 1) / K^2 for one of K equal classes.
"""

from typing import NamedTuple

import numpy as np

from suffice.owner.mean_operator import label_change
from suffice.privacy.events import gaussian_multiplier

__all__ = ["Components", "chosen_components", "kernel_features"]

_LANDMARKS = 500
_COUNTS = (25, 50, 100, 200, 400)
_SHAPES = (0.0, 0.5, 1.0)
_CLIP = 0.9  # quantile of row lengths
_CONSTANT = 0.5  # of that length: the intercept
_SIGNAL = 0.5  # of the labels' variance, that all components together explain
_FLAT = 1e-9  # of the largest variance: no row varies along such a component


class Components(NamedTuple):
    """Shaped components of training and test rows, the length to clip them at, the intercept."""

    rows: np.ndarray
    test: np.ndarray
    bound: float
    intercept: float


def kernel_features(
    rows: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the white components of both, the largest variance first, and their variances."""
    rng = np.random.default_rng(0)  # landmarks are public
    landmarks = rows[rng.permutation(len(rows))[:_LANDMARKS]]
    between = _squared_distances(landmarks, landmarks)
    gamma = 1 / np.median(between[np.triu_indices(len(between), 1)])
    values, vectors = np.linalg.eigh(np.exp(-gamma * between))
    root = vectors / np.sqrt(np.maximum(values, _FLAT * values[-1]))
    mapped, mapped_test = (
        np.exp(-gamma * _squared_distances(part, landmarks)) @ root for part in (rows, test)
    )
    mean = mapped.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((mapped - mean).T, bias=True))
    variances, axes = variances[::-1], axes[:, ::-1]
    kept = variances > _FLAT * variances[0]
    scaled = axes[:, kept] / np.sqrt(variances[kept])
    return (mapped - mean) @ scaled, (mapped_test - mean) @ scaled, variances[kept]


def chosen_components(
    features: tuple[np.ndarray, np.ndarray, np.ndarray], classes: int, promise: tuple[float, float]
) -> Components:
    """Return the components that public rows predict to be best at (epsilon, delta)."""
    rows, test, variances = features
    spread = 1.0 if classes == 2 else (classes - 1) / classes**2
    signal = _SIGNAL * spread * variances / variances.sum()
    relative = variances / variances[0]
    moved = label_change(classes) * gaussian_multiplier(*promise) / len(rows)

    def error(count: int, shape: float) -> tuple[float, float]:
        weights = relative[:count] ** shape
        bound = float(np.quantile(np.sqrt(rows[:, :count] ** 2 @ weights), _CLIP))
        length = bound * np.hypot(1, _CONSTANT)
        noise = (moved * length) ** 2 / weights + spread / len(rows)
        kept = signal[:count]
        return float((kept * noise / (kept + noise)).sum() + signal[count:].sum()), bound

    counts = [count for count in _COUNTS if count <= len(variances)] or [len(variances)]
    tried = {(count, shape): error(count, shape) for count in counts for shape in _SHAPES}
    count, shape = min(tried, key=lambda pair: tried[pair][0])
    bound = tried[count, shape][1]
    weights = relative[:count] ** (shape / 2)
    return Components(rows[:, :count] * weights, test[:, :count] * weights, bound,
                      _CONSTANT * bound)  # fmt: skip


def _squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    products = left @ right.T
    return np.maximum((left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * products, 0.0)
