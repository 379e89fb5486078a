"""The audit log of a ledger: each entry hashes the one before it, and is written with its event.

An entry is written in the transaction of what it records. Whoever changes, removes or inserts an
entry changes every digest after it, up to the head. A copy of an old head (`checkpoint`) therefore
exposes a log that was rewritten, or a ledger that was put back from a copy.

Entries hold what is public: names, budgets, events, digests of releases. They hold no fingerprint,
no version of the data and no refusal that depends on the data, keyed or not: the head is shown to
others, and nothing in it may depend on a label.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar

from suffice.errors import LedgerError

__all__ = [
    "FIRST",
    "AlteredLedgerError",
    "Kind",
    "LogEntry",
    "checked_chain",
    "digest_of_bytes",
    "next_entry",
    "utc_now",
]

FIRST = "0" * 64  # what the first entry continues


class AlteredLedgerError(LedgerError):
    """The log of a ledger is broken, or its tables do not hold what the log says.

    ``reason`` is why the ledger is frozen. It is the same whatever was altered, because readers of
    some data sets see it too.
    """

    reason: ClassVar[str] = "it and its log disagree; `suffice ledger verify` says where"


class Kind(StrEnum):
    """What an entry records."""

    OPENED = "opened"
    BUDGET = "budget"
    CLASSES = "classes"
    DEBIT = "debit"
    FINISH = "finish"
    BURNT = "burnt"
    GRANT = "grant"
    REFUSAL = "refusal"
    FROZEN = "frozen"
    RECOVERED = "recovered"
    MINTED = "minted"
    REVOKED = "revoked"


@dataclass(frozen=True)
class LogEntry:
    """One entry of a ledger's audit log.

    Parameters
    ----------
    number : int
        Number of the entry, counted from 1.
    time : str
        When it was written, in UTC, such as 2026-11-17T14:30:00Z.
    kind : str
        What it records, one of `Kind`.
    text : str
        What it says, as JSON.
    digest : str
        SHA-256 of the digest before it and of everything above.
    """

    number: int
    time: str
    kind: str
    text: str
    digest: str

    @property
    def facts(self) -> Mapping[str, Any]:
        """What it says, by name."""
        facts: Mapping[str, Any] = json.loads(self.text)
        return facts

    def follows(self, previous: str) -> bool:
        """Say whether its digest is that of this entry after the one of digest ``previous``."""
        return self.digest == _digest(previous, self.number, self.time, self.kind, self.text)


def utc_now() -> str:
    """Return the time as entries and checkpoints state it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def digest_of_bytes(data: bytes) -> str:
    """Return the digest by which the log names a release or a text."""
    return hashlib.sha256(data).hexdigest()


def next_entry(last: int, previous: str, kind: Kind, text: str) -> LogEntry:
    """Return the entry after the last one, of which number and digest are given.

    Examples
    --------
    >>> first = next_entry(0, FIRST, Kind.OPENED, "{}")
    >>> second = next_entry(first.number, first.digest, Kind.BUDGET, "{}")
    >>> first.number, second.number, second.follows(first.digest), second.follows(FIRST)
    (1, 2, True, False)
    """
    time = utc_now()
    digest = _digest(previous, last + 1, time, kind, text)
    return LogEntry(last + 1, time, str(kind), text, digest)


def _digest(previous: str, number: int, time: str, kind: str, text: str) -> str:
    # No part can hold a line break: the text is JSON on one line. So no two entries read the same.
    return digest_of_bytes(f"{previous}\n{number}\n{time}\n{kind}\n{text}".encode())


def checked_chain(
    entries: Iterable[LogEntry], after: int = 0, previous: str = FIRST
) -> Iterator[LogEntry]:
    """Yield entries of a log, or raise at the first that does not continue the one before.

    They come after the entry of number ``after``, whose digest is ``previous``.
    """
    for expected, entry in enumerate(entries, start=after + 1):
        whole = "\n" not in f"{entry.time}{entry.kind}{entry.text}"
        if entry.number != expected or not whole or not entry.follows(previous):
            raise AlteredLedgerError(
                f"Entry {expected} of the ledger's log does not continue the one before it. The"
                " ledger was altered. Do not release from it; see `suffice ledger recover`."
            )
        previous = entry.digest
        yield entry
