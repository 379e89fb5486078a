"""Exact sums of rows before noise: mean operators, moments, and sums over subsets (rados).

Subsets are passed in with rows by whoever draws them; nothing is drawn here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suffice.errors import ParameterError
from suffice.kernels import maps, sums
from suffice.kernels import rados as kernel
from suffice.kernels.sums import code_columns
from suffice.tables.pipeline import Pipeline


def lattice_step(bound: float) -> float:
    """Return the power of two that puts numbers up to ``bound`` on at most 2^30 integers."""
    return 2.0 ** (math.ceil(math.log2(bound)) - 30)


def label_weights(codes: np.ndarray, classes: int) -> np.ndarray:
    """Return the weights of rows with these labels: -1, +1 for two classes, else one-hot rows.

    A label of no class, of code -1, weighs nothing.
    """
    if classes == 2:
        signs: np.ndarray = np.array([-1.0, 1.0, 0.0])[codes]  # -1 is the last
        return signs[None, :]
    one_hot: np.ndarray = codes[None, :] == np.arange(classes)[:, None]
    return one_hot.astype(np.float64)


class WeightedSums:
    """Computes sum_i w_ri rint(x_i / step), r weights per row; an accumulator.

    Its state is integers: any split, order or tree of merges gives the same numbers, so that
    nothing leaks through rounding and two engines agree to the last bit.
    """

    def __init__(self, width: int, weights: int, step: float) -> None:
        self._inverse_step = 1.0 / step
        self._totals = np.zeros((weights, width), dtype=np.int64)

    def update(self, batch: tuple[np.ndarray | Sequence[np.ndarray], np.ndarray]) -> None:
        """Take in rows (n, width), or a sequence of columns, and weights (r, n)."""
        rows, weights = batch
        if isinstance(rows, np.ndarray):
            rows = np.ascontiguousarray(rows)
            sums.sums_of_rows(rows, weights, self._inverse_step, self._totals)
            return
        for j, column in enumerate(rows):
            sums.sums_of_column(column, weights, self._inverse_step, self._totals[:, j])

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals

    def result(self) -> np.ndarray:
        """Return the integer sums, one row per weight."""
        return self._totals.copy()


@dataclass(frozen=True)
class RowReach:
    """The largest norms of a row on the rounding grid, in steps, rounded up.

    Parameters
    ----------
    l1 : int
        The largest 1-norm.
    l2 : float
        The largest 2-norm.
    """

    l1: int
    l2: float


class MappedSums(WeightedSums):
    """Computes the weighted sums of rows mapped by a pipeline, and the largest norms of a row.

    An accumulator over pairs (encoded columns, weights); mapping, clipping, the lattice and the
    sums are one pass.
    """

    def __init__(self, pipeline: Pipeline, weights: int) -> None:
        self._pipeline = pipeline
        self._affine = (pipeline.mean, 1.0 / pipeline.scale, pipeline.bound)
        self.step = lattice_step(pipeline.norm_bound)
        self._constant = float(np.rint(pipeline.intercept / self.step))
        self._reach = np.zeros(2)
        super().__init__(len(pipeline.outputs), weights, self.step)

    def update(self, batch: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[override]  # encoded columns only
        """Take in encoded columns (`Pipeline.encoded`) and the weights of their rows."""
        columns, weights = batch
        totals = np.zeros((len(weights), len(columns)), dtype=np.int64)
        bad = maps.mapped_sums(
            columns,
            weights,
            self._affine,
            self._constant,
            self._inverse_step,
            totals,
            self._reach,
        )
        if bad:
            self._pipeline.explain_holes(columns)
        self._totals[:, : len(columns)] += totals
        if self._constant:
            signs = weights.sum(axis=1).astype(np.int64)
            self._totals[:, -1] += signs * np.int64(self._constant)

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        super().merge(other)
        if isinstance(other, MappedSums):
            self._reach = np.maximum(self._reach, other._reach)

    @property
    def reach(self) -> RowReach:
        """The largest norms of a single row; public whenever the rows are."""
        # l1 adds integers below 2^53: exact. l2 adds squares: at most width roundings of 2^-53.
        slack = 1 + (self._totals.shape[1] + 4) * 2.0**-52
        l2 = math.sqrt(self._reach[1]) * slack
        if l2 > maps.LARGEST_CODE:
            raise ParameterError(
                "A row lies outside the rounding grid. The pipeline's bound is smaller than this"
                " row: fit a new pipeline."
            )
        return RowReach(int(self._reach[0]), l2)


LONGEST_CODE = 2**15  # the length of the longest row, in lattice steps
# Products of codes are at most 2^30, so that 2^22 of them add up exactly in a float64.
_EXACT_ROWS = 2**22

Integers = NDArray[np.int64]


def inner_length(width: int) -> int:
    """Return the length, in steps, that rows have before they are rounded to integers.

    Rounding adds at most sqrt(width) / 2 to it.
    """
    return LONGEST_CODE - math.ceil(math.sqrt(width) / 2)


@dataclass(frozen=True, eq=False)
class RowCodes:
    """Turns encoded columns into integer rows of length at most `LONGEST_CODE`.

    Attributes
    ----------
    pipeline : Pipeline
        How rows are scaled and clipped; it has no intercept.
    """

    pipeline: Pipeline

    @property
    def width(self) -> int:
        """The number of coordinates of a row."""
        return len(self.pipeline.mean)

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the codes (width, rows) of columns as `Pipeline.encoded` has them, as floats.

        No number is an error: what is missing, infinite or too large counts as declared.
        """
        pipeline = self.pipeline
        filled = (pipeline.stand_ins - pipeline.mean) / pipeline.scale
        affine = (pipeline.mean, 1.0 / pipeline.scale, pipeline.bound, filled)
        codes = np.empty((self.width, columns.shape[1]))
        inner = float(inner_length(self.width))
        code_columns(np.ascontiguousarray(columns), affine, inner, float(LONGEST_CODE), codes)
        return codes


