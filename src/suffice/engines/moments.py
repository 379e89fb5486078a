"""Exact sums of rows, of their products, and of rows by class: moments before noise."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suffice.kernels.unit_rows import LARGEST_NUMBER, code_columns
from suffice.tables.pipeline import Pipeline

__all__ = ["LONGEST_CODE", "MomentSums", "MomentTotals", "RowCodes", "inner_length"]

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
        filled = np.zeros(self.width)
        if pipeline.fill is not None and pipeline.map is None:
            declared = (pipeline.fill - pipeline.mean) / pipeline.scale
            filled = np.where(np.abs(declared) <= LARGEST_NUMBER, declared, 0.0)
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
