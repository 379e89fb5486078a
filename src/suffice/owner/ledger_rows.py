"""What the rows of a ledger say: requests, debits and what they cost, budgets and balances."""

import json
import os
import socket
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.charging import DatasetCharge, closest_events
from suffice.privacy.events import Event, event_from_json
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = [
    "Balance",
    "Entry",
    "Request",
    "budgets_of",
    "entry_of",
    "spent_by_debit",
    "spent_events",
    "state_of",
    "write_debit",
]

_OTHER = "dataset"  # whom a line of a debit charges, if it is another data set than the debit's


@dataclass(frozen=True)
class Request:
    """What is asked for: ``hash`` binds the ``name`` to parameters and data.

    ``fingerprint`` identifies the data set's contents, ``parameters`` are kept for the history.
    """

    name: str
    hash: str
    fingerprint: str
    parameters: Mapping[str, Any]


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
    """One debit of the history; ``state`` is released, burnt or pending.

    ``charges`` are what it cost: an event for each unit that the release promises something about.
    ``also`` are what the same release cost other data sets, by their names.
    """

    number: int
    dataset: str
    request: str
    charges: tuple[tuple[Unit, Event], ...]
    parameters: Mapping[str, Any]
    state: str
    time: float
    also: Mapping[str, tuple[tuple[Unit, Event], ...]]


def write_debit(db: sqlite3.Connection, charges: Sequence[DatasetCharge], request: Request) -> None:
    """Write down what a request costs, before anything is drawn for it.

    The request belongs to the first data set that is charged. What it costs others stands in the
    same row, under their names, so that all of it is written or nothing is.
    """
    own, *others = charges
    spent = _lines(own.guarantees)
    spent += [{**line, _OTHER: c.dataset} for c in others for line in _lines(c.guarantees)]
    row = {
        "dataset": own.dataset,
        "request": request.name,
        "request_hash": request.hash,
        "spent": json.dumps(spent),
        "parameters": json.dumps(dict(request.parameters)),
        "time": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    names = ", ".join(row)
    places = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT INTO debits ({names}) VALUES ({places})", row)  # noqa: S608  # our own names


def _lines(guarantees: Sequence[Guarantee]) -> list[dict[str, Any]]:
    return [{"unit": str(g.unit), "event": g.event.to_json()} for g in guarantees]


def state_of(finished: int | None, host: str, pid: int) -> str:
    """Return released, pending (the process that paid still runs here) or burnt."""
    if finished:
        return "released"
    if pid == 0 or host != socket.gethostname():
        return "burnt"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "burnt"
    except PermissionError:  # it runs, as somebody else
        pass
    return "pending"


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Return one line of the history from its row."""
    number, dataset, request, spent, parameters, when, finished, host, pid = row
    charges = _charges(spent, dataset)
    return Entry(
        number=number,
        dataset=dataset,
        request=request,
        charges=charges.pop(dataset, ()),
        parameters=json.loads(parameters),
        state=state_of(finished, host, pid),
        time=when,
        also=charges,
    )


def budgets_of(db: sqlite3.Connection, dataset: str) -> dict[Unit, Budget]:
    """Return the budgets of a data set, by unit."""
    rows = db.execute(
        "SELECT unit, epsilon, delta FROM budgets WHERE dataset = ? ORDER BY unit", (dataset,)
    )
    return {Unit(unit): Budget(float(epsilon), float(delta)) for unit, epsilon, delta in rows}


def spent_events(db: sqlite3.Connection, dataset: str, unit: Unit) -> list[Event]:
    """Return the events that count against a budget per ``unit``, finished and burnt alike."""
    return [event for events in spent_by_debit(db, dataset, unit) for event in events]


def spent_by_debit(db: sqlite3.Connection, dataset: str, unit: Unit) -> list[list[Event]]:
    """Return the same, debit by debit."""
    debits = db.execute(
        "SELECT dataset, spent FROM debits WHERE dataset = ? OR spent LIKE ?",
        (dataset, f'%"{_OTHER}"%'),
    )
    charged = (_charges(spent, owner).get(dataset, ()) for owner, spent in debits)
    return [closest_events(unit, lines) for lines in charged]


def _charges(spent: str, dataset: str) -> dict[str, tuple[tuple[Unit, Event], ...]]:
    """Return what a debit of ``dataset`` cost each data set, as `write_debit` wrote it down."""
    found: dict[str, tuple[tuple[Unit, Event], ...]] = {}
    for line in json.loads(spent):
        charge = (Unit(line["unit"]), event_from_json(line["event"]))
        charged = line.get(_OTHER, dataset)
        found[charged] = (*found.get(charged, ()), charge)
    return found
