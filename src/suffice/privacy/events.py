"""What happened once, as frozen values; the cost is computed from them, never the other way round.

A law for this file: an event is never removed, a parameter is added only with a default that keeps
the old meaning, and no meaning ever changes. Ledgers and release files hold these for years. What
happened several times is a `suffice.privacy.accounting.Composed`, under the same law.

Each event stands for a pair of distributions that *dominates* its mechanism: no neighbouring data
sets are easier to tell apart than that pair. ``privacy/proofs/`` holds the arguments.

How much noise a guarantee needs is here too, rounded against ourselves.
The Gaussian curve is exact (Balle & Wang 2018, arXiv 1805.06530v2, Theorem 8). With the noise
multiplier z = sigma / sensitivity,

    delta(epsilon) = Phi(1/(2z) - epsilon z) - e^epsilon Phi(-1/(2z) - epsilon z).

Written a and b for the two arguments, e^epsilon phi(b) = phi(a), so the difference is
phi(a) (R(-a) - R(-b)) with R the Mills ratio: no overflow, and relative accuracy in the far tail.
Where z is large, -a and -b are near each other, and the difference of R is the integral over
1 - t R(t) = -R'(t) between them, which loses no digits.

This is the standard library's mathematics. scipy has R and roots of functions as well; importing it
takes longer than all else that reading a release needs, and its differences lose digits.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError

# Publishing each unit as it is with probability delta, and else nothing, is (0, delta)-private.
NO_PROTECTION_DELTA = 0.1  # from here on that is one unit in ten or more: refused, in one place
EXPLAINED_DELTA = 1e-3  # above this, a guarantee says so before it says anything else

# A root is moved this far (relative) to the safe side: wide of its tolerance, short of 1e-9.
_SAFETY = 1e-11
_TOLERANCE = 1e-14  # of a root, relative
_LEAST_ROOT = 1e-16
_FAR = 25.0  # from here on the series of erfc has 17 digits, and e^(x^2) will soon overflow
_NARROW = 0.25  # below this 1/(2z) counts as small
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Gauss and Legendre's eight points between -1 and 1, with their weights; and the same below zero.
_POINTS = (
    (0.18343464249564980, 0.36268378337836198),
    (0.52553240991632899, 0.31370664587788729),
    (0.79666647741362674, 0.22238103445337447),
    (0.96028985649753623, 0.10122853629037626),
)
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
            raise ParameterError("This mechanism needs a delta above 0 (delta=..., --delta).")
        raise ParameterError(f"delta must lie in [0, 1); got {delta!r}.")
    return value


def check_promise(settings: Any) -> None:
    """Turn epsilon and delta of a frozen value into plain floats, once checked.

    Noise must not be computed with the few digits that a number of numpy's may have, and a ledger
    writes both down.
    """
    object.__setattr__(settings, "epsilon", check_epsilon(settings.epsilon))
    object.__setattr__(settings, "delta", check_delta(settings.delta))


def _float(value: Any) -> float:
    """Return a number as a float; everything else is not one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _scaled_tail(x: float) -> float:
    """Return e^(x^2) erfc(x), to a few units of the last digit."""
    if x < 0:
        return 2 * math.exp(x * x) - _scaled_tail(-x)
    if x < _FAR:
        near = round(x * 2**20) / 2**20  # its square is exact, so that no digit of x^2 is lost
        return math.exp(near * near) * math.exp((x - near) * (x + near)) * math.erfc(x)
    term = total = 1.0
    for k in range(1, 16, 2):
        term *= -k / (2 * x * x)
        total += term
    return total / (x * math.sqrt(math.pi))


def _mills(t: float) -> float:
    """Return R(t) = (1 - Phi(t)) / phi(t)."""
    return math.sqrt(math.pi / 2) * _scaled_tail(t / math.sqrt(2))


