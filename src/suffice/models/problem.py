"""The factored problem: public rows, a mean operator, a loss, a penalty; its risk and minimiser."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.special import softmax

from suffice.errors import OptimisationError, ParameterError
from suffice.kernels.margins import softmax_slopes
from suffice.models.losses import LinearOddLoss
from suffice.models.penalties import PENALTIES, Penalty
from suffice.models.rows import MatrixRows, WeightedRows, as_weighted
from suffice.models.solvers import Curved, Solution, minimise, minimise_with_1norm
from suffice.models.threads import one_blas_thread
from suffice.models.zonotope import why_no_minimiser

__all__ = ["FactoredProblem", "Solution"]

_LARGEST_HESSIAN = 4000
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

    def hessian_product(
        self, parameters: np.ndarray, direction: np.ndarray, lam: float = 0.0
    ) -> np.ndarray:
        """Return the Hessian of the risk at ``parameters`` times ``direction``, of equal shape.

        Binary: X^T diag(w g''(z)) X v; softmax: X^T [w (p . (X V) - p <p, X V>)]. The squared
        penalty is in it, a 1-norm has no curvature.
        """
        rows = self.weighted
        moved, scores = rows.scores(direction), rows.scores(parameters)
        if self.loss is None:
            shares = softmax(scores, axis=1)
            moved = shares * (moved - np.sum(shares * moved, axis=1, keepdims=True))
            moved *= rows.weights[:, None]
        else:
            moved *= rows.weights * self.loss.second(scores)
        return rows.combined(moved) + self._penalty_weights(lam)[1] * direction

    def hessian(self, parameters: np.ndarray, lam: float = 0.0) -> np.ndarray:
        """Return the Hessian (d, d), or (dK, dK) in the order of ``parameters.ravel()``.

        Softmax's is refused above 4000 rows and columns; use `hessian_product` there.
        """
        squared = self._penalty_weights(lam)[1].ravel()
        if squared.size > _LARGEST_HESSIAN:
            raise ParameterError(
                f"A Hessian of {squared.size} rows is too large. Use hessian_product instead."
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
            self._check_minimiser()
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
        function = Curved(
            lambda theta: self._risk_between_classes(theta, common, squared),
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

    def _check_minimiser(self) -> None:
        """Raise if nothing minimises the risk without a penalty."""
        steepest = 1.0 if self.loss is None else self.loss.steepest
        reason = why_no_minimiser(self.weighted, self.operator, steepest=steepest)
        if reason:
            raise ParameterError(f"Without a penalty there is no best model: {reason}")

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

    def _risk_between_classes(
        self, parameters: np.ndarray, common: np.ndarray, squared: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return risk and gradient where the classes share ``common`` and differ as given."""
        value, gradient = self._smooth_risk(_centred(parameters) + common, squared)
        return value, _centred(gradient)

    def hessian_roots(self, parameters: np.ndarray, squared: np.ndarray) -> list[np.ndarray]:
        """Return the upper Cholesky factor of each column's block of the Hessian.

        ``squared`` are the weights of the squared penalty, of the parameters' shape.
        """
        blocks = self.weighted.grams(parameters, _ColumnCurves(self.loss))
        extras = squared.reshape(len(squared), -1)
        return [_root(block, extra) for block, extra in zip(blocks, extras.T, strict=True)]


def _centred(parameters: np.ndarray) -> np.ndarray:
    """Return a matrix without the mean of its columns; a vector as it is."""
    if parameters.ndim == 1:
        return parameters
    return parameters - parameters.mean(axis=1, keepdims=True)


def _root(block: np.ndarray, extra: np.ndarray) -> np.ndarray:
    """Return R with R^T R = block + diag(extra), the diagonal raised where that is singular."""
    block = block + np.diag(extra + 1e-12 * (1 + block.diagonal().max()))
    return np.asarray(cholesky(block, check_finite=False))
