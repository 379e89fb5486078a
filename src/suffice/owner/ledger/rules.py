"""What may be charged to a budget, and which request a name is for: rules without any storage."""

import json
from collections.abc import Mapping, Sequence

from suffice.errors import BudgetError, ParameterError, RequestConflictError, UnitError
from suffice.owner.ledger.charging import (
    DatasetCharge,
    check_budget,
    check_chargeable,
    closest_events,
)
from suffice.owner.ledger.room import Room
from suffice.owner.ledger.rows import Charge, Request, charges_from_text
from suffice.privacy.accounting import compose_events
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = [
    "check_affordable",
    "check_apart",
    "check_same_request",
    "other_names",
    "room_in",
    "rooms_for",
    "spent_by_charge",
    "unit_covering",
]

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
