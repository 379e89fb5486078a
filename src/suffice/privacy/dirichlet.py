"""What a scaled Dirichlet draw costs: exact, and by the two bounds in print (Iyer et al. 2016).

Counts a in R^K leave as theta ~ Dir(sigma a). A changed label moves one unit from a_i to a_j. The
likelihood ratio depends on l = ln(theta_i / theta_j) alone,

    ln f(theta) / f'(theta) = sigma l - ln L,
    L = G(sigma a_i) G(sigma a_j) / (G(sigma (a_i - 1)) G(sigma (a_j + 1))),

G the gamma function, and theta_i / (theta_i + theta_j) is Beta(sigma a_i, sigma a_j) before the
change and Beta(sigma (a_i - 1), sigma (a_j + 1)) after it. So the hockey-stick divergence at
epsilon is a difference of two Beta tails, cut at l = (ln L + epsilon) / sigma one way and at
(ln L - epsilon) / sigma the other way.

These are functions of the counts that a mechanism holds. Where the counts are private, so is sigma
(proofs/proportions.md); nothing here draws.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln, expit, gammaln, log_expit

from suffice.errors import ParameterError
from suffice.privacy import events

Vector = NDArray[np.float64]
SIGMA_UNIT = 2.0**-24  # sigma is a multiple of this, so that parameters are exact integers
_MOST_SIGMA = 2.0**10
# Incomplete beta functions err by less than this, absolutely; so no smaller delta is stated.
_ERROR = 1e-10
_UNDERFLOW = 600.0  # a logit beyond it is no float any more: one term of the series is exact there


def pair_delta(first: ArrayLike, second: ArrayLike, sigma: float, epsilon: float) -> Vector:
    """Return the exact delta at epsilon of moving one unit from ``first`` to ``second``.

    ``first`` = a_i > 1 and ``second`` = a_j > 0 may be arrays. Both directions are covered: the
    larger of the two divergences is returned.
    """
    lowered, raised = (np.asarray(a, dtype=np.float64) for a in (first, second))
    moved = sigma * (lowered - 1), sigma * (raised + 1)
    stayed = sigma * lowered, sigma * raised
    cut = _log_ratio(lowered, raised, sigma)
    high, low = (cut + epsilon) / sigma, (cut - epsilon) / sigma
    growth = math.exp(min(epsilon, _UNDERFLOW))  # less than it is makes delta larger
    forward = _upper_tail(*stayed, high) - growth * _upper_tail(*moved, high)
    backward = _upper_tail(*moved[::-1], -low) - growth * _upper_tail(*stayed[::-1], -low)
    return np.asarray(np.maximum(forward, backward))


def _log_ratio(lowered: Vector, raised: Vector, sigma: float) -> Vector:
    """Return ln L, of Lambda_ij before eq. (9); in this order it is exactly 0 for a worst pair."""
    first_gap = gammaln(sigma * lowered) - gammaln(sigma * (raised + 1))
    return np.asarray(first_gap + (gammaln(sigma * raised) - gammaln(sigma * (lowered - 1))))


def _upper_tail(a: Vector, b: Vector, logit: Vector) -> Vector:
    """Return P[ln(x / (1 - x)) > logit] for x ~ Beta(a, b), from the smaller of x and 1 - x."""
    above, below = _small_share(b, a, logit), _small_share(a, b, -logit)
    return np.asarray(np.where(logit > 0, above, 1 - below))


def _small_share(a: Vector, b: Vector, logit: Vector) -> Vector:
    """Return P[x < z] for x ~ Beta(a, b) and z = 1 / (1 + e^logit), for logit >= 0.

    Below the range of floats it is z^a / (a B(a, b)): the next term of the series is smaller by the
    factor z.
    """
    near = betainc(a, b, expit(-np.clip(logit, 0, _UNDERFLOW)))
    far = np.exp(a * log_expit(-np.maximum(logit, _UNDERFLOW)) - np.log(a) - betaln(a, b))
    return np.asarray(np.where(logit > _UNDERFLOW, np.minimum(far, 1.0), near))


def exact_delta(counts: ArrayLike, sigma: float, epsilon: float) -> float:
    """Return the exact delta of Dir(sigma a) at these counts, over all changes of one label.

    The divergence falls in a_i - 1 and in a_j (proofs/proportions.md), so that the two smallest
    counts decide. With a count of one or none it is 1: a class can vanish, or appear.
    """
    least, next_least = np.partition(np.asarray(counts, dtype=np.float64), 1)[:2]
    if least <= 1:
        return 1.0
    pairs = pair_delta([least, next_least], [next_least, least], sigma, epsilon)
    return float(min(1.0, max(0.0, pairs.max())))


def tail_delta(counts: ArrayLike, sigma: float, epsilon: float) -> float:
    """Return max_ij P[theta not in Theta_ij], eq. (9): never below `exact_delta`'s first direction.

    As printed it looks one way only, from these counts to a neighbour's.
    """
    a = np.asarray(counts, dtype=np.float64)
    if a.min() <= 1:
        return 1.0
    one, two = _ordered_pairs(a)
    cut = (_log_ratio(one, two, sigma) + epsilon) / sigma
    return float(_upper_tail(sigma * one, sigma * two, cut).max())


def chebyshev_delta(counts: ArrayLike, sigma: float, epsilon: float) -> float:
    """Return Chebyshev's bound of eq. (9), eq. (10); 1 where it says nothing."""
    a = np.asarray(counts, dtype=np.float64)
    if a.min() <= 1:
        return 1.0
    one, two = _ordered_pairs(a)
    total = a.sum()
    p, q = one / total, two / total
    with np.errstate(over="ignore", invalid="ignore"):
        slope = np.exp((_log_ratio(one, two, sigma) + epsilon) / sigma)
        spread = p * (1 - p) + slope**2 * q * (1 - q) + 2 * slope * p * q
        bound = spread / ((sigma * total + 1) * (p - slope * q) ** 2)
    limit = (1 - q) / (q * (sigma * total + 1))  # of the bound, as the slope grows without end
    bound = np.where(np.isfinite(bound), bound, limit)
    return float(np.where(p < slope * q, np.minimum(bound, 1.0), 1.0).max())


