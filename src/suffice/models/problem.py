"""The factored problem: public rows, a mean operator, a loss, a penalty; its risk and minimiser."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.special import softmax

from suffice.errors import ParameterError
from suffice.kernels.margins import softmax_slopes
from suffice.models.gram import gram
from suffice.models.losses import LinearOddLoss
from suffice.models.penalties import PENALTIES, Penalty
from suffice.models.solvers import Curved, Solution, minimise, minimise_with_1norm
from suffice.models.threads import one_blas_thread
from suffice.models.zonotope import why_no_minimiser

__all__ = ["FactoredProblem", "Solution"]

_LARGEST_HESSIAN = 4000
_LARGEST_METRIC = 2**25  # entries of the Hessian's blocks that the solver may hold
_EVALUATIONS = 24  # d over this many evaluations of the risk cost as much as one Hessian block


class _Rows:
    """What depends on rows and their weights alone, computed once for every operator."""

    def __init__(self, rows: np.ndarray, weights: np.ndarray | None) -> None:
        self.rows = rows
        self.given = weights
        self.weights = np.full(len(rows), 1 / len(rows)) if weights is None else weights

    @cached_property
    def moment(self) -> np.ndarray:
        """S = sum_i w_i x_i x_i^T."""
        rows = self.rows
        return gram(rows) / len(rows) if self.given is None else gram(rows, self.given)


@dataclass(frozen=True, eq=False)
class FactoredProblem:
    """Minimise sum_i w_i g(<theta, x_i>) - <theta, weight x operator> + penalty(theta).

    ``operator`` is mu (d,) with weight a/2, or M (d, K) with weight one and softmax's log-sum-exp
    in the place of g (``loss`` None). ``weights`` w_i of the rows are nonnegative and sum to one;
    1/m unless given. ``intercept``: the last coordinate is one, and never pays a 1-norm.
    """

    rows: np.ndarray
    operator: np.ndarray
    loss: LinearOddLoss | None
    weights: np.ndarray | None = None
    penalty: Penalty = PENALTIES["l2"]
    intercept: bool = False
    _shared: Any = field(default=None, repr=False)  # _Rows, from the start

    def __post_init__(self) -> None:
        shared = self._shared
        if shared is None or shared.rows is not self.rows or shared.given is not self.weights:
            _check_weights(self.weights, len(self.rows))
            object.__setattr__(self, "_shared", _Rows(self.rows, self.weights))

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
        return self._shared.moment

    def with_operator(self, operator: np.ndarray) -> "FactoredProblem":
        """Return the same problem for another operator; what the rows alone decide is shared."""
        return replace(self, operator=operator)

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
        scores = self.rows @ parameters
        even, slopes = self._even_and_slopes(scores)
        pull = self.operator_weight * self.operator
        value = even - float(np.vdot(parameters, pull - squared / 2 * parameters))
        return value, self.rows.T @ slopes - pull + squared * parameters

    def _even_and_slopes(self, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Return sum_i w_i g(z_i) and the vector of w_i g'(z_i); the scores may be overwritten."""
        weights = self._shared.weights
        if self.loss is None:
            return softmax_slopes(scores, weights), scores
        if self.loss.fused is not None:
            return self.loss.fused(scores, weights), scores
        return float(weights @ self.loss.even(scores)), weights * self.loss.slope(scores)

    def hessian_product(
        self, parameters: np.ndarray, direction: np.ndarray, lam: float = 0.0
    ) -> np.ndarray:
        """Return the Hessian of the risk at ``parameters`` times ``direction``, of equal shape.

        Binary: X^T diag(w g''(z)) X v; softmax: X^T [w (p . (X V) - p <p, X V>)]. The squared
        penalty is in it, a 1-norm has no curvature.
        """
        moved = self.rows @ direction
        scores = self.rows @ parameters
        if self.loss is None:
            shares = softmax(scores, axis=1)
            moved = shares * (moved - np.sum(shares * moved, axis=1, keepdims=True))
            moved *= self._shared.weights[:, None]
        else:
            moved *= self._shared.weights * self.loss.second(scores)
        return self.rows.T @ moved + self._penalty_weights(lam)[1] * direction

    def hessian(self, parameters: np.ndarray, lam: float = 0.0) -> np.ndarray:
        """Return the Hessian (d, d), or (dK, dK) in the order of ``parameters.ravel()``.

        Softmax's is refused above 4000 rows and columns; use `hessian_product` there.
        """
        squared = self._penalty_weights(lam)[1].ravel()
        if squared.size > _LARGEST_HESSIAN:
            raise ParameterError(
                f"a Hessian of {squared.size} rows is too large; use hessian_product."
            )
        scores, weights = self.rows @ parameters, self._shared.weights
        if self.loss is not None:
            curve = np.maximum(self._curves(scores)[:, 0], 0)
            return gram(self.rows, curve) + np.diag(squared)
        width, classes = self.operator.shape
        shares = softmax(scores, axis=1)
        full = np.empty((width, classes, width, classes))
        for k in range(classes):
            own = weights * shares[:, k]
            full[:, k, :, k] = gram(self.rows, own * (1 - shares[:, k]))
            for j in range(k):
                both = gram(self.rows, own * shares[:, j])
                full[:, k, :, j] = full[:, j, :, k] = -both
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
            raise ParameterError(f"the {self.loss.name} loss: {self.loss.untrainable}")
        absolute, squared = self._penalty_weights(lam)
        begin = np.zeros(self.operator.shape) if start is None else start
        if not (absolute.any() or squared.any()):
            self._check_minimiser()
        if absolute.any():
            risk = partial(self._smooth_risk, squared=squared)
            return minimise_with_1norm(risk, absolute, begin, tol, max_iter)
        wide = self.rows.shape[1] * self.operator.size > _LARGEST_METRIC
        price = max_iter if wide else max(4, self.operator.size // _EVALUATIONS)
        common = self._common_part(squared)
        function = Curved(
            lambda theta: self._risk_between_classes(theta, common, squared),
            lambda theta: self._hessian_roots(_centred(theta) + common, squared),
            price,
        )
        found = minimise(function, begin, tol, max_iter)
        return replace(found, parameters=_centred(found.parameters) + common)

    def _check_minimiser(self) -> None:
        """Raise if nothing minimises the risk without a penalty."""
        steepest = 1.0 if self.loss is None else self.loss.steepest
        reason = why_no_minimiser(self.rows, self.operator, weights=self.weights, steepest=steepest)
        if reason:
            raise ParameterError(f"without a penalty there is no minimiser: {reason}")

    def _common_part(self, squared: np.ndarray) -> np.ndarray:
        """Return what all classes share at softmax's minimiser, (M 1 - mean x) / (K lam).

        Adding w to every class adds <w, mean x - M 1> + (K/2) lam ||w||^2 to the risk, whatever the
        rest is. A noisy M has M 1 far from mean x, and this direction the least curvature of all.
        """
        if self.loss is not None:
            return np.zeros(self.operator.shape)
        excess = self.operator.sum(axis=1) - self._shared.weights @ self.rows
        strength = squared.sum(axis=1)
        common = np.divide(excess, strength, out=np.zeros_like(excess), where=strength > 0)
        return np.tile(common[:, None], self.operator.shape[1])

    def _risk_between_classes(
        self, parameters: np.ndarray, common: np.ndarray, squared: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return risk and gradient where the classes share ``common`` and differ as given."""
        value, gradient = self._smooth_risk(_centred(parameters) + common, squared)
        return value, _centred(gradient)

    def _curves(self, scores: np.ndarray) -> np.ndarray:
        """Return w_i times the second derivative in each score, of shape (rows, columns)."""
        if self.loss is None:
            shares = softmax(scores, axis=1)
            return self._shared.weights[:, None] * shares * (1 - shares)
        return (self._shared.weights * self.loss.second(scores))[:, None]

    def _hessian_roots(self, parameters: np.ndarray, squared: np.ndarray) -> list[np.ndarray]:
        """Return the upper Cholesky factor of each column's block of the Hessian."""
        curves = self._curves(self.rows @ parameters)
        extras = squared.reshape(len(squared), -1)
        return [
            _root(gram(self.rows, np.maximum(curve, 0)), extra)
            for curve, extra in zip(curves.T, extras.T, strict=True)
        ]


def _centred(parameters: np.ndarray) -> np.ndarray:
    """Return a matrix without the mean of its columns; a vector as it is."""
    if parameters.ndim == 1:
        return parameters
    return parameters - parameters.mean(axis=1, keepdims=True)


def _root(block: np.ndarray, extra: np.ndarray) -> np.ndarray:
    """Return R with R^T R = block + diag(extra), the diagonal raised where that is singular."""
    block = block + np.diag(extra + 1e-12 * (1 + block.diagonal().max()))
    return np.asarray(cholesky(block, check_finite=False))


def _check_weights(weights: np.ndarray | None, rows: int) -> None:
    if weights is None:
        return
    if weights.shape != (rows,):
        raise ParameterError(f"there must be one weight per row; got {weights.shape} for {rows}.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and abs(weights.sum() - 1) < 1e-9):
        raise ParameterError("the weights of rows must be nonnegative and sum to one.")
