"""Ledgers in PostgreSQL, which several servers can share: one schema of a database is one ledger.

A transaction that writes begins with an advisory lock of its ledger, so that writers follow each
other; it means here what BEGIN IMMEDIATE means to SQLite. Whoever charges holds an advisory lock of
its session, from before the charge until its bytes are stored: the server lets go of it when the
session ends, however that ends, on whatever host. psycopg is imported here and nowhere else.

A process has few connections to the server. They are reused, and waited for a while.
"""

import hashlib
import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from suffice.errors import LedgerError, ParameterError, StorageError
from suffice.owner.ledger.store import (
    MOST_CONNECTIONS,
    SCHEMA,
    VERSION,
    Claim,
    Store,
    Tables,
    unread_version,
)
from suffice.privacy.randomness import private_words
from suffice.tables.files import shown_address

_WAIT_SECONDS = 30.0  # for a connection to a server that is there
_RESTART_SECONDS = 10.0  # for a server that is not
_BUSY_SECONDS = 120  # for the lock of the ledger
_LONGEST_WAIT_SECONDS = 0.5
_FULL_SERVER_WORDS = ("too many", "slots", "starting up", "shutting down", "recovery")
_ABSENT_SERVER_WORDS = ("refused", "No such file", "closed the connection")

_SET_UP = """SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
               WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"""


