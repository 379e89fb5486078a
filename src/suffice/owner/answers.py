"""Answers that people send to a service: a store of their own, in no ledger's file.

An invitation is 128 random bits. The store knows it by its SHA-256 hash, and writes two rows in one
transaction when it is used:

    spent[SHA-256(invitation)] = HMAC(r, answer file)        answers[token] = the answer

with 128 bits r that the participant's browser draws, sends with every try and keeps, and that
nobody stores. So the same answer sent again is recognised, and whoever has all invitations and the
store cannot try which answer belongs to which. The token is drawn here. There is no time, no
address and no row number. Answers are durable before they are acknowledged.

Until a survey is closed, the order in which rows were written shows on the disk: in pages and
journal of SQLite, in ``xmin`` and ``ctid`` of PostgreSQL. Closing drops the proofs, writes all rows
anew in the order of their keys, and truncates the journal.
"""

import hashlib
import hmac
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from suffice.errors import ParameterError, StorageError
from suffice.participant import Survey
from suffice.privacy.randomness import private_words

_TABLES = (
    """CREATE TABLE IF NOT EXISTS surveys (
        id TEXT PRIMARY KEY,
        body BLOB NOT NULL,
        invited INTEGER NOT NULL,
        state TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS invitations (
        survey TEXT NOT NULL,
        hash BLOB NOT NULL,
        PRIMARY KEY (survey, hash)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS spent (
        survey TEXT NOT NULL,
        hash BLOB NOT NULL,
        proof BLOB NOT NULL,
        PRIMARY KEY (survey, hash)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS answers (
        survey TEXT NOT NULL,
        token BLOB NOT NULL,
        answer BLOB NOT NULL,
        PRIMARY KEY (survey, token)
    ) WITHOUT ROWID""",
)


class Outcome(StrEnum):
    """What became of an answer."""

    TAKEN = "taken"
    AGAIN = "again"  # the same answer came before
    OTHER = "other"  # another answer came with this invitation
    UNKNOWN = "unknown"  # nobody was invited so
    CLOSED = "closed"


class Sent(NamedTuple):
    """An answer as the store takes it; see the formulas above."""

    survey: str
    invitation: bytes  # its hash
    proof: bytes
    answer: bytes  # one row, as `AnswerForm` packs it

    @classmethod
    def of(cls, survey: str, invitation: str, r: str, sheet: bytes, answer: bytes) -> "Sent":
        """Return what is stored of an answer file that came with an invitation."""
        proof = hmac.digest(bytes.fromhex(r), sheet, "sha256")
        return cls(survey, hashed(invitation), proof, answer)


def trial_of(identity: str) -> str:
    """Return the id under which the trial of a survey is in a store.

    Examples
    --------
    >>> trial_of("sha256:1") == trial_of("sha256:2")
    False
    """
    return f"sha256:{hashlib.sha256(f'trial {identity}'.encode()).hexdigest()}"


def hashed(invitation: str) -> bytes:
    """Return what the store knows of an invitation."""
    return hashlib.sha256(invitation.encode()).digest()


def new_invitations(count: int) -> list[str]:
    """Return so many invitations, each of 128 bits that nobody can guess, in hexadecimal digits."""
    words = private_words(2 * count).tobytes().hex()
    return [words[start : start + 32] for start in range(0, len(words), 32)]


def links_of(page: str, invitations: Sequence[str]) -> str:
    """Return the links of invitations to the page of a survey, as the lines of a CSV file.

    Examples
    --------
    >>> print(links_of("https://clinic.example/surveys/1", ["5f3a"]))
    invitation,link
    5f3a,https://clinic.example/surveys/1#5f3a
    <BLANKLINE>
    """
    return "".join(["invitation,link\n", *(f"{text},{page}#{text}\n" for text in invitations)])


class Opened(NamedTuple):
    """A survey of the store."""

    body: bytes  # its file, byte by byte
    invited: bool
    state: str  # open, trial, closed, deleting (its answers) or deleted


