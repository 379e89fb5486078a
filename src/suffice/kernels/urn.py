"""Polya's urn in integers: each ball drawn goes back with one more of its colour."""

import numba
import numpy as np

__all__ = ["draw_balls"]


@numba.njit(nogil=True, cache=True, boundscheck=False)
def draw_balls(weights, unit, words, most, tallies):
    """Draw at most ``most`` balls with these uniform words; return how many were drawn.

    Colour k comes with probability weights[k] / sum(weights), which must stay below 2^63; ``unit``
    is added to the weight of the colour that came, and one to ``tallies``. A word gives its leading
    bits, as many as the sum has, and is left out if they are not below the sum: no division, and
    every ball is exactly as likely as its weight says.
    """
    total = np.uint64(0)
    for k in range(weights.size):
        total += weights[k]
    shift = np.uint64(63)
    count = 0
    for i in range(words.size):
        if count == most:
            break
        while (total - np.uint64(1)) >> (np.uint64(64) - shift):
            shift -= np.uint64(1)
        position = words[i] >> shift
        if position >= total:
            continue
        k = 0
        while position >= weights[k]:
            position -= weights[k]
            k += 1
        weights[k] += unit
        total += unit
        tallies[k] += 1
        count += 1
    return count
