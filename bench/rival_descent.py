"""Gradient descent with noise on every full-batch gradient of logistic regression.

Song, Chaudhuri & Sarwate 2013; Bassily, Smith & Thakurta 2014; Abadi et al. 2016, without sampling:
for linear models on a few thousand rows the full batch is the strongest. A record's gradient is
-s y x with s in (0, 1), so that with rows of length 1 replacing it moves their sum by 2 at most and
nothing needs clipping. T releases compose exactly (`rival_gaussian.composed_multiplier`).
"""

from collections.abc import Sequence

import numpy as np
from rival_gaussian import composed_multiplier
from scipy.special import expit

__all__ = ["descend"]


def descend(
    rows: np.ndarray,
    signs: np.ndarray,
    promise: tuple[float, float],
    steps: int,
    rates: Sequence[float],
    rng: np.random.Generator,
    draws: int,
) -> np.ndarray:
    """Return coefficients (rates, draws, width) after ``steps`` steps at ``promise``.

    Rates share the noise of a draw: they are compared with each other on the same luck.
    """
    sigma = 2 * composed_multiplier(*promise, times=steps)
    edges = rows * signs[:, None]
    count, width = rows.shape
    theta = np.zeros((width, len(rates) * draws))
    lengths = np.repeat(np.asarray(rates, dtype=float), draws)
    for _ in range(steps):
        gradient = -(edges.T @ expit(-(edges @ theta)))
        noise = rng.normal(0, sigma, (width, draws))
        theta = theta - lengths * (gradient + np.tile(noise, len(rates))) / count
    return theta.T.reshape(len(rates), draws, width)