def _log_normal(x: float) -> float:
    """Return ln Phi(x)."""
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))
    return math.log(0.5 * _scaled_tail(-x / math.sqrt(2))) - 0.5 * x * x


def _log_delta(epsilon: float, multiplier: float) -> float:
    half, shift = 0.5 / multiplier, epsilon * multiplier
    upper, lower = half - shift, -half - shift
    if half < _NARROW:
        gap = half * math.fsum(
            weight * (1 - t * _mills(t))
            for point, weight in _POINTS
            for t in (shift + half * point, shift - half * point)
        )
    elif upper > 0:  # here delta is large and the plain difference is accurate
        log_upper, log_lower = _log_normal(upper), _log_normal(lower)
        return math.log(-math.expm1(epsilon + log_lower - log_upper)) + log_upper
    else:
        gap = _mills(-upper) - _mills(-lower)
    return -0.5 * upper * upper - _LOG_ROOT_TWO_PI + math.log(gap) if gap > 0 else -math.inf


def _root(falling: Callable[[float], float]) -> float:
    """Return where a falling function of positive numbers crosses zero, to 1e-14 and from above.

    Between powers of two, by false position with Dowell & Jarratt's halving (1971).
    """
    high = 1.0
    while (above := falling(high)) > 0:
        high *= 2
    low = high / 2
    while (below := falling(low)) <= 0:
        if low < _LEAST_ROOT:
            return low
        high, above, low = low, below, low / 2
    last = 0
    while high - low > _TOLERANCE * high:
        middle = (low * above - high * below) / (above - below)
        if not low < middle < high:  # also if ``above`` is infinite
            middle = (low + high) / 2
            if middle in (low, high):
                break
        value = falling(middle)
        if value > 0:
            low, below = middle, value
            above /= 2 if last > 0 else 1
        else:
            high, above = middle, value
            below /= 2 if last < 0 else 1
        last = 1 if value > 0 else -1
    return high


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """Return the exact delta of Gaussian noise of ``multiplier`` sensitivities at ``epsilon``."""
    return math.exp(_log_delta(float(epsilon), float(multiplier)))


