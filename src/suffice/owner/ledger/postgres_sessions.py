"""The connections of a process to a PostgreSQL server: few, reused, and waited for a while."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from suffice.errors import StorageError

__all__ = ["Session", "Sessions"]

_MOST_CONNECTIONS = 4  # of one `Ledger`; a process with one thread uses one
_WAIT_SECONDS = 30.0  # for a connection to a server that is there
_RESTART_SECONDS = 10.0  # for a server that is not
_BUSY_SECONDS = 120  # for the lock of the ledger
_LONGEST_NAP = 0.5
_FULL = ("too many", "slots", "starting up", "shutting down", "recovery")
_AWAY = ("refused", "No such file", "closed the connection")

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
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
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
                if time.monotonic() - began > _patience(str(error)):
                    raise
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
        connection.execute(_SET_UP, (self._schema, f"{_BUSY_SECONDS}s"))
        return connection

    @contextmanager
    def begun(self, statement: str) -> Iterator[Any]:
        """Yield a connection inside a transaction, which is committed if the block ends well."""
        connection, session = self._begin(statement)
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):  # the server undoes what a lost connection had begun
                connection.execute("ROLLBACK")
            raise
        finally:
            self._give_back(connection, session)

    def _begin(self, statement: str) -> tuple[Any, Session | None]:
        """Return a connection that has begun a transaction, and its session if it holds claims.

        A connection that was lost since it was last used is replaced: nothing has begun on it.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            connection, session = self._take()
            try:
                connection.execute(statement)
            except BaseException as error:
                connection.close()
                self._give_back(connection, session)
                lost = isinstance(error, psycopg.OperationalError)
                if not lost or time.monotonic() > deadline:
                    raise
            else:
                return connection, session

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
                f"The ledger {self._path} cannot be used: all {_MOST_CONNECTIONS} connections of"
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
            session = self._session()
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

    def _session(self) -> Session:
        """Return the connection that holds the claims of this process."""
        with self._guard:
            if self._holding is None:
                self._holding = Session(self._take_idle())
            return self._holding

    def let_go(self, key: int, session: Session) -> None:
        """Let go of a lock; the last one gives the connection back."""
        if os.getpid() != self._process:
            return
        with session.busy:
            with suppress(psycopg.Error):
                session.connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
            session.claims -= 1
            self._retire(session)


def _patience(error: str) -> float:
    """Return for how many seconds a refused connection is tried again; 0 for a wrong address."""
    if any(words in error for words in _FULL):
        return _WAIT_SECONDS
    return _RESTART_SECONDS if any(words in error for words in _AWAY) else 0.0
