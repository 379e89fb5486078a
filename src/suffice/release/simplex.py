"""Proportions: the nearest point of the simplex."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_proportions"]


def nearest_proportions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each row, the nearest one (2-norm) whose entries are >= 0 and sum to one."""
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    support = np.count_nonzero(falling > excess, axis=1) - 1
    return np.asarray(np.maximum(rows - excess[np.arange(len(rows)), support][:, None], 0.0))
