"""Problems whose answer is a point of the simplex: nearest, least squares, mixture weights."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from suffice.errors import OptimisationError

_GAP = 1e-9  # of the log likelihood to the largest one, at which a search ends
_SMALL_GAP, _ROUNDING_RISE = 1e-6, 1e-13  # the same where floats let the likelihood rise no more
_FULL_STEP = 0.99  # fraction of the way to an edge, which is never reached
_MOST_STEPS = 1000  # of Newton or EM, after which an error is raised
_LEAST_CHANCE = 1e-300  # of a row, whose logarithm is taken
_LEAST_EIGENVALUE = 1e-12  # of the largest one: rounding tells no smaller one from zero


def nearest_proportions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each row, the nearest one (2-norm) whose entries are >= 0 and sum to one."""
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    support = np.count_nonzero(falling > excess, axis=1) - 1
    return np.asarray(np.maximum(rows - excess[np.arange(len(rows)), support][:, None], 0.0))


def least_squares_on_simplex(gram: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rho >= 0 with sum one of least rho^T G rho - 2 b^T rho.

    ``gram`` G (K, K) is positive semidefinite, ``target`` b (K,). With G = L^T L, b = L^T h and
    sum one the distance is ||(L - h 1^T) rho||: the point of least norm in a polytope, which is
    x / sum(x) for the x >= 0 of least ||(L - h 1^T) x||^2 + (1 - sum x)^2 (Lawson & Hanson 1974,
    chapter 23), exactly.
    """
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values = np.maximum(values, _LEAST_EIGENVALUE * max(values[-1], _LEAST_CHANCE))
    root = np.sqrt(values)[:, None] * vectors.T
    corners = root - ((vectors.T @ target) / np.sqrt(values))[:, None]
    scale = np.linalg.norm(corners, axis=0).min() or 1.0
    system = np.vstack([corners / scale, np.ones(len(target))])
    weights, _ = nnls(system, np.append(np.zeros(len(target)), 1.0))
    return weights / weights.sum()


def mixture_weights(likelihoods: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Return the rho on the simplex of largest sum_i w_i log sum_k rho_k l_ik.

    ``likelihoods`` (n, K) need be known up to a factor per row; ``counts`` w are weights of rows,
    one each unless given. What EM climbs to (Saerens et al. 2002, eq. 2.9), by Newton's steps: with
    r = l / (l rho), g = mean r and H = mean r r^T one has H rho = g, so that a step is the least
    squares problem of H and 2g (Kim et al. 2020). Steps stop short of zero shares, from which
    nothing returns once a row becomes nearly impossible without them, and are halved until the
    likelihood rises; where none does, EM's own step is taken.
    """
    weights = np.full(len(likelihoods), 1.0) if counts is None else counts
    weights = weights / weights.sum()
    rho = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    mixed = np.maximum(likelihoods @ rho, _LEAST_CHANCE)
    for _ in range(_MOST_STEPS):
        ratios = likelihoods / mixed[:, None]
        slope = weights @ ratios
        gap = slope.max() - 1  # the likelihood is within log(1 + gap) of the largest
        if gap <= _GAP:
            return rho
        hessian = (ratios * weights[:, None]).T @ ratios
        towards = least_squares_on_simplex(hessian, 2 * slope) - rho
        rise = float(slope @ towards)
        if gap <= _SMALL_GAP and rise <= _ROUNDING_RISE:
            return rho
        step = _rising(likelihoods, weights, rho, towards, rise)
        rho = rho + step * towards if step else rho * slope / (rho @ slope)
        mixed = np.maximum(likelihoods @ rho, _LEAST_CHANCE)
    raise OptimisationError(
        "The class proportions did not converge: some classes look too much alike. Use other"
        " features or fewer classes."
    )


def _rising(
    likelihoods: np.ndarray, weights: np.ndarray, rho: np.ndarray, towards: np.ndarray, rise: float
) -> float:
    """Return how far to go: nearly all the way, or a part that rises as promised, or zero."""
    likelihood_now = float(weights @ np.log(np.maximum(likelihoods @ rho, _LEAST_CHANCE)))
    step = _FULL_STEP
    while rise > 0 and step > _GAP:
        mixture_ahead = np.maximum(likelihoods @ (rho + step * towards), _LEAST_CHANCE)
        if float(weights @ np.log(mixture_ahead)) >= likelihood_now + 1e-4 * step * rise:
            return step
        step /= 2
    return 0.0
