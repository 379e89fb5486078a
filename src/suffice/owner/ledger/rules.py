"""How large a release still fits into a budget: the largest epsilon, found by bisection.

Every candidate is tried by the rule that charges are refused by (`accounting.fits`), so that what
is named here is accepted. Nothing is written, and nothing private is read: budgets, charges and the
events of a release are public.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from suffice.errors import BudgetError, ParameterError, RequestConflictError, UnitError
from suffice.owner.ledger.entries import (
    Charge,
    DatasetCharge,
    Request,
    charges_from_text,
    check_budget,
    check_chargeable,
    closest_events,
)
from suffice.privacy.accounting import compose_events, fits, spent_epsilon
from suffice.privacy.calibrate import gaussian_multiplier
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = [
    "EventAtEpsilon",
    "Room",
    "check_affordable",
    "check_apart",
    "check_same_request",
    "event_for_delta",
    "event_of_same_type",
    "largest_epsilon",
    "other_names",
    "room_in",
    "rooms_for",
    "spent_by_charge",
    "unit_covering",
]


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


# Public parameters that follow from a table, not from what its owner asked for.
_OF_THE_TABLE = ("rows", "labelled", "records", "bags", "grid", "auxiliary_rows", "pipeline")


def spent_by_charge(spent: Sequence[str], unit: Unit) -> list[list[Event]]:
    """Return the events that count against a budget per ``unit``, charge by charge.

    Finished and burnt charges count alike.
    """
    return [closest_events(unit, charges_from_text(text)) for text in spent]


def check_affordable(
    dataset: str,
    guarantees: Sequence[Guarantee],
    budgets: Mapping[Unit, Budget],
    spent: Sequence[str],
) -> None:
    """Raise unless every budget that the guarantees touch allows them on top of the rest."""
    check_chargeable(guarantees)
    if not any(g.unit.covers(unit) for g in guarantees for unit in budgets):
        raise UnitError(
            f"Data set {dataset!r} has no budget for what this release protects"
            f" ({', '.join(sorted({str(g.unit) for g in guarantees}))})."
        )
    for unit, budget in budgets.items():
        if not any(g.unit.covers(unit) for g in guarantees):
            raise _says_nothing(dataset, unit)
        check_budget(budget)
        new = closest_events(unit, [(g.unit, g.event) for g in guarantees])
        room = room_in(budget, unit, spent)
        if not room.admits(compose_events(new)):
            raise BudgetError(
                f"This release would exceed the budget of {dataset!r}: epsilon"
                f" {budget.epsilon:g} per {unit} at delta {_short(budget.delta)}, of which"
                f" {room.spent:.4g} is spent."
            )


def _says_nothing(dataset: str, unit: Unit) -> UnitError:
    return UnitError(
        f"Data set {dataset!r} has a budget per {unit}, and this release states no guarantee per"
        f" {unit}. Nothing would limit what it reveals about one. Release about a {unit}, or about"
        " something that contains it."
    )


def _short(number: float) -> str:
    """Return a number as people write it: 1e-5, not 1e-05."""
    return f"{number:g}".replace("e-0", "e-")


def unit_covering(dataset: str, budgets: Mapping[Unit, Budget], unit: Unit | str | None) -> Unit:
    """Return what a release must protect to be charged here: ``unit``, or the narrowest that does.

    Raise if a release about ``unit`` says nothing about a unit that has a budget.
    """
    if unit is None:
        covering = [wide for wide in Unit if all(wide.covers(narrow) for narrow in budgets)]
        return min(covering, key=lambda wide: len(wide.contained))
    protected = Unit(unit)
    for narrow in budgets:
        if not protected.covers(narrow):
            raise _says_nothing(dataset, narrow)
    return protected


def rooms_for(unit: Unit, budgets: Mapping[Unit, Budget], spent: Sequence[str]) -> list[Room]:
    """Return the budgets that a release about one ``unit`` is charged to, and what was charged."""
    rooms = []
    for narrow, budget in budgets.items():
        if unit.covers(narrow):
            check_budget(budget)
            rooms.append(room_in(budget, narrow, spent))
    return rooms


def room_in(budget: Budget, unit: Unit, spent: Sequence[str]) -> Room:
    """Return a budget per ``unit`` with what every charge, oldest first, costs it."""
    return Room(budget, [compose_events(e) for e in spent_by_charge(spent, unit) if e])


def check_apart(dataset: str, also: Sequence[DatasetCharge]) -> None:
    """Raise if one release would charge a data set twice."""
    names = [dataset, *(charge.dataset for charge in also)]
    if len(set(names)) < len(names):
        raise ParameterError(
            f"One release cannot charge data set {dataset!r} twice. Give each table a data set of"
            " its own."
        )


def other_names(stored: Sequence[Charge], charges: Sequence[DatasetCharge]) -> list[str]:
    """Return the other data sets that these very data were charged to: for notes alone."""
    presented = {charge.fingerprint for charge in charges if charge.fingerprint}
    charged = {charge.dataset for charge in charges}
    names = {
        name
        for earlier in stored
        for name, fingerprint in earlier.fingerprints.items()
        if fingerprint in presented and name not in charged
    }
    return sorted(names)


def check_same_request(request: Request, charges: Sequence[DatasetCharge], earlier: Charge) -> None:
    """Raise if a name was used with other parameters, or for other data sets: public facts alone.

    What follows from the table is not compared: the owner chose the rest.
    """
    same_names = {charge.dataset for charge in charges} == earlier.fingerprints.keys()
    if not same_names or _chosen(request.parameters) != _chosen(earlier.parameters):
        raise RequestConflictError(
            f"Request {request.name!r} of data set {earlier.dataset!r} was used with other"
            " parameters. Use a new request name (--request; Python: request=...)."
        )


def _chosen(parameters: Mapping[str, object]) -> dict[str, object]:
    stored = json.loads(json.dumps(dict(parameters)))  # lists, not tuples
    return {name: value for name, value in stored.items() if name not in _OF_THE_TABLE}
