"""The service's own records: tokens, and the proposals that arrived with what became of them.

Budgets, charges and released bytes are the ledger's. A desk that is lost loses no privacy: a
proposal that is sent again gets the bytes that the ledger holds.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from suffice.errors import ParameterError, StorageError
from suffice.transport.http.tokens import Role, Token, utc_now

__all__ = ["DESK_NAME", "Desk", "Filed", "State"]

DESK_NAME = "service.sqlite"
_BUSY_SECONDS = 60.0
_VERSION = 1
_SCHEMA = (
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL,
        role TEXT NOT NULL,
        scope TEXT NOT NULL,
        holder TEXT NOT NULL,
        made TEXT NOT NULL,
        expires TEXT NOT NULL,
        revoked TEXT,
        used TEXT
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
    """CREATE TABLE senders (
        dataset TEXT NOT NULL,
        digest TEXT NOT NULL,
        token TEXT NOT NULL REFERENCES tokens (id),
        PRIMARY KEY (dataset, digest, token)
    ) STRICT""",
    """CREATE TABLE sessions (
        hash TEXT PRIMARY KEY,
        token TEXT NOT NULL REFERENCES tokens (id),
        csrf TEXT NOT NULL,
        expires TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX open_proposals ON proposals (dataset, state)",
)


class State(StrEnum):
    """What became of a proposal."""

    RECEIVED = "received"
    WAITING = "waiting"
    APPROVED = "approved"
    ANSWERED = "answered"


@dataclass(frozen=True)
class Filed:
    """A proposal that arrived.

    Attributes
    ----------
    dataset : str
        The data set that it was sent to.
    digest : str
        The digest of the proposal.
    body : bytes
        The proposal, in canonical bytes.
    received : datetime
        When it arrived, UTC.
    state : State
        What became of it.
    answer, release : bytes, optional
        The answer and the release, once there are any.
    """

    dataset: str
    digest: str
    body: bytes
    received: datetime
    state: State
    answer: bytes | None = None
    release: bytes | None = None


