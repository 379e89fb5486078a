"""The two problems whose answer is a point of the simplex: least squares, and mixture weights."""

import numpy as np
from scipy.optimize import nnls

from suffice.errors import OptimisationError

__all__ = ["least_squares_on_simplex", "mixture_weights"]

_TOL = 1e-9
_MOST = 100
_LEAST = 1e-300
_ALMOST_NONE = 1e-12  # of the largest eigenvalue: a matrix of less is not told from a singular one


def least_squares_on_simplex(gram: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rho >= 0 with sum one of least rho^T G rho - 2 b^T rho.

    ``gram`` G (K, K) is positive semidefinite, ``target`` b (K,). With G = L^T L, b = L^T h and
    sum one the distance is ||(L - h 1^T) rho||: the point of least norm in a polytope, which is
    x / sum(x) for the x >= 0 of least ||(L - h 1^T) x||^2 + (1 - sum x)^2 (Lawson & Hanson 1974,
    chapter 23), exactly.
    """
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values = np.maximum(values, _ALMOST_NONE * max(values[-1], _LEAST))
    root = np.sqrt(values)[:, None] * vectors.T
    corners = root - ((vectors.T @ target) / np.sqrt(values))[:, None]
    scale = np.linalg.norm(corners, axis=0).min() or 1.0
    system = np.vstack([corners / scale, np.ones(len(target))])
    weights, _ = nnls(system, np.append(np.zeros(len(target)), 1.0))
    return weights / weights.sum()


def mixture_weights(
    likelihoods: np.ndarray, counts: np.ndarray | None = None, start: np.ndarray | None = None
) -> np.ndarray:
    """Return the rho on the simplex of largest sum_i w_i log sum_k rho_k l_ik.

    ``likelihoods`` (n, K) need be known up to a factor per row; ``counts`` w are weights of rows,
    one each unless given. What EM climbs to (Saerens et al. 2002, eq. 2.9), by Newton's steps: with
    r = l / (l rho), g = mean r and H = mean r r^T one has H rho = g, so that a step is the least
    squares problem of H and 2g (Kim et al. 2020). Steps are halved until the likelihood rises.
    """
    weights = np.full(len(likelihoods), 1.0) if counts is None else counts
    weights = weights / weights.sum()
    rho = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1]) if start is None else start
    mixed = np.maximum(likelihoods @ rho, _LEAST)
    for _ in range(_MOST):
        ratios = likelihoods / mixed[:, None]
        slope = weights @ ratios
        if slope.max() <= 1 + _TOL:  # the gap to the optimum is at most log of the largest slope
            return rho
        towards = least_squares_on_simplex((ratios * weights[:, None]).T @ ratios, 2 * slope) - rho
        step, before = 1.0, float(weights @ np.log(mixed))
        rise = float(slope @ towards)
        while True:
            tried = np.maximum(likelihoods @ (rho + step * towards), _LEAST)
            if float(weights @ np.log(tried)) >= before + 1e-4 * step * rise or step < _TOL:
                break
            step /= 2
        if step < _TOL or rise < _TOL**1.5:  # rounding is all that is left
            return rho
        rho, mixed = rho + step * towards, tried
    raise OptimisationError("the class ratios did not converge; some class hides another.")
