"""Exact sums of rows on a lattice: floats go in, integers come out.

x is put on the lattice as rint(x / step). Integers below 2^53 add exactly in a float64, so sums run
at the speed of floats, in any order and in any split, and the result does not depend on either.
"""

import numba
import numpy as np

__all__ = ["LARGEST_CODE", "class_sums", "signed_sums", "signed_sums_of_rows"]

LARGEST_CODE = 2**31  # |rint(x / step)| may reach this
_TILE = 1024  # LARGEST_CODE * _TILE is far below 2^53

# "reassoc" lets the compiler vectorise a sum; the terms are integers, so no order changes it.
_EXACT = {"reassoc", "nsz"}


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_EXACT)
def signed_sums(block, signs, inverse_step, totals, reach):
    """Add sum_i signs_i rint(x_i / step) to ``totals``; raise ``reach`` to the largest row norms.

    ``reach`` holds the largest 1-norm and the largest squared 2-norm of a row, in steps.
    """
    rows, columns = block.shape
    ones = np.empty(_TILE)
    twos = np.empty(_TILE)
    for start in range(0, rows, _TILE):
        size = min(_TILE, rows - start)
        ones[:size] = 0.0
        twos[:size] = 0.0
        for j in range(columns):
            total = 0.0
            for i in range(size):
                code = np.rint(block[start + i, j] * inverse_step)
                total += signs[start + i] * code
                ones[i] += abs(code)
                twos[i] += code * code
            totals[j] += np.int64(total)
        for i in range(size):
            reach[0] = max(reach[0], ones[i])
            reach[1] = max(reach[1], twos[i])


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_EXACT)
def class_sums(block, codes, inverse_step, totals, reach):
    """Add sum_{i: codes_i = k} rint(x_i / step) to ``totals[k]``; ``reach`` as in `signed_sums`."""
    rows, columns = block.shape
    ones = np.empty(_TILE)
    twos = np.empty(_TILE)
    for start in range(0, rows, _TILE):
        size = min(_TILE, rows - start)
        ones[:size] = 0.0
        twos[:size] = 0.0
        for j in range(columns):
            for i in range(size):
                code = np.rint(block[start + i, j] * inverse_step)
                totals[codes[start + i], j] += np.int64(code)
                ones[i] += abs(code)
                twos[i] += code * code
        for i in range(size):
            reach[0] = max(reach[0], ones[i])
            reach[1] = max(reach[1], twos[i])


@numba.njit(nogil=True, cache=True, boundscheck=False)
def signed_sums_of_rows(rows, signs, inverse_step, totals):
    """Do what `signed_sums` does, without ``reach``, for C-ordered rows in memory."""
    count, columns = rows.shape
    partial = np.empty(columns)
    for start in range(0, count, _TILE):
        partial[:] = 0.0
        for i in range(start, min(start + _TILE, count)):
            sign = signs[i]
            for j in range(columns):
                partial[j] += sign * np.rint(rows[i, j] * inverse_step)
        for j in range(columns):
            totals[j] += np.int64(partial[j])
