"""The statements by which a ledger's audit log, name and state are read and written."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from suffice.owner.ledger.chain import Kind, LogEntry, digest_of_bytes, next_entry
from suffice.privacy.guarantee import Budget, Unit
from suffice.privacy.randomness import private_words

__all__ = ["Connection", "Cursor", "LogTables"]


class Cursor(Protocol):
    """The rows of a statement, as the libraries of both databases return them."""

    @property
    def rowcount(self) -> int:
        """How many rows a statement has changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection that runs statements with a question mark in the place of each value."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor:
        """Run one statement."""


@dataclass(frozen=True)
class LogTables:
    """The audit log as one connection sees it; see `store.Records`."""

    db: Connection

    def append(self, kind: Kind, facts: Mapping[str, Any], *, once: bool = False) -> int:
        """Write an entry in this transaction; return its number.

        With ``once`` an entry that says the same is not written again.
        """
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        if once:
            query = "SELECT number FROM log WHERE kind = ? AND body = ?"
            earlier = self.db.execute(query, (str(kind), text)).fetchone()
            if earlier is not None:
                return int(earlier[0])
        query = "SELECT number, digest FROM log ORDER BY number DESC LIMIT 1"
        last = self.db.execute(query).fetchone()
        entry = next_entry(None if last is None else (last[0], last[1]), kind, text)
        row = (entry.number, entry.time, entry.kind, entry.text, entry.digest)
        self.db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)
        return entry.number

    def log(self) -> list[LogEntry]:
        """Return every entry, oldest first, unchecked."""
        query = "SELECT number, time, kind, body, digest FROM log ORDER BY number"
        return [LogEntry(*row) for row in self.db.execute(query)]

    def open_log(self, place: str, kind: Kind, facts: Mapping[str, Any]) -> None:
        """Name the ledger, and write the first entry of its log."""
        name = private_words(2).tobytes().hex()
        self.db.execute("INSERT INTO ledger VALUES (1, ?, ?, '')", (name, place))
        self.append(kind, {"ledger": name, **facts})

    def name(self) -> str:
        """Return the name of the ledger: 128 random bits, by which checkpoints know it."""
        return str(self.db.execute("SELECT name FROM ledger").fetchone()[0])

    def place(self) -> str:
        """Return the database that the ledger was last used in, "" where that is not recorded."""
        return str(self.db.execute("SELECT place FROM ledger").fetchone()[0])

    def frozen(self) -> str:
        """Return why nothing may be charged until the ledger is recovered; "" if it may."""
        return str(self.db.execute("SELECT frozen FROM ledger").fetchone()[0])

    def freeze(self, reason: str, place: str) -> None:
        """Let nothing be charged any more, and remember where the ledger is now."""
        self.append(Kind.FROZEN, {"reason": reason})
        self.db.execute("UPDATE ledger SET frozen = ?, place = ?", (reason, place))

    def thaw(self, facts: Mapping[str, Any]) -> None:
        """Write down how the ledger was recovered; from now on it may be charged again."""
        self.append(Kind.RECOVERED, facts)
        self.db.execute("UPDATE ledger SET frozen = ''")

    def log_budgets(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write an entry about a new data set."""
        amounts = {str(u): [repr(b.epsilon), repr(b.delta)] for u, b in budgets.items()}
        self.append(Kind.BUDGET, {"dataset": dataset, "budgets": amounts})

    def log_classes(self, dataset: str, label: str, classes: Sequence[Any]) -> None:
        """Write an entry about declared classes."""
        self.append(Kind.CLASSES, {"dataset": dataset, "label": label, "classes": [*classes]})

    def log_debit(self, dataset: str, request: str, spent: str, parameters: str) -> int:
        """Write an entry about a charge; return its number."""
        digest = digest_of_bytes(parameters.encode())
        facts = {"dataset": dataset, "request": request, "spent": json.loads(spent)}
        return self.append(Kind.DEBIT, {**facts, "parameters": digest})

    def log_finish(self, dataset: str, request: str, data: bytes) -> int:
        """Write an entry about stored bytes; return its number."""
        facts = {"dataset": dataset, "request": request, "release": digest_of_bytes(data)}
        return self.append(Kind.FINISH, facts)

    def log_burnt(self, dataset: str, request: str) -> int:
        """Write an entry about a charge that will have no bytes; return its number."""
        return self.append(Kind.BURNT, {"dataset": dataset, "request": request})
