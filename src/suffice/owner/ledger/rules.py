"""What may be charged to a budget, and which data a charge is for: rules without any storage."""

import json
from collections.abc import Mapping, Sequence

from suffice.errors import BudgetError, DataChangedError, ParameterError, UnitError
from suffice.owner.ledger.charging import (
    DatasetCharge,
    check_budget,
    check_chargeable,
    closest_events,
)
from suffice.owner.ledger.room import Room
from suffice.owner.ledger.rows import Charge, Request, Versions, charges_from_text
from suffice.privacy.accounting import compose_events
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = [
    "SPELT_AS",
    "check_affordable",
    "check_apart",
    "check_elsewhere",
    "check_unchanged",
    "known_version",
    "names_of_same_data",
    "recorded",
    "room_in",
    "rooms_for",
    "same_request",
    "spent_by_charge",
    "unit_covering",
]

SPELT_AS = " as "  # in the name of an algorithm: classes were not spelt so, but could have been
_OF_THE_DATA = ("rows", "pipeline")  # parameters that follow from the table; see `same_request`


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


def known_version(versions: Versions, fingerprints: Mapping[str, str]) -> int | None:
    """Return which version of a data set these fingerprints are of, the newest first; or None.

    Labels decide, by the newest algorithm that both sides have. Cells count where the same columns
    were seen before: other columns of the same people are no change.
    """
    for number in sorted(versions, reverse=True):
        stored = versions[number]
        if _same_people(stored, fingerprints) and _same_cells(stored, fingerprints):
            return number
    return None


def recorded(fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprints that are stored: not those of spellings that were not used."""
    return {name: value for name, value in fingerprints.items() if SPELT_AS not in name}


def names_of_same_data(
    others: Mapping[str, Versions], fingerprints: Mapping[str, str]
) -> list[str]:
    """Return the data sets that hold these very labels, or these very cells, in any version."""

    def same(stored: Mapping[str, str]) -> bool:
        return _same_people(stored, fingerprints) or _any_same_cells(stored, fingerprints)

    return [name for name, versions in others.items() if any(map(same, versions.values()))]


def check_elsewhere(names: Sequence[str]) -> None:
    """Raise if the data have a budget under another name."""
    if names:
        raise DataChangedError(
            f"These data already have a budget under the name {names[0]!r}, and cannot have two."
            " Use that name (--dataset). (The same number of parties counts as the same data,"
            " unless parties are enrolled by name.)"
        )


def check_unchanged(dataset: str, *, changed: bool) -> None:
    """Raise if the data are no version of those that this name is known for."""
    if changed:
        raise DataChangedError(
            f"The private data under the name {dataset!r}, or their order, are not those of earlier"
            " releases. Restore them, or use --data-changed (Python: data_changed=True), which"
            " charges the same budget. Data about other people need a data set of their own; the"
            " same people must never have two."
        )


def same_request(request: Request, charge: Charge, version: int | None) -> bool:
    """Say whether a name is used for what it was used for before.

    On the data that it was charged for, everything must be equal. On another version of them, what
    follows from the data themselves is not compared.
    """
    if request.hash == charge.hash:
        return True
    if version == charge.version:
        return False
    return _without_data(request.parameters) == _without_data(charge.parameters)


def _without_data(parameters: Mapping[str, object]) -> dict[str, object]:
    stored = json.loads(json.dumps(dict(parameters)))  # lists, not tuples
    return {name: value for name, value in stored.items() if name not in _OF_THE_DATA}


def _same_people(stored: Mapping[str, str], fingerprints: Mapping[str, str]) -> bool:
    for algorithm in ("labels-2", "labels-1", "contents-1"):
        spelled = [
            value
            for name, value in fingerprints.items()
            if name.partition(SPELT_AS)[0] == algorithm
        ]
        if algorithm in stored and spelled:
            return stored[algorithm] in spelled
    return False


def _shared_cells(stored: Mapping[str, str], fingerprints: Mapping[str, str]) -> list[str]:
    """Return the algorithms for cells (one for each list of columns) that both sides have."""
    return [name for name in fingerprints if name.startswith("cells-") and name in stored]


def _same_cells(stored: Mapping[str, str], fingerprints: Mapping[str, str]) -> bool:
    names = _shared_cells(stored, fingerprints)
    return all(stored[name] == fingerprints[name] for name in names)


def _any_same_cells(stored: Mapping[str, str], fingerprints: Mapping[str, str]) -> bool:
    names = _shared_cells(stored, fingerprints)
    return any(stored[name] == fingerprints[name] for name in names)
