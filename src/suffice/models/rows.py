"""Rows under weights, as risks use them: a matrix in memory, or rows that are read pass by pass.

A risk needs rows x_i with weights w_i only through sums over them of functions of their scores
<theta, x_i>. `WeightedRows` names those sums. `MatrixRows` computes them from a matrix,
`suffice.engines.streamed.StreamedRows` batch by batch, and every problem takes either.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property

import numpy as np
from threadpoolctl import ThreadpoolController

from suffice.errors import ParameterError

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
# Of the same: for each matrix sum_i c_i x_i x_i^T that is wanted its c_i, at least zero.
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
        stride = self._stride
        if stride == 1:
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
        step = max(1, CELLS_IN_CACHE // self.shape[1])
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
        grams = []
        for c in curves(self.matrix @ theta, self.weights):
            sizes = np.cumsum(c * self._squares)
            picked = np.searchsorted(sizes, (np.arange(count) + 0.5) / count * sizes[-1])
            each = np.maximum(self._squares[picked], np.finfo(float).tiny)
            grams.append(gram(self.matrix[picked], sizes[-1] / count / each))
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
