"""How large a release still fits into a budget: the largest epsilon, found by bisection.

Every candidate is tried by the rule that charges are refused by (`accounting.fits`), so that what
is named here is accepted. Nothing is written, and nothing private is read: budgets, charges and the
events of a release are public.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from suffice.errors import ParameterError
from suffice.privacy.accounting import fits, spent_epsilon
from suffice.privacy.calibrate import gaussian_multiplier
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Budget

__all__ = ["EventAtEpsilon", "Room", "event_for_delta", "event_of_same_type", "largest_epsilon"]

EventAtEpsilon = Callable[[float], Event]
"""Returns the event that a release of some type has at an epsilon."""

# Candidates are decimals of three digits: 1.00, 1.01, ..., 9.99, 10.0, 10.1, ...
_PER_DECADE = 900
_LEAST_EXPONENT, _LARGEST_EXPONENT = -6, 4  # from 0.000001 to 9990
_CANDIDATES = _PER_DECADE * (_LARGEST_EXPONENT - _LEAST_EXPONENT)
_SLACK = 1e-8  # of a Gaussian on a rounding grid: more than that of most releases


@dataclass(frozen=True)
class Room:
    """One budget and what was charged to it so far.

    Parameters
    ----------
    budget : Budget
        The epsilon and delta that all releases may use together.
    charged : sequence of Event
        What each charge costs that counts against this budget, oldest first.
    """

    budget: Budget
    charged: Sequence[Event]

    @property
    def spent(self) -> float:
        """The epsilon of the smallest budget that would have allowed what was charged."""
        return spent_epsilon(self.charged, self.budget.delta)

    @property
    def left(self) -> float:
        """The difference of the budget's epsilon and what is spent of it."""
        return max(0.0, self.budget.epsilon - self.spent)

    def admits(self, event: Event) -> bool:
        """Say whether a release with this event fits, by the rule that charges are refused by."""
        return fits([*self.charged, event], self.budget.epsilon, self.budget.delta)


def event_for_delta(delta: float) -> EventAtEpsilon:
    """Return the events of releases at this delta: Gaussian noise, or any noise where it is 0."""
    return Pure if delta == 0 else lambda epsilon: _gaussian(epsilon, delta)


def event_of_same_type(event: Event, delta: float) -> EventAtEpsilon | None:
    """Return the events that a release like this one has at other epsilons; None if it has parts.

    ``delta`` is that at which the release states its epsilon.
    """
    match event:
        case Laplace():
            return Laplace
        case Pure():
            return Pure
        case Gaussian():
            slack, tail = event.slack, event.tail
            return lambda epsilon: _gaussian(epsilon, delta, slack, tail)
        case Approximate():
            at_delta = event.at_delta
            return lambda epsilon: Approximate(epsilon, at_delta)
    return None


def _gaussian(epsilon: float, delta: float, slack: float = _SLACK, tail: float = 0.0) -> Gaussian:
    """Return the event of the least Gaussian noise that costs at most ``epsilon`` at ``delta``."""
    multiplier = gaussian_multiplier(epsilon, delta)
    while (event := Gaussian(multiplier, slack, tail)).epsilon(delta) > epsilon:
        if not math.isfinite(event.epsilon(delta)):
            raise ParameterError("delta is too small for this many numbers.")
        multiplier *= 1 + max(1e-10, 4 * slack / epsilon)
    return event


def largest_epsilon(rooms: Sequence[Room], event_at: EventAtEpsilon) -> float:
    """Return the largest epsilon of three digits at which a release fits every budget; 0 for none.

    What fits at some epsilon fits at every smaller one. The search begins at what is left of the
    tightest budget, doubles its steps away from there, and then halves the interval.
    """

    def admitted(number: int) -> bool:
        try:
            event = event_at(_candidate(number))
        except ParameterError:  # there is no such noise
            return False
        return all(room.admits(event) for room in rooms)

    fitting, refused = _bracket(admitted, _number_below(min(room.left for room in rooms)))
    while refused - fitting > 1:
        middle = (fitting + refused) // 2
        fitting, refused = (middle, refused) if admitted(middle) else (fitting, middle)
    return _candidate(fitting) if fitting >= 0 else 0.0


def _bracket(admitted: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Return the numbers of a candidate that fits and of one that does not; -1: none fits."""
    step = 1
    if admitted(start):
        fitting = start
        while (tried := min(fitting + step, _CANDIDATES)) < _CANDIDATES and admitted(tried):
            fitting, step = tried, 2 * step
        return fitting, tried
    refused = start
    while refused > 0:
        tried = max(refused - step, 0)
        if admitted(tried):
            return tried, refused
        refused, step = tried, 2 * step
    return -1, 0


def _candidate(number: int) -> float:
    decade, digits = divmod(number, _PER_DECADE)
    return float(f"{100 + digits}e{decade + _LEAST_EXPONENT - 2}")


def _number_below(epsilon: float) -> int:
    """Return the number of the largest candidate that is not above ``epsilon``, or of the least."""
    if epsilon <= _candidate(0):
        return 0
    exponent = math.floor(math.log10(epsilon))
    digits = math.floor(epsilon / 10.0**exponent * 100)
    number = (exponent - _LEAST_EXPONENT) * _PER_DECADE + digits - 100
    number = min(max(number, 0), _CANDIDATES - 2)
    if _candidate(number) > epsilon:  # floats round
        return number - 1
    return number + 1 if _candidate(number + 1) <= epsilon else number
