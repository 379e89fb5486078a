"""The statements by which a ledger's tables are read and written, over one connection."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.ledger.chain import digest_of_bytes
from suffice.owner.ledger.charging import DatasetCharge
from suffice.owner.ledger.rows import (
    OTHER,
    Charge,
    Request,
    charges_to_text,
    seal_of,
    texts_by_dataset,
)
from suffice.owner.ledger.token_tables import TokenTables
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = ["Tables"]

_OPEN = "WHERE dataset = ? AND request = ? AND token = ? AND state = 'debited'"
_CHARGE = (
    "number, dataset, request, fingerprints, spent, parameters, time, token, state, opened, closed,"
    " seal"
)


@dataclass(frozen=True)
class Tables(TokenTables):
    """The contents of a ledger, as one connection sees them."""

    def datasets(self) -> list[str]:
        """Return the names of all data sets, sorted."""
        return [row[0] for row in self.db.execute("SELECT name FROM datasets ORDER BY name")]

    def budgets(self, dataset: str) -> dict[Unit, Budget]:
        """Return the budgets of a data set, by unit."""
        query = "SELECT unit, epsilon, delta FROM budgets WHERE dataset = ? ORDER BY unit"
        rows = self.db.execute(query, (dataset,))
        stored = ((Unit(unit), float(epsilon), float(delta)) for unit, epsilon, delta in rows)
        return {unit: Budget.stored(epsilon, delta) for unit, epsilon, delta in stored}

    def add_dataset(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write down a new data set with its budgets."""
        self.db.execute("INSERT INTO datasets VALUES (?)", (dataset,))
        for unit, budget in budgets.items():
            row = (dataset, str(unit), repr(budget.epsilon), repr(budget.delta))
            self.db.execute("INSERT INTO budgets VALUES (?, ?, ?, ?)", row)
        self.log_budgets(dataset, budgets)

    def classes(self, dataset: str) -> dict[str, tuple[Any, ...]]:
        """Return the declared classes by label column; "" stands for every column."""
        query = "SELECT label, declared FROM classes WHERE dataset = ? ORDER BY label"
        rows = self.db.execute(query, (dataset,))
        return {label: tuple(json.loads(declared)) for label, declared in rows}

    def add_classes(self, dataset: str, label: str, classes: Sequence[Any]) -> None:
        """Write down the classes of a label column."""
        row = (dataset, label, json.dumps(list(classes)))
        self.db.execute("INSERT INTO classes VALUES (?, ?, ?)", row)
        self.log_classes(dataset, label, classes)

    def spent(self, dataset: str) -> list[str]:
        """Return what every charge cost this data set, oldest first, as text."""
        query = (
            "SELECT dataset, spent FROM debits WHERE dataset = ? OR spent LIKE ? ORDER BY number"
        )
        rows = self.db.execute(query, (dataset, f'%"{OTHER}"%'))
        by_charge = (texts_by_dataset(spent, owner) for owner, spent in rows)
        return [texts[dataset] for texts in by_charge if dataset in texts]

    def spent_by_request(self) -> dict[tuple[str, str], str]:
        """Return what every charge cost, as text, by data set and request."""
        rows = self.db.execute("SELECT dataset, request, spent FROM debits")
        return {(dataset, request): spent for dataset, request, spent in rows}

    def charge(self, dataset: str, request: str) -> Charge | None:
        """Return the charge of this name, with its bytes, or None."""
        query = f"SELECT {_CHARGE}, bytes FROM debits WHERE dataset = ? AND request = ?"  # noqa: S608  # our own names
        row = self.db.execute(query, (dataset, request)).fetchone()
        return None if row is None else _charge(row)

    def charges(self) -> list[Charge]:
        """Return every charge, oldest first, without bytes."""
        query = f"SELECT {_CHARGE} FROM debits ORDER BY number"  # noqa: S608  # our own names
        return [_charge(row) for row in self.db.execute(query)]

    def add_charge(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        token: str,
        *,
        also: Sequence[DatasetCharge] = (),
    ) -> None:
        """Write down what a request costs, before anything is drawn for it."""
        fingerprints = {c.dataset: c.fingerprint for c in also} | {dataset: request.fingerprint}
        spent, parameters = charges_to_text(guarantees, also), json.dumps(dict(request.parameters))
        (last,) = self.db.execute("SELECT MAX(number) FROM debits").fetchone()
        row: dict[str, Any] = {
            "number": (last or 0) + 1,
            "dataset": dataset,
            "request": request.name,
            "fingerprints": json.dumps(fingerprints),
            "spent": spent,
            "parameters": parameters,
            "time": time.time(),
            "token": token,
            "state": "debited",
            "opened": self.log_debit(dataset, request.name, spent, parameters, token),
        }
        row["seal"] = seal_of(row["number"], fingerprints, row["time"])
        names = ", ".join(row)
        places = ", ".join("?" for _ in row)
        statement = f"INSERT INTO debits ({names}) VALUES ({places})"  # noqa: S608  # our own names
        self.db.execute(statement, tuple(row.values()))

    def finish(self, dataset: str, request: str, token: str, data: bytes) -> bool:
        """Store the bytes of a charge that is still this token's to finish; say whether it was."""
        charge = (dataset, request, token)
        if not self._is_open(*charge):
            return False
        closed = self.log_finish(dataset, request, data)
        statement = f"UPDATE debits SET state = 'finished', bytes = ?, closed = ? {_OPEN}"  # noqa: S608  # our own words
        return self.db.execute(statement, (data, closed, *charge)).rowcount == 1

    def burn(self, dataset: str, request: str, token: str) -> bool:
        """Declare that a charge will never have bytes, unless it has; say whether it was open."""
        charge = (dataset, request, token)
        if not self._is_open(*charge):
            return False
        closed = self.log_burnt(dataset, request)
        statement = f"UPDATE debits SET state = 'burnt', closed = ? {_OPEN}"  # noqa: S608  # our own words
        return self.db.execute(statement, (closed, *charge)).rowcount == 1

    def _is_open(self, dataset: str, request: str, token: str) -> bool:
        query = f"SELECT 1 FROM debits {_OPEN}"  # noqa: S608  # our own words
        return self.db.execute(query, (dataset, request, token)).fetchone() is not None

    def release_digests(self) -> dict[int, str]:
        """Return the digests of all stored bytes, by the numbers of their charges."""
        query = "SELECT number FROM debits WHERE state = 'finished' ORDER BY number"
        numbers = [row[0] for row in self.db.execute(query).fetchall()]
        query = "SELECT bytes FROM debits WHERE number = ?"  # one by one: they may be large
        stored = ((number, self.db.execute(query, (number,)).fetchone()[0]) for number in numbers)
        return {number: digest_of_bytes(data) for number, data in stored}

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these bytes are stored for this data set."""
        query = "SELECT 1 FROM debits WHERE dataset = ? AND bytes = ?"
        return self.db.execute(query, (dataset, data)).fetchone() is not None


def _charge(row: Sequence[Any]) -> Charge:
    number, dataset, request, fingerprints, spent, parameters, when, token, state, *rest = row
    opened, closed, seal, *data = rest
    return Charge(
        number=number,
        dataset=dataset,
        request=request,
        fingerprints=json.loads(fingerprints),
        spent=spent,
        parameters=json.loads(parameters),
        time=when,
        token=token,
        state=state,
        opened=opened,
        closed=closed,
        seal=seal,
        data=data[0] if data else None,
    )
