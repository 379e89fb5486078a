"""Draws from a Dirichlet distribution without a single floating-point number.

A sample theta ~ Dir(a) is never computed. What leaves are the counts n of N balls of Polya's urn,
which are multinomial given theta: a function of theta and of further chance, so that they cost no
more than theta would (proofs/proportions.md). Their shares n / N have

    mean a_k / A, variance p_k (1 - p_k) / (A + 1) x (1 + A / N), A = sum a, p = a / A.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from suffice.errors import ParameterError
from suffice.privacy.randomness import private_blocks

__all__ = ["draw_balls", "enough_balls"]

_LARGEST_TOTAL = 2**62
_FEWEST, _MOST = 2**16, 2**20  # a million balls take some hundredths of a second
_PER_UNIT = 64  # balls per unit of A: the deviation grows by 0.8 %


def enough_balls(concentration: float) -> int:
    """Return N for a Dirichlet of this A = sum a; above 2^14 it no longer keeps up with A."""
    return int(min(max(_PER_UNIT * concentration, _FEWEST), _MOST))


def draw_balls(weights: Sequence[int], unit: int, balls: int) -> NDArray[np.int64]:
    """Return how often each colour comes among ``balls`` balls of the urn of Dir(weights / unit).

    Fresh at every call; exact in integers.
    """
    start = [int(w) for w in weights]
    if any(w < 0 for w in start) or sum(start) < 1 or unit < 1 or balls < 1:
        raise ParameterError("The weights must be zero or more, and not all zero.")
    if sum(start) + unit * balls >= _LARGEST_TOTAL:
        raise ParameterError("The Dirichlet parameters are too large. Use another mechanism.")
    from suffice.kernels import urn as kernel

    state, counts = np.array(start, dtype=np.uint64), np.zeros(len(start), dtype=np.int64)
    remaining = balls
    while remaining:
        for words in private_blocks(2 * remaining):  # more than half of all words give a ball
            remaining -= kernel.draw_balls(state, np.uint64(unit), words, remaining, counts)
            if not remaining:
                break
    return counts
