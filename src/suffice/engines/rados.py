"""Exact sums of rows over many random subsets at once: rados before noise.

Whoever draws the subsets (owner/rados/signs.py) passes them in with rows; nothing is drawn here.
"""

import numpy as np

from suffice.errors import ParameterError
from suffice.kernels import rados as kernel

__all__ = ["HadamardSums", "SubsetSums", "default_count"]

# Rows between two flushes: codes of at most 2^31, and twice each, add exactly in a float64.
_EXACT_ROWS = 2**20


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
        if rows > _EXACT_ROWS:
            raise ParameterError(
                "A batch has too many rows to be added exactly. Use smaller batches."
            )
        self._rows += rows
        if self._rows > _EXACT_ROWS:
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