class StoreApart:
    """Tables of a service that are in no ledger's file; what is deleted is overwritten.

    ``place`` is a file, or the address of a schema of its own: ``postgresql://HOST/DATABASE#NAME``.
    """

    tables: ClassVar[Sequence[str]]  # the statements that make them
    keys: ClassVar[Mapping[str, str]]  # of the tables that are written anew

    def __init__(self, place: str) -> None:
        self.place, self._lock = place, threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._writing: Callable[[], AbstractContextManager[Any]] = self._whole_file
        if place.startswith(("postgresql://", "postgres://")):
            from suffice.owner.ledger.postgres import PostgresStore

            database = PostgresStore(place)
            database.prepare_apart(self.tables)
            self._writing = database.apart
            return
        try:
            if not Path(place).exists():
                Path(place).touch(mode=0o600)
            self._db = sqlite3.connect(
                place, timeout=30, isolation_level=None, check_same_thread=False
            )
            # VACUUM would else write into a temporary file.
            for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON",
                            "temp_store = MEMORY"):  # fmt: skip
                self._db.execute(f"PRAGMA {setting}")
            # What was deleted by somebody who was killed is in the journal still.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            for statement in self.tables:
                self._db.execute(statement)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(place, error) from None

    @contextmanager
    def _whole_file(self) -> Iterator[Any]:
        """Yield a transaction of the file that excludes all others; durable once it ended well."""
        assert self._db is not None  # noqa: S101  # for the type checker
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                finally:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise _unusable(self.place, error) from None

    def _rewrite(self) -> None:
        """Write all rows anew in the order of their keys, so that none shows when it came."""
        if self._db is None:
            with self._writing() as db:
                for table, key in self.keys.items():
                    db.execute(f"CREATE TABLE anew (LIKE {table} INCLUDING ALL)")
                    query = f"SELECT * FROM {table} ORDER BY {key}"  # noqa: S608  # our own names
                    db.execute(f"INSERT INTO anew {query}")
                    db.execute(f"DROP TABLE {table}")
                    db.execute(f"ALTER TABLE anew RENAME TO {table}")
            return
        with self._lock:
            try:
                self._db.execute("VACUUM")
                busy, *_ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.Error as error:
                raise _unusable(self.place, error) from None
        if busy:
            raise StorageError(f"{self.place} is being read, so its journal stays. Close it again.")


