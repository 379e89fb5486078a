"""Boosting of linear classifiers, one coordinate a round, over the rows of a matrix.

The rows are rados, or edges y_i x_i: the loop is the same (Nock, Patrini & Friedman 2015,
Algorithm 1; for edges Schapire & Singer 1999). A round costs O(rows x coordinates).
"""

import numba
import numpy as np

__all__ = ["LARGEST_EDGE", "MEDIAN", "STRONGEST", "boost"]

STRONGEST, MEDIAN = 0, 1
LARGEST_EDGE = 1.0 - 1e-9  # beyond it a step would be infinite: all rows agree on a coordinate

_FLOATS = {"reassoc", "nsz", "contract"}  # sums of public numbers: their order may change


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _largest(rows):
    """Return max_j |rows_jk| per coordinate k."""
    largest = np.zeros(rows.shape[1])
    for j in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            largest[k] = max(largest[k], abs(rows[j, k]))
    return largest


@numba.njit(nogil=True, cache=True, boundscheck=False, fastmath=_FLOATS)
def _edges(rows, weights, largest, edges):
    """Write r_k = sum_j w_j rows_jk / largest_k, eq. (9), or (14) of edges; 0 / 0 is zero."""
    edges[:] = 0.0
    for j in range(rows.shape[0]):
        row, w = rows[j], weights[j]
        for k in range(row.size):
            edges[k] += w * row[k]
    for k in range(edges.size):
        edges[k] = edges[k] / largest[k] if largest[k] > 0.0 else 0.0


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _pick(edges, oracle):
    """Return the coordinate that the weak learner picks among those whose edge is not zero, or -1.

    STRONGEST: the largest |r|. MEDIAN: the middle one, of two the stronger.
    """
    order = np.argsort(np.abs(edges))
    zeros = np.count_nonzero(edges == 0.0)
    usable = edges.size - zeros
    if usable == 0:
        return -1
    return order[zeros + usable // 2] if oracle == MEDIAN else order[-1]


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _normalise(logs, weights):
    """Write w_j = e^(l_j) / sum, and return log((1/n) sum_j e^(l_j)), which never overflows."""
    largest = logs.max()
    total = 0.0
    for j in range(logs.size):
        weights[j] = np.exp(logs[j] - largest)
        total += weights[j]
    for j in range(logs.size):
        weights[j] /= total
    return largest + np.log(total / logs.size)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def boost(rows, examples, oracle, cap, least, scale, gentle, weights, path):
    """Boost for at most len(path) rounds; return how many were run before every edge was zero.

    A round picks coordinate k with edge r (`_pick`), steps by alpha = scale / (2 largest_k)
    log((1 + s) / (1 - s)), eq. (10) with scale = 1/kappa, and weighs the rows anew. s is r, at
    least ``least`` in size (Section 4: outliers make r tiny), at most ``cap`` (5.2) and
    LARGEST_EDGE. ``gentle`` weights follow eq. (11), the others are e^(-<theta, row>), AdaBoost's;
    both are kept as logarithms, so that none is lost to rounding. Writes the last ``weights`` and,
    per round of ``path``: k, r, s, alpha, log (1/n) sum_j e^(-<theta, row_j>), and how many of
    ``examples``, edges again, theta does not put on the right side.
    """
    n, width = rows.shape
    largest = _largest(rows)
    edges, logs, margins, spare = np.empty(width), np.zeros(n), np.zeros(n), np.empty(n)
    sides = np.zeros(examples.shape[0])
    weights[:] = 1.0 / n
    for t in range(path.shape[0]):
        _edges(rows, weights, largest, edges)
        k = _pick(edges, oracle)
        if k < 0:
            return t
        edge = edges[k]
        size = min(max(abs(edge), least), cap, LARGEST_EDGE)
        step = size if edge > 0.0 else -size
        alpha = scale * np.log((1.0 + step) / (1.0 - step)) / (2.0 * largest[k])
        share = step / largest[k]
        for j in range(n):
            margins[j] -= alpha * rows[j, k]
        if gentle:
            for j in range(n):
                logs[j] += np.log1p(-share * rows[j, k])
            _normalise(logs, weights)
        log_risk = _normalise(margins, spare if gentle else weights)
        wrong = 0
        for i in range(sides.size):
            sides[i] += alpha * examples[i, k]
            wrong += 1 if sides[i] <= 0.0 else 0
        path[t, 0], path[t, 1], path[t, 2], path[t, 3] = k, edge, step, alpha
        path[t, 4], path[t, 5] = log_risk, wrong
    return path.shape[0]
