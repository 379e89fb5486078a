"""The statements by which a ledger's audit log, name and state are read and written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from suffice.owner.ledger.chain import FIRST, Kind, LogEntry, digest_of_bytes, next_entry
from suffice.privacy.guarantee import Budget, Unit
from suffice.privacy.randomness import private_words

__all__ = ["Connection", "LogTables", "anchor_kind", "budgets_as_logged", "name_for"]


class Connection(Protocol):
    """A connection that runs statements with a question mark in the place of each value."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Any:
        """Run one statement; return a cursor, which has fetchone, fetchall and rowcount."""


@dataclass(frozen=True)
class LogTables:
    """The audit log as one connection sees it."""

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
        entry = next_entry(*self.head(), kind, text)
        row = (entry.number, entry.time, entry.kind, entry.text, entry.digest)
        self.db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)
        return entry.number

    def log(self, after: int = 0) -> list[LogEntry]:
        """Return every entry after the one of this number, oldest first, unchecked."""
        query = "SELECT number, time, kind, body, digest FROM log WHERE number > ? ORDER BY number"
        return [LogEntry(*row) for row in self.db.execute(query, (after,))]

    def head(self) -> tuple[int, str]:
        """Return number and digest of the last entry, unchecked."""
        query = "SELECT number, digest FROM log ORDER BY number DESC LIMIT 1"
        last = self.db.execute(query).fetchone()
        return (0, FIRST) if last is None else (last[0], last[1])

    def digest_at(self, number: int) -> str | None:
        """Return the digest of the entry of this number, or None."""
        row = self.db.execute("SELECT digest FROM log WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def open_log(self, place: str, anchor: str, schema: int) -> None:
        """Give the ledger its key and its name, and write the first entry of its log."""
        key = private_words(4).tobytes()
        self.db.execute("INSERT INTO secret VALUES (1, ?)", (key,))
        row = (name_for(key), place, anchor)
        self.db.execute("INSERT INTO ledger VALUES (1, ?, ?, '', ?)", row)
        facts = {"ledger": name_for(key), "schema": schema, "anchor": anchor_kind(anchor)}
        self.append(Kind.OPENED, facts)

    def secret(self) -> bytes:
        """Return the ledger's own key."""
        return bytes(self.db.execute("SELECT key FROM secret").fetchone()[0])

    def anchor(self) -> str:
        """Return where the ledger's anchor is."""
        return str(self.db.execute("SELECT anchor FROM ledger").fetchone()[0])

    def name(self) -> str:
        """Return the name of the ledger, by which checkpoints know it (`name_for`)."""
        return str(self.db.execute("SELECT name FROM ledger").fetchone()[0])

    def place(self) -> str:
        """Return the database that the ledger was last used in, "" where that is not recorded."""
        return str(self.db.execute("SELECT place FROM ledger").fetchone()[0])

    def frozen(self) -> str:
        """Return why nothing may be charged until the ledger is recovered; "" if it may."""
        return str(self.db.execute("SELECT frozen FROM ledger").fetchone()[0])

    def freeze(self, reason: str) -> None:
        """Let nothing be charged any more."""
        self.append(Kind.FROZEN, {"reason": reason})
        self.db.execute("UPDATE ledger SET frozen = ?", (reason,))

    def settle_at(self, place: str) -> None:
        """Remember in which database the ledger is now."""
        self.db.execute("UPDATE ledger SET place = ?", (place,))

    def thaw(self, facts: Mapping[str, Any], anchor: str) -> None:
        """Write down how the ledger was recovered; from now on it may be charged again."""
        self.append(Kind.RECOVERED, {**facts, "anchor": anchor_kind(anchor)})
        self.db.execute("UPDATE ledger SET frozen = '', anchor = ?", (anchor,))

    def log_budgets(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write an entry about a new data set."""
        self.append(Kind.BUDGET, {"dataset": dataset, "budgets": budgets_as_logged(budgets)})

    def log_classes(self, dataset: str, label: str, classes: Sequence[Any]) -> None:
        """Write an entry about declared classes."""
        self.append(Kind.CLASSES, {"dataset": dataset, "label": label, "classes": [*classes]})

    def log_debit(self, dataset: str, request: str, spent: str, parameters: str, token: str) -> int:
        """Write an entry about a charge; return its number.

        The token of the charge is random. So two copies of a ledger never write the same entry,
        whatever they are asked in the same second.
        """
        digest = digest_of_bytes(parameters.encode())
        facts = {"dataset": dataset, "request": request, "spent": json.loads(spent)}
        claim = digest_of_bytes(token.encode())
        return self.append(Kind.DEBIT, {**facts, "parameters": digest, "claim": claim})

    def log_finish(self, dataset: str, request: str, data: bytes) -> int:
        """Write an entry about stored bytes; return its number."""
        facts = {"dataset": dataset, "request": request, "release": digest_of_bytes(data)}
        return self.append(Kind.FINISH, facts)

    def log_burnt(self, dataset: str, request: str) -> int:
        """Write an entry about a charge that will have no bytes; return its number."""
        return self.append(Kind.BURNT, {"dataset": dataset, "request": request})


def budgets_as_logged(budgets: Mapping[Unit, Budget]) -> dict[str, list[str]]:
    """Return the budgets of a data set as the log states them."""
    return {str(u): [repr(b.epsilon), repr(b.delta)] for u, b in budgets.items()}


def anchor_kind(place: str) -> str:
    """Return what is at the place of an anchor, as the log states it: file, command or none."""
    if place == "none":
        return "none"
    return "command" if place.startswith("command:") else "file"


def name_for(key: bytes) -> str:
    """Return the name of the ledger that has this key: 128 bits, from which nobody can find it."""
    return digest_of_bytes(key)[:32]
