"""Exact weighted sums of rows as they are, on a lattice: floats go in, integers come out."""

import numba
import numpy as np

__all__ = ["sums_of_column", "sums_of_rows"]

_ROWS_AT_ONCE = 1024


@numba.njit(nogil=True, cache=True, boundscheck=False)
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
