"""Scores: functions of an output that are larger where D is likelier than D'.

Best is the logarithm of the likelihood ratio, ln p(output | D) / p(output | D'), wherever densities
are known; its values are the privacy loss. Where they are not, the ratio of counts of a few
discrete outcomes, or a classifier that was trained to tell the two apart.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise

__all__ = ["Score", "learnt_score", "log_density", "mixture_score", "off_grid", "shift_score"]

Score = Callable[[np.ndarray], np.ndarray]

_FEW = 64  # outcomes, up to which they are counted one by one
_GRID = 2.0**-53


def log_density(noise: Noise, distance: np.ndarray) -> np.ndarray:
    """Return ln p of noise (n, dimension), up to a constant that does not depend on it."""
    if isinstance(noise, LaplaceNoise):
        return -np.abs(distance).sum(axis=1) / noise.scale
    if isinstance(noise, GaussianNoise):
        return -((distance / noise.scale) ** 2).sum(axis=1) / 2
    return -np.linalg.norm(distance, axis=1) / noise.scale


def shift_score(noise: Noise, one: np.ndarray, two: np.ndarray, unit: float = 1.0) -> Score:
    """Return the privacy loss of noise on either of two exact statistics, in steps of ``unit``."""
    return mixture_score(noise, [one], [two], unit)


def mixture_score(
    noise: Noise, ones: list[np.ndarray], twos: list[np.ndarray], unit: float = 1.0
) -> Score:
    """Return the loss where the exact statistic is one of ``ones``, or of ``twos``, at random."""

    def log_mean(outputs: np.ndarray, means: list[np.ndarray]) -> np.ndarray:
        logs = [log_density(noise, outputs / unit - m.reshape(1, -1)) for m in means]
        return np.asarray(logsumexp(logs, axis=0))

    return lambda outputs: log_mean(outputs, ones) - log_mean(outputs, twos)


def off_grid(outputs: np.ndarray) -> np.ndarray:
    """Return 1 where a number is no multiple of 2^-53: noise in floating point shows what it hides.

    (Mironov 2012: which floats come out depends on what the noise was added to.)
    """
    steps = outputs / _GRID  # exact: a power of two
    return (steps != np.rint(steps)).any(axis=1).astype(np.float64)


def learnt_score(one: np.ndarray, two: np.ndarray, seed: int) -> tuple[Score, ...]:
    """Return scores learnt from outputs under D and under D', for outputs of unknown density.

    Few discrete outcomes are counted: their score is the logarithm of the ratio. Others are told
    apart by a linear classifier and by trees.
    """
    if np.issubdtype(one.dtype, np.integer):
        found, places = np.unique(np.concatenate([one, two]), axis=0, return_inverse=True)
        if len(found) <= _FEW:
            return (_counted(found, places.ravel(), len(one)),)
    return _trained(one, two, seed)


def _counted(found: np.ndarray, places: np.ndarray, first: int) -> Score:
    counts = np.bincount(places[:first], minlength=len(found)) + 0.5
    others = np.bincount(places[first:], minlength=len(found)) + 0.5
    ratios = {row.tobytes(): r for row, r in zip(found, np.log(counts / others), strict=True)}
    return lambda outputs: np.array([ratios.get(row.tobytes(), 0.0) for row in outputs])


def _trained(one: np.ndarray, two: np.ndarray, seed: int) -> tuple[Score, ...]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    outputs = np.concatenate([one, two]).astype(np.float64)
    labels = np.repeat([1, 0], [len(one), len(two)])
    trees = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=30, random_state=seed
    )
    models = (make_pipeline(StandardScaler(), LogisticRegression()), trees)
    return tuple(model.fit(outputs, labels).decision_function for model in models)
