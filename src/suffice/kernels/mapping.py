"""The affine end of the pipeline, and the moments that it is fitted with."""

import numba
import numpy as np

from suffice.kernels import TILE

__all__ = ["add_moments", "map_columns", "map_tile"]

_FLOATS = {"reassoc", "nsz", "contract"}  # public numbers: the order of a sum may change


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_FLOATS)
def add_moments(columns, shift, counts, sums, squares):
    """Add count, sum and sum of squares of (x - shift) per column; a missing value (NaN) is none.

    The data are shifted by a value of each column, so that squares of large numbers do not cancel.
    """
    width, rows = columns.shape
    for j in range(width):
        column = columns[j]
        origin = shift[j]
        total, square, seen = 0.0, 0.0, 0.0
        for i in range(rows):
            here = 1.0 if column[i] == column[i] else 0.0
            v = column[i] - origin if column[i] == column[i] else 0.0
            seen += here
            total += v
            square += v * v
        counts[j] += np.int64(seen)
        sums[j] += total
        squares[j] += square


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_FLOATS)
def map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors):
    """Write clip((x - mean) / scale, bound) of rows start..end into ``tile`` (width, TILE).

    A row whose 2-norm exceeds ``bound`` is shrunk to it. Returns how many rows are not finite.
    """
    size = end - start
    factors[:size] = 0.0
    for j in range(columns.shape[0]):
        source, target = columns[j, start:end], tile[j]
        origin, factor = mean[j], inverse_scale[j]
        for i in range(size):
            v = (source[i] - origin) * factor
            target[i] = v
            factors[i] += v * v
    bad = 0
    for i in range(size):
        norm = np.sqrt(factors[i])
        bad += 0 if norm < np.inf else 1
        factors[i] = bound / norm if norm > bound else 1.0
    for j in range(columns.shape[0]):
        target = tile[j]
        for i in range(size):
            target[i] *= factors[i]
    return bad


@numba.njit(nogil=True, cache=True, boundscheck=False)
def map_columns(columns, mean, inverse_scale, bound, out):
    """Write the mapped columns into ``out`` (width, rows); return how many rows are not finite."""
    width, rows = columns.shape
    tile = np.empty((width, TILE))
    factors = np.empty(TILE)
    bad = 0
    for start in range(0, rows, TILE):
        end = min(start + TILE, rows)
        bad += map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        for j in range(width):
            out[j, start:end] = tile[j, : end - start]
    return bad
