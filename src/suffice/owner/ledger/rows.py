"""What the rows of a ledger say: requests, charges and what they cost, budgets and balances."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suffice.owner.ledger.charging import DatasetCharge
from suffice.privacy.accounting import event_from_json
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = [
    "OTHER",
    "Balance",
    "Charge",
    "Entry",
    "Request",
    "Versions",
    "charges_from_text",
    "charges_to_text",
    "texts_by_dataset",
]

OTHER = "dataset"  # whom a line of a charge is for, if it is another data set than the charge's

Versions = Mapping[int, Mapping[str, str]]
"""The versions of one data set: number -> algorithm -> fingerprint."""


@dataclass(frozen=True)
class Request:
    """What is asked for: ``hash`` binds the ``name`` to parameters and data.

    ``fingerprint`` identifies the data set's contents, by algorithm where there are several;
    ``parameters`` are kept for the history.
    """

    name: str
    hash: str
    fingerprint: str | Mapping[str, str]
    parameters: Mapping[str, Any]

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprints by the names of their algorithms."""
        alone = isinstance(self.fingerprint, str)
        return {"contents-1": self.fingerprint} if alone else self.fingerprint  # type: ignore[dict-item, return-value]


@dataclass(frozen=True)
class Charge:
    """One charge as it is stored; ``state`` is debited, finished or burnt.

    ``version`` is the version of the data that it was made for. ``token`` names the one process
    that may finish it, as long as nobody has declared it burnt.
    """

    number: int
    dataset: str
    request: str
    hash: str
    version: int
    spent: str
    parameters: Mapping[str, Any]
    time: float
    token: str
    state: str
    data: bytes | None = field(repr=False, default=None)


@dataclass(frozen=True)
class Balance:
    """What one budget allowed and what of it is spent, at the budget's delta."""

    dataset: str
    unit: Unit
    budget: Budget
    spent: float
    debits: int

    @property
    def left(self) -> float:
        """The epsilon that a further release may cost at least (composition may allow more)."""
        return max(0.0, self.budget.epsilon - self.spent)


@dataclass(frozen=True)
class Entry:
    """One charge of the history; ``state`` is released, burnt or pending.

    ``charges`` are what it cost: an event for each unit that the release promises something about.
    ``version`` says for which version of the data it was, counted from 1. ``also`` are what the
    same release cost other data sets, by their names.
    """

    number: int
    dataset: str
    request: str
    charges: tuple[tuple[Unit, Event], ...]
    parameters: Mapping[str, Any]
    state: str
    time: float
    version: int
    also: Mapping[str, tuple[tuple[Unit, Event], ...]]


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
    found: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(spent):
        found.setdefault(line.pop(OTHER, dataset), []).append(line)
    return {name: json.dumps(lines) for name, lines in found.items()}


def charges_from_text(spent: str) -> tuple[tuple[Unit, Event], ...]:
    """Return what a charge cost, as `charges_to_text` wrote it down."""
    lines = json.loads(spent)
    return tuple((Unit(line["unit"]), event_from_json(line["event"])) for line in lines)