@lru_cache(maxsize=256)
def gaussian_epsilon(delta: float, multiplier: float) -> float:
    """Return the smallest epsilon at which the Gaussian has this ``delta``, rounded up."""
    target = math.log(read_delta(delta, positive=True))
    if _log_delta(0.0, multiplier) <= target:
        return 0.0
    root = _root(lambda epsilon: _log_delta(epsilon, multiplier) - target)
    return root * (1 + _SAFETY) + 1e-15


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier that gives (epsilon, delta), to 1e-9 and rounded up."""
    check_epsilon(epsilon)
    target = math.log(read_delta(delta, positive=True))
    multiplier = _root(lambda z: _log_delta(epsilon, z) - target) * (1 + _SAFETY)
    while _exact_delta(epsilon, multiplier) > delta:  # floats may lose more digits than we know
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


# Beyond these the exact curve has no digits left, and a Gaussian hides nothing, or everything.
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12


@dataclass(frozen=True)
class Event(ABC):
    """A privacy loss that was, or would be, incurred once."""

    name: ClassVar[str]

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that holds with ``delta``; infinite where none does."""

    @property
    def pure(self) -> bool:
        """Whether it has a finite epsilon at delta = 0."""
        return math.isfinite(self.epsilon(0.0))

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON values; floats survive the trip exactly."""
        return {"event": self.name, **asdict(self)}


@dataclass(frozen=True)
class Pure(Event):
    """Any mechanism whose likelihood ratio never exceeds e^bound.

    Attributes
    ----------
    bound
        The epsilon at delta = 0.

    Examples
    --------
    >>> Pure(1.0).epsilon(0.0)
    1.0
    """

    bound: float
    name: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        check_epsilon(self.bound)

    def epsilon(self, delta: float) -> float:
        """Return ln(e^bound (1 - delta) - delta): that of two-state randomised response."""
        # hockey-stick of (p, 1-p) against (1-p, p): delta = p - e^eps (1-p), p = e^b / (1 + e^b)
        inner = 1 - delta - delta * math.exp(-self.bound)
        return max(0.0, self.bound + math.log(inner)) if inner > 0 else 0.0


@dataclass(frozen=True)
class Laplace(Pure):
    """Laplace noise of scale sensitivity / bound: delta is 0, and composition costs less.

    Attributes
    ----------
    bound
        The epsilon at delta = 0.
    """

    name: ClassVar[str] = "laplace"

    def epsilon(self, delta: float) -> float:
        """Return bound + 2 ln(1 - delta), the hockey-stick of two Laplace densities inverted."""
        # delta(eps) = 1 - e^((eps - bound)/2) for 0 <= eps <= bound
        return max(0.0, self.bound + 2 * math.log1p(-delta)) if delta < 1 else 0.0


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise, on a rounding grid if ``slack`` is positive.

    The grid raises epsilon by 2 slack, and delta by the factor e^slack plus tail.

    Attributes
    ----------
    multiplier
        The standard deviation of the noise, in sensitivities.
    slack
        A bound on the log-ratio between the noise on the grid and rounded continuous noise.
    tail
        The probability of the set outside which that bound holds.

    Examples
    --------
    >>> round(Gaussian(4.0).epsilon(1e-6), 3)
    1.061
    """

    multiplier: float
    slack: float = 0.0
    tail: float = 0.0
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        if not _LEAST_MULTIPLIER <= self.multiplier <= _MOST_MULTIPLIER:
            raise ParameterError(
                f"A Gaussian event needs a noise multiplier from {_LEAST_MULTIPLIER:g} to"
                f" {_MOST_MULTIPLIER:g}."
            )
        if not (0 <= self.slack < 1 and 0 <= self.tail < 1):
            raise ParameterError("Slack and tail of a Gaussian event must lie in [0, 1).")

    def epsilon(self, delta: float) -> float:
        """Return Balle & Wang's exact epsilon, with what the lattice adds."""
        continuous = (delta - self.tail) * math.exp(-self.slack)
        if continuous <= 0:
            return math.inf
        return gaussian_epsilon(continuous, self.multiplier) + 2 * self.slack


@dataclass(frozen=True)
class Approximate(Event):
    """A mechanism of which only one pair of epsilon and delta is known.

    Attributes
    ----------
    bound
        The epsilon.
    at_delta
        The delta.
    """

    bound: float
    at_delta: float
    name: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        check_epsilon(self.bound)
        read_delta(self.at_delta)

    def epsilon(self, delta: float) -> float:
        """Return what the known point implies: infinite loss with at_delta, else a pure loss."""
        if delta < self.at_delta:
            return math.inf
        return Pure(self.bound).epsilon((delta - self.at_delta) / (1 - self.at_delta))


@dataclass(frozen=True)
class Unbounded(Event):
    """No bound on the privacy loss at all."""

    name: ClassVar[str] = "unbounded"

    def epsilon(self, delta: float) -> float:  # noqa: ARG002  # the same for every delta
        """Return infinity."""
        return math.inf


_KINDS: dict[str, type[Event]] = {
    kind.name: kind for kind in (Pure, Laplace, Gaussian, Approximate, Unbounded)
}


def single_event(fields: dict[str, Any]) -> Event:
    """Return the event, not a composed one, of which `Event.to_json` wrote these ``fields``."""
    parameters = dict(fields)
    name = parameters.pop("event", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnsupportedFileError(
            "The file states a privacy event that this version of suffice does not know."
        )
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in parameters.values()):
        raise CorruptFileError(f"The parameters of a {kind.name} event must be numbers.")
    try:
        return kind(**{key: float(value) for key, value in parameters.items()})
    except (TypeError, OverflowError, ParameterError) as error:
        raise CorruptFileError(f"The parameters of a {kind.name} event are not valid.") from error
