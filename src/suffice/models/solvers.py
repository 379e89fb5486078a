"""L-BFGS for risks with and without a 1-norm, with the certificate checked and never assumed.

A smooth risk is first met with plain L-BFGS. Where that has cost as much as a Hessian would, the
Hessian's diagonal blocks at the best point so far, one per class, become the metric in which L-BFGS
starts again, and again when that was not enough: an easy problem needs no Hessian, and a
hard one not hundreds of steps (bench/learner.py).

Where L-BFGS stops within ``tol`` depends on the last bits of sums: on the machine, and on how rows
were cut. A model that is handed out is therefore polished: steps of Newton end where floats do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from suffice.errors import OptimisationError

__all__ = ["Curved", "Objective", "Solution", "minimise", "minimise_with_1norm"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
_MEMORY = 20  # pairs of steps that L-BFGS remembers
_POLISHED = 1e-6  # of tol: where the steps of Newton may end


@dataclass(frozen=True)
class Solution:
    """Holds a minimiser with its certificate.

    Attributes
    ----------
    parameters : ndarray
        The minimiser.
    gradient : float
        The largest entry of the gradient there.
    iterations : int
        The number of iterations.
    """

    parameters: np.ndarray
    gradient: float
    iterations: int


@dataclass(frozen=True)
class Curved:
    """A smooth function as the solver needs it.

    ``risk`` returns value and gradient at theta (d,) or (d, K). ``roots`` returns for each column
    an upper triangular R with R^T R = that column's block of the Hessian; ``cost`` is what they
    cost, in evaluations of the risk.
    """

    risk: Objective
    roots: Callable[[np.ndarray], list[np.ndarray]]
    cost: int


class _Remembered:
    """A risk that knows where it was asked last, and does not work that out twice."""

    def __init__(self, risk: Objective) -> None:
        self._risk = risk
        self._at: np.ndarray | None = None
        self._answer: tuple[float, np.ndarray] = (np.nan, np.empty(0))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self._at is None or not np.array_equal(theta, self._at):
            self._at, self._answer = theta, self._risk(theta)
        return self._answer

    def residual(self, theta: np.ndarray) -> float:
        """Return the largest entry of the gradient."""
        return float(np.abs(self(theta)[1]).max())


def minimise(
    function: Curved,
    start: np.ndarray,
    tol: float,
    max_iter: int,
    metric: list[np.ndarray] | None = None,
    *,
    polished: bool = False,
) -> Solution:
    """Return where the gradient's largest entry is at most ``tol``; beyond ten times that, raise.

    What floats allow may lie between: the solution states what it reached. ``metric`` are roots of
    a Hessian near that at ``start``, where the caller has them. ``polished`` asks for all digits.
    """
    risk, at, used = _Remembered(function.risk), start, 0
    while risk.residual(at) > tol and used < max_iter:
        limit = _Limit(tol, function.cost, max_iter - used)
        at, steps, stalled = _descend(risk, at, metric, limit)
        used += steps
        if risk.residual(at) > tol and used < max_iter:
            if stalled and metric is not None:
                at = _polish(risk, np.zeros_like(at), at, metric, tol)
                break
            metric = function.roots(at)
    if polished and risk.residual(at) > tol * _POLISHED:
        at = _polish(risk, np.zeros_like(at), at, function.roots(at), tol * _POLISHED)
    return _certified(at, risk.residual(at), used, tol)


@dataclass(frozen=True)
class _Limit:
    """When L-BFGS may stop: at ``tol``, or after ``cost`` steps if it is not halfway there.

    Halfway on a logarithmic scale; having passed it, L-BFGS goes on for as long again.
    """

    tol: float
    cost: int
    most: int

    def reached(self, first: float, residual: float, steps: int) -> bool:
        slow = steps >= self.cost and residual > np.sqrt(first * self.tol)
        return residual <= self.tol or slow or steps >= 2 * self.cost


def _descend(
    risk: _Remembered, start: np.ndarray, metric: list[np.ndarray] | None, limit: _Limit
) -> tuple[np.ndarray, int, bool]:
    """Return the end of some steps of L-BFGS, their number, and whether it found no way on.

    In the coordinates v = R (theta - start) / s the Hessian is near s^2 I; s = ||R^-T gradient||
    makes the first step, which L-BFGS-B takes of length one, that of Newton.
    """
    scale, first, residuals = 1.0, risk.residual(start), list[float]()
    if metric is not None:
        scale = float(np.linalg.norm(_by_column(metric, risk(start)[1], transposed=True)))

    def theta(v: np.ndarray) -> np.ndarray:
        return start + scale * _by_column(metric, v.reshape(start.shape), transposed=False)

    def flat(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = risk(theta(v))
        return value, scale * _by_column(metric, gradient, transposed=True).ravel()

    def stop(intermediate_result: Any) -> None:
        residuals.append(risk.residual(theta(intermediate_result.x)))
        if limit.reached(first, residuals[-1], len(residuals)):
            raise StopIteration

    options = {"maxiter": limit.most, "gtol": 0.0, "ftol": 0.0, "maxcor": _MEMORY}
    origin = np.zeros(start.size)
    optimum = minimize(flat, origin, jac=True, method="L-BFGS-B", callback=stop, options=options)
    steps = len(residuals)
    ended = steps > 0 and limit.reached(first, residuals[-1], steps)
    return theta(optimum.x), steps, not ended and steps < limit.most


def _polish(
    risk: Objective, absolute: np.ndarray, at: np.ndarray, metric: list[np.ndarray], tol: float
) -> np.ndarray:
    """Return the end of steps of Newton for as long as they halve the residual.

    Near a minimiser a risk has no digits left to tell two points apart; its gradient has.
    """
    rest = _residual(risk, absolute, at)
    while np.abs(rest).max() > tol:
        ahead = at - _newton_step(rest, at != rest, absolute, metric)  # theta - rest is the prox
        rest_ahead = _residual(risk, absolute, ahead)
        if not np.abs(rest_ahead).max() < np.abs(rest).max() / 2:
            break
        at, rest = ahead, rest_ahead
    return at


def _residual(risk: Objective, absolute: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return theta - prox(theta - gradient), zero exactly at a minimiser of risk + 1-norm.

    So written that no huge theta swallows the slope.
    """
    slope = risk(at)[1]
    ahead = at - slope
    return np.where(np.abs(ahead) > absolute, slope + absolute * np.sign(ahead), at)