class Session:
    """A connection that holds claims; one transaction at a time uses it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.claims = 0
        self.busy = threading.Lock()


class Sessions:
    """The connections of one process to one ledger: few, reused, and waited for, but not for ever.

    The first claim makes a connection its session. Transactions of the same process prefer that
    connection, so that a process with one thread never needs a second one: many such processes
    cannot wait for each other's connections.
    """

    def __init__(self, address: str, schema: str, path: str) -> None:
        self._address, self._schema, self._path = address, schema, path
        self._idle: list[Any] = []
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._guard = threading.Lock()
        self._holding: Session | None = None
        self._process = os.getpid()

    def close(self) -> None:
        """Close every connection, in the process that opened it."""
        if os.getpid() != self._process:
            return
        holding = [] if self._holding is None else [self._holding.connection]
        for connection in [*self._idle, *holding]:
            with suppress(psycopg.Error):
                connection.close()

    def connect(self) -> Any:
        """Return a new connection; wait a while if the server is full or about to start."""
        began, nap = time.monotonic(), 0.05
        while True:
            try:
                connection = psycopg.connect(
                    self._address,
                    autocommit=True,
                    prepare_threshold=None,
                    connect_timeout=10,
                    application_name="suffice",
                )
                break
            except psycopg.OperationalError as error:
                patience = 0.0  # for a wrong address
                if any(words in str(error) for words in _FULL_SERVER_WORDS):
                    patience = _WAIT_SECONDS
                elif any(words in str(error) for words in _ABSENT_SERVER_WORDS):
                    patience = _RESTART_SECONDS
                if time.monotonic() - began > patience:
                    raise
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_WAIT_SECONDS)
        with self.watched(connection):
            connection.execute(_SET_UP, (self._schema, f"{_BUSY_SECONDS}s"))
        return connection

    @contextmanager
    def watched(self, connection: Any) -> Iterator[None]:
        """Hang up, and say why, where a pooler lets a connection wait without a word.

        It accepts a connection, and lets it wait until it has a free session.
        """
        expired = threading.Event()

        def hang_up() -> None:
            expired.set()
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

        watch = threading.Timer(_RESTART_SECONDS, hang_up)
        watch.start()
        try:
            yield
        except psycopg.OperationalError:
            if not expired.is_set():
                raise
            raise LedgerError(
                f"A pooler (such as PgBouncer) before {self._path} has no session left for another"
                " connection. Let it give each server several sessions (pool_size)."
            ) from None
        finally:
            watch.cancel()

    @contextmanager
    def begun(self, statement: str) -> Iterator[Any]:
        """Yield a connection inside a transaction, which is committed if the block ends well."""
        # A connection that was lost since it was last used is replaced: nothing has begun on it.
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            connection, session = self._take()
            try:
                connection.execute(statement)
                break
            except BaseException as error:
                connection.close()
                self._give_back(connection, session)
                lost = isinstance(error, psycopg.OperationalError)
                refused = isinstance(error, psycopg.errors.ProtocolViolation)  # by a pooler
                if not lost or refused or time.monotonic() > deadline:
                    raise
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):  # the server undoes what a lost connection had begun
                connection.execute("ROLLBACK")
            raise
        finally:
            self._give_back(connection, session)

    def _take(self) -> tuple[Any, Session | None]:
        session = self._holding
        if session is not None and session.busy.acquire(blocking=False):
            if session is self._holding:
                return session.connection, session
            session.busy.release()
        return self._take_idle(), None

    def _take_idle(self) -> Any:
        if not self._slots.acquire(timeout=_WAIT_SECONDS):
            raise StorageError(
                f"The ledger {self._path} cannot be used: all {MOST_CONNECTIONS} connections of"
                " this process are in use. Try again later."
            )
        try:
            with suppress(IndexError):
                return self._idle.pop()
            return self.connect()
        except BaseException:
            self._slots.release()
            raise

    def _give_back(self, connection: Any, session: Session | None) -> None:
        """Let others use a connection, unless it is lost or stands in an unfinished transaction."""
        if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        if session is not None:
            self._retire(session)
            session.busy.release()
            return
        if not connection.closed:
            self._idle.append(connection)
        self._slots.release()

    def _retire(self, session: Session) -> None:
        """Make a session that holds no claim a plain connection again; its user holds ``busy``."""
        if session is self._holding and (session.claims == 0 or session.connection.closed):
            self._holding = None
            self._give_back(session.connection, None)

    def hold(self, key: int) -> tuple[Session, int]:
        """Take the lock of this key; return its session, and the server process behind it."""
        while True:
            with self._guard:
                if self._holding is None:
                    self._holding = Session(self._take_idle())
                session = self._holding
            with session.busy:
                if session is not self._holding:  # another thread was the last to use it
                    continue
                try:
                    query = "SELECT pg_try_advisory_lock(%s), pg_backend_pid()"
                    taken, process = session.connection.execute(query, (key,)).fetchone()
                except psycopg.OperationalError:
                    session.connection.close()  # a lost one is replaced; `connect` gives up
                    taken = False
                session.claims += taken
                self._retire(session)
                if taken:
                    return session, process

    def let_go(self, key: int, session: Session) -> None:
        """Let go of a lock; the last one gives the connection back."""
        if os.getpid() != self._process:
            return
        with session.busy:
            with suppress(psycopg.Error):
                session.connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
            session.claims -= 1
            self._retire(session)


_DEFAULT_NAME = "suffice"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}", re.ASCII)
_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"  # a statement sees what is committed
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"  # all of it is of one moment
_ALONE = "SELECT pg_advisory_xact_lock(%s)"
_HOLDER = """SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND (classid::bigint << 32 | objid::bigint) = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_PLACE = """SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute')
               THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END
    || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
    || ' ' || (SELECT oid::text FROM pg_database WHERE datname = current_database())
    || ' ' || to_regclass('ledger')::oid::text"""
_RESTORED = "its database was restored, copied or promoted, and may lack the last charges"


