"""Even parts of losses and their slopes, in one pass over scores: one exponential per entry.

Both kernels return sum_i w_i g(z_i) and overwrite the scores z_i with w_i g'(z_i).
"""

import numba
import numpy as np

__all__ = ["logistic_slopes", "softmax_slopes"]


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