def _newton_step(
    rest: np.ndarray, moves: np.ndarray, absolute: np.ndarray, metric: list[np.ndarray]
) -> np.ndarray:
    """Return (R^T R)^-1 rest where the 1-norm lets coordinates move; others go to zero."""
    if not absolute.any():
        step = _by_column(metric, rest, transposed=True)
        return _by_column(metric, step, transposed=False)
    step = rest.reshape(len(rest), -1).copy()
    for k, (root, free) in enumerate(zip(metric, moves.reshape(step.shape).T, strict=True)):
        narrow = root[:, free]
        step[free, k] = np.linalg.lstsq(narrow.T @ narrow, step[free, k], rcond=None)[0]
    return step.reshape(rest.shape)


def _by_column(
    roots: list[np.ndarray] | None, matrix: np.ndarray, *, transposed: bool
) -> np.ndarray:
    """Return R_k^-1 (or R_k^-T) times column k; no roots mean R = I."""
    if roots is None:
        return matrix
    columns = matrix.reshape(len(matrix), -1)
    solved = [
        solve_triangular(root, column, trans=int(transposed), check_finite=False)
        for root, column in zip(roots, columns.T, strict=True)
    ]
    return np.column_stack(solved).reshape(matrix.shape)


def _certified(at: np.ndarray, residual: float, iterations: int, tol: float) -> Solution:
    if not residual <= max(tol, 1e-10) * 10:
        raise OptimisationError(
            f"The solver stopped at a gradient of {residual:.2g}, above the goal of {tol:.2g}."
            " Use a larger max_iter or lam."
        )
    return Solution(at, residual, iterations)


def minimise_with_1norm(
    function: Curved,
    absolute: np.ndarray,
    start: np.ndarray,
    tol: float,
    max_iter: int,
    *,
    polished: bool = False,
) -> Solution:
    """Return the minimiser of the risk + sum_j absolute_j |theta_j|, certified by its residual.

    theta = p - q with p, q >= 0 makes the 1-norm linear: L-BFGS with bounds. The residual is the
    largest entry of theta - prox(theta - gradient). ``polished`` asks for all digits.
    """
    size, weights = start.size, absolute.ravel()

    def split(pair: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function.risk((pair[:size] - pair[size:]).reshape(start.shape))
        slope = gradient.ravel()
        value += float(np.concatenate([weights, weights]) @ pair)
        return value, np.concatenate([weights + slope, weights - slope])

    risk, at, value, used = _Remembered(function.risk), start, np.inf, 0
    while used < max_iter and np.abs(_residual(risk, absolute, at)).max() > tol:
        flat = at.ravel()
        optimum = minimize(
            split,
            np.concatenate([np.maximum(flat, 0), np.maximum(-flat, 0)]),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * (2 * size),
            options={"maxiter": max_iter - used, "gtol": tol, "ftol": 0.0, "maxcor": _MEMORY},
        )
        at = (optimum.x[:size] - optimum.x[size:]).reshape(start.shape)
        used += int(optimum.nit)
        if not optimum.fun < value:  # it also ends where one step gains nothing: then start anew
            break
        value = optimum.fun
    if polished:
        at = _polish(risk, absolute, at, function.roots(at), tol * _POLISHED)
    rest = float(np.abs(_residual(risk, absolute, at)).max())
    return _certified(at, rest, used, tol)
