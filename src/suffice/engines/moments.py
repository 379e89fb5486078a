"""Moments of the columns of public rows, from exact sums."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from suffice.kernels import moments as kernel

__all__ = ["ColumnMoments", "Moments"]


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of each column: ``mean`` and ``deviation`` of the values that are there."""

    count: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    wrong: np.ndarray


class ColumnMoments:
    """Computes mean and standard deviation of columns; an accumulator.

    The mean is rounded once, the deviation as a variance and as its root. Sums of values and of
    squares are exact, so that n S2 - S1^2 does not cancel and nothing depends on the order of rows.
    A value that is not finite, or too large to be squared, counts as ``wrong``.
    """

    def __init__(self, width: int) -> None:
        self._counts = np.zeros(width, dtype=np.int64)
        self._wrong = np.zeros(width, dtype=np.int64)
        self._sums = np.zeros((width, kernel.SUM_WORDS), dtype=np.int64)
        self._squares = np.zeros((width, kernel.SQUARE_WORDS), dtype=np.int64)

    def update(self, columns: np.ndarray) -> None:
        """Take in columns (width, rows); NaN is missing."""
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)

    def merge(self, other: "ColumnMoments") -> None:
        """Take in everything that ``other`` has seen."""
        self._counts += other._counts
        self._wrong += other._wrong
        self._sums += other._sums
        self._squares += other._squares

    def result(self) -> Moments:
        """Return the moments; of a column without values they are zero."""
        pairs = [self._moments(j) for j in range(len(self._counts))]
        mean, deviation = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return Moments(self._counts.copy(), mean.copy(), deviation.copy(), self._wrong.copy())

    def _moments(self, j: int) -> tuple[float, float]:
        count = max(int(self._counts[j]), 1)
        total, squares = _integer(self._sums[j]), _integer(self._squares[j])
        # In units of 2^-1074, and of its square: var = (n S2 - S1^2) / n^2.
        variance = Fraction(count * squares - total * total, count * count << 2148)
        return float(Fraction(total, count << 1074)), _root(variance)


def _integer(words: np.ndarray) -> int:
    """Return the integer of words of 32 bits, carries and all; the last word has the sign."""
    return sum(int(word) << (32 * k) for k, word in enumerate(words.tolist()))


def _root(value: Fraction) -> float:
    """Return the square root, of numbers as small as a float's square too."""
    if not value:
        return 0.0
    half = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    near = value / Fraction(2) ** (2 * half)  # of a size that a float holds well
    return math.ldexp(math.sqrt(float(near)), half)
