"""How far the noise of a release has moved coefficients: the delta method, for ridge regression.

The coefficients are those of ridge regression at a public penalty, theta = (Sigma + penalty)^-1 c.
An interval covers what the exact moments of the same records would give: it is about the noise of
the release, and not about the sampling of records.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from suffice.errors import ParameterError
from suffice.learner.moments.estimates import MomentNumbers

__all__ = ["CoefficientIntervals", "ridge_intervals"]

_PENALTY = 2.0  # times what noise can add to an eigenvalue, sqrt(2 d) deviations


@dataclass(frozen=True, eq=False)
class CoefficientIntervals:
    """Coefficients of ridge regression, with intervals for the noise of the release.

    Attributes
    ----------
    names : tuple of str
        The features.
    estimate, low, high : ndarray of shape (p,) or (p, K)
        The coefficients and the ends of their intervals, per unit of each feature; of two classes
        those of y = -1 or +1.
    penalty : float
        The penalty of the regression in rows of length 1, which follows from public numbers.
    level : float
        The confidence level of each interval.
    """

    names: tuple[str, ...]
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    penalty: float
    level: float


def ridge_intervals(
    numbers: MomentNumbers, names: tuple[str, ...], level: float, units: np.ndarray
) -> CoefficientIntervals:
    """Return coefficients of ridge regression and their intervals.

    ``units`` (p, d) turns weights of coordinates of rows of length 1 into those of features.
    """
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1; got {level!r}.")
    if not numbers.second_noise > 0:
        raise ParameterError("Intervals are about the noise of a release. Exact data have none.")
    width = len(numbers.mean)
    penalty = _PENALTY * math.sqrt(2 * width) * numbers.second_noise
    mean = numbers.mean
    inverse = np.linalg.inv(numbers.second - np.outer(mean, mean) + penalty * np.eye(width))
    columns, deviations, spread = [], [], units @ inverse
    for k, c in zip(numbers.contrasts, numbers.operator.T, strict=True):
        shift = float(numbers.proportions[k]) - 1 / numbers.classes
        theta = inverse @ (c - shift * mean)
        turn = (float(mean @ theta) - shift) * np.eye(width) + np.outer(mean, theta)
        noise = (
            numbers.operator_noise**2 * np.eye(width)
            + numbers.mean_noise**2 * turn @ turn.T
            + numbers.proportions_noise**2 * np.outer(mean, mean)
            + numbers.second_noise**2
            / 2
            * (float(theta @ theta) * np.eye(width) + np.outer(theta, theta))
        )
        columns.append(units @ theta)
        deviations.append(np.sqrt(((spread @ noise) * spread).sum(axis=1)))
    # Of two classes e = (y + 1) / 2: the coefficients of y are twice those of e.
    factor = 2.0 if numbers.classes == 2 else 1.0
    estimate, deviation = (factor * np.column_stack(part) for part in (columns, deviations))
    reach = float(ndtri(0.5 + level / 2)) * deviation
    parts = (estimate, estimate - reach, estimate + reach)
    if numbers.classes == 2:
        parts = tuple(part[:, 0] for part in parts)  # type: ignore[assignment]  # three of them
    return CoefficientIntervals(names, *parts, penalty=penalty, level=level)
