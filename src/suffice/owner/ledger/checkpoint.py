"""Signed checkpoints of an audit log: a few lines that an officer keeps.

::

    suffice ledger checkpoint 1
    ledger 5f0c6e0e8f7d4c1b9a2d3e4f50617283
    entries 42
    head 9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
    time 2026-11-17T14:30:00Z
    key f3a1... (the public key, 64 digits)
    signature 8b02... (Ed25519 over the lines above, 128 digits)

It names no data set and no request, and holds nothing that depends on a record: the head is a hash
of public entries (`chain`).
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from suffice.errors import CorruptFileError, SignatureError
from suffice.release.artifact import Signature
from suffice.release.files import read_bounded, write_whole
from suffice.release.signing import check_signature, check_signer, fingerprint, signing_key

__all__ = ["Checkpoint", "signed_checkpoint"]

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
    key = signing_key(private_key)
    public = key.public_key().public_bytes_raw()
    lines = _signed_lines(ledger, entries, head, time, public)
    return Checkpoint(ledger, entries, head, time, Signature(public, key.sign(lines.encode())))


def _signed_lines(ledger: str, entries: int, head: str, time: str, key: bytes) -> str:
    return (
        f"{_TITLE}\nledger {ledger}\nentries {entries}\nhead {head}\ntime {time}\nkey {key.hex()}\n"
    )
