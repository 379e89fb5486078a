"""The factored problem, from top to bottom: rows, a loss, a penalty, the risk and its minimiser.

Rows x_i with weights w_i enter a risk only through sums over them of functions of their scores
<theta, x_i>. `WeightedRows` names those sums. `MatrixRows` computes them from a matrix,
`suffice.engines.streamed.StreamedRows` batch by batch, and every problem takes either.

A loss sees labels through the mean operator alone if it is linear-odd, f(z) - f(-z) = -a z (Patrini
et al. 2016, Theorem 3). The risk of theta is then

    (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu>,     g(z) = (f(z) + f(-z)) / 2,

so that g, the even part, needs rows and no labels. Softmax is the same for more classes:
(1/m) sum_i log sum_k exp(<W_k, x_i>) - <W, M>. Penalties are data too: squared 2-norm, 1-norm, a
mixture of both, or none.

The solvers are L-BFGS for risks with and without a 1-norm, with the certificate checked and never
assumed. A smooth risk is first met with plain L-BFGS. Where that has cost as much as a metric
would, the Hessian's diagonal blocks at the best point so far, one per class, become the metric in
which L-BFGS starts again, and again when that was not enough: an easy problem needs no Hessian, and
a hard one not hundreds of steps (lab/bench/learner.py). A few rows that have most of the curvature
stand for all of them there: a metric decides how fast a solver is, and not where it ends.

Where L-BFGS stops within ``tol`` depends on the last bits of sums: on the machine, and on how rows
were cut. A model that is handed out is therefore polished: its last steps end where floats do.

Without a penalty a risk has a minimiser well inside the operators that some labels of the rows can
have. For two classes they are the zonotope Z = { sum_i w_i u_i x_i : |u_i| <= 1 }, for K classes
the set { sum_i w_i x_i U_i^T : U_i in the simplex }. A true operator lies in it, and noise throws
it out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import ThreadpoolController

from suffice.errors import OptimisationError, ParameterError
from suffice.kernels.models import logistic_slopes, softmax_shares, softmax_slopes
from suffice.models.simplex import nearest_proportions

_ROWS_AT_ONCE = 4096
CELLS_IN_CACHE = 2**16  # of rows: 512 KB, half of the cache that a core has for itself


def gram(rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return sum_i w_i x_i x_i^T for nonnegative weights, without a weighted copy of all rows."""
    if weights is None:
        return rows.T @ rows
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        block = np.sqrt(weights[part, None]) * rows[part]  # a product with itself costs half
        total += block.T @ block
    return total


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let linear algebra use one thread; ``@one_blas_thread()`` does so for a function.

    The many small products of solvers are slower with two. On two idle cores a fit of 20,000 rows
    of 60 numbers took three times as long with two threads as with one, and on a busy machine,
    where they wait for each other, thirteen times.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the libraries' switches; to look for them takes milliseconds."""
    return ThreadpoolController()


# Of scores (n,) or (n, K) and weights (n,): sum_i w_i g(z_i), and w_i g'(z_i) of the scores' shape.
# It may overwrite the scores.
Slopes = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]
# Of the same: for each matrix sum_i c_i x_i x_i^T that is wanted its c_i, at least zero. It may
# overwrite the scores too.
Curves = Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]]

_SAMPLE_CELLS = 8_000_000  # of the rows on which models are first sought; sums take in all rows


