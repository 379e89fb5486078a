"""Rows as integer vectors of bounded length: standardise, fill, clip and round in one pass.

Floats are added in one order, so that a row has the same codes in any batch.
"""

import numba
import numpy as np

__all__ = ["LARGEST_NUMBER", "code_columns"]

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