@dataclass(frozen=True, eq=False)
class MomentTotals:
    """Exact sums over all rows, in lattice steps.

    Attributes
    ----------
    second : ndarray of shape (d, d)
        The sums of products of two coordinates.
    mean : ndarray of shape (d,)
        The sum of rows.
    operator : ndarray of shape (columns, d)
        For two classes one column, the sum of y x. Else K of them, the sums of (K e_y - 1) x.
    counts : ndarray of shape (columns,)
        For two classes the sum of y. Else the number of rows of each class.
    """

    second: Integers
    mean: Integers
    operator: Integers
    counts: Integers


class MomentSums:
    """Computes exact moments of integer rows and their labels; an accumulator.

    Its state is integers: any split, order or tree of merges gives the same numbers.
    """

    def __init__(self, width: int, classes: int) -> None:
        self._second = np.zeros((width, width), dtype=np.int64)
        self._mean = np.zeros(width, dtype=np.int64)
        self._by_class = np.zeros((classes, width), dtype=np.int64)
        self._counts = np.zeros(classes, dtype=np.int64)

    def update(self, batch: tuple[np.ndarray, np.ndarray]) -> None:
        """Take in codes (width, rows), as `RowCodes.of` returns them, and class codes.

        A label of no class, of code -1, belongs to none; its row counts all the same.
        """
        codes, labels = batch
        for start in range(0, codes.shape[1], _EXACT_ROWS):
            rows = slice(start, start + _EXACT_ROWS)
            self._add(codes[:, rows], labels[rows])

    def _add(self, codes: np.ndarray, labels: np.ndarray) -> None:
        classes = len(self._counts)
        members = (labels[None, :] == np.arange(classes)[:, None]).astype(np.float64)
        weights = np.vstack([members, np.ones((1, len(labels)))])
        sums = (weights @ codes.T).astype(np.int64)
        self._second += (codes @ codes.T).astype(np.int64)
        self._by_class += sums[:-1]
        self._mean += sums[-1]
        self._counts += members.sum(axis=1).astype(np.int64)

    def merge(self, other: "MomentSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._second += other._second
        self._mean += other._mean
        self._by_class += other._by_class
        self._counts += other._counts

    def result(self) -> MomentTotals:
        """Return the exact sums: private."""
        classes = len(self._counts)
        if classes == 2:
            operator = self._by_class[1:] - self._by_class[:1]
            counts = self._counts[1:] - self._counts[:1]
        else:
            operator = classes * self._by_class - self._by_class.sum(axis=0)
            counts = self._counts.copy()
        return MomentTotals(self._second.copy(), self._mean.copy(), operator, counts)


# Rows between two flushes: codes of at most 2^31, and twice each, add exactly in a float64.
_EXACT_RADO_ROWS = 2**20


def default_count(examples: int) -> int:
    """Return the default number of rados: min(1000, m/2) (Section 4), at least 2."""
    return max(2, min(1000, examples // 2))


class _Sums:
    """Sums over subsets: floats, or exact integers on a rounding grid (``step`` > 0)."""

    def __init__(self, shape: tuple[int, int], step: float) -> None:
        self._inverse_step = 1.0 / step if step else 0.0
        self._recent = np.zeros(shape)
        self._totals: np.ndarray = np.zeros(shape, dtype=np.int64 if step else np.float64)
        self._rows = 0

    def _make_room(self, rows: int) -> None:
        """Move the recent sums to the totals before floats could round an integer."""
        if rows > _EXACT_RADO_ROWS:
            raise ParameterError(
                "A batch has too many rows to be added exactly. Use smaller batches."
            )
        self._rows += rows
        if self._rows > _EXACT_RADO_ROWS:
            self._flush()
            self._rows = rows

    def _flush(self) -> None:
        self._totals += self._recent.astype(self._totals.dtype)
        self._recent[:] = 0.0

    def merge(self, other: "_Sums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals + other._recent.astype(other._totals.dtype)


class HadamardSums(_Sums):
    """Computes the sums of ``subsets`` subsets with structured signs; an accumulator.

    A batch is (rows (coordinates, rows), first, weights, signs, orders), as `kernels.rados` has
    them. Each example of a block lies in half of the block's subsets.
    """

    def __init__(self, coordinates: int, subsets: int, step: float) -> None:
        super().__init__((coordinates, subsets), step)

    def update(self, batch: tuple[np.ndarray, int, np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Take in rows with the secret signs and orders of their blocks."""
        rows, first, weights, signs, orders = batch
        self._make_room(rows.shape[1])
        kernel.hadamard_sums(rows, first, weights, signs, orders, self._inverse_step, self._recent)

    def result(self) -> np.ndarray:
        """Return the sums (subsets, coordinates), in lattice steps if there is a lattice."""
        self._flush()
        twice = self._totals.T
        return np.ascontiguousarray(twice // 2 if twice.dtype == np.int64 else twice / 2)


class SubsetSums(_Sums):
    """Computes the sums of ``subsets`` subsets given bit by bit; an accumulator.

    A batch is (rows (coordinates, rows), weights, bits), as `kernels.rados` has them.
    """

    def __init__(self, coordinates: int, subsets: int, step: float) -> None:
        super().__init__((subsets, coordinates), step)

    def update(self, batch: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Take in rows with the bits that say which subsets they are in."""
        rows, weights, bits = batch
        self._make_room(rows.shape[1])
        kernel.subset_sums(rows, weights, bits, self._inverse_step, self._recent)

    def result(self) -> np.ndarray:
        """Return the sums (subsets, coordinates), in lattice steps if there is a lattice."""
        self._flush()
        return self._totals.copy()
