"""The tables of a ledger, and what a place to keep them (SQLite, PostgreSQL) must offer.

Amounts are text that Python reads back exactly; never REAL. A change of this file is a change of
VERSION. A charge names the entries of the audit log that record it, and so does a token.

The rules are elsewhere (ledger.py, rules.py) and the same for every store.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from suffice.errors import LedgerError
from suffice.owner.ledger.log import FIRST, Kind, LogEntry, digest_of_bytes, next_entry
from suffice.owner.ledger.rules import (
    OTHER,
    Charge,
    DatasetCharge,
    Request,
    charges_to_text,
    seal_of,
    texts_by_dataset,
)
from suffice.owner.ledger.tokens import Role, Token
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.privacy.randomness import private_words

__all__ = [
    "SCHEMA",
    "VERSION",
    "Claim",
    "Connection",
    "Store",
    "Tables",
    "anchor_kind",
    "budgets_as_logged",
    "name_for",
    "token_facts",
]


VERSION = 1

_AUDIT = (
    """CREATE TABLE log (
        number INTEGER PRIMARY KEY,
        time TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        digest TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        name TEXT NOT NULL,
        place TEXT NOT NULL,
        frozen TEXT NOT NULL,
        anchor TEXT NOT NULL
    ) STRICT""",
)

_SERVICE = (
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL,
        role TEXT NOT NULL,
        scope TEXT NOT NULL,
        holder TEXT NOT NULL,
        made TEXT NOT NULL,
        expires TEXT NOT NULL,
        revoked TEXT,
        used TEXT,
        minted INTEGER NOT NULL UNIQUE REFERENCES log (number),
        ended INTEGER UNIQUE REFERENCES log (number),
        CHECK ((revoked IS NULL) = (ended IS NULL))
    ) STRICT""",
    """CREATE TABLE sessions (
        hash TEXT PRIMARY KEY,
        token TEXT NOT NULL REFERENCES tokens (id),
        csrf TEXT NOT NULL,
        expires TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE proposals (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL,
        received TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('received', 'waiting', 'approved', 'answered')),
        answer BLOB,
        release BLOB,
        UNIQUE (dataset, digest),
        CHECK ((state = 'answered') = (answer IS NOT NULL))
    ) STRICT""",
    "CREATE INDEX open_proposals ON proposals (dataset, state)",
    """CREATE TABLE senders (
        dataset TEXT NOT NULL,
        digest TEXT NOT NULL,
        token TEXT NOT NULL REFERENCES tokens (id),
        PRIMARY KEY (dataset, digest, token)
    ) STRICT""",
    "CREATE TABLE leases (dataset TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT",
)

SCHEMA = (
    *_AUDIT,
    *_SERVICE,
    "CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL) STRICT",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY) STRICT",
    """CREATE TABLE budgets (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        unit TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        PRIMARY KEY (dataset, unit)
    ) STRICT""",
    """CREATE TABLE classes (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        label TEXT NOT NULL,
        declared TEXT NOT NULL,
        PRIMARY KEY (dataset, label)
    ) STRICT""",
    """CREATE TABLE debits (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL REFERENCES datasets (name),
        request TEXT NOT NULL,
        fingerprints TEXT NOT NULL,
        spent TEXT NOT NULL,
        parameters TEXT NOT NULL,
        time REAL NOT NULL,
        token TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('debited', 'finished', 'burnt')),
        bytes BLOB,
        opened INTEGER NOT NULL UNIQUE REFERENCES log (number),
        closed INTEGER UNIQUE REFERENCES log (number),
        seal TEXT NOT NULL,
        UNIQUE (dataset, request),
        CHECK ((state = 'finished') = (bytes IS NOT NULL)),
        CHECK ((state = 'debited') = (closed IS NULL))
    ) STRICT""",
)


