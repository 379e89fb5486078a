"""Ledgers in SQLite files: one file, one name, and nothing beside it between transactions."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from suffice.errors import LedgerError, StorageError
from suffice.owner.ledger.anchors import anchor_of
from suffice.owner.ledger.locks import FileClaim, is_held, sweep_claims, whole_file
from suffice.owner.ledger.store import SCHEMA, VERSION, Claim, Store, Tables

__all__ = ["SqliteStore"]

_BUSY_SECONDS = 120.0


class SqliteStore(Store):
    """One ledger in one file; see `store.Store`."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Say whether there is a file with anything in it."""
        return self.path.exists() and self.path.stat().st_size > 0

    def prepare(self, anchor: str) -> None:
        """Make the tables, or check those that are there, and the file."""
        with self._transaction() as db:
            version = _version(db)
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in SCHEMA:
                    db.execute(statement)
                tables = Tables(db)
                tables.open_log("", anchor, VERSION)
                db.execute(f"PRAGMA user_version = {VERSION}")
                anchor_of(tables).replace(tables)
            else:
                self._check_version(version)
                self._check_file(db)
        sweep_claims(self.path)

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

    def _check_version(self, version: int) -> None:
        if version != VERSION:
            raise LedgerError(
                f"{self.path} is a ledger of version {version}, and this library reads version"
                f" {VERSION}. Use the suffice version that wrote it, or a newer one."
            )

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Yield a connection for reading, the only one to the file."""
        with self._connection() as db:
            yield Tables(db)

    @contextmanager
    def writing(self, claim: Claim | None = None) -> Iterator[Tables]:
        """Yield a transaction that excludes all others; durable once the block has ended well."""
        del claim  # a file of its own, which its holder cannot lose
        with self._transaction() as db:
            self._check_version(_version(db))  # a newer suffice may have changed it since
            yield Tables(db)

    def claim(self) -> FileClaim:
        """Return a new lock, held by the caller."""
        try:
            return FileClaim(self.path)
        except OSError as error:
            raise StorageError(f"The ledger {self.path} cannot be used: {error}.") from None

    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
        return is_held(self.path, token)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the only connection to the file; SQLite's errors become ours."""
        db = None
        try:
            if not self.path.exists():  # as secret as the labels: for its owner alone
                with suppress(FileExistsError):  # by another thread, whose locks a close would drop
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with whole_file(self.path):
                try:
                    db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
                    self._make_durable(db)
                    yield db
                finally:
                    if db is not None:
                        db.close()
        except (sqlite3.OperationalError, OSError) as error:
            raise StorageError(f"The ledger {self.path} cannot be used: {error}.") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # its words may quote damaged text
            raise LedgerError(f"{self.path} is not a suffice ledger, or it is damaged.") from None

    @staticmethod
    def _make_durable(db: sqlite3.Connection) -> None:
        """Make commits survive a power cut, and leave nothing in files of other names.

        A write-ahead log would stay behind under the ledger's path when a process is killed, and
        whoever moves or mounts the file would lose what was charged. EXTRA also syncs the folder
        after the journal is deleted, so that no commit is undone by a journal that comes back.
        """
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
            db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = EXTRA")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the write lock until the block ends well."""
        with self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
