"""Gradient descent with noise on every full-batch gradient of logistic regression.

Song, Chaudhuri & Sarwate 2013; Bassily, Smith & Thakurta 2014; Abadi et al. 2016, without sampling:
for linear models on a few thousand rows the full batch is the strongest. A record's gradient is
-s y x with s in (0, 1), so that with rows of length 1 replacing it moves their sum by 2 at most and
nothing needs clipping. T releases compose exactly (`rival_gaussian.composed_multiplier`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rival_gaussian import composed_multiplier
from scipy.special import expit

__all__ = ["GradientNoise", "descend"]


@dataclass(frozen=True, eq=False)
class GradientNoise:
    """The noise of ``steps`` gradients at (epsilon, delta) together: a simulation."""

    epsilon: float
    delta: float
    steps: int
    rng: np.random.Generator

    @property
    def sigma(self) -> float:
        """The standard deviation on a coordinate of a sum of gradients."""
        return 2 * composed_multiplier(self.epsilon, self.delta, times=self.steps)

    def simulate(self, width: int, draws: int) -> np.ndarray:
        """Return the noise of one gradient (width, draws)."""
        return self.rng.normal(0, self.sigma, (width, draws))


def descend(
    rows: np.ndarray,
    signs: np.ndarray,
    noise: GradientNoise,
    *,
    rates: Sequence[float],
    draws: int,
) -> np.ndarray:
    """Return coefficients (rates, draws, width) after all steps.

    Rates share the noise of a draw: they are compared with each other on the same luck.
    """
    edges = rows * signs[:, None]
    count, width = rows.shape
    theta = np.zeros((width, len(rates) * draws))
    lengths = np.repeat(np.asarray(rates, dtype=float), draws)
    for _ in range(noise.steps):
        gradient = -(edges.T @ expit(-(edges @ theta)))
        noisy = gradient + np.tile(noise.simulate(width, draws), len(rates))
        theta = theta - lengths * noisy / count
    return theta.T.reshape(len(rates), draws, width)