class Desk:
    """Keeps tokens and proposals in one SQLite file that several processes share.

    Parameters
    ----------
    path : str or Path
        The file; made if it is missing, readable by its owner alone.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        with self._writing() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise StorageError(
                    f"{self.path} belongs to another version of suffice ({version}, and this one"
                    f" reads {_VERSION}). Use that version."
                )

    # --- tokens

    def add_token(self, token: Token) -> None:
        """Write a new token down."""
        row = (
            token.id,
            token.hash,
            token.role,
            json.dumps(token.scope),
            token.holder,
            token.made.isoformat(),
            token.expires.isoformat(),
        )
        with self._writing() as db:
            db.execute("INSERT INTO tokens VALUES (?,?,?,?,?,?,?,NULL,NULL)", row)

    def token(self, identity: str) -> Token | None:
        """Return the token of this id, or None."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM tokens WHERE id = ?", (identity,)).fetchone()
        return None if row is None else _token_of(row)

    def tokens(self) -> list[Token]:
        """Return every token, oldest first; none of them holds its secret."""
        with self._reading() as db:
            rows = db.execute("SELECT * FROM tokens ORDER BY made, id").fetchall()
        return [_token_of(row) for row in rows]

    def revoke_token(self, identity: str) -> None:
        """Make a token useless from now on.

        Raises
        ------
        ParameterError
            If there is no token of this id.
        """
        with self._writing() as db:
            changed = db.execute(
                "UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?",
                (utc_now().isoformat(), identity),
            ).rowcount
        if not changed:
            raise ParameterError("There is no token of this id. `suffice token list` shows them.")

    def note_use(self, token: Token) -> None:
        """Write down the day on which a token was used last; the hour is nobody's business."""
        today = utc_now().replace(hour=0, minute=0, second=0)
        if token.used == today:
            return
        with self._writing() as db:
            db.execute("UPDATE tokens SET used = ? WHERE id = ?", (today.isoformat(), token.id))

    # --- sessions

    def add_session(self, digest: str, token: str, csrf: str, expires: datetime) -> None:
        """Write a new session down, and forget those that have ended."""
        with self._writing() as db:
            db.execute("DELETE FROM sessions WHERE expires < ?", (utc_now().isoformat(),))
            row = (digest, token, csrf, expires.isoformat())
            db.execute("INSERT INTO sessions VALUES (?,?,?,?)", row)

    def session(self, digest: str) -> tuple[str, str, str, datetime] | None:
        """Return hash, token, CSRF token and end of a session, or None."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM sessions WHERE hash=?", (digest,)).fetchone()
        return None if row is None else (row[0], row[1], row[2], datetime.fromisoformat(row[3]))

    def end_session(self, digest: str) -> None:
        """Forget a session."""
        with self._writing() as db:
            db.execute("DELETE FROM sessions WHERE hash=?", (digest,))

    # --- proposals

    def file(self, dataset: str, digest: str, body: bytes, token: str, most_open: int) -> bool:
        """File a proposal, unless it is there already; say whether there is room for it.

        Parameters
        ----------
        dataset, digest, body
            As in `Filed`.
        token : str
            The id of the token that sends it.
        most_open : int
            How many proposals of the data set may be without an answer.
        """
        with self._writing() as db:
            key = (dataset, digest)
            if not db.execute(
                "SELECT 1 FROM proposals WHERE dataset=? AND digest=?", key
            ).fetchone():
                (waiting,) = db.execute(
                    "SELECT count(*) FROM proposals WHERE dataset=? AND state<>'answered'",
                    (dataset,),
                ).fetchone()
                if waiting >= most_open:
                    return False
                db.execute(
                    "INSERT INTO proposals VALUES (NULL,?,?,?,?,?,NULL,NULL)",
                    (dataset, digest, body, utc_now().isoformat(), State.RECEIVED),
                )
            db.execute("INSERT OR IGNORE INTO senders VALUES (?,?,?)", (*key, token))
            return True

    def sent(self, token: str) -> set[tuple[str, str]]:
        """Return data set and digest of everything that a token sent."""
        with self._reading() as db:
            rows = db.execute("SELECT dataset, digest FROM senders WHERE token=?", (token,))
            return set(rows.fetchall())

    def senders(self, dataset: str, digest: str) -> list[str]:
        """Return the holders of the tokens that sent a proposal."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT holder, id FROM senders JOIN tokens ON token = id WHERE dataset=? AND"
                " digest=? ORDER BY made, id",
                (dataset, digest),
            ).fetchall()
        return [f"{holder} ({identity})" for holder, identity in rows]

    def filed(self, dataset: str, digest: str) -> Filed | None:
        """Return a proposal that arrived, or None."""
        with self._reading() as db:
            row = db.execute(
                "SELECT * FROM proposals WHERE dataset=? AND digest=?", (dataset, digest)
            ).fetchone()
        return None if row is None else _filed_of(row)

    def proposals(self, dataset: str) -> list[Filed]:
        """Return every proposal of a data set, oldest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT * FROM proposals WHERE dataset=? ORDER BY number", (dataset,)
            ).fetchall()
        return [_filed_of(row) for row in rows]

    def next_to_work_on(self, dataset: str) -> Filed | None:
        """Return the oldest proposal that a worker has to look at, or None."""
        with self._reading() as db:
            row = db.execute(
                "SELECT * FROM proposals WHERE dataset=? AND state IN ('received',"
                " 'approved') ORDER BY number LIMIT 1",
                (dataset,),
            ).fetchone()
        return None if row is None else _filed_of(row)

    def move(self, proposal: Filed, state: State) -> bool:
        """Move a proposal on, if it is still where the caller saw it; say whether it was."""
        with self._writing() as db:
            changed = db.execute(
                "UPDATE proposals SET state=? WHERE dataset=? AND digest=? AND state=?",
                (state, proposal.dataset, proposal.digest, proposal.state),
            ).rowcount
        return bool(changed)

    def answer(self, proposal: Filed, answer: bytes, release: bytes | None) -> bool:
        """Store the answer to a proposal, once; say whether it had none."""
        with self._writing() as db:
            changed = db.execute(
                "UPDATE proposals SET state='answered', answer=?, release=? WHERE dataset=? AND"
                " digest=? AND state<>'answered'",
                (answer, release, proposal.dataset, proposal.digest),
            ).rowcount
        return bool(changed)

    # --- connections

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise StorageError(f"The records {self.path} cannot be used: {error}.") from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that excludes all others."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def _token_of(row: tuple[str, ...]) -> Token:
    identity, digest, role, scope, holder, *times = row
    made, expires, revoked, used = (None if t is None else datetime.fromisoformat(t) for t in times)
    if made is None or expires is None:
        raise StorageError("A token in the service's records is damaged.")
    return Token(
        identity, digest, Role(role), tuple(json.loads(scope)), holder, made, expires, revoked, used
    )


def _filed_of(row: tuple[int, str, str, bytes, str, str, bytes | None, bytes | None]) -> Filed:
    _, dataset, digest, body, received, state, answer, release = row
    time = datetime.fromisoformat(received)
    return Filed(dataset, digest, body, time, State(state), answer, release)
