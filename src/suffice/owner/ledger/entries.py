"""What a release costs the budgets of its data sets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suffice.errors import BudgetError, PrivacyError
from suffice.owner.ledger.log import digest_of_bytes
from suffice.privacy.accounting import event_from_json
from suffice.privacy.calibrate import NO_PROTECTION_DELTA
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Budget, Guarantee, Scope, Unit

__all__ = [
    "OTHER",
    "Balance",
    "Charge",
    "DatasetCharge",
    "Entry",
    "Request",
    "charges_from_text",
    "charges_to_text",
    "check_budget",
    "check_chargeable",
    "closest_events",
    "seal_of",
    "stated_epsilon",
    "texts_by_dataset",
]


@dataclass(frozen=True)
class DatasetCharge:
    """What one release costs one data set: the ledger writes all charges of a release, or none.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    guarantees : sequence of Guarantee
        What the release states about this data set, and no others.
    fingerprint : str
        What identifies the private data; stored under the ledger's key. Only notes depend on it.
    """

    dataset: str
    guarantees: Sequence[Guarantee]
    fingerprint: str = ""


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


def closest_events(unit: Unit, lines: Sequence[tuple[Unit, Event]]) -> list[Event]:
    """Return what one charge costs a unit: of the statements that cover it, those closest to it.

    A release that states a guarantee per label, per attribute and per record says the same thing
    three times; a budget per label is charged with the statement about labels. Several statements
    about one unit (two mechanisms) are all charged.
    """
    covering = [(len(u.contained), event) for u, event in lines if u.covers(unit)]
    closest = min((size for size, _ in covering), default=0)
    return [event for size, event in covering if size == closest]


OTHER = "dataset"  # whom a line of a charge is for, if it is another data set than the charge's


@dataclass(frozen=True)
class Request:
    """A request for one release.

    Parameters
    ----------
    name : str
        Name of the request. The same name gets the same bytes.
    parameters : mapping
        The public parameters.
    fingerprint : str
        What identifies the private data, under the ledger's key. Only notes depend on it.
    """

    name: str
    parameters: Mapping[str, Any]
    fingerprint: str = ""


@dataclass(frozen=True)
class Charge:
    """One charge as it is stored.

    Parameters
    ----------
    number : int
        Number of the charge, counted from 1.
    dataset, request : str
        Names of the data set and of the request.
    fingerprints : mapping
        What identified the private data of each data set that it charges; only notes depend on it.
    spent : str
        What it costs, as `charges_to_text` wrote it.
    parameters : mapping
        The public parameters of the request.
    time : float
        When it was charged, in seconds since 1970.
    token : str
        Names the one process that may finish it, as long as nobody has declared it burnt.
    state : str
        debited, finished or burnt.
    opened : int
        Number of the entry of the audit log that records the charge.
    closed : int or None
        Number of the entry that records how it ended; None while it is debited.
    seal : str
        Digest of what the audit log does not hold of it (`seal_of`).
    data : bytes, optional
        The stored release.
    """

    number: int
    dataset: str
    request: str
    fingerprints: Mapping[str, str]
    spent: str
    parameters: Mapping[str, Any]
    time: float
    token: str
    state: str
    opened: int
    closed: int | None
    seal: str
    data: bytes | None = field(repr=False, default=None)

    @property
    def stated_delta(self) -> float:
        """The delta at which the release states its epsilon; 0 where its request has none."""
        return _stated_delta(self.parameters)


@dataclass(frozen=True)
class Balance:
    """One budget, and what is spent of it at the budget's delta.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    unit : Unit
        What the budget is about: a label, an attribute, a record or a party.
    budget : Budget
        The epsilon and delta that all releases may use together.
    spent : float
        The epsilon of the smallest budget, at this delta, that would have allowed all charges.
    debits : int
        How many charges count against this budget.
    summed : float
        The sum of the epsilons of all charges, each at the delta that its release states. It is
        usually larger than ``spent``, because charges compose to less than their sum.
    """

    dataset: str
    unit: Unit
    budget: Budget
    spent: float
    debits: int
    summed: float = 0.0

    @property
    def left(self) -> float:
        """The difference of the two; `Ledger.largest_epsilon` says what still fits."""
        return max(0.0, self.budget.epsilon - self.spent)


@dataclass(frozen=True)
class Entry:
    """One charge of the history.

    Parameters
    ----------
    number : int
        Number of the charge, counted from 1.
    dataset, request : str
        Names of the data set and of the request.
    charges : tuple of (Unit, Event)
        What it cost: an event for each unit that the release states a guarantee about.
    parameters : mapping
        The public parameters of the request.
    state : str
        released, pending, or burnt (charged, output lost).
    time : float
        When it was charged, in seconds since 1970.
    also : mapping
        What the same release cost other data sets, by their names.
    """

    number: int
    dataset: str
    request: str
    charges: tuple[tuple[Unit, Event], ...]
    parameters: Mapping[str, Any]
    state: str
    time: float
    also: Mapping[str, tuple[tuple[Unit, Event], ...]]

    @property
    def epsilons(self) -> tuple[tuple[Unit, float], ...]:
        """What it cost by itself: (unit, epsilon) for each of ``charges``, at `stated_delta`."""
        return tuple((unit, stated_epsilon(e, self.stated_delta)) for unit, e in self.charges)

    @property
    def stated_delta(self) -> float:
        """The delta at which the release states its epsilon; 0 where its request has none."""
        return _stated_delta(self.parameters)


def _stated_delta(parameters: Mapping[str, Any]) -> float:
    return float(parameters.get("delta") or 0.0)


def seal_of(*parts: object) -> str:
    """Return a digest of the parts of a charge that the audit log may not hold.

    It shows damage of the file. The log shows changes of all that decides about a charge.
    """
    return digest_of_bytes(json.dumps(parts).encode())


def stated_epsilon(event: Event, delta: float) -> float:
    """Return the epsilon of one event as a release states it: at delta 0 where that is finite."""
    return event.epsilon(0.0 if event.pure else delta)


def charges_to_text(guarantees: Sequence[Guarantee], also: Sequence[DatasetCharge] = ()) -> str:
    """Return what a release costs as the text that a ledger stores.

    What it costs other data sets stands in the same text, under their names, so that all of it is
    written or nothing is.
    """
    lines = _lines(guarantees)
    lines += [{**line, OTHER: c.dataset} for c in also for line in _lines(c.guarantees)]
    return json.dumps(lines)


def _lines(guarantees: Sequence[Guarantee]) -> list[dict[str, Any]]:
    return [{"unit": str(g.unit), "event": g.event.to_json()} for g in guarantees]


def texts_by_dataset(spent: str, dataset: str) -> dict[str, str]:
    """Return what a charge of ``dataset`` cost each data set, as text."""
    lines_of: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(spent):
        lines_of.setdefault(line.pop(OTHER, dataset), []).append(line)
    return {name: json.dumps(lines) for name, lines in lines_of.items()}


def charges_from_text(spent: str) -> tuple[tuple[Unit, Event], ...]:
    """Return what a charge cost, as `charges_to_text` wrote it down."""
    lines = json.loads(spent)
    return tuple((Unit(line["unit"]), event_from_json(line["event"])) for line in lines)
