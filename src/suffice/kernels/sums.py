"""Exact weighted sums of rows on a lattice: floats go in, integers come out.

x is put on the lattice as rint(x / step), with |rint(x / step)| at most LARGEST_CODE, and weights
are small integers. Integers below 2^53 add exactly in a float64, so sums run at the speed of
floats, in any order and in any split, and the result does not depend on either.
"""

import numba
import numpy as np

from suffice.kernels import TILE
from suffice.kernels.mapping import map_tile

__all__ = ["LARGEST_CODE", "mapped_sums", "sums_of_column", "sums_of_rows"]

LARGEST_CODE = 2**31  # times TILE or _ROWS_AT_ONCE, and weights up to 2^10: still below 2^53
_ROWS_AT_ONCE = 1024

# "reassoc" lets the compiler vectorise a sum; the terms are integers, so no order changes it.
_EXACT = {"reassoc", "nsz"}


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_EXACT)
def _add_tile(tile, size, weights, inverse_step, totals):
    """Put a tile on the lattice, in place, and add its weighted sums to ``totals`` (r, width)."""
    for j in range(tile.shape[0]):
        codes = tile[j]
        for i in range(size):
            codes[i] = np.rint(codes[i] * inverse_step)
        for r in range(weights.shape[0]):
            weight = weights[r]
            total = 0.0
            for i in range(size):
                total += weight[i] * codes[i]
            totals[r, j] += np.int64(total)


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_EXACT)
def _raise_reach(tile, size, constant, ones, twos, reach):
    """Raise ``reach`` to the largest 1-norm and squared 2-norm of the tile's rows, in steps.

    Each row has one more coordinate, ``constant``.
    """
    ones[:size] = abs(constant)
    twos[:size] = constant * constant
    for j in range(tile.shape[0]):
        codes = tile[j]
        for i in range(size):
            ones[i] += abs(codes[i])
            twos[i] += codes[i] * codes[i]
    for i in range(size):
        reach[0] = max(reach[0], ones[i])
        reach[1] = max(reach[1], twos[i])


@numba.njit(nogil=True, cache=True, boundscheck=False)
def mapped_sums(columns, weights, affine, constant, inverse_step, totals, reach):
    """Map, put on the lattice and sum rows in one pass; return how many rows are not finite.

    ``affine`` is (mean, 1/scale, bound); ``weights`` (r, rows) holds integers; ``totals``
    (r, width) gains sum_i w_ri rint(x_i / step); ``reach`` rises to the largest row norms.
    """
    mean, inverse_scale, bound = affine
    width, rows = columns.shape
    tile = np.empty((width, TILE))
    factors, ones, twos = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    local = np.empty((weights.shape[0], TILE))
    bad = 0
    for start in range(0, rows, TILE):
        end = min(start + TILE, rows)
        size = end - start
        local[:, :size] = weights[:, start:end]
        bad += map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        if bad:
            return bad
        _add_tile(tile, size, local, inverse_step, totals)
        _raise_reach(tile, size, constant, ones, twos, reach)
    return 0


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_EXACT)
def sums_of_column(column, weights, inverse_step, totals):
    """Add sum_i w_ri rint(x_i / step) to ``totals`` (r,), for one feature as it is."""
    for start in range(0, column.size, _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, column.size)
        values = column[start:end]
        for r in range(weights.shape[0]):
            weight = weights[r, start:end]
            total = 0.0
            for i in range(end - start):
                total += weight[i] * np.rint(values[i] * inverse_step)
            totals[r] += np.int64(total)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def sums_of_rows(rows, weights, inverse_step, totals):
    """Do what `sums_of_column` does for C-ordered rows in memory (rows, width)."""
    count, width = rows.shape
    partial = np.empty(width)
    for r in range(weights.shape[0]):
        weight = weights[r]
        for start in range(0, count, _ROWS_AT_ONCE):
            partial[:] = 0.0
            for i in range(start, min(start + _ROWS_AT_ONCE, count)):
                row = rows[i]
                w = weight[i]
                for j in range(width):
                    partial[j] += w * np.rint(row[j] * inverse_step)
            for j in range(width):
                totals[r, j] += np.int64(partial[j])
