"""The tables of a ledger, the anchor outside of it, and the SQLite file that keeps them."""

import fcntl
import json
import os
import re
import shlex
import sqlite3
import subprocess
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from suffice.errors import LedgerError, ParameterError, StorageError
from suffice.owner.ledger.log import FIRST, Kind, LogEntry, digest_of_bytes, next_entry
from suffice.owner.ledger.rules import (
    Charge,
    DatasetCharge,
    Request,
    charges_to_text,
    seal_of,
)
from suffice.owner.ledger.tokens import Role, Token
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.privacy.randomness import private_words
from suffice.releases.file import write_whole

VERSION = 2

_BEGINNING = "substr(body, 1, 400)"  # in ASCII: PostgreSQL indexes texts of 2,704 bytes at most

SCHEMA = (
    """CREATE TABLE log (
        number INTEGER PRIMARY KEY,
        time TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        digest TEXT NOT NULL
    ) STRICT""",
    f"CREATE INDEX said ON log (kind, {_BEGINNING})",
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        name TEXT NOT NULL,
        place TEXT NOT NULL,
        frozen TEXT NOT NULL,
        anchor TEXT NOT NULL
    ) STRICT""",
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
        state TEXT NOT NULL
            CHECK (state IN ('received', 'waiting', 'approved', 'answered', 'archived')),
        verdict TEXT NOT NULL,
        answer BLOB,
        signature BLOB,
        record TEXT,
        UNIQUE (dataset, digest),
        CHECK ((state = 'answered') = (answer IS NOT NULL))
    ) STRICT""",
    "CREATE INDEX listed_proposals ON proposals (dataset, number)",
    "CREATE INDEX states_of_proposals ON proposals (dataset, state, verdict, number)",
    """CREATE TABLE senders (
        dataset TEXT NOT NULL,
        digest TEXT NOT NULL,
        token TEXT NOT NULL REFERENCES tokens (id),
        PRIMARY KEY (dataset, digest, token)
    ) STRICT""",
    "CREATE INDEX sent ON senders (token)",
    "CREATE TABLE leases (dataset TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT",
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
        release TEXT,
        opened INTEGER NOT NULL UNIQUE REFERENCES log (number),
        closed INTEGER UNIQUE REFERENCES log (number),
        seal TEXT NOT NULL,
        UNIQUE (dataset, request),
        CHECK ((state = 'finished') = (release IS NOT NULL)),
        CHECK ((state = 'debited') = (closed IS NULL))
    ) STRICT""",
    "CREATE INDEX released ON debits (dataset, release)",
    """CREATE TABLE outputs (
        number INTEGER PRIMARY KEY REFERENCES debits (number),
        bytes BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE costs (
        dataset TEXT NOT NULL,
        number INTEGER NOT NULL,
        fingerprint TEXT NOT NULL,
        PRIMARY KEY (dataset, number)
    ) STRICT""",
    "CREATE INDEX presented ON costs (fingerprint, dataset)",
)


_SELECT_TOKENS = "SELECT id, hash, role, scope, holder, made, expires, revoked, used FROM tokens"
ROWS_AT_ONCE = 1000  # of a long list: few megabytes
_WHERE_OPEN = "WHERE dataset = ? AND request = ? AND token = ? AND state = 'debited'"
_CHARGE = (
    "number, dataset, request, fingerprints, spent, parameters, time, token, state, release,"
    " opened, closed, seal"
)


@dataclass(frozen=True)
class Tables:
    """The contents of a ledger, as one connection sees them: log, tokens, budgets and charges.

    Whatever changes is written together with its entry of the audit log. ``db.execute`` runs one
    statement, with a question mark in the place of each value.
    """

    db: Any

    def append(self, kind: Kind, facts: Mapping[str, Any], *, once: bool = False) -> int:
        """Write an entry in this transaction; return its number.

        With ``once`` an entry that says the same is not written again.
        """
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        if once:
            alike = f"{_BEGINNING} = {_BEGINNING.replace('body', 'CAST(? AS TEXT)')}"
            query = f"SELECT number FROM log WHERE kind = ? AND {alike} AND body = ?"  # noqa: S608  # our own words
            earlier = self.db.execute(query, (str(kind), text, text)).fetchone()
            if earlier is not None:
                return int(earlier[0])
        entry = next_entry(*self.head(), kind, text)
        row = (entry.number, entry.time, entry.kind, entry.text, entry.digest)
        self.db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)
        return entry.number

    def log(self, after: int = 0) -> Iterator[LogEntry]:
        """Yield every entry after the one of this number, oldest first, unchecked."""
        query = "SELECT * FROM log WHERE number > ? ORDER BY number LIMIT ?"
        while rows := self.db.execute(query, (after, ROWS_AT_ONCE)).fetchall():
            yield from (LogEntry(*row) for row in rows)
            after = rows[-1][0]

    def log_before(self, number: int, most: int) -> list[LogEntry]:
        """Return the last entries before the one of this number, newest first, unchecked."""
        query = "SELECT * FROM log WHERE number < ? ORDER BY number DESC LIMIT ?"
        return [LogEntry(*row) for row in self.db.execute(query, (number, most))]

    def head(self, most: int = 2**62) -> tuple[int, str]:
        """Return number and digest of the last entry, or of the last up to ``most``, unchecked."""
        query = "SELECT number, digest FROM log WHERE number <= ? ORDER BY number DESC LIMIT 1"
        last = self.db.execute(query, (most,)).fetchone()
        return (0, FIRST) if last is None else (last[0], last[1])

    def open_log(self, place: str, anchor: str) -> None:
        """Give the ledger its key, its name and its anchor; write the first entry of its log."""
        key = private_words(4).tobytes()
        self.db.execute("INSERT INTO secret VALUES (1, ?)", (key,))
        name = name_for(key)
        self.db.execute("INSERT INTO ledger VALUES (1, ?, ?, '', ?)", (name, place, anchor))
        kept = Anchor(anchor, name)
        self.append(Kind.OPENED, {"ledger": name, "schema": VERSION, "anchor": kept.kind})
        kept.replace(self)

    def copy(self, records: "Tables") -> None:
        """Make the tables, in an SQLite file without any, and fill them with those of a ledger.

        The copy is frozen. It is a file whatever the original is.
        """
        for statement in SCHEMA:
            self.db.execute(statement)
            if table := re.match(r"CREATE TABLE (\w+)", statement):
                rows = records.db.execute(f"SELECT * FROM {table[1]}")  # noqa: S608  # our own names
                for row in rows:
                    places = ", ".join("?" for _ in row)
                    self.db.execute(f"INSERT INTO {table[1]} VALUES ({places})", row)  # noqa: S608  # our own names
        self.db.execute(f"PRAGMA user_version = {VERSION}")
        self.settle_at("")
        self.freeze("it is a backup, and may lack the last charges")

    def about(self) -> "About":
        """Return what the ledger stores about itself."""
        query = "SELECT name, place, frozen, anchor, (SELECT key FROM secret) FROM ledger"
        name, place, frozen, anchor, key = self.db.execute(query).fetchone()
        return About(name, place, frozen, Anchor(anchor, name), key)

    def freeze(self, reason: str) -> None:
        """Let nothing be charged any more."""
        self.append(Kind.FROZEN, {"reason": reason})
        self.db.execute("UPDATE ledger SET frozen = ?", (reason,))

    def settle_at(self, place: str) -> None:
        """Remember in which database the ledger is now."""
        self.db.execute("UPDATE ledger SET place = ?", (place,))

    def thaw(self, facts: Mapping[str, Any], anchor: str) -> None:
        """Write down how the ledger was recovered; from now on it may be charged again."""
        self.append(Kind.RECOVERED, {**facts, "anchor": Anchor(anchor, "").kind})
        self.db.execute("UPDATE ledger SET frozen = '', anchor = ?", (anchor,))

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
        return budgets_from({unit: (epsilon, delta) for unit, epsilon, delta in rows})

    def add_dataset(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write down a new data set with its budgets."""
        self.db.execute("INSERT INTO datasets VALUES (?)", (dataset,))
        texts = budget_texts(budgets)
        for unit, text in texts.items():
            self.db.execute("INSERT INTO budgets VALUES (?, ?, ?, ?)", (dataset, unit, *text))
        self.append(Kind.BUDGET, {"dataset": dataset, "budgets": texts})

    def raise_budgets(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write down larger budgets of a data set; what was charged stays charged."""
        texts = budget_texts(budgets)
        statement = "UPDATE budgets SET epsilon = ? WHERE dataset = ? AND unit = ?"
        for unit, (epsilon, _) in texts.items():
            self.db.execute(statement, (epsilon, dataset, unit))
        self.append(Kind.RAISED, {"dataset": dataset, "budgets": texts})

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

    def charge(self, dataset: str, request: str) -> Charge | None:
        """Return the charge of this name, or None."""
        query = f"SELECT {_CHARGE} FROM debits WHERE dataset = ? AND request = ?"  # noqa: S608  # our own names
        row = self.db.execute(query, (dataset, request)).fetchone()
        return None if row is None else Charge(*row)

    def charges(
        self, after: int = 0, most: int = 2**62, *, dataset: str | None = None
    ) -> Iterator[Charge]:
        """Yield the charges after the one of this number, at most so many, oldest first.

        With a data set, only those that cost it something.
        """
        own = "AND number IN (SELECT number FROM costs WHERE dataset = ?)" if dataset else ""
        query = f"SELECT {_CHARGE} FROM debits WHERE number > ? {own} ORDER BY number LIMIT ?"  # noqa: S608  # our own names
        while most > 0:
            values = (after, dataset) if dataset else (after,)
            rows = self.db.execute(query, (*values, min(most, ROWS_AT_ONCE))).fetchall()
            yield from (Charge(*row) for row in rows)
            after, most = (rows[-1][0], most - len(rows)) if rows else (after, 0)

    def last_charges(self, dataset: str, most: int) -> list[Charge]:
        """Return the last charges that cost a data set something, newest first."""
        own = "SELECT number FROM costs WHERE dataset = ? ORDER BY number DESC LIMIT ?"
        query = f"SELECT {_CHARGE} FROM debits WHERE number IN ({own}) ORDER BY number DESC"  # noqa: S608  # our own names
        return [Charge(*row) for row in self.db.execute(query, (dataset, most))]

    def output(self, charge: int) -> bytes | None:
        """Return the bytes that are stored for the charge of this number, or None."""
        query = "SELECT bytes FROM outputs WHERE number = ?"
        row = self.db.execute(query, (charge,)).fetchone()
        if row is not None and isinstance(row[0], str):
            raise LedgerError(f"Charge {charge} of the ledger is damaged.")
        return None if row is None else bytes(row[0])

    def add_charge(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        token: str,
        *,
        also: Sequence[DatasetCharge] = (),
    ) -> list[str]:
        """Write down what a request costs, before anything is drawn for it.

        Return the other data sets that these very data were charged to: for notes alone. The token
        of the charge is random. So two copies of a ledger never write the same entry, whatever they
        are asked in the same second.
        """
        fingerprints = {c.dataset: c.fingerprint for c in also} | {dataset: request.fingerprint}
        spent, parameters = charges_to_text(guarantees, also), json.dumps(dict(request.parameters))
        facts = {
            "dataset": dataset,
            "request": request.name,
            "spent": json.loads(spent),
            "parameters": digest_of_bytes(parameters.encode()),
            "claim": digest_of_bytes(token.encode()),
        }
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
            "opened": self.append(Kind.DEBIT, facts),
        }
        row["seal"] = seal_of(row["number"], fingerprints, row["time"])
        names = ", ".join(row)
        places = ", ".join("?" for _ in row)
        statement = f"INSERT INTO debits ({names}) VALUES ({places})"  # noqa: S608  # our own names
        self.db.execute(statement, tuple(row.values()))
        elsewhere: set[str] = set()
        for name, fingerprint in fingerprints.items():
            cost = (name, row["number"], fingerprint)
            self.db.execute("INSERT INTO costs VALUES (?, ?, ?)", cost)
            if fingerprint:
                query = "SELECT DISTINCT dataset FROM costs WHERE fingerprint = ?"
                elsewhere.update(name for (name,) in self.db.execute(query, (fingerprint,)))
        return sorted(elsewhere - fingerprints.keys())

    def close_charge(self, dataset: str, request: str, token: str, data: bytes | None) -> bool:
        """Store the bytes of a charge that is still open, or declare with None that it is burnt.

        Say whether it was open, and this token's to finish. A charge is closed once.
        """
        charge = (dataset, request, token)
        query = f"SELECT number FROM debits {_WHERE_OPEN}"  # noqa: S608  # our own words
        number = self.db.execute(query, charge).fetchone()
        if number is None:
            return False
        facts, kind, state = {"dataset": dataset, "request": request}, Kind.BURNT, "burnt"
        if data is not None:
            facts["release"] = digest_of_bytes(data)
            kind, state = Kind.FINISH, "finished"
            self.db.execute("INSERT INTO outputs VALUES (?, ?)", (*number, data))
        row = (state, facts.get("release"), self.append(kind, facts), *charge)
        statement = f"UPDATE debits SET state = ?, release = ?, closed = ? {_WHERE_OPEN}"  # noqa: S608  # our own words
        return bool(self.db.execute(statement, row).rowcount == 1)

    def old_outputs(self, before: datetime) -> tuple[int, Iterator[tuple[Charge, bytes]]]:
        """Return the number of the last charge before a time, and the bytes of all up to it."""
        query = "SELECT max(number) FROM debits WHERE time < ?"
        (last,) = self.db.execute(query, (before.timestamp(),)).fetchone()
        stored = ((charge, self.output(charge.number)) for charge in self.charges(0, last or 0))
        return last or 0, ((charge, data) for charge, data in stored if data is not None)

    def old_proposals(self, before: datetime) -> Iterator[tuple[int, bytes, bytes, bytes, str]]:
        """Yield number, body, answer, signature and record of those answered of before a time."""
        query = (
            "SELECT number, body, answer, signature, record FROM proposals WHERE number > ? AND"
            " state = 'answered' AND received < ? ORDER BY number LIMIT 10"  # rows are large
        )
        after = 0
        while rows := self.db.execute(query, (after, before.isoformat())).fetchall():
            yield from rows
            after = rows[-1][0]

    def leave_to_archive(self, before: datetime, facts: Mapping[str, Any]) -> None:
        """Delete what `old_outputs` and `old_proposals` return, and write down where it is now.

        Charges, digests, senders and the log stay for ever.
        """
        self.append(Kind.ARCHIVED, facts)
        self.db.execute("DELETE FROM outputs WHERE number <= ?", (facts["charges"],))
        statement = (
            "UPDATE proposals SET state = 'archived', body = ?, answer = NULL, signature = NULL,"
            " record = NULL WHERE state = 'answered' AND received < ?"
        )
        self.db.execute(statement, (b"", before.isoformat()))

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these bytes were charged to this data set, and stored."""
        query = "SELECT 1 FROM debits WHERE dataset = ? AND release = ?"
        return self.db.execute(query, (dataset, digest_of_bytes(data))).fetchone() is not None


class About(NamedTuple):
    """What a ledger stores about itself."""

    name: str  # by which checkpoints know it (`name_for`)
    place: str  # the database that it was last used in, "" where that is not recorded
    frozen: str  # why nothing may be charged until it is recovered; "" if it may
    anchor: "Anchor"
    key: bytes  # its own


def budget_texts(budgets: Mapping[Unit, Budget]) -> dict[str, list[str]]:
    """Return budgets as a ledger writes them: `budgets_from` reads them back exactly."""
    return {str(unit): [repr(b.epsilon), repr(b.delta)] for unit, b in budgets.items()}


def budgets_from(texts: Mapping[str, Sequence[str]]) -> dict[Unit, Budget]:
    """Return the budgets of a data set, by unit, of epsilon and delta as they were written."""
    return {Unit(u): Budget.stored(float(e), float(delta)) for u, (e, delta) in texts.items()}


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


class Claim(ABC):
    """A lock that a process holds from before its charge until it has finished or given up.

    It is released with the process, however that ends. ``token`` is its name, written into the
    charge, so that others can ask whether it is still held.
    """

    token: str

    @abstractmethod
    def release(self) -> None:
        """Let go; whoever asks from now on finds that nobody is at work."""


def unread_version(path: Path | str, version: int) -> LedgerError:
    """Return the error about a ledger that another version of suffice wrote."""
    return LedgerError(
        f"{path} is a ledger of version {version}, and this library reads version {VERSION}. Use"
        " the suffice version that wrote it, or a newer one."
    )


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
        """Make the tables, with an anchor there, or raise if those that there are are damaged."""

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


_BUSY_SECONDS = 120.0
_LONGEST_WAIT_SECONDS = 0.01  # between two tries
MOST_CONNECTIONS = 4  # that one ledger keeps in a process; a process with one thread uses one
_MOUNTS = Path("/proc/self/mountinfo")


class _LockFile:
    """An open file with a lock on it; its number is forgotten in a child process."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number
        _LOCK_FILES.add(self)

    def close(self) -> None:
        number, self.number = self.number, None
        if number is not None:
            os.close(number)

    __del__ = close


@dataclass(eq=False)
class _OpenFile:
    """A ledger's file as this process has it open: its lock, and connections that read it again.

    All users of one inode share it. Its own descriptor is closed when nobody in this process uses
    the file any more, because a close drops SQLite's locks of the whole process.
    """

    lock_file: _LockFile
    mutex: threading.Lock = field(default_factory=threading.Lock)  # one thread at a time writes
    idle: list[sqlite3.Connection] = field(default_factory=list)
    used: set[sqlite3.Connection] = field(default_factory=set)

    def __del__(self) -> None:
        for db in self.idle:
            db.close()


_LOCK_FILES: "weakref.WeakSet[_LockFile]" = weakref.WeakSet()
_GUARD = threading.Lock()
_INODES: "weakref.WeakValueDictionary[tuple[int, int], _OpenFile]" = weakref.WeakValueDictionary()
_OF_A_PARENT: list[_OpenFile] = []  # kept for ever: SQLite's connections must not be closed there


def _after_fork() -> None:
    """Let go, in a child, of what its parent holds: else the child would hold it on."""
    global _GUARD  # noqa: PLW0603  # a lock that some other thread held is never released here
    _GUARD = threading.Lock()
    _OF_A_PARENT.extend(_INODES.values())
    _INODES.clear()
    for lock_file in list(_LOCK_FILES):
        lock_file.close()


os.register_at_fork(after_in_child=_after_fork)


def _opened(path: Path) -> _OpenFile:
    """Return the file that has this name now, as this process has it open."""
    about = path.stat()
    with _GUARD:
        file = _INODES.get((about.st_dev, about.st_ino))
        if file is None:
            file = _OpenFile(_LockFile(os.open(path, os.O_RDWR | os.O_CLOEXEC)))
            _INODES[about.st_dev, about.st_ino] = file
    return file


@contextmanager
def whole_file(path: Path) -> Iterator[_OpenFile]:
    """Hold the inode of ``path`` alone, among threads and processes; it must have one name only."""
    deadline = time.monotonic() + _BUSY_SECONDS
    busy = f"The ledger {path} cannot be used: another process holds it. Try again later."
    file = _opened(path)
    if not file.mutex.acquire(timeout=_BUSY_SECONDS):
        raise StorageError(busy)
    try:
        nap = 0.0005
        while not _try(file.lock_file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise StorageError(busy)
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_WAIT_SECONDS)
        _check_one_name(path, file.lock_file)
        yield file
    finally:
        if file.lock_file.number is not None:  # not in the child of a fork
            fcntl.flock(file.lock_file.number, fcntl.LOCK_UN)
        file.mutex.release()


@contextmanager
def whole_folder(path: Path) -> Iterator[None]:
    """Hold a folder alone, among threads and processes; names in it are durable at the end."""
    lock_file = _LockFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    try:
        fcntl.flock(lock_file.number, fcntl.LOCK_EX)
        yield
        os.fsync(lock_file.number)
    finally:
        lock_file.close()


def _try(lock_file: _LockFile, kind: int) -> bool:
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    try:
        fcntl.flock(lock_file.number, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_one_name(path: Path, lock_file: _LockFile, *, mounts: bool = True) -> None:
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    about, at_path = os.fstat(lock_file.number), path.stat()
    if (about.st_dev, about.st_ino) != (at_path.st_dev, at_path.st_ino):
        raise StorageError(f"The ledger {path} was replaced while it was opened. Try again.")
    if about.st_nlink > 1:
        raise LedgerError(
            f"{path} is one of {about.st_nlink} names (hard links) of one file. Through two names a"
            " budget could be spent twice. Keep one name. Where others need the ledger, mount its"
            " folder, not the file."
        )
    try:
        lines = _MOUNTS.read_bytes().splitlines() if mounts else []
    except OSError:  # this system does not tell
        lines = []
    points = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    named = (point.decode("unicode_escape").encode("latin-1") for point in points)
    if os.path.realpath(path) in map(os.fsdecode, named):
        raise LedgerError(
            f"{path} is mounted as a single file, so it has another name elsewhere. Through two"
            " names a budget could be spent twice. Mount its folder, not the file."
        )


@dataclass(eq=False)
class FileClaim(Claim):
    """The lock of somebody who is at work on a request: a file beside the ledger, of its own name.

    It is locked before the charge is written, so a charge whose file is gone, or not locked, is
    nobody's any more.
    """

    token: str
    path: Path
    lock_file: _LockFile

    def release(self) -> None:
        """Let go, and leave nothing behind."""
        if self.lock_file.number is not None:
            self.path.unlink(missing_ok=True)
            self.lock_file.close()


def _claim_path(ledger: Path, token: str) -> Path:
    """Return the path of a claim, beside the file itself where the ledger's name is a link."""
    resolved = Path(os.path.realpath(ledger))
    return resolved.with_name(f"{resolved.name}-claim-{token}")


NO_ANCHOR = "none"
LOST = "its log lacks entries that its anchor counts, so it was put back from a copy"
_MISSING = "its anchor is missing, so it may be a copy or was moved"
_UNREADABLE = "its anchor cannot be read"
_UNNAMED = (
    "its anchor is a program, which is not run until you name it on this computer with --anchor"
)
_STATE_FOLDER = "state folder"  # of whoever uses the ledger, on whatever machine
_COMMAND = "command:"
_COMMAND_SECONDS = 60
_MOST_BYTES = 4096
_LINE = re.compile(
    r"suffice anchor 1 (?P<ledger>[0-9a-f]{32}) (?P<entries>[1-9][0-9]{0,15})"
    r" (?P<head>[0-9a-f]{64})\n?",
    re.ASCII,
)
_CHOICES = (
    "Choose another place: --anchor FILE, or --anchor 'command:PROGRAM'; --anchor none goes without"
    " (Python: anchor=...)."
)


class Mark(NamedTuple):
    """What an anchor says: the ledger's name, how many entries its log had, and the last digest."""

    ledger: str
    entries: int
    head: str


@dataclass(frozen=True)
class Anchor:
    """The anchor of one ledger: the end of its log, kept outside of it."""

    place: str  # as `recorded_place` returns it and the ledger stores it
    ledger: str  # its name

    @property
    def kind(self) -> str:
        """What is at the anchor's place, as the log states it: file, command or none."""
        if self.place == NO_ANCHOR:
            return "none"
        return "command" if self.place.startswith(_COMMAND) else "file"

    @property
    def shown_place(self) -> str:
        """Where the anchor is, for the owner alone."""
        return str(self._path()) if self.kind == "file" else self.place

    def read(self) -> Mark | None:
        """Return what the anchor says, None if there is none; raise if it says anything else."""
        if self.kind == "command":
            text = self._run("read", "")
        else:
            try:
                with self._path().open("rb") as file:
                    text = file.read(_MOST_BYTES).decode("ascii", "replace") or "an empty file"
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                raise StorageError(
                    f"The anchor {self.shown_place} cannot be read: {error.strerror}."
                ) from None
        if not text:
            return None
        match = _LINE.fullmatch(text)
        if match is None or match["ledger"] != self.ledger:
            raise StorageError(f"{self.shown_place} is not the anchor of this ledger.")
        return Mark(match["ledger"], int(match["entries"]), match["head"])

    def trouble(self, records: Tables) -> str:
        """Return why the ledger may not be charged; empty if its log continues the anchor."""
        if self.kind == "none":
            return ""
        try:
            mark = self.read()
        except StorageError:
            return _UNREADABLE if self._is_named else _UNNAMED
        if mark is None:
            return _MISSING
        return "" if records.head(mark.entries) == (mark.entries, mark.head) else LOST

    def advance(self, records: Tables) -> None:
        """Move the anchor to the end of the log, which must continue it, or raise.

        The caller holds the ledger's lock. A lock of the anchor's folder excludes copies of the
        ledger, which have another lock: one of two copies that charge at once fails here.
        """
        if self.kind == "none":
            return
        with self._alone():
            if trouble := self.trouble(records):
                raise LedgerError(f"The ledger is frozen: {trouble}.")
            self._write(records)

    def replace(self, records: Tables) -> None:
        """Write the end of the log, whatever was there: for a new ledger, or a recovered one."""
        if self.kind == "none":
            return
        try:
            with self._alone():
                self._write(records)
        except StorageError as error:
            raise StorageError(f"{error} {_CHOICES}") from None

    def _path(self) -> Path:
        """Return the anchor's file: one in the state folder is where the XDG standard says."""
        if self.place != _STATE_FOLDER:
            return Path(self.place)
        return _state_folder() / f"{self.ledger}.anchor"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder of the anchor alone, and make the new name in it durable at the end."""
        if self.kind == "command":
            yield
            return
        path = self._path()
        try:
            if self.place == _STATE_FOLDER:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_folder(path.parent):
                yield
        except OSError as error:
            raise StorageError(f"The anchor {path} cannot be written: {error.strerror}.") from None

    def _write(self, records: Tables) -> None:
        entries, head = records.head()
        line = f"suffice anchor 1 {self.ledger} {entries} {head}\n"
        if self.kind == "command":
            self._run("write", line)
        else:
            write_whole(self._path(), line.encode(), mode=0o600)

    @property
    def _is_named(self) -> bool:
        return self.kind != "command" or _program_file(self.place).exists()

    def _run(self, verb: str, line: str) -> str:
        """Run the program with one more word, read or write; return what it prints.

        A ledger may be a stranger's file. Only a program that this user named is run.
        """
        if not self._is_named:
            raise StorageError("Nobody named the program of the ledger's anchor on this computer.")
        words = [*shlex.split(self.place.removeprefix(_COMMAND)), verb]
        try:
            done = subprocess.run(  # noqa: S603  # the owner's own program, without a shell
                words,
                input=line.encode(),
                capture_output=True,
                timeout=_COMMAND_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            raise StorageError(
                f"The program of the ledger's anchor failed to {verb} it: {words[0]}."
            ) from None
        return done.stdout[:_MOST_BYTES].decode("ascii", "replace")


def _state_folder() -> Path:
    """Return the folder of this user for suffice: where the XDG standard says."""
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not folder.is_absolute():
        try:
            folder = Path.home() / ".local" / "state"
        except RuntimeError:
            raise StorageError(
                "The anchor cannot be written: this user has no home folder."
            ) from None
    return folder / "suffice"


def _program_file(place: str) -> Path:
    """Return the file that exists where this user has named a program."""
    return _state_folder() / f"{digest_of_bytes(os.fsencode(place))}.program"


def name_program(place: str) -> None:
    """Let the program of an anchor be run for this user; one that a ledger alone names is not."""
    if not place.startswith(_COMMAND) or (file := _program_file(place)).exists():
        return
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{file.parent} cannot be written: {error.strerror}.") from None
    write_whole(file, os.fsencode(place), mode=0o600)


def recorded_place(anchor: str | Path | None) -> str:
    """Return where an anchor is, as ledgers store it: the state folder if nothing is named.

    Examples
    --------
    >>> recorded_place("none"), recorded_place("/var/lib/anchor"), recorded_place(None)
    ('none', '/var/lib/anchor', 'state folder')
    """
    if anchor is None:
        return _STATE_FOLDER
    text = str(anchor)
    if text == NO_ANCHOR:
        return NO_ANCHOR
    if text.startswith(_COMMAND):
        try:
            words = shlex.split(text.removeprefix(_COMMAND))
        except ValueError:
            words = []
        if not words:
            raise ParameterError("Name a program after command: and close every quotation mark.")
        return text
    if not text:
        raise ParameterError(f"The anchor has no place. {_CHOICES}")
    return os.path.abspath(text)  # noqa: PTH100  # a link stays a link


@dataclass(eq=False)
class SqliteStore(Store):
    """One ledger in one file; see `store.Store`."""

    path: Path
    _file: _OpenFile | None = field(default=None, init=False)  # kept open for the next block

    def exists(self) -> bool:
        """Say whether there is a file with anything in it."""
        return self.path.exists() and self.path.stat().st_size > 0

    def prepare(self, anchor: str) -> None:
        """Make the tables, or check those that are there, and the file."""
        with self.writing(making=True) as tables:
            db = tables.db
            if db.execute("PRAGMA user_version").fetchone() == (0,):
                for statement in SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
                tables.open_log("", anchor)
            else:
                self._check_file(db)
        first = _claim_path(self.path, "")
        for entry in os.scandir(first.parent):  # claims of processes that were killed
            if entry.name.startswith(first.name):
                with suppress(FileNotFoundError):
                    claim_file = _LockFile(os.open(entry.path, os.O_RDWR | os.O_CLOEXEC))
                    if _try(claim_file, fcntl.LOCK_SH):
                        Path(entry.path).unlink()
                    claim_file.close()

    def _check_file(self, db: sqlite3.Connection) -> None:
        """Raise if a page, an index, a reference or a definition is not what it must be."""
        whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        astray = db.execute("PRAGMA foreign_key_check").fetchone()
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        if not whole or astray or {sql for (sql,) in db.execute(query)} != {*SCHEMA}:
            raise LedgerError(
                f"The file {self.path} is damaged. Do not release from it. Restore it from a"
                " backup, and use `suffice ledger recover`."
            )

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Yield a connection for reading; all that is read in a block is of one moment.

        Connections are used again by later blocks, and several blocks read at once.
        """
        with self._connection() as db:
            db.execute("BEGIN")
            yield Tables(db)
            db.execute("ROLLBACK")

    @contextmanager
    def _connection(
        self, block: ExitStack | None = None, *, making: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """Yield a connection; SQLite's errors become ours.

        With the block of somebody who writes, the connection is a new one, and the file is held
        alone until that block ends: a new one remembers no page of a file that was overwritten
        meanwhile. Commits survive a power cut, and leave nothing in files of other names. A
        write-ahead log would stay behind under the ledger's path when a process is killed, and
        whoever moves or mounts the file would lose what was charged. EXTRA also syncs the folder
        after the journal is deleted, so that no commit is undone by a journal that comes back.
        """
        db, file = None, None
        try:
            if making and not self.path.exists():  # as secret as the labels: for its owner alone
                with suppress(FileExistsError):  # by another thread, whose locks a close would drop
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if block is None:
                file = self._file = _opened(self.path)
                with _GUARD:
                    db = file.idle.pop() if file.idle else None
            else:
                file = self._file = block.enter_context(whole_file(self.path))
            if db is None:
                db = sqlite3.connect(
                    self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                if db.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
                    db.execute("PRAGMA journal_mode = DELETE")
                db.execute("PRAGMA synchronous = EXTRA")
            file.used.add(db)
            if block is None:  # after it was opened: it is this inode
                _check_one_name(self.path, file.lock_file, mounts=False)
            yield db
            if block is None:
                with _GUARD:
                    if len(file.idle) < MOST_CONNECTIONS:
                        file.idle.append(db)
        except (sqlite3.OperationalError, OSError) as error:
            raise StorageError(f"The ledger {self.path} cannot be used: {error}.") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # its words may quote damaged text
            raise LedgerError(f"{self.path} is not a suffice ledger, or it is damaged.") from None
        finally:
            if db is not None and file is not None:
                file.used.discard(db)
                if db not in file.idle:  # one too many, or its transaction was broken off
                    db.close()

    @contextmanager
    def writing(self, claim: Claim | None = None, *, making: bool = False) -> Iterator[Tables]:
        """Yield a transaction that excludes all others; durable once the block has ended well.

        With ``making`` also in a file that has no tables yet.
        """
        del claim  # a file of its own, which its holder cannot lose
        with ExitStack() as block, self._connection(block, making=making) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                (version,) = db.execute("PRAGMA user_version").fetchone()
                empty = version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone()
                if version != VERSION and not (making and empty):
                    raise unread_version(self.path, version)  # noqa: TRY301  # a newer one since
                yield Tables(db)
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def claim(self) -> FileClaim:
        """Return a new lock, held by the caller."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        try:
            while True:
                token = private_words(2).tobytes().hex()
                path = _claim_path(self.path, token)
                claim = FileClaim(token, path, _LockFile(os.open(path, flags, 0o600)))
                if _try(claim.lock_file, fcntl.LOCK_EX) and path.exists():
                    return claim
                claim.lock_file.close()  # somebody was sweeping, and took it for a dead one
        except OSError as error:
            raise StorageError(f"The ledger {self.path} cannot be used: {error}.") from None

    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
        try:
            path = _claim_path(self.path, token)
            claim_file = _LockFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            return False
        try:
            return not _try(claim_file, fcntl.LOCK_SH)  # shared: two who ask exclude nobody
        finally:
            claim_file.close()
