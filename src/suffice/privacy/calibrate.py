"""How much noise a promise costs, rounded against ourselves.

The Gaussian curve is exact (Balle & Wang 2018, arXiv 1805.06530v2, Theorem 8). With the noise
multiplier z = sigma / sensitivity,

    delta(epsilon) = Phi(1/(2z) - epsilon z) - e^epsilon Phi(-1/(2z) - epsilon z).

Written a and b for the two arguments, e^epsilon phi(b) = phi(a), so the difference is
phi(a) (R(-a) - R(-b)) with R the Mills ratio: no overflow, and relative accuracy in the far tail.
"""

import math
import threading
from functools import lru_cache
from typing import Any

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from suffice.errors import ParameterError

__all__ = [
    "EXPLAINED_DELTA",
    "NO_PROTECTION_DELTA",
    "check_delta",
    "check_epsilon",
    "check_promise",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_multiplier",
    "read_delta",
]

# Publishing each unit as it is with probability delta, and else nothing, is (0, delta)-private.
NO_PROTECTION_DELTA = 0.1  # from here on that is one unit in ten or more: refused, in one place
EXPLAINED_DELTA = 1e-3  # above this, a guarantee says so before it says anything else

# A root is moved this far (relative) to the safe side: wide of brentq's tolerance, short of 1e-9.
_SAFETY = 1e-11
_own = threading.local()  # each thread's numbers of many digits, which are slow to set up


def check_epsilon(epsilon: float) -> float:
    """Return epsilon as a float; it must be positive and finite."""
    value = _float(epsilon)
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"epsilon must be a positive finite number; got {epsilon!r}.")
    return value


def check_delta(delta: float, *, positive: bool = False) -> float:
    """Return a delta that somebody asks for: below .1, and above 0 where a mechanism needs it.

    This is the one rule for releases, plans, budgets, proposals and policies. What a file states is
    read by `read_delta`, and its sentence says that a larger one protects nothing.
    """
    value = read_delta(delta, positive=positive)
    if value >= NO_PROTECTION_DELTA:
        raise ParameterError(
            f"delta must be below {NO_PROTECTION_DELTA:g}; got {delta!r}, with which a mechanism"
            " may reveal one unit in ten or more completely. Choose a smaller one, such as 1e-6."
        )
    return value


def read_delta(delta: float, *, positive: bool = False) -> float:
    """Return the delta at which a privacy loss is read: a float in [0, 1), or in (0, 1)."""
    value = _float(delta)
    if not (0 <= value < 1) or (positive and value == 0):
        if value == 0:
            raise ParameterError("this needs a delta above zero (delta=..., --delta).")
        raise ParameterError(f"delta must lie in [0, 1); got {delta!r}.")
    return value


def check_promise(asked: Any) -> None:
    """Turn epsilon and delta of a frozen value into plain floats, once checked.

    Noise must not be computed with the few digits that a number of numpy's may have, and a ledger
    writes both down.
    """
    object.__setattr__(asked, "epsilon", check_epsilon(asked.epsilon))
    object.__setattr__(asked, "delta", check_delta(asked.delta))


def _float(value: Any) -> float:
    """Return a number as a float; everything else is not one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _log_delta(epsilon: float, multiplier: float) -> float:
    half, shift = 0.5 / multiplier, epsilon * multiplier
    upper, lower = half - shift, -half - shift
    if upper > 0:  # here delta is large and the plain difference is accurate
        log_upper, log_lower = float(log_ndtr(upper)), float(log_ndtr(lower))
        return math.log(-math.expm1(epsilon + log_lower - log_upper)) + log_upper
    mills = float(erfcx(-upper / math.sqrt(2)) - erfcx(-lower / math.sqrt(2)))
    return -0.5 * upper * upper - math.log(2) + math.log(mills) if mills > 0 else -math.inf


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """Return the exact delta of Gaussian noise of ``multiplier`` sensitivities at ``epsilon``."""
    return math.exp(_log_delta(float(epsilon), float(multiplier)))


@lru_cache(maxsize=256)
def gaussian_epsilon(delta: float, multiplier: float) -> float:
    """Return the smallest epsilon at which the Gaussian has this ``delta``, rounded up."""
    target = math.log(read_delta(delta, positive=True))
    if _log_delta(0.0, multiplier) <= target:
        return 0.0
    high = 1.0
    while _log_delta(high, multiplier) > target:
        high *= 2
    root = brentq(lambda e: _log_delta(e, multiplier) - target, 0.0, high, xtol=1e-15, rtol=1e-14)
    return float(root) * (1 + _SAFETY) + 1e-15


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier that gives (epsilon, delta), to 1e-9 and rounded up."""
    check_epsilon(epsilon)
    target = math.log(read_delta(delta, positive=True))
    low = high = 1.0
    while _log_delta(epsilon, high) > target:
        high *= 2
    while _log_delta(epsilon, low) < target:
        low /= 2
    root = brentq(lambda z: _log_delta(epsilon, z) - target, low, high, xtol=1e-15, rtol=1e-14)
    multiplier = float(root) * (1 + _SAFETY)
    while _exact_delta(epsilon, multiplier) > delta:  # floats lose digits where epsilon is tiny
        multiplier *= 1 + _SAFETY
    return multiplier


def _exact_delta(epsilon: float, multiplier: float) -> Any:
    """Return delta(epsilon) with 60 digits."""
    from mpmath import MPContext

    if not hasattr(_own, "digits"):
        _own.digits = MPContext()
        _own.digits.dps = 60
    mp = _own.digits
    half, shift = 1 / (2 * mp.mpf(multiplier)), mp.mpf(epsilon) * mp.mpf(multiplier)
    return mp.ncdf(half - shift) - mp.exp(epsilon) * mp.ncdf(-half - shift)
