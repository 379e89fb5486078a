"""Gaussian noise of rivals: calibrated exactly, drawn by numpy, never part of a release."""

import math

import numpy as np
from scipy.optimize import brentq

from suffice.privacy.events import gaussian_delta, gaussian_multiplier

__all__ = ["composed_multiplier", "simulated_symmetric", "union_multiplier"]


def composed_multiplier(epsilon: float, delta: float, times: int) -> float:
    """Return sigma over sensitivity of each of ``times`` adaptive Gaussian releases together.

    Gaussian releases compose exactly: times of z cost what one of z / sqrt(times) costs (Dong,
    Roth & Su 2022, Corollary 3.3).
    """
    return math.sqrt(times) * gaussian_multiplier(epsilon, delta)


def union_multiplier(epsilon: float, delta: float) -> float:
    """Return sigma / 2 of the least noise with H(1) + H(1) + H(2) <= delta at ``epsilon``.

    H(s) is the delta of a Gaussian release of sensitivity s (see `rival_objective`).
    """

    def excess(multiplier: float) -> float:
        sides = 2 * gaussian_delta(epsilon, 2 * multiplier)  # sensitivity 1, sigma 2 z
        return math.log(sides + gaussian_delta(epsilon, multiplier)) - math.log(delta)

    least = gaussian_multiplier(epsilon, delta)
    if excess(least) <= 0:
        return least
    return float(brentq(excess, least, 2 * least, xtol=1e-12)) * (1 + 1e-9)


def simulated_symmetric(rng: np.random.Generator, width: int, sigma: float) -> np.ndarray:
    """Return symmetric noise: each entry on and above the diagonal has deviation ``sigma``."""
    upper = np.triu(rng.normal(0, sigma, (width, width)))
    return np.asarray(upper + np.triu(upper, 1).T)
