"""The tables of a ledger. Amounts are text that Python reads back exactly; never REAL.

A change of this file is a change of VERSION, and a migration from the version before
(migrations.py). A charge names the entries of the audit log that record it: code of an older
version, which writes no such entry, cannot write a charge. The same holds for tokens.
"""

__all__ = ["AUDIT", "CLASSES", "DEBITS", "FINGERPRINTS", "SCHEMA", "SERVICE", "VERSION"]

VERSION = 3

FINGERPRINTS = """CREATE TABLE fingerprints (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        version INTEGER NOT NULL,
        algorithm TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (dataset, version, algorithm)
    ) STRICT"""
CLASSES = """CREATE TABLE classes (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        label TEXT NOT NULL,
        declared TEXT NOT NULL,
        PRIMARY KEY (dataset, label)
    ) STRICT"""
DEBITS = """CREATE TABLE {} (
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
        opened INTEGER NOT NULL UNIQUE REFERENCES log (number),
        closed INTEGER UNIQUE REFERENCES log (number),
        UNIQUE (dataset, request),
        CHECK ((state = 'finished') = (bytes IS NOT NULL)),
        CHECK ((state = 'debited') = (closed IS NULL))
    ) STRICT"""

AUDIT = (
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
        frozen TEXT NOT NULL
    ) STRICT""",
)

SERVICE = (
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
    "CREATE TABLE turns (dataset TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT",
)

SCHEMA = (
    *AUDIT,
    *SERVICE,
    "CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL) STRICT",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY) STRICT",
    """CREATE TABLE budgets (
        dataset TEXT NOT NULL REFERENCES datasets (name),
        unit TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        PRIMARY KEY (dataset, unit)
    ) STRICT""",
    CLASSES,
    FINGERPRINTS,
    DEBITS.format("debits"),
)
