"""Statistics and transformations of public columns, block by block."""

import numba
import numpy as np

__all__ = ["add_moments", "standardise_and_clip"]

_TILE = 1024  # rows whose norms are kept at hand while the columns pass by


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "nsz", "contract"})
def add_moments(block, shift, counts, sums, squares):
    """Add count, sum and sum of squares of (x - shift) per column; a missing value (NaN) is none.

    The data are shifted by a value of each column, so that squares of large numbers do not cancel.
    """
    rows, columns = block.shape
    for j in range(columns):
        origin = shift[j]
        total = 0.0
        square = 0.0
        missing = 0
        for i in range(rows):
            x = block[i, j]
            seen = x == x
            v = x - origin if seen else 0.0
            missing += 0 if seen else 1
            total += v
            square += v * v
        counts[j] += rows - missing
        sums[j] += total
        squares[j] += square


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath={"reassoc", "nsz", "contract"})
def standardise_and_clip(block, mean, inverse_scale, bound):
    """Replace x by (x - mean) / scale, then shrink rows with a 2-norm above ``bound``; in place."""
    rows, columns = block.shape
    norms = np.empty(_TILE)
    for start in range(0, rows, _TILE):
        size = min(_TILE, rows - start)
        norms[:size] = 0.0
        for j in range(columns):
            origin, factor = mean[j], inverse_scale[j]
            for i in range(size):
                v = (block[start + i, j] - origin) * factor
                block[start + i, j] = v
                norms[i] += v * v
        for i in range(size):
            norm = np.sqrt(norms[i])
            norms[i] = bound / norm if norm > bound else 1.0
        for j in range(columns):
            for i in range(size):
                block[start + i, j] *= norms[i]
