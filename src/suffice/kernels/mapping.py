"""The affine end of the pipeline, and exact sums of mapped rows.

Floats are added in one order, whatever machine this runs on: no sum is reordered and no product is
fused with a sum, so that a row has the same coordinates, to the last bit, in any batch.
"""

import numba
import numpy as np

__all__ = [
    "LARGEST_CODE",
    "TILE",
    "logistic_slopes",
    "map_columns",
    "mapped_sums",
    "softmax_slopes",
]


TILE = 256
LARGEST_CODE = 2**31  # times TILE rows, and weights up to 2^10: far below 2^53


@numba.njit(nogil=True, cache=True, boundscheck=False)
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


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _add_tile(tile, size, weights, inverse_step, totals, products):
    """Put a tile on the lattice, in place, and add its weighted sums to ``totals`` (r, width).

    All are integers far below 2^53, so that halves can be added to halves: exact, and vectorised.
    """
    for j in range(tile.shape[0]):
        codes = tile[j]
        for i in range(size):
            codes[i] = np.rint(codes[i] * inverse_step)
        for r in range(weights.shape[0]):
            weight = weights[r]
            for i in range(size):
                products[i] = weight[i] * codes[i]
            products[size:] = 0.0
            half = TILE // 2
            while half:
                for i in range(half):
                    products[i] += products[half + i]
                half //= 2
            totals[r, j] += np.int64(products[0])


@numba.njit(nogil=True, cache=True, boundscheck=False)
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
    local, products = np.empty((weights.shape[0], TILE)), np.empty(TILE)
    bad = 0
    for start in range(0, rows, TILE):
        end = min(start + TILE, rows)
        size = end - start
        local[:, :size] = weights[:, start:end]
        bad += _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        if bad:
            return bad
        _add_tile(tile, size, local, inverse_step, totals, products)
        _raise_reach(tile, size, constant, ones, twos, reach)
    return 0


@numba.njit(nogil=True, cache=True, boundscheck=False)
def logistic_slopes(scores, weights):
    """Do so for g(z) = log(e^(z/2) + e^(-z/2)), from e^(-|z|), which never overflows."""
    total = 0.0
    for i in range(scores.size):
        z = scores[i]
        e = np.exp(-abs(z))
        slope = 0.5 * (1.0 - e) / (1.0 + e)
        total += weights[i] * (0.5 * abs(z) + np.log1p(e))
        scores[i] = weights[i] * (slope if z >= 0 else -slope)
    return total


@numba.njit(nogil=True, cache=True, boundscheck=False)
def softmax_slopes(scores, weights):
    """Do so for g(z) = log sum_k e^(z_k), row by row of scores (rows, K)."""
    total = 0.0
    for i in range(scores.shape[0]):
        row = scores[i]
        largest = row.max()
        mass = 0.0
        for k in range(row.size):
            row[k] = np.exp(row[k] - largest)
            mass += row[k]
        total += weights[i] * (largest + np.log(mass))
        share = weights[i] / mass
        for k in range(row.size):
            row[k] *= share
    return total
