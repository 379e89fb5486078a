"""Scores of exact values and of supports: outputs that only one of two data sets can give.

Noise hides a number only if every output is possible under both data sets. So these scores look at
outputs bit by bit: values that come again and again (a zero of either sign, a NaN, a bound, a
digest), the grid that a number lies on, numbers that are equal or a constant apart, and the range
of each. All are learnt from outputs that are never counted, so that they cost nothing.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from suffice.audit.scores import Score

__all__ = ["FEW_OUTCOMES", "counted_score", "lowest_bits", "support_scores", "varying"]

FEW_OUTCOMES = 64  # up to which each counts, however rare it is
_OFTEN = 3  # times that a value must come to be an atom, where there are more
_COMPARED = 8  # numbers, up to which all differences are looked at
_ZERO, _NO_NUMBER = 2000.0, 3000.0  # lowest bits of what has none, beyond those of floats
_MIXING = 0x9E3779B97F4A7C15  # an odd number without pattern: 2^64 over the golden ratio

Keys = Callable[[np.ndarray], np.ndarray]


def varying(outputs: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return which numbers of an output are not the same in all of these."""
    both = _bits(np.concatenate([outputs, neighbours]))
    return np.flatnonzero((both != both[0]).any(axis=0))


def support_scores(sample: np.ndarray, neighbours: np.ndarray) -> dict[str, Score]:
    """Return scores of exact values, grids, differences and ranges, learnt from outputs."""
    columns, both = varying(sample, neighbours), np.concatenate([sample, neighbours])
    scores: dict[str, Score] = {}
    for name, keys in _keys(columns).items():
        counted = counted_score(keys, sample, neighbours)
        if counted is not None:
            scores[name] = counted
    scores["equal numbers"] = _equal_numbers
    for j in columns:
        scores[f"number {j + 1}"] = _of_column(j, _ordered)
        scores[f"grid of number {j + 1}"] = _of_column(j, lowest_bits)
    if len(columns) > 1:
        scores["grid"] = lambda outputs: lowest_bits(outputs[:, columns]).min(axis=1)
    return {name: score for name, score in scores.items() if len(np.unique(score(both))) > 1}


def _of_column(j: int, score: Score) -> Score:
    return lambda outputs: score(outputs[:, j])


def _keys(columns: np.ndarray) -> dict[str, Keys]:
    """Return what may come again: whole outputs, single numbers, differences of two."""

    def difference(i: int, j: int) -> Keys:
        return lambda outputs: _bits(outputs[:, i] - outputs[:, j])

    keys: dict[str, Keys] = {"atoms": lambda outputs: _mixed(_bits(outputs[:, columns]))}
    keys |= {f"atoms of number {j + 1}": _of_column(j, _bits) for j in columns}
    if len(columns) <= _COMPARED:
        pairs = combinations(columns, 2)
        keys |= {f"difference of numbers {i + 1} and {j + 1}": difference(i, j) for i, j in pairs}
    return keys


def counted_score(keys: Keys, sample: np.ndarray, neighbours: np.ndarray) -> Score | None:
    """Return ln of how much oftener a key came under D than under D', or None if none comes again.

    A key that came too rarely, or never, scores 0. Half a time is added to every count.
    """
    with np.errstate(all="ignore"):
        first, second = keys(sample), keys(neighbours)
    values, indices = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = [
        np.bincount(part, minlength=len(values))
        for part in (indices[: len(first)], indices[len(first) :])
    ]
    if len(values) > FEW_OUTCOMES:
        often = counts[0] + counts[1] >= _OFTEN
        values, counts = values[often], [count[often] for count in counts]
    if not values.size:
        return None
    ratios = np.log((counts[0] + 0.5) / (counts[1] + 0.5))

    def score(outputs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            output_keys = keys(outputs)
        at = np.minimum(np.searchsorted(values, output_keys), len(values) - 1)
        return np.where(values[at] == output_keys, ratios[at], 0.0)

    return score


def lowest_bits(numbers: np.ndarray) -> np.ndarray:
    """Return e where a number is an odd multiple of 2^e: it lies on the grid of 2^e, no coarser.

    Noise in floating point shows by it what it was added to (Mironov 2012), and so does a step that
    follows from private data.
    """
    if np.issubdtype(numbers.dtype, np.integer):
        numbers = numbers.astype(np.longdouble)  # holds 64-bit integers exactly, where it can
    finite = np.isfinite(numbers)
    mantissa, exponent = np.frexp(np.where(finite, numbers, 1))
    digits = np.abs(np.ldexp(mantissa, 63)).astype(np.uint64)
    lowest = np.frexp((digits & (~digits + np.uint64(1))).astype(np.float64))[1] - 1
    low = np.where(digits == 0, _ZERO, exponent - 63.0 + lowest)
    return np.asarray(np.where(finite, low, _NO_NUMBER), dtype=np.float64)


def _equal_numbers(outputs: np.ndarray) -> np.ndarray:
    """Return how many numbers of an output are equal to another one."""
    equal = np.diff(np.sort(outputs, axis=1), axis=1) == 0
    return np.asarray(np.count_nonzero(equal, axis=1), dtype=np.float64)


def _ordered(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as floats, what is no number below all others."""
    floats = numbers.astype(np.float64)
    return np.where(np.isnan(floats), -np.inf, floats)


def _bits(outputs: np.ndarray) -> np.ndarray:
    """Return every number as the bits that it is stored in: -0 is not 0, and NaN equals itself."""
    is_integer = np.issubdtype(outputs.dtype, np.integer) or outputs.dtype == bool
    wide = np.ascontiguousarray(outputs, dtype=np.int64 if is_integer else np.float64)
    return np.asarray(wide.view(np.uint64))


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Return one key for each line of bits; two lines share one next to never."""
    key = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        key = (key ^ column) * np.uint64(_MIXING)
        key ^= key >> np.uint64(29)
    return key
