"""What a release costs the budgets of its data sets, and whether they can pay for it.

The largest epsilon that still fits is found by bisection. Every candidate is tried by the rule that
charges are refused by (`accounting.fits`), so that what is named here is accepted. Nothing is
written, and nothing private is read: budgets, charges and the events of a release are public.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from suffice.errors import (
    BudgetError,
    LedgerError,
    ParameterError,
    PrivacyError,
    RequestConflictError,
    UnitError,
)
from suffice.owner.ledger.log import digest_of_bytes
from suffice.privacy.accounting import Tally, compose_events, event_from_json, fits, spent_epsilon
from suffice.privacy.events import (
    NO_PROTECTION_DELTA,
    Approximate,
    Event,
    Gaussian,
    Laplace,
    Pure,
    gaussian_multiplier,
)
from suffice.privacy.guarantee import CONTAINED, Budget, Guarantee, Scope, Unit

Cost = tuple[tuple[Unit, Event], ...]
"""What one release costs one data set: a line for each of its guarantees."""


@dataclass(frozen=True)
class DatasetCharge:
    """What one release costs one data set: the ledger writes all charges of a release, or none."""

    dataset: str
    guarantees: Sequence[Guarantee]  # about this data set, and no others
    fingerprint: str = ""  # of the private data; the ledger stores it under its key, for notes


def check_chargeable(guarantees: Sequence[Guarantee]) -> None:
    """Raise unless a budget means something for these: global, joint, replace-one."""
    for guarantee in guarantees:
        joint = guarantee.scope is Scope.JOINT and guarantee.neighbours == "replace-one"
        if not (guarantee.protected and joint):
            raise PrivacyError(
                "This release has no guarantee that can be charged to a budget: it is not"
                " differentially private as a whole. Release it without a ledger (--no-ledger;"
                " Python: ledger=None)."
            )
        if guarantee.unit is Unit.ATTRIBUTE and guarantee.columns:
            raise PrivacyError(
                f"This release protects only {', '.join(guarantee.columns)}, and a budget per"
                " attribute is about every column. Nothing would limit what it reveals about the"
                " others. Release it without a ledger (--no-ledger; Python: ledger=None)."
            )


def check_budget(budget: Budget) -> None:
    """Raise if a budget limits nothing: one with a delta of .1 or more."""
    if budget.delta >= NO_PROTECTION_DELTA:
        raise BudgetError(
            f"This data set's budget has delta {budget.delta:g}, at which epsilon limits nothing."
            " Nothing more can be charged to it. Keep the ledger for its history."
        )


def is_raise(stored: Mapping[Unit, Budget], wanted: Mapping[Unit, Budget]) -> bool:
    """Say whether one of some budgets would get a larger epsilon, and nothing else would change.

    What fitted into a budget fits into every larger one at the same delta (proofs/accounting.md).
    So no earlier charge has to be looked at again.
    """
    grows = stored.keys() == wanted.keys() and all(
        budget.delta == stored[unit].delta and budget.epsilon >= stored[unit].epsilon
        for unit, budget in wanted.items()
    )
    return grows and wanted != stored


def closest_events(unit: Unit, lines: Sequence[tuple[Unit, Event]]) -> list[Event]:
    """Return what one charge costs a unit: of the statements that cover it, those closest to it.

    A release that states a guarantee per label, per attribute and per record says the same thing
    three times; a budget per label is charged with the statement about labels. Several statements
    about one unit (two mechanisms) are all charged.
    """
    covering = [(len(CONTAINED[u]), event) for u, event in lines if u.covers(unit)]
    closest = min((size for size, _ in covering), default=0)
    return [event for size, event in covering if size == closest]


OTHER = "dataset"  # whom a line of a charge is for, if it is another data set than the charge's


@dataclass(frozen=True)
class Request:
    """A request for one release."""

    name: str  # the same name gets the same bytes
    parameters: Mapping[str, Any]  # the public ones
    fingerprint: str = ""  # of the private data; the ledger stores it under its key, for notes


@dataclass(frozen=True)
class Made:
    """When the charge of a release was made, and whether that was an earlier call: public facts."""

    time: datetime
    repeated: bool


@dataclass(frozen=True)
class Charge:
    """One charge as it is stored, in the order of the columns of its table."""

    number: int  # counted from 1
    dataset: str
    request: str
    known: str  # its fingerprints, as JSON
    spent: str  # what it costs, as `charges_to_text` wrote it
    public: str  # its parameters, as JSON
    time: float  # in seconds since 1970
    token: str  # of the one process that may finish it, as long as nobody declared it burnt
    state: str  # debited, finished or burnt
    release: str | None  # digest of its bytes, once it is finished
    opened: int  # number of the entry of the audit log that records the charge
    closed: int | None  # number of the entry that records how it ended; None while it is debited
    seal: str  # digest of what the audit log does not hold of it (`seal_of`)

    @cached_property
    def fingerprints(self) -> Mapping[str, str]:
        """By data set that it charges; only notes depend on them."""
        return self._read(self.known)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The public ones."""
        return self._read(self.public)

    def _read(self, text: str) -> dict[str, Any]:
        try:
            stored: dict[str, Any] = json.loads(text)
        except (ValueError, TypeError):
            raise LedgerError(f"Charge {self.number} of the ledger is damaged.") from None
        return stored

    def costs(self) -> dict[str, Cost]:
        """Return what it cost each data set, by name."""
        return costs_of(self.dataset, json.loads(self.spent))


