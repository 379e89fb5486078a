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

__all__ = ["gaussian_terms", "least_penalty", "minimise", "objective_noise", "pure_terms"]

_CURVATURE = 0.25  # of the logistic loss, at most
_STEPS, _TOLERANCE = 200, 1e-6


def _jacobian(penalty: float) -> float:
    return math.log1p(_CURVATURE / penalty)


def least_penalty(epsilon: float) -> float:
    """Return the penalty that spends half of epsilon on determinants; a smaller one is no use."""
    return _CURVATURE / math.expm1(epsilon / 2)


def objective_noise(epsilon: float, delta: float, penalty: float) -> float:
    """Return sigma of the Gaussian linear term."""
    return 2 * union_multiplier(epsilon - _jacobian(penalty), delta)


def minimise(
    rows: np.ndarray, signs: np.ndarray, linear: np.ndarray, penalties: np.ndarray
) -> np.ndarray:
    """Return one minimiser per column of ``linear``, each with its own penalty.

    The curvature is at most that of least squares, so that steps in its metric never overshoot
    (Boehning & Lindsay 1988). Momentum makes them fast; it restarts where it points uphill.
    """
    edges = rows * signs[:, None]
    values, vectors = np.linalg.eigh(_CURVATURE * (rows.T @ rows))
    metric = np.maximum(values, 0)[:, None] + penalties
    theta = np.zeros_like(linear)
    ahead, momentum = theta, np.ones(linear.shape[1])
    for _ in range(_STEPS):
        gradient = penalties * ahead + linear - edges.T @ expit(-(edges @ ahead))
        if np.linalg.norm(gradient, axis=0).max() < _TOLERANCE * len(rows):
            break
        moved = ahead - vectors @ ((vectors.T @ gradient) / metric)
        uphill = (gradient * (moved - theta)).sum(axis=0) > 0
        momentum = np.where(uphill, 1.0, momentum)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + np.where(uphill, 0.0, (momentum - 1) / following) * (moved - theta)
        theta, momentum = moved, following
    return np.asarray(ahead)


def gaussian_terms(
    epsilon: float, delta: float, penalties: np.ndarray, width: int, rng: np.random.Generator
) -> np.ndarray:
    """Return one linear term (width, penalties) of each penalty, at (epsilon, delta)."""
    sigma = {p: objective_noise(epsilon, delta, p) for p in set(penalties.tolist())}
    return rng.normal(size=(width, len(penalties))) * [sigma[p] for p in penalties.tolist()]


def pure_terms(
    epsilon: float, penalties: np.ndarray, width: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the same at delta = 0, in the way of diffprivlib."""
    directions = rng.normal(size=(width, len(penalties)))
    scales = [2 / (epsilon - _jacobian(p)) for p in penalties.tolist()]
    return directions / np.linalg.norm(directions, axis=0) * rng.gamma(width, scales)