class WeightedRows(ABC):
    """Rows x_i (m, d) with weights w_i that sum to one; theta is (d,) or (d, K)."""

    shape: tuple[int, int]
    labels: float  # of equal weight that vary as much as those of the rows: 1 / sum_i w_i^2

    def __len__(self) -> int:
        return self.shape[0]

    @property
    @abstractmethod
    def weights(self) -> np.ndarray:
        """The weights w_i (m,)."""

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """sum_i w_i x_i (d,)."""

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """sum_i w_i ||x_i||^2."""

    @property
    @abstractmethod
    def moment(self) -> np.ndarray:
        """S = sum_i w_i x_i x_i^T (d, d), computed once."""

    @property
    @abstractmethod
    def sample(self) -> "MatrixRows":
        """Every so many-th row, in memory; all rows where they are few (`sample_stride`)."""

    @abstractmethod
    def sums(self, theta: np.ndarray, slopes: Slopes) -> tuple[float, np.ndarray]:
        """Return sum_i w_i g(<theta, x_i>) and X^T (w_i g'(<theta, x_i>)), of theta's shape."""

    @abstractmethod
    def grams(self, theta: np.ndarray, curves: Curves) -> list[np.ndarray]:
        """Return sum_i c_i x_i x_i^T (d, d) for each c that ``curves`` gives at the scores."""

    @abstractmethod
    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Return X theta, one line for each row."""

    @abstractmethod
    def combined(self, values: np.ndarray) -> np.ndarray:
        """Return X^T values, with ``values`` (m,) or (m, K) one line for each row."""

    @abstractmethod
    def gram(self, values: np.ndarray) -> np.ndarray:
        """Return sum_i v_i x_i x_i^T for nonnegative ``values`` v (m,), without the weights."""

    @abstractmethod
    def in_basis(self, basis: np.ndarray) -> "WeightedRows":
        """Return the rows B^T x_i for B (d, r), with the same weights."""


class MatrixRows(WeightedRows):
    """Rows as a matrix in memory; ``own_weights`` are their weights, None where all are alike.

    Every ``stride``-th row is in the sample. Rows in other coordinates keep that of their origin.
    ``count`` is the number of labels where a row of weight 2 stands for two rows alike; else each
    row has one label.
    """

    def __init__(
        self,
        matrix: np.ndarray,
        own_weights: np.ndarray | None = None,
        stride: int | None = None,
        count: float | None = None,
    ) -> None:
        self.matrix, self.own_weights = matrix, own_weights
        self.shape = (matrix.shape[0], matrix.shape[1])
        self._stride, self._count = stride or sample_stride(self.shape), count
        if own_weights is None:
            self._weights, self.labels = np.full(len(matrix), 1 / len(matrix)), float(len(matrix))
        else:
            shape, total = own_weights.shape, own_weights.sum()
            if shape != (len(matrix),):
                raise ParameterError(
                    f"weights must hold one number for each of the {len(matrix)} rows. Its shape is"
                    f" {shape}."
                )
            if not (np.isfinite(total) and (own_weights >= 0).all() and abs(total - 1) < 1e-9):
                raise ParameterError("weights must not be negative, and must sum to one.")
            self._weights, self.labels = own_weights, 1 / float(own_weights @ own_weights)
        if count is not None:
            self.labels = count

    @property
    def weights(self) -> np.ndarray:
        """The weights w_i (m,)."""
        return self._weights

    @cached_property
    def mean(self) -> np.ndarray:
        """sum_i w_i x_i (d,)."""
        return self.weights @ self.matrix

    @cached_property
    def mean_square(self) -> float:
        """sum_i w_i ||x_i||^2."""
        return float(self.weights @ self._squares)

    @cached_property
    def _squares(self) -> np.ndarray:
        """||x_i||^2 (m,)."""
        return np.einsum("ij,ij->i", self.matrix, self.matrix)

    @cached_property
    def moment(self) -> np.ndarray:
        """S = sum_i w_i x_i x_i^T."""
        if self.own_weights is None:
            return gram(self.matrix) / len(self)
        return gram(self.matrix, self.own_weights)

    @cached_property
    def sample(self) -> "MatrixRows":
        """Every so many-th row, or all of them."""
        return self.thinned(self._stride)

    def thinned(self, stride: int) -> "MatrixRows":
        """Return every ``stride``-th row."""
        if stride <= 1:
            return self
        own_weights, count = None, None
        if self.own_weights is not None:
            part = float(self.own_weights[::stride].sum())
            own_weights = self.own_weights[::stride] / part
            count = None if self._count is None else self._count * part
        return MatrixRows(np.ascontiguousarray(self.matrix[::stride]), own_weights, 1, count)

    def sums(self, theta: np.ndarray, slopes: Slopes) -> tuple[float, np.ndarray]:
        """Return the sum of g and X^T slopes; rows that are in the cache are used for both."""
        value, total = 0.0, np.zeros(theta.shape)
        step = max(1, CELLS_IN_CACHE // (theta.size // len(theta) + self.shape[1]))
        for first in range(0, len(self), step):
            block = self.matrix[first : first + step]
            part, slope = slopes(block @ theta, self.weights[first : first + step])
            value += part
            total += block.T @ slope
        return value, total

    def grams(self, theta: np.ndarray, curves: Curves) -> list[np.ndarray]:
        """Return sum_i c_i x_i x_i^T for each c."""
        return [gram(self.matrix, c) for c in curves(self.matrix @ theta, self.weights)]

    def near_grams(self, theta: np.ndarray, curves: Curves, count: int) -> list[np.ndarray]:
        """Return nearly sum_i c_i x_i x_i^T for each c, from ``count`` of more rows.

        They are taken in proportion to c_i ||x_i||^2 (Drineas, Kannan & Mahoney 2006), in equal
        steps: among rows of 785 pixels few have most of the curvature, and chance would miss them.
        """
        if 2 * count > len(self):
            return self.grams(theta, curves)
        rows, weights, squares, grams = self.matrix, self.weights, self._squares, []
        if len(self) > 4 * count:  # scores of many rows cost more: first by w_i ||x_i||^2 alone
            picked, share = _in_proportion(weights * squares, 4 * count)
            rows, squares = rows[picked], squares[picked]
            weights = share / np.maximum(squares, np.finfo(float).tiny)
        for c in curves(rows @ theta, weights):
            picked, share = _in_proportion(c * squares, count)
            each = np.maximum(squares[picked], np.finfo(float).tiny)
            grams.append(gram(rows[picked], share / each))
        return grams

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Return X theta."""
        return self.matrix @ theta

    def combined(self, values: np.ndarray) -> np.ndarray:
        """Return X^T values."""
        return self.matrix.T @ values

    def gram(self, values: np.ndarray) -> np.ndarray:
        """Return sum_i v_i x_i x_i^T."""
        return gram(self.matrix, values)

    def in_basis(self, basis: np.ndarray) -> "MatrixRows":
        """Return the rows B^T x_i."""
        rows = np.ascontiguousarray(self.matrix @ basis)
        return MatrixRows(rows, self.own_weights, self._stride, self._count)


