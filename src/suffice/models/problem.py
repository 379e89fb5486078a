"""The factored problem (public rows, a mean operator, a loss, a penalty), and its solvers.

They are L-BFGS for risks with and without a 1-norm, with the certificate checked and never assumed.

A smooth risk is first met with plain L-BFGS. Where that has cost as much as a metric would, the
Hessian's diagonal blocks at the best point so far, one per class, become the metric in which L-BFGS
starts again, and again when that was not enough: an easy problem needs no Hessian, and a
hard one not hundreds of steps (lab/bench/learner.py). A few rows that have most of the curvature
stand for all of them there: a metric decides how fast a solver is, and not where it ends.

Where L-BFGS stops within ``tol`` depends on the last bits of sums: on the machine, and on how rows
were cut. A model that is handed out is therefore polished: its last steps end where floats do.

Without a penalty a risk has a minimiser well inside the operators that some labels of the rows can
have. For two classes they are the zonotope Z = { sum_i w_i u_i x_i : |u_i| <= 1 }, for K classes
the set { sum_i w_i x_i U_i^T : U_i in the simplex }. A true operator lies in it, and noise throws
it out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import softmax

from suffice.errors import OptimisationError, ParameterError
from suffice.kernels.models import softmax_slopes
from suffice.models.losses import PENALTIES, LinearOddLoss, Penalty
from suffice.models.rows import MatrixRows, WeightedRows, as_weighted, one_blas_thread
from suffice.models.simplex import nearest_proportions

_CERTIFICATE_STEPS = 10  # between two certificates, each of which costs half a step
_INTERIOR = 0.995  # fraction of the way from the middle to the boundary; beyond, models are huge
_ROUNDING = 1e-9  # relative size of a rounding error in an operator


def _operator_of(rows: WeightedRows, labels: np.ndarray) -> np.ndarray:
    return rows.combined((rows.weights * labels.T).T)


def _steps(
    rows: WeightedRows, operator: np.ndarray, max_iter: int = 2000
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield labels, what is missing to ``operator``, and the gap, every few steps.

    FISTA (Beck & Teboulle 2009) in the labels with the inner product sum_i w_i u_i v_i, restarted
    when the momentum points uphill (O'Donoghue & Candes 2015, eq. 13). One step needs two
    passes over the rows: an operator is linear in its labels, so that of a momentum is free.
    """
    binary, weights = operator.ndim == 1, rows.weights
    step = 1 / (1.05 * float(np.linalg.eigvalsh(rows.moment)[-1]))
    labels = _nearest_labels(np.zeros((len(rows), *operator.shape[1:])))
    operator_now = _operator_of(rows, labels)
    ahead, operator_ahead, momentum = labels, operator_now, 1.0
    for i in range(1, max_iter + 1):
        new = _nearest_labels(ahead + step * rows.scores(operator - operator_ahead))
        operator_new = _operator_of(rows, new)
        if np.vdot((weights * (ahead - new).T).T, new - labels) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push = (momentum - 1) / following
        ahead, operator_ahead = (
            new + push * (new - labels),
            operator_new + push * (operator_new - operator_now),
        )
        labels, operator_now, momentum = new, operator_new, following
        if i % _CERTIFICATE_STEPS == 0 or i == max_iter:
            missing = operator - operator_now
            scores = rows.scores(missing)
            best = np.abs(scores) if binary else scores.max(axis=1)
            gap = float(weights @ best) - float(np.vdot(missing, operator_now))
            yield labels, missing, max(gap, 0.0)


def _nearest_labels(labels: np.ndarray) -> np.ndarray:
    """Return the nearest point of [-1, 1]^m, or of the simplex in each row."""
    if labels.ndim == 1:
        return np.clip(labels, -1, 1)
    return nearest_proportions(labels)


