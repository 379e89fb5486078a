"""Sums of rows by label, exact on a lattice: the mean operator before it is divided."""

import math
from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError
from suffice.kernels import sums as kernel

__all__ = ["LabelledSums", "RowReach", "lattice_step"]


def lattice_step(bound: float) -> float:
    """Return the power of two that puts numbers up to ``bound`` on at most 2^30 integers."""
    step = 2.0 ** (math.ceil(math.log2(bound)) - 30)
    if not 0 < step < math.inf or bound / step > kernel.LARGEST_CODE:
        raise ParameterError("the norm bound is too large or too small for a lattice.")
    return step


@dataclass(frozen=True)
class RowReach:
    """The largest norms that a row has on the lattice, in steps, rounded up."""

    l1: int
    l2: float


class LabelledSums:
    """Computes sum_i y_i k_i (two classes, y = -1, +1) or sums per class, k_i = rint(x_i / step).

    An accumulator over pairs (matrix of rows, codes 0..K-1). Its state is integers: any split,
    order or tree of merges gives the same numbers, so neither leaks through rounding.
    """

    def __init__(self, width: int, classes: int, step: float) -> None:
        self._inverse = 1.0 / step
        self._binary = classes == 2
        shape = (width,) if self._binary else (classes, width)
        self._totals = np.zeros(shape, dtype=np.int64)
        self._reach = np.zeros(2)

    def update(self, batch: tuple[np.ndarray, np.ndarray]) -> None:
        """Take in rows (Fortran order) and their class codes."""
        rows, codes = batch
        if self._binary:
            signs = 2.0 * codes - 1.0
            kernel.signed_sums(rows, signs, self._inverse, self._totals, self._reach)
        else:
            kernel.class_sums(rows, codes, self._inverse, self._totals, self._reach)

    def merge(self, other: "LabelledSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals
        self._reach = np.maximum(self._reach, other._reach)

    def result(self) -> np.ndarray:
        """Return the integer sums: (width,) for two classes, else (classes, width)."""
        return self._totals.copy()

    @property
    def reach(self) -> RowReach:
        """The largest norms of a single row; public whenever the rows are."""
        # l1 adds integers below 2^53: exact. l2 adds squares: at most width roundings of 2^-53.
        width = self._totals.shape[-1]
        return RowReach(
            int(self._reach[0]), math.sqrt(self._reach[1]) * (1 + (width + 4) * 2.0**-52)
        )
