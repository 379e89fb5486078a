"""The tables of a ledger. Amounts are text that Python reads back exactly; never REAL.

A change of this file is a change of VERSION, and a migration from the version before.
"""

import json
import sqlite3

__all__ = ["SCHEMA", "VERSION", "migrate"]

VERSION = 2

_FINGERPRINTS = """CREATE TABLE fingerprints (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        version INTEGER NOT NULL,
        algorithm TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (dataset, version, algorithm)
    ) STRICT"""
_CLASSES = """CREATE TABLE classes (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        label TEXT NOT NULL,
        declared TEXT NOT NULL,
        PRIMARY KEY (dataset, label)
    ) STRICT"""
_DEBITS = """CREATE TABLE {} (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL REFERENCES datasets (name),
        request TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        version INTEGER NOT NULL,
        spent TEXT NOT NULL,
        parameters TEXT NOT NULL,
        time REAL NOT NULL,
        token TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('debited', 'finished', 'burnt')),
        bytes BLOB,
        UNIQUE (dataset, request),
        CHECK ((state = 'finished') = (bytes IS NOT NULL))
    ) STRICT"""

SCHEMA = (
    "CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL) STRICT",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY) STRICT",
    """CREATE TABLE budgets (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        unit TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        PRIMARY KEY (dataset, unit)
    ) STRICT""",
    _CLASSES,
    _FINGERPRINTS,
    _DEBITS.format("debits"),
)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a ledger of version 1 to this one, inside the transaction that the caller holds.

    Balances, history and stored bytes stay as they are. A charge without bytes is burnt: who was
    to finish it, version 1 knew by a process id only.
    """
    db.execute(_CLASSES)
    db.execute(_FINGERPRINTS)
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
    db.execute(_DEBITS.format("debits_2"))
    db.execute(
        "INSERT INTO debits_2 SELECT number, dataset, request, request_hash, 1, spent, parameters,"
        " time, '', CASE WHEN bytes IS NULL THEN 'burnt' ELSE 'finished' END, bytes FROM debits"
    )
    db.execute("DROP TABLE debits")
    db.execute("ALTER TABLE debits_2 RENAME TO debits")
    db.execute(f"PRAGMA user_version = {VERSION}")