def costs_of(dataset: str, lines: Sequence[Mapping[str, Any]]) -> dict[str, Cost]:
    """Return what the lines of a charge of a data set cost each data set, by name."""
    costs: dict[str, list[tuple[Unit, Event]]] = {}
    for line in lines:
        cost = (Unit(line["unit"]), event_from_json(line["event"]))
        costs.setdefault(line.get(OTHER, dataset), []).append(cost)
    return {name: tuple(cost) for name, cost in costs.items()}


@dataclass(frozen=True)
class Balance:
    """One budget, and what is spent of it at the budget's delta."""

    dataset: str
    unit: Unit
    budget: Budget
    spent: float  # epsilon of the smallest budget, at this delta, that would have allowed all
    debits: int  # how many charges count against this budget

    @property
    def left(self) -> float:
        """The difference of the two; `Ledger.largest_epsilon` says what still fits."""
        return max(0.0, self.budget.epsilon - self.spent)


# What the store calls a charge without output is not for people.
STATES: Mapping[str, str] = {"burnt": "charged, output lost"}


@dataclass(frozen=True)
class Entry:
    """One charge of the history."""

    number: int  # counted from 1
    dataset: str
    request: str
    charges: Cost  # one for each unit that the release is about
    parameters: Mapping[str, Any]  # the public ones
    state: str  # released, pending, or burnt (charged, output lost)
    time: float  # in seconds since 1970
    also: Mapping[str, Cost]  # what it cost other data sets, by name

    @property
    def epsilons(self) -> tuple[tuple[Unit, float], ...]:
        """What it cost by itself: (unit, epsilon) for each of ``charges``, at `stated_delta`."""
        return tuple((unit, stated_epsilon(e, self.stated_delta)) for unit, e in self.charges)

    def stated_sum(self, balance: Balance) -> float:
        """Return the sum of the epsilons that it cost a budget by itself, at its own delta.

        The sum over all charges is usually larger than what they cost together.
        """
        own = {**self.also, self.dataset: self.charges}
        events = closest_events(balance.unit, own.get(balance.dataset, ()))
        delta = self.stated_delta or balance.budget.delta
        return sum(stated_epsilon(event, delta) for event in events)

    @property
    def stated_delta(self) -> float:
        """The delta at which the release states its epsilon; 0 where its request has none."""
        return float(self.parameters.get("delta") or 0.0)


def seal_of(*parts: object) -> str:
    """Return a digest of the parts of a charge that the audit log may not hold.

    It shows damage of the file. The log shows changes of all that decides about a charge.
    """
    return digest_of_bytes(json.dumps(parts, sort_keys=True).encode())


def stated_epsilon(event: Event, delta: float) -> float:
    """Return the epsilon of one event as a release states it: at delta 0 where that is finite."""
    return event.epsilon(0.0 if event.pure else delta)


def charges_to_text(guarantees: Sequence[Guarantee], also: Sequence[DatasetCharge] = ()) -> str:
    """Return what a release costs as the text that a ledger stores.

    What it costs other data sets stands in the same text, under their names, so that all of it is
    written or nothing is.
    """
    lines = [{"unit": str(g.unit), "event": g.event.to_json()} for g in guarantees]
    for charge in also:
        lines += [
            {"unit": str(g.unit), "event": g.event.to_json(), OTHER: charge.dataset}
            for g in charge.guarantees
        ]
    return json.dumps(lines)


Spent = Mapping[Unit, Tally]
"""What all charges cost the budgets of one data set, whatever became of their outputs."""