def _in_proportion(sizes: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Return ``count`` places, each as often as its size demands, and what one stands for."""
    sums = np.cumsum(sizes)
    share = float(sums[-1]) / count
    return np.searchsorted(sums, (np.arange(count) + 0.5) * share), share


def as_weighted(rows: np.ndarray | WeightedRows, weights: np.ndarray | None = None) -> WeightedRows:
    """Return a matrix with the weights of its rows as one object; such an object as it is."""
    if not isinstance(rows, WeightedRows):
        return MatrixRows(rows, weights)
    if weights is not None:
        raise ParameterError("These rows already have weights. Leave weights out.")
    return rows


def sample_stride(shape: tuple[int, int]) -> int:
    """Return k such that every k-th row is in the sample of rows of this shape; one: all are."""
    return max(1, shape[0] * shape[1] // _SAMPLE_CELLS)


Function = Callable[[np.ndarray], np.ndarray]
Fused = Callable[[np.ndarray, np.ndarray], float]

_GRID = np.concatenate([np.linspace(0.01, 5, 400), np.linspace(5, 40, 200)])
_ODDNESS = 1e-8  # of f's size on the grid: how far from linear an odd part may be


@dataclass(frozen=True)
class LinearOddLoss:
    """Computes f(z) = g(z) - (a/2) z, the loss of margin z, from its even part g.

    Parameters
    ----------
    name : str
        The name of the loss.
    a : float
        The constant of the odd part.
    even : callable
        The even part g.
    slope : callable
        Its derivative g'.
    second : callable
        Its second derivative g''.
    link : callable or None
        The probability of the second class at a score; None where the loss has none.
    joint : bool
        Whether three classes or more have one joint model, softmax, instead of one against the
        rest.
    steepest : float or None
        The supremum of g' in units of a/2, which decides where a minimiser exists without a
        penalty; None where it is not known.
    untrainable : str
        The reason why nothing can be learnt with this loss, or empty.
    fused : callable or None
        Overwrites scores with weighted slopes and returns the weighted sum of g
        (`suffice.kernels.models`).
    """

    name: str
    a: float
    even: Function
    slope: Function
    second: Function
    link: Function | None = None
    joint: bool = False
    steepest: float | None = None
    untrainable: str = ""
    fused: Fused | None = None

    @property
    def curvature(self) -> float:
        """g''(0), of H = lam I + g''(0) S."""
        return float(self.second(np.zeros(1))[0])

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Let a loss of this package travel to other processes by its name."""
        built_in = LOSSES.get(self.name) is self
        return (loss_named, (self.name,)) if built_in else super().__reduce__()

    def __call__(self, margins: np.ndarray) -> np.ndarray:
        """Return the loss at each margin y <theta, x>."""
        return self.even(margins) - self.a / 2 * margins


# Table 1 of the paper; a as in Theorem 3.
LOSSES: Mapping[str, LinearOddLoss] = {
    loss.name: loss
    for loss in (
        LinearOddLoss(
            "logistic",
            1.0,
            even=lambda z: np.logaddexp(z / 2, -z / 2),
            slope=lambda z: np.tanh(z / 2) / 2,
            second=lambda z: expit(z) * expit(-z),
            link=expit,
            joint=True,
            steepest=1.0,
            fused=logistic_slopes,
        ),
        LinearOddLoss(
            "square",
            4.0,
            even=lambda z: 1 + z**2,
            slope=lambda z: 2 * z,
            second=lambda z: np.full_like(z, 2.0),
            link=lambda z: np.clip((1 + z) / 2, 0, 1),
            steepest=np.inf,
        ),
        LinearOddLoss(
            "matsushita",
            2.0,
            even=lambda z: np.sqrt(1 + z**2),
            slope=lambda z: z / np.sqrt(1 + z**2),
            second=lambda z: (1 + z**2) ** -1.5,
            link=lambda z: (1 + z / np.sqrt(1 + z**2)) / 2,
            steepest=1.0,
        ),
        LinearOddLoss(
            "linear",
            2.0,
            even=np.zeros_like,
            slope=np.zeros_like,
            second=np.zeros_like,
            steepest=0.0,
        ),
    )
}
_ALIASES = {"softmax": "logistic"}  # one loss: softmax of two classes is logistic in their margin
NOTHING_TO_LEARN = (
    "no margin has a smaller loss than zero, so theta = 0 minimises it for any labels and there is"
    " nothing to learn with it. Use logistic or matsushita."
)
_REFUSED = {
    "hinge": "The hinge loss is not linear-odd: f(z) - f(-z) is not linear between -1 and 1, so"
    " the mean operator does not suffice for it. Use logistic or matsushita.",
    "rho": f"The rho-loss equals 1 + 2 rho max(0, -z): {NOTHING_TO_LEARN}",
}


def loss_named(loss: "str | LinearOddLoss | Function") -> LinearOddLoss:
    """Return the loss of this name, or of a function after checking that it is linear-odd."""
    if callable(loss):
        chosen = loss if isinstance(loss, LinearOddLoss) else from_function(loss)
        if chosen.untrainable:
            raise ParameterError(
                f"The {chosen.name} loss cannot be trained with: {chosen.untrainable}"
            )
        return chosen
    if loss in _REFUSED:
        raise ParameterError(_REFUSED[loss])
    name = _ALIASES.get(loss, loss)
    if name not in LOSSES:
        choices = ", ".join([*LOSSES, *_ALIASES])
        raise ParameterError(f"loss must be one of {choices}, or a function.")
    return LOSSES[name]


def from_even(even: Function, a: float, name: str = "custom") -> LinearOddLoss:
    """Return the loss g(z) - (a/2) z of an even function g (Lemma 5 of the paper).

    Derivatives are numerical: g' to about 1e-9 of g's size, g'' to about 1e-6.
    """
    values = np.asarray(even(_GRID), dtype=np.float64)
    gap = float(np.abs(values - even(-_GRID)).max())
    if not gap <= _ODDNESS * (1 + np.abs(values).max()):
        raise ParameterError(f"g must be even: g(z) - g(-z) reaches {gap:.3g}.")
    if not (np.isfinite(a) and a > 0):
        raise ParameterError(f"a must be a positive number. It is {a!r}.")
    near, far = 1e-6, 1e-3  # steps of numerical derivatives, first and second
    gain = float(even(np.zeros(1))[0] - (values - a / 2 * _GRID).min())
    return LinearOddLoss(
        name,
        float(a),
        even=even,
        slope=lambda z: (even(z + near) - even(z - near)) / (2 * near),
        second=lambda z: (even(z + far) - 2 * even(z) + even(z - far)) / far**2,
        untrainable="" if gain > _ODDNESS else NOTHING_TO_LEARN,
    )


def odd_line(loss: Function) -> tuple[float, float]:
    """Return a of the line -a z nearest to f(z) - f(-z), and by how much they differ at most.

    Margins up to 40 are looked at; the difference is rounding where f is linear-odd.
    """
    odd = np.asarray(loss(_GRID), dtype=np.float64) - np.asarray(loss(-_GRID), dtype=np.float64)
    if odd.shape != _GRID.shape or not np.isfinite(odd).all():
        raise ParameterError("a loss must map an array of margins to as many finite numbers.")
    a = -float(odd @ _GRID / (_GRID @ _GRID))
    return a, float(np.abs(odd + a * _GRID).max())


def from_function(loss: Function, name: str = "custom") -> LinearOddLoss:
    """Return a user's loss f in its factored form; the error says by how much f fails."""
    a, gap = odd_line(loss)
    if gap > _ODDNESS * (1 + abs(a) * _GRID[-1]):
        raise ParameterError(
            f"This loss is not linear-odd: f(z) - f(-z) differs from the line {-a:.4g} z by up to"
            f" {gap:.3g}. The mean operator does not suffice for it. Use logistic or matsushita."
        )
    return from_even(lambda z: (loss(z) + loss(-z)) / 2, a, name)


@dataclass(frozen=True)
class Penalty:
    """Computes lam (mixing ||theta||_1 + (1 - mixing)/2 ||theta||_2^2), or nothing at all.

    The intercept's coordinate has the penalty (lam/2) theta_d^2 whatever the mixture: a 1-norm
    would set it to zero, and with it the proportion of the classes.

    A penalty of your own inherits from this class. `weights` may give each coordinate its own
    weight, the same for all classes, and `smooth_part` may be another function than the square.
    Give it another name than those of `PENALTIES`: learners know these.

    Parameters
    ----------
    name : str
        The name of the penalty; "none" for no penalty at all.
    mixing : float, default=0.0
        The weight of the 1-norm, between 0 and 1.
    """

    name: str
    mixing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.mixing <= 1:
            raise ParameterError(
                f"mixing, the weight of the 1-norm, must lie between 0 and 1; got {self.mixing!r}."
            )

    @property
    def smooth(self) -> bool:
        """Whether there is no 1-norm in it."""
        return self.mixing == 0

    def weights(
        self, lam: float, shape: tuple[int, ...], *, intercept: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of |theta_j| and the weight of theta_j^2 / 2, for each entry."""
        strength = 0.0 if self.name == "none" else lam
        absolute = np.full(shape, strength * self.mixing)
        squared = np.full(shape, strength * (1 - self.mixing))
        if intercept:
            absolute[-1], squared[-1] = 0.0, strength
        return absolute, squared

    def smooth_part(
        self, theta: np.ndarray, squared: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the value of all but the 1-norm, and per entry its first and second derivative.

        ``squared`` are the weights of theta_j^2 / 2, of theta's shape. Another function of each
        theta_j must be convex; where it is flat, a risk may have no minimiser.
        """
        return float(np.vdot(squared, theta**2)) / 2, squared * theta, squared

    @property
    def is_square(self) -> bool:
        """Whether the smooth part is a sum of squares, of which more is known than of others."""
        return type(self).smooth_part is Penalty.smooth_part


PENALTIES = {
    "l2": Penalty("l2"),
    "l1": Penalty("l1", 1.0),
    "elastic-net": Penalty("elastic-net", 0.5),
    "none": Penalty("none"),
}


def penalty_named(penalty: str | Penalty) -> Penalty:
    """Return the penalty of this name, or the one that is given."""
    if isinstance(penalty, Penalty):
        return penalty
    if penalty not in PENALTIES:
        raise ParameterError(f"penalty must be one of {', '.join(PENALTIES)}.")
    return PENALTIES[penalty]


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


# Moves of parameters, each with how much the gradient bent along it.
Pairs = list[tuple[np.ndarray, np.ndarray]]


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
    pairs: Pairs = []
    while residual(at) > tol and used < max_iter:
        if risk.absolute.any():
            at, steps, reached = _descend_with_1norm(risk, at, tol, max_iter - used)
            used += steps
            if not reached < value:  # it also ends where one step gains nothing: then start anew
                break
            value = reached
            continue
        patience = cost if metric is None else 2 * cost
        at, steps, stalled, pairs = _descend(
            risk, at, metric, tol=tol, cost=patience, most=max_iter - used
        )
        used += steps
        if residual(at) > tol and used < max_iter:
            if stalled and metric is not None:
                at = _polish(risk, at, metric, tol)
                break
            metric = roots(at)
    goal = tol * _POLISHED_SHARE
    if polished and used < max_iter and residual(at) > goal and pairs:
        at = _polish(risk, at, None, goal, pairs)
    if polished and used < max_iter and residual(at) > goal:
        near = roots(at) if metric is None or metric is given else metric
        at = _polish(risk, at, near, goal)
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
) -> tuple[np.ndarray, int, bool, Pairs]:
    """Return the end of some steps of L-BFGS, their number, and whether it found no way on.

    Without a metric also what it remembers of them, which says how the gradient bends.

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
    pairs: Pairs = []
    if metric is None and not risk.absolute.any():
        last = optimum.hess_inv
        pairs = [
            (m.reshape(start.shape), b.reshape(start.shape))
            for m, b in zip(last.sk, last.yk, strict=True)
        ]
    return theta(optimum.x), steps, not ended and steps < most, pairs


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


def _polish(
    risk: _Risk,
    at: np.ndarray,
    metric: list[np.ndarray] | None,
    tol: float,
    pairs: Pairs | None = None,
) -> np.ndarray:
    """Return the best end of steps that halve the rest, `_Risk.rest`, again and again.

    Near a minimiser a risk has no digits left to tell two points apart; its gradient has. So these
    are steps of L-BFGS of length one, without a search along them: those of Newton where the metric
    is the Hessian. ``pairs`` of moves and of how the gradient bent are those of steps before.
    """
    if metric is not None and risk.absolute.any():
        return _polish_with_1norm(risk, at, metric, tol)
    rest, waiting, pairs = risk.rest(at), 0, list(pairs or [])
    patience = 10 if metric is not None else 3
    best, least = at, float(np.abs(rest).max())
    while least > tol and waiting < patience:  # steps without half the rest are the last
        step, shares = rest, []
        for moved, bent in reversed(pairs):  # Nocedal & Wright 2006, Algorithm 7.4
            shares.append(float(np.vdot(moved, step) / np.vdot(moved, bent)))
            step = step - shares[-1] * bent
        if metric is None:
            moved, bent = pairs[-1]
            step = step * float(np.vdot(moved, bent) / np.vdot(bent, bent))
        else:
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
        dtrtrs(root, column, trans=int(transposed))[0]
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
        for share in np.ascontiguousarray(softmax_shares(scores).T):
            yield weights * share * (1 - share)


@dataclass(frozen=True)
class _PairCurves:
    """Computes w_i p_k (1 - p_k), then w_i p_k p_j for each j < k, for every k of softmax."""

    def __call__(self, scores: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
        shares = softmax_shares(scores)
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
        size, slope, _ = self.penalty.smooth_part(parameters, squared)
        return even - float(np.vdot(parameters, pull)) + size, slopes - pull + slope

    def hessian(self, parameters: np.ndarray, lam: float = 0.0) -> np.ndarray:
        """Return the Hessian (d, d), or (dK, dK) in the order of ``parameters.ravel()``.

        The squared penalty is in it, a 1-norm has no curvature. Above 4000 rows it is refused.
        """
        _, squared = self.penalty.weights(lam, self.operator.shape, intercept=self.intercept)
        bend = self.penalty.smooth_part(parameters, squared)[2].ravel()
        if bend.size > _LARGEST_HESSIAN:
            raise ParameterError(
                f"A Hessian of {bend.size} rows is too large. Use fewer features or classes."
            )
        if self.loss is not None:
            return self.rows.grams(parameters, _ColumnCurves(self.loss))[0] + np.diag(bend)
        width, classes = self.operator.shape
        blocks = iter(self.rows.grams(parameters, _PairCurves()))
        full = np.empty((width, classes, width, classes))
        for k in range(classes):
            full[:, k, :, k] = next(blocks)
            for j in range(k):
                full[:, k, :, j] = full[:, j, :, k] = -next(blocks)
        return full.reshape(bend.size, bend.size) + np.diag(bend)

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
        share = min(1.0, self.metric_rows / len(self.rows))
        cost = max(4, int(share * self.operator.size / _EVALUATIONS))
        cost = cost if self.has_metric else max_iter
        solve = partial(minimise, start=begin, tol=tol, max_iter=max_iter, cost=cost, metric=metric)
        count = None if absolute.any() else self.metric_rows

        def roots(theta: np.ndarray) -> list[np.ndarray]:
            return self.hessian_roots(theta, self.penalty.smooth_part(theta, squared)[2], count)

        if self.loss is not None or absolute.any() or not self.penalty.is_square:
            smooth = partial(self._smooth_risk, squared=squared)
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
            lambda theta: roots(_centred(theta) + common),
            polished=polished,
        )
        return replace(solution, parameters=_centred(solution.parameters) + common)

    @property
    def has_metric(self) -> bool:
        """Whether the Hessian's blocks are small enough to be held."""
        return self.rows.shape[1] * self.operator.size <= _LARGEST_METRIC

    @property
    def metric_rows(self) -> int:
        """The number of rows that a metric is computed of: two for each coordinate, or more."""
        return max(1000, 2 * self.rows.shape[1])

    def _near(
        self, lam: float, tol: float, max_iter: int
    ) -> tuple[np.ndarray, list[np.ndarray] | None]:
        """Return where to begin: at the minimiser on a sample of the rows, with its metric.

        The metric is that of a risk without a 1-norm. Of many rows in memory ten times as many as a
        metric needs are the sample. Where rows are few nothing is known, and the start is zero.
        """
        rows = self.rows.sample
        if isinstance(rows, MatrixRows) and rows is self.rows:
            stride = len(rows) // (10 * self.metric_rows)
            rows = rows.thinned(stride if stride >= 4 else 1)  # what it costs is less than it saves
        small = self.on_rows(rows)
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
        bend = self.penalty.smooth_part(near, squared)[2]
        return near, small.hessian_roots(near, bend, self.metric_rows) if smooth else None

    def hessian_roots(
        self, parameters: np.ndarray, bend: np.ndarray, count: int | None = None
    ) -> list[np.ndarray]:
        """Return the upper Cholesky factor of each column's block of the Hessian, or nearly so.

        ``bend`` are the second derivatives of the penalty, of the parameters' shape. ``count`` rows
        may stand for all of a matrix.
        """
        curves = _ColumnCurves(self.loss)
        if count is None or not isinstance(self.rows, MatrixRows):  # which cost a pass all the same
            blocks = self.rows.grams(parameters, curves)
        else:
            blocks = self.rows.sample.near_grams(parameters, curves, count)
        extras = bend.reshape(len(bend), -1)
        roots = []
        for block, extra in zip(blocks, extras.T, strict=True):  # raised where it is singular
            raised = block + np.diag(extra + 1e-12 * (1 + block.diagonal().max()))
            roots.append(np.asarray(cholesky(raised, check_finite=False)))
        return roots


def _centred(parameters: np.ndarray) -> np.ndarray:
    """Return a matrix without the mean of its columns."""
    return parameters - parameters.mean(axis=1, keepdims=True)
