"""The officer's export: everything that a service has to account for, as one signed document.

An export is one canonical JSON object (RFC 8785). Its ``signature`` is Ed25519 over the SHA-256 of
the same object without that field, so that a long one can be written piece by piece. It says who
asked for what and why, what was granted and charged, what each release guarantees, budgets,
policies, tokens without their secrets, and the audit log. It holds no record, no label and no
fingerprint of the data.

An export of all data sets has the whole log, so that its reader can check every hash, and compare
it with an older checkpoint, on a computer that the owner does not control. An export of some data
sets has their entries alone, without hashes.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self, SupportsBytes

from suffice import strict_json
from suffice.errors import (
    CorruptFileError,
    LedgerError,
    ParameterError,
    SignatureError,
    UnsupportedFileError,
)
from suffice.owner.ledger.ledger import check_continues
from suffice.owner.ledger.log import Checkpoint, LogEntry, checked_chain
from suffice.owner.ledger.tokens import TokenRecord
from suffice.owner.policy import Policy, Terms
from suffice.privacy.guarantee import Guarantee, guarantee_sentences
from suffice.protocol.messages import Answer, Countered, Granted, Proposal
from suffice.releases.file import read_bounded, write_whole
from suffice.releases.release import Signature
from suffice.releases.signing import check_signature, check_signer, fingerprint, signing_key
from suffice.tables.data_sheet import DataSheet

MOST_BYTES = 2**26
_KIND, _VERSION = "export", 3
_HEAD = {"suffice", "version", "key", "signature"}


@dataclass(frozen=True)
class GuaranteeRecord:
    """What a release states about one unit, in numbers and in words."""

    unit: str
    epsilon: float | None
    delta: float
    sentences: tuple[str, ...]
    public: tuple[str, ...]
    assumes: tuple[str, ...]


@dataclass(frozen=True)
class ProposalRecord:
    """A proposal, and what became of it."""

    proposal: str
    received: str
    senders: tuple[str, ...]
    purpose: str
    kind: str
    terms: Terms
    rows: int | None  # None where records are private
    features: tuple[str, ...]
    classes: tuple[Any, ...]
    options: Mapping[str, Any]
    state: str
    reasons: tuple[str, ...]
    offer: Terms | None
    release: str | None
    guarantees: tuple[GuaranteeRecord, ...]


@dataclass(frozen=True)
class CostRecord:
    """What a charge cost by itself; epsilon is None where there is no finite one."""

    unit: str
    epsilon: float | None


@dataclass(frozen=True)
class ChargeRecord:
    """One charge of a data set's budget."""

    number: int
    time: str
    request: str
    state: str
    cost: tuple[CostRecord, ...]
    delta: float


@dataclass(frozen=True)
class BudgetRecord:
    """One budget of a data set; what is spent is None where it is not finite."""

    unit: str
    epsilon: float
    delta: float
    spent: float | None
    left: float
    charges: int


@dataclass(frozen=True)
class ServedRecord:
    """What a service grants about a data set."""

    label: str
    grants: str
    policy: Policy
    largest_epsilon: float
    sheet: DataSheet | None

    @property
    def public(self) -> tuple[str, ...]:
        """The columns that are treated as public."""
        return self.policy.features or () if self.sheet is None else self.sheet.public


@dataclass(frozen=True)
class DatasetRecord:
    """A data set with its budgets, proposals and charges, oldest first."""

    name: str
    served: ServedRecord | None
    budgets: tuple[BudgetRecord, ...]
    proposals: tuple[ProposalRecord, ...]
    charges: tuple[ChargeRecord, ...]


@dataclass(frozen=True)
class ExportContent:
    """What an export says; see the module for what it leaves out."""

    organisation: str
    time: str
    ledger: str
    entries: int
    head: str
    frozen: str
    anchor: str
    scope: tuple[str, ...]
    datasets: tuple[DatasetRecord, ...]
    log: tuple[LogEntry, ...]
    tokens: tuple[TokenRecord, ...]


