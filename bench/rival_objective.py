"""Objective perturbation: a random linear term in the objective of logistic regression.

Chaudhuri, Monteleoni & Sarwate, JMLR 2011, Algorithm 2 (pure), and Kifer, Smith & Thakurta, COLT
2012 (Gaussian noise), here for replace-one neighbours and rows of length 1 at most. The minimiser
theta of sum_i l(y_i x_i theta) + (penalty/2) |theta|^2 + b theta tells b = -(sum_i l' y_i x_i +
penalty theta), so that the log ratio of its densities under two neighbours has two terms.

- Determinants: at most log(1 + l''/penalty), with l'' <= 1/4, of which ``_jacobian`` is the cost.
- Noise: b moves by v = s u - s' u', u = y x and u' of the other record, s and s' in [0, 1]. The
  loss is convex in (s, s'), so that it is largest at a corner: 0, u, -u' or u - u'. Each corner is
  a Gaussian release of sensitivity 1, 1 or 2, and delta at most the sum of theirs. (The same
  argument as Redberg, Koskela & Wang 2023 for add-or-remove neighbours; it is far tighter than the
  constants of Kifer et al.) For noise of density exp(-c |b|) the loss is at most 2 c.
"""

import math

import numpy as np
from rival_gaussian import union_multiplier
from scipy.special import expit

__all__ = ["gaussian_objective", "least_penalty", "objective_noise", "pure_objective"]

_CURVATURE = 0.25  # of the logistic loss, at most
_STEPS, _TOLERANCE = 50, 1e-7


def _jacobian(penalty: float) -> float:
    return math.log1p(_CURVATURE / penalty)


def least_penalty(epsilon: float) -> float:
    """Return the penalty that spends half of epsilon on determinants; a smaller one is no use."""
    return _CURVATURE / math.expm1(epsilon / 2)


def objective_noise(epsilon: float, delta: float, penalty: float) -> float:
    """Return sigma of the Gaussian linear term."""
    return 2 * union_multiplier(epsilon - _jacobian(penalty), delta)


def _minimise(
    rows: np.ndarray, signs: np.ndarray, linear: np.ndarray, penalty: float, start: np.ndarray
) -> np.ndarray:
    """Return the minimiser, by Newton steps that are halved until the objective falls."""
    edges = rows * signs[:, None]

    def objective(theta: np.ndarray, margins: np.ndarray) -> float:
        size = penalty / 2 * float(theta @ theta)
        return float(np.logaddexp(0, -margins).sum() + size + linear @ theta)

    theta, margins = start, edges @ start
    value = objective(theta, margins)
    for _ in range(_STEPS):
        slopes = expit(-margins)
        gradient = penalty * theta + linear - edges.T @ slopes
        if np.linalg.norm(gradient) < _TOLERANCE * len(rows):
            break
        weighted = edges * (slopes * (1 - slopes))[:, None]
        hessian = edges.T @ weighted + penalty * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > 1e-6:
            trial = theta - length * step
            trial_margins = edges @ trial
            trial_value = objective(trial, trial_margins)
            if trial_value <= value:
                break
            length /= 2
        theta, margins, value = trial, trial_margins, trial_value
    return theta


def gaussian_objective(
    rows: np.ndarray, signs: np.ndarray, promise: tuple[float, float], penalty: float,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Return the coefficients of one draw at ``promise`` = (epsilon, delta)."""
    width = rows.shape[1]
    linear = rng.normal(0, objective_noise(*promise, penalty), width)
    return _minimise(rows, signs, linear, penalty, np.zeros(width))


def pure_objective(
    rows: np.ndarray, signs: np.ndarray, epsilon: float, penalty: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the coefficients of one draw at delta = 0: what diffprivlib computes."""
    width = rows.shape[1]
    direction = rng.normal(size=width)
    length = rng.gamma(width, 2 / (epsilon - _jacobian(penalty)))
    linear = direction / np.linalg.norm(direction) * length
    return _minimise(rows, signs, linear, penalty, np.zeros(width))
