"""The audit log of a ledger: each entry hashes the one before it, and is written with its event.

An entry is written in the transaction of what it records. Whoever changes, removes or inserts an
entry changes every digest after it, up to the head. A copy of an old head (`checkpoint`) therefore
exposes a log that was rewritten, or a ledger that was put back from a copy.

Entries hold what is public: names, budgets, events, digests of releases. They hold no fingerprint,
no version of the data and no refusal that depends on the data, keyed or not: the head is shown to
others, and nothing in it may depend on a label.

A checkpoint is a few signed lines that an officer keeps::

    suffice ledger checkpoint 1
    ledger 5f0c6e0e8f7d4c1b9a2d3e4f50617283
    entries 42
    head 9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
    time 2026-11-17T14:30:00Z
    key f3a1... (the public key, 64 digits)
    signature 8b02... (Ed25519 over the lines above, 128 digits)

It names no data set and no request, and holds nothing that depends on a record: the head is a hash
of public entries.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self

from suffice.errors import CorruptFileError, LedgerError, SignatureError
from suffice.releases.file import read_bounded, write_whole
from suffice.releases.release import Signature
from suffice.releases.signing import check_signature, check_signer, fingerprint, sign_message

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
    RAISED = "raised"
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
    ARCHIVED = "archived"
    DECISION = "decision"
    CLOSED = "closed"


# What people are shown instead.
KINDS: Mapping[str, str] = {
    "debit": "charge",
    "finish": "release stored",
    "burnt": "output lost",
    "grant": "proposal granted",
    "refusal": "refused",
    "budget": "budget set",
    "raised": "budget raised",
    "classes": "classes declared",
    "opened": "ledger made",
    "frozen": "ledger frozen",
    "recovered": "ledger recovered",
    "minted": "token made",
    "revoked": "token revoked",
    "archived": "outputs archived",
    "decision": "owner decided",
    "closed": "survey closed",
}


@dataclass(frozen=True)
class LogEntry:
    """One entry of a ledger's audit log."""

    number: int  # counted from 1
    time: str  # in UTC, such as 2026-11-17T14:30:00Z
    kind: str  # what it records, one of `Kind`
    text: str  # what it says, as JSON
    digest: str  # SHA-256 of the digest before it and of everything above

    @property
    def facts(self) -> Mapping[str, Any]:
        """What it says, by name."""
        facts: Mapping[str, Any] = json.loads(self.text)
        return facts

    def digest_after(self, previous: str) -> str:
        """Return the digest of this entry after the one of digest ``previous``."""
        # No part can hold a line break: the text is JSON on one line. So no two entries read alike.
        said = f"{previous}\n{self.number}\n{self.time}\n{self.kind}\n{self.text}"
        return digest_of_bytes(said.encode())


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
    >>> first.number, second.number, second.digest == second.digest_after(first.digest)
    (1, 2, True)
    """
    entry = LogEntry(last + 1, utc_now(), str(kind), text, "")
    return replace(entry, digest=entry.digest_after(previous))


def checked_chain(
    entries: Iterable[LogEntry], after: int = 0, previous: str = FIRST
) -> Iterator[LogEntry]:
    """Yield entries of a log, or raise at the first that does not continue the one before.

    They come after the entry of number ``after``, whose digest is ``previous``.
    """
    for expected, entry in enumerate(entries, start=after + 1):
        whole = "\n" not in f"{entry.time}{entry.kind}{entry.text}"
        if entry.number != expected or not whole or entry.digest != entry.digest_after(previous):
            raise AlteredLedgerError(
                f"Entry {expected} of the ledger's log does not continue the one before it. The"
                " ledger was altered. Do not release from it; see `suffice ledger recover`."
            )
        previous = entry.digest
        yield entry


_TITLE = "suffice ledger checkpoint 1"
_FORM = re.compile(
    rf"(?P<signed>{_TITLE}\nledger (?P<ledger>[0-9a-f]{{32}})\n"
    r"entries (?P<entries>[1-9][0-9]{0,15})\n"
    r"head (?P<head>[0-9a-f]{64})\ntime (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\n"
    r"key (?P<key>[0-9a-f]{64})\n)signature (?P<signature>[0-9a-f]{128})\n?",
    re.ASCII,
)
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Checkpoint:
    """The head of a ledger's audit log at some time, signed by the ledger's owner.

    Parameters
    ----------
    ledger : str
        Name of the ledger: 32 hexadecimal digits that it drew when it was made.
    entries : int
        How many entries the log had.
    head : str
        Digest of the last of them.
    time : str
        When it was signed, in UTC.
    signature : Signature
        The public key, and the Ed25519 signature over all of the above.
    """

    ledger: str
    entries: int
    head: str
    time: str
    signature: Signature

    @property
    def key_id(self) -> str:
        """The short name of the signing key, as `suffice inspect` shows it for key files."""
        return fingerprint(self.signature)

    def to_text(self) -> str:
        """Return the checkpoint as the lines of its file."""
        signed = _signed_lines(self.ledger, self.entries, self.head, self.time, self.signature.key)
        return f"{signed}signature {self.signature.value.hex()}\n"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the checkpoint in these lines, after checking its signature for its own key.

        Raises
        ------
        CorruptFileError
            If this is no checkpoint.
        SignatureError
            If the signature does not belong to it.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise CorruptFileError("This is not a checkpoint of a suffice ledger.")
        key, value = bytes.fromhex(match["key"]), bytes.fromhex(match["signature"])
        signature = Signature(key, value)
        try:
            check_signature(signature, match["signed"].encode())
        except SignatureError:
            raise SignatureError("The signature does not belong to this checkpoint.") from None
        return cls(match["ledger"], int(match["entries"]), match["head"], match["time"], signature)

    @classmethod
    def load(cls, path: str | Path, key: str | Path | None = None) -> Self:
        """Return the checkpoint in a file; with the file of a public key, it must be signed by it.

        Raises
        ------
        CorruptFileError
            If the file holds no checkpoint.
        SignatureError
            If it was altered, or is signed with another key.
        """
        try:
            text = read_bounded(Path(path), _MOST_BYTES).decode("ascii")
        except UnicodeDecodeError:
            raise CorruptFileError("This is not a checkpoint of a suffice ledger.") from None
        checkpoint = cls.from_text(text.replace("\r\n", "\n"))
        if key is not None:
            check_signer(checkpoint.signature, key, "checkpoint")
        return checkpoint

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the checkpoint to a file, completely or not at all."""
        write_whole(Path(path), self.to_text().encode(), overwrite=overwrite)


def signed_checkpoint(
    ledger: str, entries: int, head: str, time: str, private_key: str | Path
) -> Checkpoint:
    """Return a checkpoint that is signed with the private key in a file."""
    signature = sign_message(
        private_key, lambda key: _signed_lines(ledger, entries, head, time, key).encode()
    )
    return Checkpoint(ledger, entries, head, time, signature)


def _signed_lines(ledger: str, entries: int, head: str, time: str, key: bytes) -> str:
    return (
        f"{_TITLE}\nledger {ledger}\nentries {entries}\nhead {head}\ntime {time}\nkey {key.hex()}\n"
    )