@dataclass(frozen=True)
class _SignedBy:
    """The key and the signature of an export, in hexadecimal digits."""

    key: Annotated[str, ("pattern", "^[0-9a-f]{64}$")]
    signature: Annotated[str, ("pattern", "^[0-9a-f]{128}$")]


@dataclass(frozen=True)
class Export:
    """Everything that a service has to account for, signed by its owner.

    Parameters
    ----------
    content : ExportContent
        What it says.
    signature : Signature
        The public key, and the Ed25519 signature over the document.
    """

    content: ExportContent
    signature: Signature

    @property
    def key_id(self) -> str:
        """The short name of the signing key, as `suffice inspect` shows it for key files."""
        return fingerprint(self.signature)

    @property
    def is_complete(self) -> bool:
        """Whether it is about all data sets, and so holds the whole log."""
        return not self.content.scope

    @property
    def log(self) -> list[LogEntry]:
        """The entries of the audit log, oldest first."""
        return list(self.content.log)

    def encode(self) -> bytes:
        """Return the bytes of its file: the same export always gives the same bytes."""
        document = _document(self.content, self.signature.key)
        return strict_json.canonical({**document, "signature": self.signature.value.hex()})

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the export to a file, completely or not at all."""
        write_whole(Path(path), self.encode(), overwrite=overwrite)

    @classmethod
    def load(cls, source: str | Path | bytes, key: str | Path | None = None) -> Self:
        """Return the export in a file, after checking its signature, its fields and its log.

        Parameters
        ----------
        source : str, Path or bytes
            A path, or the bytes themselves.
        key : str or Path, optional
            The file of a public key. With it, the export must be signed by it.

        Raises
        ------
        CorruptFileError
            If this is no export, or a part of it is unknown or not what it must be.
        UnsupportedFileError
            If it is of another version.
        SignatureError
            If it was altered, or is signed with another key.
        """
        data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise CorruptFileError(f"This file is larger than {MOST_BYTES} bytes. It is no export.")
        document = strict_json.parse(data)
        if not isinstance(document, dict) or document.get("suffice") != _KIND:
            raise CorruptFileError("This is not an export of a suffice service.")
        if type(document.get("version")) is not int or document["version"] != _VERSION:
            raise UnsupportedFileError(
                "This version of suffice cannot read exports of this version."
            )
        try:
            strict_json.parse_canonical(data)
        except CorruptFileError:
            raise CorruptFileError(
                "The export is not in its canonical form. Use the file as the service sent it."
            ) from None
        named = {name: document[name] for name in ("key", "signature") if name in document}
        signer = strict_json.read(_SignedBy, named, "export")
        signature = Signature(bytes.fromhex(signer.key), bytes.fromhex(signer.signature))
        signed = {name: value for name, value in document.items() if name != "signature"}
        try:
            check_signature(signature, _signed(hashlib.sha256(strict_json.canonical(signed))))
        except SignatureError:
            raise SignatureError("The signature does not belong to this export.") from None
        members = {name: value for name, value in document.items() if name not in _HEAD}
        content = strict_json.read(ExportContent, members, "export")
        _check_log(content)
        export = cls(content, signature)
        if key is not None:
            check_signer(signature, key, "export")
        return export

    def check_continues(self, checkpoint: Checkpoint) -> None:
        """Raise unless the log of this export continues an older checkpoint of the ledger.

        Parameters
        ----------
        checkpoint : Checkpoint
            An earlier head of the log, as somebody kept it.

        Raises
        ------
        LostEntriesError
            If entries are missing, or are others: the ledger was put back from a copy, or
            rewritten.
        LedgerError
            If the checkpoint is one of another ledger.
        ParameterError
            If the export has not the whole log, and is not of the same length.
        """
        if self.is_complete:
            check_continues(self.log, checkpoint)
        elif self.content.ledger != checkpoint.ledger:
            raise LedgerError("This checkpoint belongs to another ledger than the export.")
        elif (self.content.entries, self.content.head) != (checkpoint.entries, checkpoint.head):
            raise ParameterError(
                "This export is about some data sets only, so it has no hashes to compare. Send the"
                " checkpoint to the service, or use an export of all data sets."
            )


def signed_export(
    members: Mapping[str, Iterable[SupportsBytes]], private_key: str | Path
) -> tuple[list[SupportsBytes], int]:
    """Return the pieces of an export and their length, signed with the private key in a file.

    Each member comes in pieces of its canonical form. A piece may be something that reads its bytes
    anew each time, so that a long export is never in memory.
    """
    key = signing_key(private_key)
    head = {"suffice": _KIND, "version": _VERSION, "key": key.public_key().public_bytes_raw().hex()}
    whole = {**members, **{name: [strict_json.canonical(value)] for name, value in head.items()}}
    hashed, size = hashlib.sha256(), 0
    pieces: list[SupportsBytes] = []
    for name in sorted([*whole, "signature"]):
        if name == "signature":
            place = len(pieces)
            continue
        pieces.append(b'%b"%b":' % (b"," if pieces else b"{", name.encode()))
        hashed.update(bytes(pieces[-1]))
        size += len(bytes(pieces[-1]))
        for piece in whole[name]:
            data = bytes(piece)
            hashed.update(data)
            size += len(data)
            pieces.append(piece)
    pieces.append(b"}")
    hashed.update(b"}")
    pieces.insert(place, b',"signature":"%b"' % key.sign(_signed(hashed)).hex().encode())
    return pieces, size + len(bytes(pieces[place])) + 1


def _signed(hashed: Any) -> bytes:
    """Return what is signed of an export whose SHA-256 this is."""
    return f"suffice export {_VERSION} sha256 {hashed.hexdigest()}\n".encode()


def _document(content: ExportContent, key: bytes) -> dict[str, Any]:
    """Return all but the signature."""
    return {**strict_json.plain(content), "suffice": _KIND, "version": _VERSION, "key": key.hex()}


def proposal_record(
    proposal: Proposal,
    received: datetime,
    answer: Answer | None = None,
    guarantees: Sequence[Guarantee] = (),
) -> ProposalRecord:
    """Return what an export says of a proposal, without its senders and its state."""
    return ProposalRecord(
        proposal=proposal.digest,
        received=received.isoformat(),
        senders=(),
        purpose=proposal.purpose,
        kind=proposal.kind,
        terms=proposal.terms,
        rows=None if proposal.rows is None else proposal.rows.count,
        features=proposal.features,
        classes=proposal.classes,
        options=proposal.options,
        state="",
        reasons=getattr(answer, "reasons", ()),
        offer=answer.terms if isinstance(answer, Countered) else None,
        release=answer.release if isinstance(answer, Granted) else None,
        guarantees=tuple(
            GuaranteeRecord(
                unit=str(guarantee.unit),
                epsilon=None if guarantee.epsilon is None else finite(guarantee.epsilon),
                delta=guarantee.delta,
                sentences=tuple(guarantee_sentences(guarantee)),
                public=tuple(str(text) for text in guarantee.public),
                assumes=tuple(str(assumption) for assumption in guarantee.assumptions),
            )
            for guarantee in guarantees
        ),
    )


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for an infinite one."""
    return value if math.isfinite(value) else None


def _check_log(content: ExportContent) -> None:
    """Raise unless entries are in their order, and a whole log is one unbroken chain."""
    numbers = [entry.number for entry in content.log]
    if numbers != sorted(set(numbers)) or not all(0 < n <= content.entries for n in numbers):
        raise CorruptFileError("The entries of the export's log are not in their order.")
    if content.scope:
        return
    try:
        checked = list(checked_chain(content.log))
        name = strict_json.parse(checked[0].text.encode()).get("ledger") if checked else None
    except (LedgerError, AttributeError):
        raise CorruptFileError("The log in this export is not one unbroken chain.") from None
    stated = (content.ledger, content.entries, content.head)
    if not checked or (name, checked[-1].number, checked[-1].digest) != stated:
        raise CorruptFileError("The log in this export is not the one that the export names.")