class AnswerStore(StoreApart):
    """The surveys of a service and the answers to them."""

    tables = _TABLES
    keys: ClassVar = {"spent": "survey, hash", "answers": "survey, token"}
    most_at_once = 50_000  # rows that are read together: few megabytes
    taking = ("open", "trial")  # the states in which answers are taken

    def open(
        self, survey: Survey, invitations: Sequence[str] | None, *, trial: bool = False
    ) -> None:
        """Let people answer a survey: those who are invited, or with None whoever has its address.

        A survey that is open gets further invitations, each of them new. A trial has an id of its
        own (`trial_of`), and of its answers nothing is stored. Opening the survey ends it.
        """
        state, identity = ("trial", trial_of(survey.id)) if trial else ("open", survey.id)
        with self._writing() as db:
            row = db.execute("SELECT invited, state FROM surveys WHERE id = ?", (identity,))
            before = row.fetchone()
            if before is None:
                values = (identity, survey.data, int(invitations is not None), state)
                db.execute("INSERT INTO surveys VALUES (?, ?, ?, ?)", values)
                over = (trial_of(identity),)
                db.execute("UPDATE surveys SET state = 'closed' WHERE id = ?", over)
            elif before[1] not in self.taking:
                raise ParameterError("This survey is closed. Nobody can answer it any more.")
            elif bool(before[0]) != (invitations is not None):
                raise ParameterError(
                    "This survey is open already, and whoever may answer it stays the same."
                )
            for invitation in sorted(map(hashed, invitations or ())):
                db.execute("INSERT INTO invitations VALUES (?, ?)", (identity, invitation))

    def survey(self, identity: str) -> Opened | None:
        """Return a survey, or None if there is none of this id."""
        with self._writing() as db:
            query = "SELECT body, invited, state FROM surveys WHERE id = ?"
            row = db.execute(query, (identity,)).fetchone()
        return None if row is None else Opened(bytes(row[0]), bool(row[1]), row[2])

    def surveys(self) -> list[str]:
        """Return the ids of all surveys, sorted."""
        with self._writing() as db:
            return [row[0] for row in db.execute("SELECT id FROM surveys ORDER BY id").fetchall()]

    def listed(self, start: int, most: int) -> tuple[list[tuple[str, Opened]], int]:
        """Return so many surveys after the first ones, and how many there are.

        Those that take answers come first.
        """
        query = (
            "SELECT id, body, invited, state FROM surveys ORDER BY state NOT IN ('open', 'trial'),"
            " id LIMIT ? OFFSET ?"
        )
        with self._writing() as db:
            rows = db.execute(query, (most, start)).fetchall()
            (count,) = db.execute("SELECT count(*) FROM surveys").fetchone()
        return [(row[0], Opened(bytes(row[1]), bool(row[2]), row[3])) for row in rows], count

    def take(self, group: Sequence[Sent]) -> list[Outcome]:
        """Store answers in one transaction, and say what became of each; then they are durable.

        Rows are written in the order of their keys, so that a group hides who is who in it.
        """
        outcomes: dict[int, Outcome] = {}
        with self._writing() as db:
            for survey in {sent.survey for sent in group}:
                places = [k for k, sent in enumerate(group) if sent.survey == survey]
                hashes = sorted({group[k].invitation for k in places})
                among = f"WHERE survey = ? AND hash IN ({', '.join('?' * len(hashes))})"
                query = f"SELECT hash, proof FROM spent {among}"  # noqa: S608  # our own words
                proofs = dict(db.execute(query, (survey, *hashes)).fetchall())
                query = "SELECT invited, state FROM surveys WHERE id = ?"
                invited, state = db.execute(query, (survey,)).fetchone() or (1, "open")
                known = set(hashes)
                if invited:
                    query = f"SELECT hash FROM invitations {among}"  # noqa: S608  # our own words
                    known = {row[0] for row in db.execute(query, (survey, *hashes)).fetchall()}
                fresh = []
                for k in places:
                    sent = group[k]
                    if sent.invitation not in known:
                        outcomes[k] = Outcome.UNKNOWN
                    elif state not in self.taking:
                        outcomes[k] = Outcome.CLOSED
                    elif (proof := proofs.get(sent.invitation)) is not None:
                        same = hmac.compare_digest(proof, sent.proof)
                        outcomes[k] = Outcome.AGAIN if same else Outcome.OTHER
                    else:
                        outcomes[k] = Outcome.TAKEN
                        proofs[sent.invitation] = sent.proof
                        fresh.append(sent)
                words = private_words(2 * len(fresh)).tobytes()
                tokens = [words[start : start + 16] for start in range(0, len(words), 16)]
                kept = (b"" if state == "trial" else sent.answer for sent in fresh)
                answers = zip(tokens, kept, strict=True)
                spent = ((sent.invitation, sent.proof) for sent in fresh)
                for table, rows in (("spent", spent), ("answers", answers)):
                    values = [value for row in sorted(rows) for value in (survey, *row)]
                    if values:
                        marks = ", ".join(["(?, ?, ?)"] * len(fresh))
                        db.execute(f"INSERT INTO {table} VALUES {marks}", values)  # noqa: S608  # our own names
        return [outcomes[k] for k in range(len(group))]

    def answered(self, identity: str) -> int:
        """Return how many people have answered: in steps of ten until the survey is closed.

        Exact counts of every moment would say when each person answered.
        """
        with self._writing() as db:
            query = "SELECT count(*) FROM spent WHERE survey = ?"
            (count,) = db.execute(query, (identity,)).fetchone()
            (state,) = db.execute("SELECT state FROM surveys WHERE id = ?", (identity,)).fetchone()
        return int(count) // 10 * 10 if state == "open" else int(count)

    def unused(self, identity: str, invitations: Sequence[str]) -> list[str]:
        """Return those of a list of invitations that nobody has used."""
        with self._writing() as db:
            query = "SELECT hash FROM spent WHERE survey = ?"
            spent = {bytes(row[0]) for row in db.execute(query, (identity,)).fetchall()}
        return [invitation for invitation in invitations if hashed(invitation) not in spent]

    def close(self, identity: str) -> int:
        """End a survey; return how many people answered. From now on nothing joins the tables."""
        with self._writing() as db:
            row = db.execute("SELECT state FROM surveys WHERE id = ?", (identity,)).fetchone()
            if row is None:
                raise ParameterError("This survey was never opened here. A trial has no answers.")
            if row[0] in self.taking:
                db.execute("UPDATE surveys SET state = 'closed' WHERE id = ?", (identity,))
            db.execute("UPDATE spent SET proof = ? WHERE survey = ?", (b"", identity))
        self._rewrite()
        return self.answered(identity)

    def blocks(self, identity: str) -> Iterator[bytes]:
        """Yield the answers to a survey in the order of their tokens, many at a time.

        It is an error if they are deleted, also if that happens meanwhile: the rest is no survey.
        """
        last = b""
        query = "SELECT token, answer FROM answers WHERE survey = ? AND token > ? ORDER BY token"
        while True:
            with self._writing() as db:
                values = (identity, last, self.most_at_once)
                rows = db.execute(f"{query} LIMIT ?", values).fetchall()
                state = db.execute("SELECT state FROM surveys WHERE id = ?", (identity,))
                if state.fetchone() not in (("open",), ("closed",)):
                    raise ParameterError(
                        "This survey has no answers: it was never opened here, or they are deleted."
                    )
            if not rows:
                return
            last = bytes(rows[-1][0])
            yield b"".join(bytes(row[1]) for row in rows)

    def forget(self, identity: str) -> None:
        """Delete the answers to a survey that is closed; what was cut off is done again."""
        state = "UPDATE surveys SET state = ? WHERE id = ?"
        with self._writing() as db:
            db.execute("DELETE FROM answers WHERE survey = ?", (identity,))
            db.execute(state, ("deleting", identity))
        self._rewrite()  # until then their bytes are in the journal
        with self._writing() as db:
            db.execute(state, ("deleted", identity))


def _unusable(place: str, error: Exception) -> StorageError:
    return StorageError(f"The records in {place} cannot be used ({type(error).__name__}).")