def why_no_minimiser(
    rows: np.ndarray | WeightedRows, operator: np.ndarray, *, steepest: float | None = 1.0
) -> str:
    """Return why the risk has no minimiser without a penalty, or an empty string where it has one.

    ``steepest`` is the supremum of g' in units of a/2 (one for softmax). The risk grows in every
    direction that the rows span, iff mu lies in the relative interior of ``steepest`` times Z.
    Infinite (square): iff mu lies in the span of the rows. Zero (linear): iff mu = 0. Softmax also
    needs M 1 = mean x. Inside is proved by labels strictly inside, outside by a plane; an operator
    within half a percent of the boundary counts as outside, since its model would be huge.
    """
    if steepest is None:
        return "your own loss may have none. Use a penalty with lam > 0."
    if steepest == 0:
        falls = "the linear loss falls without end along the mean operator. Use lam > 0."
        return falls if operator.any() else ""
    weighted, size = as_weighted(rows), float(np.linalg.norm(operator))
    centre: Any = 0.0  # the operator of labels that say nothing
    if operator.ndim == 2:
        centre = weighted.mean[:, None] / operator.shape[1]
        excess = float(np.linalg.norm(operator.sum(axis=1) - weighted.mean))
        if excess > _ROUNDING * (1 + size):
            return f"the columns of M miss mean x by {excess:.2g} in their sum. Use lam > 0."
    eigenvalues, vectors = np.linalg.eigh(weighted.moment)
    spanned = eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]
    basis = vectors[:, spanned]
    if np.linalg.norm(operator - basis @ (basis.T @ operator)) > _ROUNDING * size:
        return "the mean operator leaves the span of the rows. Use lam > 0."
    if not np.isfinite(steepest):
        return ""
    # In coordinates in which S = I what is missing, r, is itself the operator of the labels X r:
    # they mend the labels found so far, and prove the point if they touch no bound when they are
    # moved to the middle by the factor _INTERIOR.
    whitening = basis / np.sqrt(eigenvalues[spanned])
    white = weighted.in_basis(whitening)
    target = centre + (operator - centre) / (_INTERIOR * steepest)
    for labels, missing, gap in _steps(white, whitening.T @ target):
        if np.vdot(missing, missing) > gap:  # <r, target> > max over Z of <r, s>: a plane between
            break
        mended = _INTERIOR * (labels + white.scores(missing))
        if mended.ndim == 1 and np.abs(mended).max() < 1:
            return ""
        if mended.ndim == 2 and (mended + (1 - _INTERIOR) / mended.shape[1]).min() > 0:
            return ""
    return (
        "no labels of these rows have this mean operator, or it lies on the boundary of those that"
        " do, so the risk falls without end. Use lam > 0."
    )


_MEMORY_STEPS = 20  # that L-BFGS remembers; scipy's own default is 10
_POLISHED_SHARE = 1e-6  # of tol, at which the last steps may end


@dataclass(frozen=True)
class Solution:
    """Holds a minimiser with its certificate."""

    parameters: np.ndarray
    gradient: float  # the largest entry of the gradient there
    iterations: int