class Connection(Protocol):
    """A connection that runs statements with a question mark in the place of each value."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Any:
        """Run one statement; return a cursor, which has fetchone, fetchall and rowcount."""


_SELECT_TOKENS = "SELECT id, hash, role, scope, holder, made, expires, revoked, used FROM tokens"


_WHERE_OPEN = "WHERE dataset = ? AND request = ? AND token = ? AND state = 'debited'"
_CHARGE = (
    "number, dataset, request, fingerprints, spent, parameters, time, token, state, opened, closed,"
    " seal"
)


@dataclass(frozen=True)
class Tables:
    """The contents of a ledger, as one connection sees them: log, tokens, budgets and charges.

    Whatever changes is written together with its entry of the audit log.
    """

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

    def log_debit(self, dataset: str, request: str, spent: str, parameters: str, token: str) -> int:
        """Write an entry about a charge; return its number.

        The token of the charge is random. So two copies of a ledger never write the same entry,
        whatever they are asked in the same second.
        """
        digest = digest_of_bytes(parameters.encode())
        facts = {"dataset": dataset, "request": request, "spent": json.loads(spent)}
        claim = digest_of_bytes(token.encode())
        return self.append(Kind.DEBIT, {**facts, "parameters": digest, "claim": claim})

    def add_token(self, token: Token) -> None:
        """Write down a new token, and that it was made."""
        entry = self.append(Kind.MINTED, token_facts(token))
        scope = json.dumps(token.scope)
        times = (token.made.isoformat(), token.expires.isoformat())
        row = (token.id, token.hash, str(token.role), scope, token.holder, *times, entry)
        self.db.execute("INSERT INTO tokens VALUES (?,?,?,?,?,?,?,NULL,NULL,?,NULL)", row)

    def tokens(self) -> list[Token]:
        """Return every token, oldest first."""
        return [_token(row) for row in self.db.execute(f"{_SELECT_TOKENS} ORDER BY minted")]

    def token(self, identity: str) -> Token | None:
        """Return the token of this id, or None; strangers may name anything."""
        if not (identity.isascii() and identity.isalnum()):
            return None
        row = self.db.execute(f"{_SELECT_TOKENS} WHERE id = ?", (identity,)).fetchone()
        return None if row is None else _token(row)

    def revoke_token(self, identity: str, time: datetime) -> bool:
        """End a token, and write that down, unless it was revoked before; say whether it exists."""
        token = self.token(identity)
        if token is not None and token.revoked is None:
            entry = self.append(Kind.REVOKED, {"token": identity})
            row = (time.isoformat(), entry, identity)
            self.db.execute("UPDATE tokens SET revoked = ?, ended = ? WHERE id = ?", row)
        return token is not None

    def use_token(self, identity: str, day: datetime) -> None:
        """Write down the day of a token's last use; the log says nothing about it."""
        self.db.execute("UPDATE tokens SET used = ? WHERE id = ?", (day.isoformat(), identity))

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
        self.append(Kind.BUDGET, {"dataset": dataset, "budgets": budgets_as_logged(budgets)})

    def classes(self, dataset: str) -> dict[str, tuple[Any, ...]]:
        """Return the declared classes by label column; "" stands for every column."""
        query = "SELECT label, declared FROM classes WHERE dataset = ? ORDER BY label"
        rows = self.db.execute(query, (dataset,))
        return {label: tuple(json.loads(declared)) for label, declared in rows}

    def add_classes(self, dataset: str, label: str, classes: Sequence[Any]) -> None:
        """Write down the classes of a label column."""
        row = (dataset, label, json.dumps(list(classes)))
        self.db.execute("INSERT INTO classes VALUES (?, ?, ?)", row)
        self.append(Kind.CLASSES, {"dataset": dataset, "label": label, "classes": [*classes]})

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
        facts = {"dataset": dataset, "request": request, "release": digest_of_bytes(data)}
        closed = self.append(Kind.FINISH, facts)
        statement = f"UPDATE debits SET state = 'finished', bytes = ?, closed = ? {_WHERE_OPEN}"  # noqa: S608  # our own words
        return self.db.execute(statement, (data, closed, *charge)).rowcount == 1

    def burn(self, dataset: str, request: str, token: str) -> bool:
        """Declare that a charge will never have bytes, unless it has; say whether it was open."""
        charge = (dataset, request, token)
        if not self._is_open(*charge):
            return False
        closed = self.append(Kind.BURNT, {"dataset": dataset, "request": request})
        statement = f"UPDATE debits SET state = 'burnt', closed = ? {_WHERE_OPEN}"  # noqa: S608  # our own words
        return self.db.execute(statement, (closed, *charge)).rowcount == 1

    def _is_open(self, dataset: str, request: str, token: str) -> bool:
        query = f"SELECT 1 FROM debits {_WHERE_OPEN}"  # noqa: S608  # our own words
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


def token_facts(token: Token) -> dict[str, Any]:
    """Return what the log says about a new token.

    Logs are shown and exported. They hold a digest of the stored hash, and not the hash itself.
    """
    return {
        "token": token.id,
        "digest": digest_of_bytes(token.hash.encode()),
        "role": str(token.role),
        "scope": list(token.scope),
        "holder": token.holder,
        "made": token.made.isoformat(),
        "expires": token.expires.isoformat(),
    }


def _token(row: Sequence[Any]) -> Token:
    identity, digest, role, scope, holder, *times = row
    try:
        made, expires = map(datetime.fromisoformat, times[:2])
        revoked, used = (None if t is None else datetime.fromisoformat(t) for t in times[2:])
        scope = tuple(json.loads(scope))
        return Token(identity, digest, Role(role), scope, holder, made, expires, revoked, used)
    except (ValueError, TypeError):
        raise LedgerError(
            f"Token {identity!r} is damaged, or a newer version of suffice made it."
        ) from None


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


class Claim(ABC):
    """A lock that a process holds from before its charge until it has finished or given up.

    It is released with the process, however that ends. ``token`` is its name, written into the
    charge, so that others can ask whether it is still held.
    """

    token: str

    @abstractmethod
    def release(self) -> None:
        """Let go; whoever asks from now on finds that nobody is at work."""


class Store(ABC):
    """A ledger's place: connections, transactions and claims. All are safe among processes.

    ``path`` is how messages name it: the file, or the address of the database without user and
    password.
    """

    path: Path | str

    @abstractmethod
    def exists(self) -> bool:
        """Say whether there is something to open."""

    @abstractmethod
    def prepare(self, anchor: str) -> None:
        """Make the tables, with an anchor there, or check those that there are.

        Raises
        ------
        LedgerError
            If they are of another version, or damaged.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Tables]:
        """Return a connection for reading; all that is read in a block is of one moment."""

    @abstractmethod
    def writing(self, claim: Claim | None = None) -> AbstractContextManager[Tables]:
        """Return a transaction that excludes all others; durable once the block has ended well.

        With ``claim`` nothing is written unless that lock is still held.
        """

    @abstractmethod
    def claim(self) -> Claim:
        """Return a new lock, held by the caller."""

    @abstractmethod
    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
