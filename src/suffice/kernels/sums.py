"""Exact weighted sums of rows as they are, on a lattice: floats go in, integers come out."""

import numba
import numpy as np

__all__ = ["LARGEST_NUMBER", "code_columns", "sums_of_column", "sums_of_rows"]


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


_TILE = 256
LARGEST_NUMBER = 1e150  # of a standardised number: squares of it neither overflow nor lose a row


@numba.njit(nogil=True, cache=True, boundscheck=False)
def code_columns(columns, affine, inner, most, out):
    """Write the integer codes of columns (width, rows) into ``out``, as floats.

    ``affine`` is (mean, 1/scale, bound, filled): a row becomes clip((x - mean) / scale, bound), in
    which a number that is not finite counts as ``filled`` of its column. Codes are
    rint(row inner / bound). A row of codes longer than ``most`` is shortened.
    """
    mean, inverse_scale, bound, filled = affine
    width, rows = columns.shape
    norms = np.empty(_TILE)
    lengths = np.empty(_TILE)
    for start in range(0, rows, _TILE):
        end = min(start + _TILE, rows)
        size = end - start
        norms[:size] = 0.0
        for j in range(width):
            source, target = columns[j, start:end], out[j, start:end]
            origin, factor, instead = mean[j], inverse_scale[j], filled[j]
            for i in range(size):
                v = (source[i] - origin) * factor
                v = v if abs(v) <= LARGEST_NUMBER else instead
                target[i] = v
                norms[i] += v * v
        for i in range(size):
            norm = np.sqrt(norms[i])
            norms[i] = inner / norm if norm > bound else inner / bound
        lengths[:size] = 0.0
        for j in range(width):
            target = out[j, start:end]
            for i in range(size):
                code = np.rint(target[i] * norms[i])
                target[i] = code
                lengths[i] += code * code
        for i in range(size):
            if lengths[i] > most * most:
                _shorten(out, start + i, most)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _shorten(out, row, most):
    """Shorten one row of codes to ``most``; its squares are added as integers."""
    total = np.int64(0)
    for j in range(out.shape[0]):
        code = np.int64(out[j, row])
        total += code * code
    factor = most / np.sqrt(np.float64(total)) * (1 - 1e-9)
    for j in range(out.shape[0]):
        out[j, row] = np.trunc(out[j, row] * factor) if factor < 1.0 else out[j, row]