class _Risk:
    """A smooth risk beside sum_j absolute_j |theta_j|; it is not worked out twice at one theta."""

    def __init__(
        self, smooth: Callable[[np.ndarray], tuple[float, np.ndarray]], absolute: np.ndarray
    ) -> None:
        self._smooth, self.absolute = smooth, absolute
        self._at: np.ndarray | None = None
        self._answer: tuple[float, np.ndarray] = (np.nan, np.empty(0))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient of the smooth risk at theta (d,) or (d, K)."""
        if self._at is None or not np.array_equal(theta, self._at):
            self._at, self._answer = theta, self._smooth(theta)
        return self._answer

    def rest(self, theta: np.ndarray) -> np.ndarray:
        """Return theta - prox(theta - gradient), zero exactly at a minimiser of the sum.

        Without a 1-norm it is the gradient. So written that no huge theta swallows the slope.
        """
        slope = self(theta)[1]
        ahead = theta - slope
        inside = np.abs(ahead) <= self.absolute
        return np.where(inside, theta, slope + self.absolute * np.sign(ahead))


def minimise(
    risk: _Risk,
    roots: Callable[[np.ndarray], list[np.ndarray]],
    start: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    cost: int,
    metric: list[np.ndarray] | None = None,
    polished: bool = False,
) -> Solution:
    """Return where the largest entry of `_Risk.rest` is at most ``tol``; beyond ten times, raise.

    What floats allow may lie between: the solution states what it reached. ``roots`` returns for
    each column an upper triangular R with R^T R = that column's block of the Hessian; ``cost`` is
    what they cost, in evaluations of the risk. ``metric`` are such roots near ``start``, where the
    caller has them. ``polished`` asks for all digits.
    """

    def residual(theta: np.ndarray) -> float:
        return float(np.abs(risk.rest(theta)).max())

    at, used, value, given = start, 0, np.inf, metric
    while residual(at) > tol and used < max_iter:
        if risk.absolute.any():
            at, steps, reached = _descend_with_1norm(risk, at, tol, max_iter - used)
            used += steps
            if not reached < value:  # it also ends where one step gains nothing: then start anew
                break
            value = reached
            continue
        patience = cost if metric is None else 2 * cost
        at, steps, stalled = _descend(
            risk, at, metric, tol=tol, cost=patience, most=max_iter - used
        )
        used += steps
        if residual(at) > tol and used < max_iter:
            if stalled and metric is not None:
                at = _polish(risk, at, metric, tol)
                break
            metric = roots(at)
    if polished and used < max_iter and residual(at) > tol * _POLISHED_SHARE:
        near = roots(at) if metric is None or metric is given else metric
        at = _polish(risk, at, near, tol * _POLISHED_SHARE)
    if not residual(at) <= max(tol, 1e-10) * 10:
        raise OptimisationError(
            f"The solver stopped at a gradient of {residual(at):.2g}, above the goal of {tol:.2g}."
            " Use a larger max_iter or lam."
        )
    return Solution(at, residual(at), used)


def _descend(
    risk: _Risk,
    start: np.ndarray,
    metric: list[np.ndarray] | None,
    *,
    tol: float,
    cost: int,
    most: int,
) -> tuple[np.ndarray, int, bool]:
    """Return the end of some steps of L-BFGS, their number, and whether it found no way on.

    In the coordinates v = R (theta - start) / s the Hessian is near s^2 I; s = ||R^-T gradient||
    makes the first step, which L-BFGS-B takes of length one, that of Newton. It may stop at
    ``tol``, or after ``cost`` steps if it is not halfway there on a logarithmic scale; having
    passed that, L-BFGS goes on for as long again.
    """
    scale, first = 1.0, np.abs(risk(start)[1]).max()
    if metric is not None:
        scale = float(np.linalg.norm(_by_column(metric, risk(start)[1], transposed=True)))
    steps, ended = 0, False

    def theta(v: np.ndarray) -> np.ndarray:
        return start + scale * _by_column(metric, v.reshape(start.shape), transposed=False)

    def flat(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = risk(theta(v))
        return value, scale * _by_column(metric, gradient, transposed=True).ravel()

    def stop(intermediate_result: Any) -> None:
        nonlocal steps, ended
        steps += 1
        rest = np.abs(risk(theta(intermediate_result.x))[1]).max()
        slow = steps >= cost and rest > np.sqrt(first * tol)
        ended = bool(rest <= tol or slow or steps >= 2 * cost)
        if ended:
            raise StopIteration

    options = {"maxiter": most, "gtol": 0.0, "ftol": 0.0, "maxcor": _MEMORY_STEPS}
    origin = np.zeros(start.size)
    optimum = minimize(flat, origin, jac=True, method="L-BFGS-B", callback=stop, options=options)
    return theta(optimum.x), steps, not ended and steps < most


def _descend_with_1norm(
    risk: _Risk, start: np.ndarray, tol: float, most: int
) -> tuple[np.ndarray, int, float]:
    """Return the end of steps of L-BFGS with bounds, their number, and the value reached.

    theta = p - q with p, q >= 0 makes the 1-norm linear.
    """
    size, weights, flat = start.size, risk.absolute.ravel(), start.ravel()

    def split(pair: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = risk((pair[:size] - pair[size:]).reshape(start.shape))
        slope = gradient.ravel()
        value += float(np.concatenate([weights, weights]) @ pair)
        return value, np.concatenate([weights + slope, weights - slope])

    optimum = minimize(
        split,
        np.concatenate([np.maximum(flat, 0), np.maximum(-flat, 0)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * size),
        options={"maxiter": most, "gtol": tol, "ftol": 0.0, "maxcor": _MEMORY_STEPS},
    )
    at = (optimum.x[:size] - optimum.x[size:]).reshape(start.shape)
    return at, int(optimum.nit), float(optimum.fun)


def _polish(risk: _Risk, at: np.ndarray, metric: list[np.ndarray], tol: float) -> np.ndarray:
    """Return the best end of steps that halve the rest, `_Risk.rest`, again and again.

    Near a minimiser a risk has no digits left to tell two points apart; its gradient has. So these
    are steps of L-BFGS of length one, without a search along them: those of Newton where the metric
    is the Hessian.
    """
    if risk.absolute.any():
        return _polish_with_1norm(risk, at, metric, tol)
    rest, waiting = risk.rest(at), 0
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    best, least = at, float(np.abs(rest).max())
    while least > tol and waiting < 10:  # steps without half the rest are the last
        step, shares = rest, []
        for moved, bent in reversed(pairs):  # Nocedal & Wright 2006, Algorithm 7.4
            shares.append(float(np.vdot(moved, step) / np.vdot(moved, bent)))
            step = step - shares[-1] * bent
        step = _by_column(metric, _by_column(metric, step, transposed=True), transposed=False)
        for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
            step = step + (share - float(np.vdot(bent, step) / np.vdot(moved, bent))) * moved
        before, at = rest, at - step
        rest = risk.rest(at)
        if np.vdot(step, before - rest) > 0:
            pairs.append((-step, rest - before))
        size = float(np.abs(rest).max())
        waiting = 0 if size < least / 2 else waiting + 1
        if size < least:
            best, least = at, size
    return best


def _polish_with_1norm(
    risk: _Risk, at: np.ndarray, metric: list[np.ndarray], tol: float
) -> np.ndarray:
    """Return the end of steps of Newton, (R^T R)^-1 rest, for as long as they halve the rest.

    The 1-norm lets some coordinates move; others go to zero.
    """
    rest = risk.rest(at)
    while np.abs(rest).max() > tol:
        step = rest.reshape(len(rest), -1).copy()
        moves = (at != rest).reshape(step.shape)  # theta - rest is the prox
        for k, (root, free) in enumerate(zip(metric, moves.T, strict=True)):
            narrow = root[:, free]
            step[free, k] = np.linalg.lstsq(narrow.T @ narrow, step[free, k], rcond=None)[0]
        ahead = at - step.reshape(at.shape)
        rest_ahead = risk.rest(ahead)
        if not np.abs(rest_ahead).max() < np.abs(rest).max() / 2:
            break
        at, rest = ahead, rest_ahead
    return at


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


_LARGEST_HESSIAN = 4000  # rows: 128 MB
_LARGEST_METRIC = 2**25  # entries of the Hessian's blocks that the solver may hold
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
        The rows, which need not be in memory. They become `WeightedRows`.
    operator : array of shape (d,) or (d, K)
        mu with weight a/2, or M with weight one and softmax's log-sum-exp in the place of g.
    loss : LinearOddLoss or None
        The loss; None for softmax.
    weights : array of shape (m,) or None
        The weights w_i of a matrix: nonnegative, with sum one. None for 1/m. ``rows`` take them.
    penalty : Penalty
        The penalty.
    intercept : bool
        Whether the last coordinate is the constant one, which never has a 1-norm.
    """

    rows: Any  # what they alone decide is computed once for all operators
    operator: np.ndarray
    loss: LinearOddLoss | None
    weights: np.ndarray | None = None
    penalty: Penalty = PENALTIES["l2"]
    intercept: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", as_weighted(self.rows, self.weights))
        object.__setattr__(self, "weights", None)

    @property
    def operator_weight(self) -> float:
        """What multiplies <theta, operator>: a/2, and one for softmax."""
        return 1.0 if self.loss is None else self.loss.a / 2

    @property
    def curvature(self) -> float:
        """g''(0), so that the Hessian at zero is about lam I + curvature S; 1/K for softmax."""
        return 1 / self.operator.shape[1] if self.loss is None else self.loss.curvature

    def with_operator(self, operator: np.ndarray) -> "FactoredProblem":
        """Return the same problem for another operator."""
        return replace(self, operator=operator)

    def on_rows(self, rows: WeightedRows) -> "FactoredProblem":
        """Return the same problem on other rows; where they are the same it is this one."""
        return self if rows is self.rows else replace(self, rows=rows)

    def risk(self, parameters: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return the regularised risk and its gradient (of |theta_j| at zero: zero)."""
        absolute, squared = self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)
        value, gradient = self._smooth_risk(parameters, squared)
        value += float(np.vdot(absolute, np.abs(parameters)))
        return value, gradient + absolute * np.sign(parameters)

    def _smooth_risk(self, parameters: np.ndarray, squared: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient of all but the 1-norm (eq. 4 of Patrini et al. 2016)."""
        even, slopes = self.rows.sums(parameters, _EvenPart(self.loss))
        pull = self.operator_weight * self.operator
        value = even - float(np.vdot(parameters, pull - squared / 2 * parameters))
        return value, slopes - pull + squared * parameters

    def hessian(self, parameters: np.ndarray, lam: float = 0.0) -> np.ndarray:
        """Return the Hessian (d, d), or (dK, dK) in the order of ``parameters.ravel()``.

        The squared penalty is in it, a 1-norm has no curvature. Above 4000 rows it is refused.
        """
        squared = self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)[
            1
        ].ravel()
        if squared.size > _LARGEST_HESSIAN:
            raise ParameterError(
                f"A Hessian of {squared.size} rows is too large. Use fewer features or classes."
            )
        if self.loss is not None:
            return self.rows.grams(parameters, _ColumnCurves(self.loss))[0] + np.diag(squared)
        width, classes = self.operator.shape
        blocks = iter(self.rows.grams(parameters, _PairCurves()))
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
        penalty a minimiser must exist (`why_no_minimiser`).
        """
        if self.loss is not None and self.loss.untrainable:
            raise ParameterError(
                f"The {self.loss.name} loss cannot be trained with: {self.loss.untrainable}"
            )
        absolute, squared = self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)
        if not (absolute.any() or squared.any()):
            steepest = 1.0 if self.loss is None else self.loss.steepest
            reason = why_no_minimiser(self.rows, self.operator, steepest=steepest)
            if reason:
                raise ParameterError(f"Without a penalty there is no best model: {reason}")
        begin, metric = self._near(lam, tol, max_iter) if start is None else (start, None)
        # A start comes from a search over lam, whose models are compared and thrown away.
        polished = start is None and self.has_metric
        share = min(1.0, self._metric_rows / len(self.rows))
        cost = max(4, int(share * self.operator.size / _EVALUATIONS))
        cost = cost if self.has_metric else max_iter
        solve = partial(minimise, start=begin, tol=tol, max_iter=max_iter, cost=cost, metric=metric)
        if self.loss is not None or absolute.any():
            smooth = partial(self._smooth_risk, squared=squared)
            count = None if absolute.any() else self._metric_rows
            roots = partial(self.hessian_roots, squared=squared, count=count)
            return solve(_Risk(smooth, absolute), roots, polished=polished)
        # Of softmax, what all classes share at the minimiser is known, (M 1 - mean x) / (K lam):
        # adding w to every class adds <w, mean x - M 1> + (K/2) lam ||w||^2 to the risk, whatever
        # the rest is. A noisy M has M 1 far from mean x, and this direction the least curvature.
        excess, strength = self.operator.sum(axis=1) - self.rows.mean, squared.sum(axis=1)
        common = np.divide(excess, strength, out=np.zeros_like(excess), where=strength > 0)[:, None]

        def between_classes(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._smooth_risk(_centred(theta) + common, squared)
            return value, _centred(gradient)

        solution = solve(
            _Risk(between_classes, absolute),
            lambda theta: self.hessian_roots(_centred(theta) + common, squared, self._metric_rows),
            polished=polished,
        )
        return replace(solution, parameters=_centred(solution.parameters) + common)

    @property
    def has_metric(self) -> bool:
        """Whether the Hessian's blocks are small enough to be held."""
        return self.rows.shape[1] * self.operator.size <= _LARGEST_METRIC

    @property
    def _metric_rows(self) -> int:
        """The number of rows that a metric is computed of: two for each coordinate, or more."""
        return max(1000, 2 * self.rows.shape[1])

    def _near(
        self, lam: float, tol: float, max_iter: int
    ) -> tuple[np.ndarray, list[np.ndarray] | None]:
        """Return where to begin: at the minimiser on a sample of the rows, with its metric.

        The metric is that of a risk without a 1-norm. Of few rows in memory the sample is the rows
        themselves: then nothing is known, and the start is zero.
        """
        small = self.on_rows(self.rows.sample)
        absolute, squared = self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)
        if small is self or not (absolute.any() or squared.any()):
            return np.zeros(self.operator.shape), None
        if len(small.rows) < len(self.rows):
            tol = max(tol, 1e-5)  # a sample of rows is farther from all of them than that
        try:
            near = small.solve(lam, tol=tol, max_iter=max_iter).parameters
        except OptimisationError:  # all rows may still have what a sample of them has not
            return np.zeros(self.operator.shape), None
        smooth = not absolute.any() and self.has_metric
        return near, small.hessian_roots(near, squared) if smooth else None

    def hessian_roots(
        self, parameters: np.ndarray, squared: np.ndarray, count: int | None = None
    ) -> list[np.ndarray]:
        """Return the upper Cholesky factor of each column's block of the Hessian, or nearly so.

        ``squared`` are the weights of the squared penalty, of the parameters' shape. ``count`` rows
        may stand for all of a matrix.
        """
        curves = _ColumnCurves(self.loss)
        if count is None or not isinstance(self.rows, MatrixRows):  # which cost a pass all the same
            blocks = self.rows.grams(parameters, curves)
        else:
            blocks = self.rows.sample.near_grams(parameters, curves, count)
        extras = squared.reshape(len(squared), -1)
        roots = []
        for block, extra in zip(blocks, extras.T, strict=True):  # raised where it is singular
            raised = block + np.diag(extra + 1e-12 * (1 + block.diagonal().max()))
            roots.append(np.asarray(cholesky(raised, check_finite=False)))
        return roots


def _centred(parameters: np.ndarray) -> np.ndarray:
    """Return a matrix without the mean of its columns."""
    return parameters - parameters.mean(axis=1, keepdims=True)
