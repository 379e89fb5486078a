"""The affine end of the pipeline: its moments, its map, and exact sums of mapped rows."""

import numba
import numpy as np

__all__ = ["LARGEST_CODE", "TILE", "add_moments", "map_columns", "mapped_sums"]

TILE = 256
LARGEST_CODE = 2**31  # times TILE rows, and weights up to 2^10: far below 2^53

_FLOATS = {"reassoc", "nsz", "contract"}  # public numbers: the order of a sum may change
_EXACT = {"reassoc", "nsz"}  # integers: no order changes their sum


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
def _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors):
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
        bad += _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        for j in range(width):
            out[j, start:end] = tile[j, : end - start]
    return bad


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
    """Map, put on the lattice and sum rows in one pass; return 0, or the bad rows of a bad tile.

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
        bad += _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        if bad:
            return bad
        _add_tile(tile, size, local, inverse_step, totals)
        _raise_reach(tile, size, constant, ones, twos, reach)
    return 0
