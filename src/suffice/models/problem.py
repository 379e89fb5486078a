"""The factored problem (public rows, a mean operator, a loss, a penalty), and its solvers.

They are L-BFGS for risks with and without a 1-norm, with the certificate checked and never assumed.

A smooth risk is first met with plain L-BFGS. Where that has cost as much as a Hessian would, the
Hessian's diagonal blocks at the best point so far, one per class, become the metric in which L-BFGS
starts again, and again when that was not enough: an easy problem needs no Hessian, and a
hard one not hundreds of steps (lab/bench/learner.py).

Where L-BFGS stops within ``tol`` depends on the last bits of sums: on the machine, and on how rows
were cut. A model that is handed out is therefore polished: steps of Newton end where floats do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import softmax

from suffice.errors import OptimisationError, ParameterError
from suffice.kernels.maps import softmax_slopes
from suffice.models.losses import PENALTIES, LinearOddLoss, Penalty
from suffice.models.rows import MatrixRows, WeightedRows, as_weighted, one_blas_thread
from suffice.models.zonotope import why_no_minimiser

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
_MEMORY_STEPS = 20  # that L-BFGS remembers; scipy's own default is 10
_POLISHED_SHARE = 1e-6  # of tol, at which the steps of Newton may end


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
    if polished and risk.residual(at) > tol * _POLISHED_SHARE:
        at = _polish(risk, np.zeros_like(at), at, function.roots(at), tol * _POLISHED_SHARE)
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

    options = {"maxiter": limit.most, "gtol": 0.0, "ftol": 0.0, "maxcor": _MEMORY_STEPS}
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
            options={"maxiter": max_iter - used, "gtol": tol, "ftol": 0.0, "maxcor": _MEMORY_STEPS},
        )
        at = (optimum.x[:size] - optimum.x[size:]).reshape(start.shape)
        used += int(optimum.nit)
        if not optimum.fun < value:  # it also ends where one step gains nothing: then start anew
            break
        value = optimum.fun
    if polished:
        at = _polish(risk, absolute, at, function.roots(at), tol * _POLISHED_SHARE)
    rest = float(np.abs(_residual(risk, absolute, at)).max())
    return _certified(at, rest, used, tol)


_LARGEST_HESSIAN = 4000  # rows: 128 MB
_LARGEST_METRIC = 2**25  # entries of the Hessian's blocks that the solver may hold
_SAMPLE_TOL = 1e-5  # of a start; a sample of rows is farther from all of them than that
_EVALUATIONS = 24  # d over this many evaluations of the risk cost as much as one Hessian block


@dataclass(frozen=True)
class _EvenPart:
    """Computes sum_i w_i g(z_i) and w_i g'(z_i); without a loss g is softmax's log-sum-exp."""

    loss: LinearOddLoss | None

    def __call__(self, scores: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
        if self.loss is None:
            return softmax_slopes(scores, weights), scores
        if self.loss.fused is not None:
            return self.loss.fused(scores, weights), scores
        return float(weights @ self.loss.even(scores)), weights * self.loss.slope(scores)


@dataclass(frozen=True)
class _ColumnCurves:
    """Computes w_i times the second derivative in each score, column by column, at least zero."""

    loss: LinearOddLoss | None

    def __call__(self, scores: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
        if self.loss is not None:
            yield np.maximum(weights * self.loss.second(scores), 0)
            return
        shares = softmax(scores, axis=1)
        for share in shares.T:
            yield weights * share * (1 - share)


@dataclass(frozen=True)
class _PairCurves:
    """Computes w_i p_k (1 - p_k), then w_i p_k p_j for each j < k, for every k of softmax."""

    def __call__(self, scores: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
        shares = softmax(scores, axis=1)
        for k in range(shares.shape[1]):
            own = weights * shares[:, k]
            yield own * (1 - shares[:, k])
            for j in range(k):
                yield own * shares[:, j]


@dataclass(frozen=True, eq=False)
class FactoredProblem:
    """Minimise sum_i w_i g(<theta, x_i>) - <theta, weight x operator> + penalty(theta).

    Parameters
    ----------
    rows : array of shape (m, d) or WeightedRows
        The rows. `WeightedRows` have weights of their own, and need not be in memory.
    operator : array of shape (d,) or (d, K)
        mu with weight a/2, or M with weight one and softmax's log-sum-exp in the place of g.
    loss : LinearOddLoss or None
        The loss; None for softmax.
    weights : array of shape (m,) or None
        The weights w_i of a matrix: nonnegative, with sum one. None for 1/m.
    penalty : Penalty
        The penalty.
    intercept : bool
        Whether the last coordinate is the constant one, which never has a 1-norm.
    weighted : WeightedRows
        The rows with their weights; computed unless another problem shares them.
    """

    rows: Any  # a matrix, or WeightedRows
    operator: np.ndarray
    loss: LinearOddLoss | None
    weights: np.ndarray | None = None
    penalty: Penalty = PENALTIES["l2"]
    intercept: bool = False
    weighted: WeightedRows = field(default=None, repr=False)  # type: ignore[assignment]  # __post_init__ sets it

    def __post_init__(self) -> None:
        shared: Any = self.weighted
        same = isinstance(shared, MatrixRows) and shared.matrix is self.rows
        if not (
            same and shared.own_weights is self.weights
        ):  # else what rows alone decide is shared
            object.__setattr__(self, "weighted", as_weighted(self.rows, self.weights))

    @property
    def operator_weight(self) -> float:
        """What multiplies <theta, operator>: a/2, and one for softmax."""
        return 1.0 if self.loss is None else self.loss.a / 2

    @property
    def curvature(self) -> float:
        """g''(0), so that the Hessian at zero is about lam I + curvature S; 1/K for softmax."""
        return 1 / self.operator.shape[1] if self.loss is None else self.loss.curvature

    @property
    def moment(self) -> np.ndarray:
        """S = sum_i w_i x_i x_i^T (d, d), computed once for all operators on these rows."""
        return self.weighted.moment

    def with_operator(self, operator: np.ndarray) -> "FactoredProblem":
        """Return the same problem for another operator; what the rows alone decide is shared."""
        return replace(self, operator=operator)

    def on_sample(self) -> "FactoredProblem":
        """Return the same problem on a sample of its rows that is in memory, or on all of them."""
        return self.on_rows(self.weighted.sample)

    def on_rows(self, rows: WeightedRows) -> "FactoredProblem":
        """Return the same problem on other rows; where they are the same it is this one."""
        return self if rows is self.weighted else replace(self, rows=rows, weights=None)

    def risk(self, parameters: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return the regularised risk and its gradient (of |theta_j| at zero: zero)."""
        absolute, squared = self._penalty_weights(lam)
        value, gradient = self._smooth_risk(parameters, squared)
        value += float(np.vdot(absolute, np.abs(parameters)))
        return value, gradient + absolute * np.sign(parameters)

    def _penalty_weights(self, lam: float) -> tuple[np.ndarray, np.ndarray]:
        return self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)

    def _smooth_risk(self, parameters: np.ndarray, squared: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient of all but the 1-norm (eq. 4 of Patrini et al. 2016)."""
        even, slopes = self.weighted.sums(parameters, _EvenPart(self.loss))
        pull = self.operator_weight * self.operator
        value = even - float(np.vdot(parameters, pull - squared / 2 * parameters))
        return value, slopes - pull + squared * parameters

    def hessian(self, parameters: np.ndarray, lam: float = 0.0) -> np.ndarray:
        """Return the Hessian (d, d), or (dK, dK) in the order of ``parameters.ravel()``.

        The squared penalty is in it, a 1-norm has no curvature. Above 4000 rows it is refused.
        """
        squared = self._penalty_weights(lam)[1].ravel()
        if squared.size > _LARGEST_HESSIAN:
            raise ParameterError(
                f"A Hessian of {squared.size} rows is too large. Use fewer features or classes."
            )
        if self.loss is not None:
            return self.weighted.grams(parameters, _ColumnCurves(self.loss))[0] + np.diag(squared)
        width, classes = self.operator.shape
        blocks = iter(self.weighted.grams(parameters, _PairCurves()))
        full = np.empty((width, classes, width, classes))
        for k in range(classes):
            full[:, k, :, k] = next(blocks)
            for j in range(k):
                full[:, k, :, j] = full[:, j, :, k] = -next(blocks)
        return full.reshape(squared.size, squared.size) + np.diag(squared)

    @one_blas_thread()
    def solve(
        self, lam: float, *, tol: float, max_iter: int, start: np.ndarray | None = None
    ) -> Solution:
        """Return the minimiser, or raise if the certificate was not reached.

        The certificate is the gradient's largest entry, ``tol`` or, where floats end before it, at
        most ten times as large; with a 1-norm that of theta - prox(theta - gradient). Without any
        penalty a minimiser must exist (`suffice.models.zonotope`).
        """
        if self.loss is not None and self.loss.untrainable:
            raise ParameterError(
                f"The {self.loss.name} loss cannot be trained with: {self.loss.untrainable}"
            )
        absolute, squared = self._penalty_weights(lam)
        if not (absolute.any() or squared.any()):
            steepest = 1.0 if self.loss is None else self.loss.steepest
            reason = why_no_minimiser(self.weighted, self.operator, steepest=steepest)
            if reason:
                raise ParameterError(f"Without a penalty there is no best model: {reason}")
        begin, metric = self._near(lam, tol, max_iter) if start is None else (start, None)
        # A start comes from a search over lam, whose models are compared and thrown away.
        polished = start is None and self._has_metric
        cost = max(4, self.operator.size // _EVALUATIONS) if self._has_metric else max_iter
        if absolute.any():
            function = Curved(
                partial(self._smooth_risk, squared=squared),
                partial(self.hessian_roots, squared=squared),
                cost,
            )
            return minimise_with_1norm(function, absolute, begin, tol, max_iter, polished=polished)
        common = self._common_part(squared)

        def risk_between_classes(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._smooth_risk(_centred(theta) + common, squared)
            return value, _centred(gradient)

        function = Curved(
            risk_between_classes,
            lambda theta: self.hessian_roots(_centred(theta) + common, squared),
            cost,
        )
        solution = minimise(function, begin, tol, max_iter, metric, polished=polished)
        return replace(solution, parameters=_centred(solution.parameters) + common)

    @property
    def _has_metric(self) -> bool:
        """Whether the Hessian's blocks are small enough to be held."""
        return self.weighted.shape[1] * self.operator.size <= _LARGEST_METRIC

    def _near(
        self, lam: float, tol: float, max_iter: int
    ) -> tuple[np.ndarray, list[np.ndarray] | None]:
        """Return where to begin: at the minimiser on a sample of the rows, with its metric.

        The metric is that of a risk without a 1-norm. Of few rows in memory the sample is the rows
        themselves: then nothing is known, and the start is zero.
        """
        small, (absolute, squared) = self.on_sample(), self._penalty_weights(lam)
        if small is self or not (absolute.any() or squared.any()):
            return np.zeros(self.operator.shape), None
        if len(small.weighted) < len(self.weighted):
            tol = max(tol, _SAMPLE_TOL)
        try:
            near = small.solve(lam, tol=tol, max_iter=max_iter).parameters
        except OptimisationError:  # all rows may still have what a sample of them has not
            return np.zeros(self.operator.shape), None
        smooth = not absolute.any() and self._has_metric
        return near, small.hessian_roots(near, squared) if smooth else None

    def _common_part(self, squared: np.ndarray) -> np.ndarray:
        """Return what all classes share at softmax's minimiser, (M 1 - mean x) / (K lam).

        Adding w to every class adds <w, mean x - M 1> + (K/2) lam ||w||^2 to the risk, whatever the
        rest is. A noisy M has M 1 far from mean x, and this direction the least curvature of all.
        """
        if self.loss is not None:
            return np.zeros(self.operator.shape)
        excess = self.operator.sum(axis=1) - self.weighted.mean
        strength = squared.sum(axis=1)
        common = np.divide(excess, strength, out=np.zeros_like(excess), where=strength > 0)
        return np.tile(common[:, None], self.operator.shape[1])

    def hessian_roots(self, parameters: np.ndarray, squared: np.ndarray) -> list[np.ndarray]:
        """Return the upper Cholesky factor of each column's block of the Hessian.

        ``squared`` are the weights of the squared penalty, of the parameters' shape.
        """
        blocks = self.weighted.grams(parameters, _ColumnCurves(self.loss))
        extras = squared.reshape(len(squared), -1)
        roots = []
        for block, extra in zip(blocks, extras.T, strict=True):  # raised where it is singular
            raised = block + np.diag(extra + 1e-12 * (1 + block.diagonal().max()))
            roots.append(np.asarray(cholesky(raised, check_finite=False)))
        return roots


def _centred(parameters: np.ndarray) -> np.ndarray:
    """Return a matrix without the mean of its columns; a vector as it is."""
    if parameters.ndim == 1:
        return parameters
    return parameters - parameters.mean(axis=1, keepdims=True)