def _ordered_pairs(a: Vector) -> tuple[Vector, Vector]:
    """Return (a_i, a_j) for all i != j."""
    i, j = np.nonzero(~np.eye(len(a), dtype=bool))
    return a[i], a[j]


DELTA_RULES: Mapping[str, Callable[[ArrayLike, float, float], float]] = {
    "exact": exact_delta,
    "tail": tail_delta,
    "chebyshev": chebyshev_delta,
}


def largest_sigma(
    counts: ArrayLike, epsilon: float, delta: float, rule: str = "exact"
) -> float | None:
    """Return the largest sigma found at which ``rule`` gives at most ``delta``, None for none."""
    if rule not in DELTA_RULES:
        raise ParameterError(f"The rule for sigma must be one of {', '.join(DELTA_RULES)}.")
    cost = DELTA_RULES[rule]
    return _largest(lambda sigma: cost(counts, sigma, events.check_epsilon(epsilon)), delta)


def bounded_sigma(kappa: int, epsilon: float, delta: float) -> float | None:
    """Return the largest sigma for Dir(sigma (eta + kappa)) whatever the counts eta >= 0 are.

    The worst pair is (kappa + 1, kappa) -> (kappa, kappa + 1): public, and so is sigma. As sigma
    falls its delta falls to e^(-kappa epsilon) / (2 kappa + 1), so that one exists above that only.
    """
    if isinstance(kappa, bool) or not isinstance(kappa, int) or kappa < 1:
        raise ParameterError("kappa must be a positive integer.")
    epsilon = events.check_epsilon(epsilon)
    return _largest(lambda sigma: float(pair_delta(kappa + 1, kappa, sigma, epsilon)), delta)


def least_kappa(epsilon: float, delta: float) -> int:
    """Return the smallest kappa for which `bounded_sigma` has a sigma."""
    target = events.read_delta(delta, positive=True) - _ERROR
    if target <= 0:
        raise ParameterError(f"delta must exceed {_ERROR:g} for a Dirichlet mechanism.")
    kappa = 1
    while bounded_sigma(kappa, epsilon, delta) is None:
        kappa += 1
    return kappa


def _largest(cost: Callable[[float], float], delta: float) -> float | None:
    """Return the largest sigma by bisection, a multiple of SIGMA_UNIT, None where none was found.

    Deltas grow with sigma wherever we have looked; nothing rests on that, since the sigma that is
    returned was itself checked.
    """
    target = events.read_delta(delta, positive=True) - _ERROR
    low, high = SIGMA_UNIT, _MOST_SIGMA
    if cost(low) > target:
        return None
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) <= target else (low, middle)
    sigma = math.floor(low / SIGMA_UNIT) * SIGMA_UNIT
    while sigma > 0 and cost(sigma) > target:
        sigma -= SIGMA_UNIT
    return sigma or None