class _Statements:
    """A connection that takes statements with question marks; see `store.Tables`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        return self.connection.execute(statement.replace("?", "%s"), values or None)


class SessionClaim(Claim):
    """The lock of somebody who is at work on a request: an advisory lock of a session."""

    def __init__(self, sessions: Sessions) -> None:
        self.token = private_words(2).tobytes().hex()
        self.key = _claim_key(self.token)
        self.session, self.process = sessions.hold(self.key)
        self._sessions: Sessions | None = sessions

    def release(self) -> None:
        """Let go; whoever asks from now on finds that nobody is at work."""
        sessions, self._sessions = self._sessions, None
        if sessions is not None:
            sessions.let_go(self.key, self.session)


class PostgresStore(Store):
    """One ledger in one schema of a PostgreSQL database; see `store.Store`."""

    path: str

    def __init__(self, url: str) -> None:
        self._address, self._schema = _split(url)
        self.path = shown_address(self._address)
        if self._schema != _DEFAULT_NAME:
            self.path += f"#{self._schema}"
        digest = hashlib.sha256(f"suffice ledger {self._schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], signed=True)
        self._writer = threading.Lock()
        self._opening = threading.Lock()
        self._opened: Sessions | None = None
        self._process = 0

    @property
    def _sessions(self) -> Sessions:
        """The connections of this process: a child of `fork` opens its own."""
        with self._opening:
            if self._opened is None or self._process != os.getpid():
                self._opened = Sessions(self._address, self._schema, self.path)
                self._process = os.getpid()
                weakref.finalize(self, self._opened.close)
            return self._opened

    def exists(self) -> bool:
        """Say whether there is a ledger of this name."""
        with self._transaction(_READING) as db:
            return _exists(db)

    def prepare(self, anchor: str) -> None:
        """Make the tables, or check those that are there; freeze a ledger that was restored."""
        with self._translated():
            self._check_server()
        with self._transaction(_WRITING) as db:
            db.execute(_ALONE, (self._key,))
            tables = Tables(_Statements(db))
            if not _exists(db):
                query = "SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(%s)"
                if db.execute(query, (self._schema,)).fetchone():
                    raise LedgerError(
                        f"Schema {self._schema!r} of {self.path} holds other tables. Name another"
                        " schema: add #NAME to the address."
                    )
                db.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                db.execute("CREATE TABLE version (number INTEGER NOT NULL)")
                types = {") STRICT": ")", " BLOB": " BYTEA", " REAL ": " DOUBLE PRECISION "}
                for statement in SCHEMA:
                    for sqlite, postgres in types.items():
                        statement = statement.replace(sqlite, postgres)  # noqa: PLW2901
                    db.execute(statement)
                db.execute("INSERT INTO version VALUES (%s)", (VERSION,))
                tables.open_log(_place(db), anchor)
                return
            self._check_version(db)
            place = _place(db)
            if tables.about().place != place:
                tables.freeze(_RESTORED)
                tables.settle_at(place)

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Yield a connection for reading; all that is read in a block is of one moment."""
        with self._transaction(_READING) as db:
            self._check_version(db)
            yield Tables(_Statements(db))

    @contextmanager
    def writing(self, claim: Claim | None = None) -> Iterator[Tables]:
        """Yield a transaction that excludes all others; durable once the block has ended well.

        Threads wait for their turn without a connection. Else they could hold all of them, while
        whoever writes waits for a reader that has none.
        """
        with self._writer, self._transaction(_WRITING) as db:
            db.execute(_ALONE, (self._key,))
            self._check_version(db)
            if isinstance(claim, SessionClaim):
                self._check_held(db, claim)
            yield Tables(_Statements(db))

    def prepare_apart(self, tables: Sequence[str]) -> None:
        """Make tables that are no ledger's, in a schema that holds none, if they are missing."""
        with self._translated():
            self._check_server()
        with self.apart() as db:
            if _exists(db):
                raise ParameterError(
                    f"{self.path} holds a ledger. Name another schema: add #NAME to the address."
                )
            for statement in (f"CREATE SCHEMA IF NOT EXISTS {self._schema}", *tables):
                db.execute(statement.replace(" BLOB", " BYTEA").replace(" WITHOUT ROWID", ""))

    @contextmanager
    def apart(self) -> Iterator[Any]:
        """Yield a transaction, as in `writing`, of tables that are no ledger's."""
        with self._writer, self._transaction(_WRITING) as db:
            db.execute(_ALONE, (self._key,))
            yield _Statements(db)

    def claim(self) -> SessionClaim:
        """Return a new lock, held by the caller."""
        with self._translated():
            return SessionClaim(self._sessions)

    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
        with self._transaction(_READING) as db:
            return db.execute(_HOLDER, (_claim_key(token),)).fetchone() is not None

    def _check_held(self, db: Any, claim: SessionClaim) -> None:
        """Raise unless the session that took a claim still has it, and is one session."""
        holder = db.execute(_HOLDER, (claim.key,)).fetchone()
        if holder is None:
            raise StorageError(f"The connection to the ledger {self.path} was lost. Try again.")
        (process,) = db.execute("SELECT pg_backend_pid()").fetchone()
        same = db is not claim.session.connection or process == claim.process
        if holder[0] != claim.process or not same:
            raise self._pooled()

    def _check_version(self, db: Any) -> None:
        (version,) = db.execute("SELECT number FROM version").fetchone()
        if version != VERSION:
            raise unread_version(self.path, version)

    def _check_server(self) -> None:
        """Raise if commits do not survive a power cut, or a pooler shares out sessions."""
        with self._sessions.begun(_READING) as db:
            query = "SELECT current_setting('fsync'), pg_backend_pid()"
            fsync, process = db.execute(query).fetchone()
            if fsync != "on":
                raise LedgerError(
                    f"The server of {self.path} runs with fsync = {fsync}: a power cut would undo"
                    " charges. Set fsync = on."
                )
            direct = db.info.backend_pid == process
        if not direct:  # the connection is to somebody in between
            self._check_unpooled()

    def _check_unpooled(self) -> None:
        """Raise if two connections share a session, or one connection changes it.

        A pooler in transaction mode (PgBouncer) gives a connection any free session for each
        transaction: a lock of a session would be held for somebody else. The second connection
        keeps a session busy, so that the first one cannot get the same session by chance.
        """
        first, second = self._sessions.connect(), self._sessions.connect()
        query = "SELECT pg_backend_pid()"
        try:
            for _ in range(3):
                (before,) = first.execute(query).fetchone()
                second.execute("BEGIN")
                (other,) = second.execute(query).fetchone()
                with self._sessions.watched(first):
                    (after,) = first.execute(query).fetchone()
                second.execute("COMMIT")
                if before != after or before == other:
                    raise self._pooled()
        finally:
            first.close()
            second.close()

    def _pooled(self) -> LedgerError:
        return LedgerError(
            f"A pooler in transaction or statement mode (such as PgBouncer) stands before"
            f" {self.path}. Locks of a session do not work there. Connect to PostgreSQL itself, or"
            " use session mode."
        )

    @contextmanager
    def _transaction(self, statement: str) -> Iterator[Any]:
        with self._translated(), self._sessions.begun(statement) as db:
            yield db

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn psycopg's errors into ours; their texts may hold parts of the address."""
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise StorageError(
                f"The ledger {self.path} cannot be used: another process holds it. Try again later."
            ) from None
        except psycopg.errors.ProtocolViolation:
            raise self._pooled() from None
        except psycopg.Error as error:
            raise StorageError(
                f"The ledger {self.path} cannot be used ({type(error).__name__}). Check the"
                " address, the server and your permissions."
            ) from None


def _split(url: str) -> tuple[str, str]:
    """Return the address of a database, and the schema that holds the ledger (after a #)."""
    address, mark, name = url.rpartition("#")
    if not mark or "@" in name:  # it belongs to a password
        return url, _DEFAULT_NAME
    if not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise ParameterError(
            "The name of a ledger in a database (after #) has small letters, digits and _ only."
        )
    return address, name


def _exists(db: Any) -> bool:
    return db.execute("SELECT to_regclass('version')").fetchone()[0] is not None


def _place(db: Any) -> str:
    """Return which database this is: it changes with a restore, a copy and a promoted standby."""
    return str(db.execute(_PLACE).fetchone()[0])


def _claim_key(token: str) -> int:
    """Return the lock of a claim: 64 bits of its token."""
    return int.from_bytes(bytes.fromhex(token)[:8], signed=True) if token else 0
