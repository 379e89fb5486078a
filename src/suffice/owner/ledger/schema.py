"""The tables of a ledger. Amounts are text that Python reads back exactly; never REAL.

A change of this file is a change of VERSION. A charge names the entries of the audit log that
record it, and so does a token.
"""

__all__ = ["SCHEMA", "VERSION"]

VERSION = 1

_AUDIT = (
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
        frozen TEXT NOT NULL,
        anchor TEXT NOT NULL
    ) STRICT""",
)

_SERVICE = (
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
    *_AUDIT,
    *_SERVICE,
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
        bytes BLOB,
        opened INTEGER NOT NULL UNIQUE REFERENCES log (number),
        closed INTEGER UNIQUE REFERENCES log (number),
        seal TEXT NOT NULL,
        UNIQUE (dataset, request),
        CHECK ((state = 'finished') = (bytes IS NOT NULL)),
        CHECK ((state = 'debited') = (closed IS NULL))
    ) STRICT""",
)