def balance_of(dataset: str, unit: Unit, budget: Budget, spent: Tally) -> Balance:
    """Return one budget with what is spent of it."""
    return Balance(dataset, unit, budget, Room(budget, spent).spent, spent.charges)


def entry_of(charge: Charge, state: str) -> Entry:
    """Return a charge as the history shows it, with its state in the words of people."""
    costs = charge.costs()
    return Entry(
        number=charge.number,
        dataset=charge.dataset,
        request=charge.request,
        charges=costs.pop(charge.dataset, ()),
        parameters=charge.parameters,
        state=state,
        time=charge.time,
        also=costs,
    )


EventAtEpsilon = Callable[[float], Event]
"""Returns the event that a release of some type has at an epsilon."""

# Candidates are decimals of three digits: 1.00, 1.01, ..., 9.99, 10.0, 10.1, ...
_PER_DECADE = 900
_LEAST_EXPONENT, _LARGEST_EXPONENT = -6, 4  # from 0.000001 to 9990
_CANDIDATES = _PER_DECADE * (_LARGEST_EXPONENT - _LEAST_EXPONENT)
_SLACK = 1e-8  # of a Gaussian on a rounding grid: more than that of most releases


@dataclass(frozen=True)
class Room:
    """One budget and what was charged to it so far."""

    budget: Budget
    charged: Tally  # every charge that counts against this budget

    @property
    def spent(self) -> float:
        """The epsilon of the smallest budget that would have allowed what was charged."""
        return spent_epsilon(self.charged, self.budget.delta)

    def admits(self, event: Event) -> bool:
        """Say whether a release with this event fits, by the rule that charges are refused by."""
        return fits(self.charged.plus(event), self.budget.epsilon, self.budget.delta)


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

    What fits at some epsilon fits at every smaller one.
    """

    def admitted(number: int) -> bool:
        try:
            event = event_at(_candidate(number))
        except ParameterError:  # there is no such noise
            return False
        return all(room.admits(event) for room in rooms)

    fitting, refused = -1, _CANDIDATES
    while refused - fitting > 1:
        middle = (fitting + refused) // 2
        fitting, refused = (middle, refused) if admitted(middle) else (fitting, middle)
    return 0.0 if fitting < 0 else _candidate(fitting)


def _candidate(number: int) -> float:
    decade, digits = divmod(number, _PER_DECADE)
    return float(f"{100 + digits}e{decade + _LEAST_EXPONENT - 2}")


# Public parameters that follow from a table, not from what its owner asked for.
_OF_THE_TABLE = (
    "rows",
    "labelled",
    "records",
    "people",
    "bags",
    "grid",
    "auxiliary_rows",
    "pipeline",
)


def check_affordable(
    dataset: str,
    guarantees: Sequence[Guarantee],
    budgets: Mapping[Unit, Budget],
    spent: Spent,
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
        room = Room(budget, spent[unit])
        if not room.admits(compose_events(new)):
            delta = f"{budget.delta:g}".replace("e-0", "e-")
            raise BudgetError(
                f"This release would exceed the budget of {dataset!r}: epsilon"
                f" {budget.epsilon:g} per {unit} at delta {delta}, of which {room.spent:.4g} is"
                " spent."
            )


def _says_nothing(dataset: str, unit: Unit) -> UnitError:
    return UnitError(
        f"Data set {dataset!r} has a budget per {unit}, and this release states no guarantee per"
        f" {unit}. Nothing would limit what it reveals about one. Release about a {unit}, or about"
        " something that contains it."
    )


def unit_covering(dataset: str, budgets: Mapping[Unit, Budget], unit: Unit | str | None) -> Unit:
    """Return what a release must protect to be charged here: ``unit``, or the narrowest that does.

    Raise if a release about ``unit`` says nothing about a unit that has a budget.
    """
    if unit is None:
        covering = [wide for wide in Unit if all(wide.covers(narrow) for narrow in budgets)]
        return min(covering, key=lambda wide: len(CONTAINED[wide]))
    protected = Unit(unit)
    for narrow in budgets:
        if not protected.covers(narrow):
            raise _says_nothing(dataset, narrow)
    return protected


def rooms_for(unit: Unit, budgets: Mapping[Unit, Budget], spent: Spent) -> list[Room]:
    """Return the budgets that a release about one ``unit`` is charged to, and what was charged."""
    rooms = []
    for narrow, budget in budgets.items():
        if unit.covers(narrow):
            check_budget(budget)
            rooms.append(Room(budget, spent[narrow]))
    return rooms


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
