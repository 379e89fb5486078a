"""How SQLite ledgers of older versions become those of this one, in one transaction."""

import json
import sqlite3

from suffice.owner.ledger.chain import Kind
from suffice.owner.ledger.schema import AUDIT, CLASSES, DEBITS, FINGERPRINTS, SERVICE, VERSION
from suffice.owner.ledger.tables import Tables

__all__ = ["migrate"]


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a ledger of version 1 or 2 to this one, inside the transaction that the caller holds.

    Balances, history and stored bytes stay as they are. A charge of version 1 without bytes is
    burnt: who was to finish it, version 1 knew by a process id only.
    """
    if version == 1:
        _add_fingerprints(db)
    _add_log(db, version)
    db.execute(f"PRAGMA user_version = {VERSION}")


def _add_fingerprints(db: sqlite3.Connection) -> None:
    """Add what version 2 has: declared classes, versions of data, states and tokens of charges."""
    db.execute(CLASSES)
    db.execute(FINGERPRINTS)
    of_parties = {
        dataset
        for dataset, parameters in db.execute("SELECT dataset, parameters FROM debits").fetchall()
        if json.loads(parameters).get("kind") == "parties"
    }
    for name, value in db.execute("SELECT name, fingerprint FROM datasets").fetchall():
        if value is not None:
            algorithm = "contents-1" if name in of_parties else "labels-1"
            row = (name, 1, algorithm, value)
            db.execute("INSERT INTO fingerprints VALUES (?, ?, ?, ?)", row)
    db.execute("ALTER TABLE datasets DROP COLUMN fingerprint")
    for column in ("version INTEGER DEFAULT 1", "token TEXT DEFAULT ''", "state TEXT"):
        db.execute(f"ALTER TABLE debits ADD COLUMN {column}")
    db.execute("UPDATE debits SET state = CASE WHEN bytes IS NULL THEN 'burnt' ELSE 'finished' END")


def _add_log(db: sqlite3.Connection, version: int) -> None:
    """Add what version 3 has: the records of a service, and the audit log of all that was there.

    These entries have the time of the migration. A request that is still open stays open.
    """
    for statement in (*AUDIT, *SERVICE):
        db.execute(statement)
    tables = Tables(db)
    tables.open_log("", Kind.MIGRATED, {"schema": version})
    for name in tables.datasets():
        tables.log_budgets(name, tables.budgets(name))
        for label, declared in tables.classes(name).items():
            tables.log_classes(name, label, declared)
    db.execute(DEBITS.format("debits_3"))
    columns = "number, dataset, request, spent, parameters, state"
    rows = db.execute(f"SELECT {columns} FROM debits ORDER BY number").fetchall()  # noqa: S608  # our own names
    for number, dataset, request, spent, parameters, state in rows:
        opened, closed = tables.log_debit(dataset, request, spent, parameters), None
        if state == "finished":
            (data,) = db.execute("SELECT bytes FROM debits WHERE number = ?", (number,)).fetchone()
            closed = tables.log_finish(dataset, request, data)
        elif state == "burnt":
            closed = tables.log_burnt(dataset, request)
        db.execute(
            "INSERT INTO debits_3 SELECT number, dataset, request, request_hash, version, spent,"
            " parameters, time, token, state, bytes, ?, ? FROM debits WHERE number = ?",
            (opened, closed, number),
        )
    db.execute("DROP TABLE debits")
    db.execute("ALTER TABLE debits_3 RENAME TO debits")
