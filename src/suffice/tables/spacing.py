"""Evenly spaced positions over rows that occur several times."""

import numpy as np

__all__ = ["evenly_spaced"]


def evenly_spaced(weights: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` positions, evenly spaced over rows that occur ``weights`` times each."""
    ends = np.cumsum(weights)
    middles = (2 * np.arange(count, dtype=np.int64) + 1) * ends[-1] // (2 * count)
    positions: np.ndarray = np.searchsorted(ends, middles, side="right")
    return positions
