"""The tables of the ledger file. Amounts are text that Python reads back exactly; never REAL.

A change of this file is a change of VERSION, and of what `Ledger` does with older files.
"""

__all__ = ["SCHEMA", "VERSION"]

VERSION = 1

SCHEMA = (
    "CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL) STRICT",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, fingerprint TEXT) STRICT",
    """CREATE TABLE budgets (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        unit TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        PRIMARY KEY (dataset, unit)
    ) STRICT""",
    """CREATE TABLE debits (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL REFERENCES datasets (name),
        request TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        spent TEXT NOT NULL,
        parameters TEXT NOT NULL,
        time REAL NOT NULL,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        bytes BLOB,
        UNIQUE (dataset, request)
    ) STRICT""",
)
