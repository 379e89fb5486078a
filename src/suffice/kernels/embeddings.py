"""Sums of kernel features for a ladder of bandwidths, each half of the one before.

Halving a bandwidth doubles the angles of Fourier features and multiplies the exponents of a
Gaussian (by four) or Laplace kernel (by two): cos 2a, sin 2a and k^2 cost a few products where a
new cosine or exponential would cost a call. An error doubles with each step: ten steps lose three
digits of sixteen.
"""

import numba
import numpy as np

__all__ = ["add_fourier_sums", "add_kernel_sums"]

# Taylor's terms for |a| <= 1: what is left out is below 1e-17.
_SIN = tuple((-1.0) ** k / np.prod(np.arange(1.0, 2 * k + 2)) for k in range(9))
_COS = tuple((-1.0) ** k / np.prod(np.arange(1.0, 2 * k + 1)) for k in range(10))


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath={"contract"})
def add_fourier_sums(angles, cells, halvings, sums):
    """Add the cosines and sines of every row's angles to the sums of its cell.

    ``angles`` (rows, F) are those of the widest bandwidth; divided by 2^halvings they must lie in
    [-1, 1]. ``cells`` (rows,) is overwritten nowhere; ``sums`` (levels, cells, 2, F) holds level e
    for the bandwidth that is 2^e times narrower.
    """
    levels, _, _, width = sums.shape
    small = 0.5**halvings
    cosine, sine = np.empty(width), np.empty(width)
    for i in range(angles.shape[0]):
        for f in range(width):
            a = angles[i, f] * small
            square = a * a
            s, c = _SIN[8], _COS[9]
            for k in range(7, -1, -1):
                s = s * square + _SIN[k]
            for k in range(8, -1, -1):
                c = c * square + _COS[k]
            sine[f], cosine[f] = s * a, c
        for _ in range(halvings):
            _double(cosine, sine)
        for level in range(levels):
            if level:
                _double(cosine, sine)
            totals = sums[level, cells[i]]
            for f in range(width):
                totals[0, f] += cosine[f]
                totals[1, f] += sine[f]


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath={"contract"})
def _double(cosine, sine):
    """Turn cos a and sin a into cos 2a and sin 2a; small sines keep their digits."""
    for f in range(cosine.size):
        s, c = sine[f], cosine[f]
        sine[f] = 2.0 * s * c
        cosine[f] = 1.0 - 2.0 * s * s


@numba.njit(nogil=True, cache=True, boundscheck=False)
def add_kernel_sums(values, row_cells, starts, squarings, sums):
    """Add kernel values of a block of rows with all other rows to the sums of their cells.

    ``values`` (rows, n) are those of the widest bandwidth, and are overwritten. ``row_cells``
    (rows,) holds the cell of each row of the block; the n others stand in order of their cells,
    cell j from starts[j] to starts[j + 1]. A narrower bandwidth takes ``squarings`` squares.
    ``sums`` (levels, cells, cells).
    """
    levels = sums.shape[0]
    for i in range(values.shape[0]):
        row = values[i]
        for level in range(levels):
            totals = sums[level, row_cells[i]]
            for j in range(starts.size - 1):
                total = 0.0
                for k in range(starts[j], starts[j + 1]):
                    total += row[k]
                totals[j] += total
            if level + 1 < levels:
                for _ in range(squarings):
                    for k in range(row.size):
                        row[k] *= row[k]
