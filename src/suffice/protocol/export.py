"""The officer's export: everything that a service has to account for, as one signed document.

An export is one canonical JSON object (RFC 8785). Its ``signature`` is Ed25519 over the same object
without that field. It says who asked for what and why, what was granted and charged, what each
release guarantees, budgets, policies, tokens without their secrets, and the audit log. It holds no
record, no label and no fingerprint of the data.

An export of all data sets has the whole log, so that its reader can check every hash, and compare
it with an older checkpoint, on a computer that the owner does not control. An export of some data
sets has their entries alone, without hashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from suffice import strict_json
from suffice.errors import (
    CorruptFileError,
    LedgerError,
    ParameterError,
    SignatureError,
    UnsupportedFileError,
)
from suffice.owner.ledger.log import Checkpoint, LogEntry, checked_chain
from suffice.owner.ledger.verification import check_continues
from suffice.release.file import read_bounded, write_whole
from suffice.release.release import Signature
from suffice.release.signing import check_signature, check_signer, fingerprint, sign_message

__all__ = ["MOST_BYTES", "Export", "sign_export"]


MOST_BYTES = 2**26
_KIND, _VERSION = "export", 1
_KEY_DIGITS, _SIGNATURE_DIGITS = 64, 128

# What each field holds: a type, a list of one shape, an object of exactly these fields, or one of
# several shapes in brackets. `float` is any number, `object` any value.
_TERMS = {"epsilon": float, "delta": float, "mechanism": str}
_GUARANTEE = {
    "unit": str,
    "epsilon": (None, float),
    "delta": float,
    "sentences": [str],
    "public": [str],
    "assumes": [str],
}
_PROPOSAL = {
    "proposal": str,
    "received": str,
    "senders": [str],
    "purpose": str,
    "kind": str,
    "terms": _TERMS,
    "rows": int,
    "features": [str],
    "classes": [object],
    "state": str,
    "reasons": [str],
    "offer": (None, _TERMS),
    "release": (None, str),
    "guarantees": [_GUARANTEE],
}
_CHARGE = {
    "number": int,
    "time": str,
    "request": str,
    "state": str,
    "cost": [{"unit": str, "epsilon": (None, float)}],
    "delta": float,
}
_BUDGET = {
    "unit": str,
    "epsilon": float,
    "delta": float,
    "spent": (None, float),
    "left": float,
    "charges": int,
}
_SERVED = {"label": str, "grants": str, "policy": object, "largest_epsilon": float}
_DATASET = {
    "name": str,
    "served": (None, _SERVED),
    "budgets": [_BUDGET],
    "proposals": [_PROPOSAL],
    "charges": [_CHARGE],
}
_TOKEN = {
    "id": str,
    "role": str,
    "scope": [str],
    "holder": str,
    "made": str,
    "expires": str,
    "revoked": (None, str),
    "used": (None, str),
}
_CONTENT = {
    "organisation": str,
    "time": str,
    "ledger": str,
    "entries": int,
    "head": str,
    "frozen": str,
    "anchor": str,
    "scope": [str],
    "datasets": [_DATASET],
    "log": [{"number": int, "time": str, "kind": str, "text": str, "digest": str}],
    "tokens": [_TOKEN],
}
_HEAD = {"suffice", "version", "key", "signature"}


@dataclass(frozen=True)
class Export:
    """Everything that a service has to account for, signed by its owner.

    Parameters
    ----------
    content : mapping
        The fields of the document, as plain JSON values.
    signature : Signature
        The public key, and the Ed25519 signature over the document.
    """

    content: Mapping[str, Any]
    signature: Signature

    @property
    def key_id(self) -> str:
        """The short name of the signing key, as `suffice inspect` shows it for key files."""
        return fingerprint(self.signature)

    @property
    def is_complete(self) -> bool:
        """Whether it is about all data sets, and so holds the whole log."""
        return not self.content["scope"]

    @property
    def log(self) -> list[LogEntry]:
        """The entries of the audit log, oldest first."""
        return [LogEntry(**entry) for entry in self.content["log"]]

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
            If this is no export, or a part of it is not what it must be.
        UnsupportedFileError
            If it is of another version, or has an unknown field.
        SignatureError
            If it was altered, or is signed with another key.
        """
        data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
        document = _parsed(data)
        signature = _signature(document)
        signed = {name: value for name, value in document.items() if name != "signature"}
        try:
            check_signature(signature, strict_json.canonical(signed))
        except SignatureError:
            raise SignatureError("The signature does not belong to this export.") from None
        content = {name: value for name, value in document.items() if name not in _HEAD}
        _check_content(content)
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
        elif self.content["ledger"] != checkpoint.ledger:
            raise LedgerError("This checkpoint belongs to another ledger than the export.")
        elif (self.content["entries"], self.content["head"]) != (
            checkpoint.entries,
            checkpoint.head,
        ):
            raise ParameterError(
                "This export is about some data sets only, so it has no hashes to compare. Send the"
                " checkpoint to the service, or use an export of all data sets."
            )


def sign_export(content: Mapping[str, Any], private_key: str | Path) -> Export:
    """Return an export of these fields, signed with the private key in a file.

    Raises
    ------
    CorruptFileError
        If a field is not what it must be, as for `Export.load`.
    """
    _check_content(content)
    signature = sign_message(
        private_key, lambda public: strict_json.canonical(_document(content, public))
    )
    return Export(content, signature)


def _document(content: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """Return what is signed."""
    return {**content, "suffice": _KIND, "version": _VERSION, "key": key.hex()}


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the fields of a document of this kind and version."""
    if len(data) > MOST_BYTES:
        raise CorruptFileError(f"This file is larger than {MOST_BYTES} bytes. It is no export.")
    document = strict_json.parse(data)
    if not isinstance(document, dict) or document.get("suffice") != _KIND:
        raise CorruptFileError("This is not an export of a suffice service.")
    if type(document.get("version")) is not int or document["version"] != _VERSION:
        raise UnsupportedFileError("This version of suffice cannot read exports of this version.")
    if not document.keys() <= _CONTENT.keys() | _HEAD:
        raise UnsupportedFileError(
            "The export has a field that this version of suffice does not know."
        )
    try:
        strict_json.parse_canonical(data)
    except CorruptFileError:
        raise CorruptFileError(
            "The export is not in its canonical form. Use the file as the service sent it."
        ) from None
    return document


def _signature(document: Mapping[str, Any]) -> Signature:
    parts = [document.get("key"), document.get("signature")]
    sizes = (_KEY_DIGITS, _SIGNATURE_DIGITS)
    for text, size in zip(parts, sizes, strict=True):
        if not isinstance(text, str) or len(text) != size or set(text) - set("0123456789abcdef"):
            raise CorruptFileError("The export has no signature.")
    key, value = (bytes.fromhex(str(text)) for text in parts)
    return Signature(key, value)


def _check_content(content: Mapping[str, Any]) -> None:
    """Raise unless the fields are what they must be, and a whole log is one unbroken chain."""
    if not _fits(dict(content), _CONTENT):
        raise CorruptFileError("The export lacks a field, or a field is not what it must be.")
    entries = [LogEntry(**entry) for entry in content["log"]]
    numbers = [entry.number for entry in entries]
    if numbers != sorted(set(numbers)) or not all(0 < n <= content["entries"] for n in numbers):
        raise CorruptFileError("The entries of the export's log are not in their order.")
    if not content["scope"]:
        _check_whole(entries, content)


def _check_whole(entries: Sequence[LogEntry], content: Mapping[str, Any]) -> None:
    try:
        checked = list(checked_chain(entries))
        name = strict_json.parse(checked[0].text.encode()).get("ledger") if checked else None
    except (LedgerError, AttributeError):
        raise CorruptFileError("The log in this export is not one unbroken chain.") from None
    stated = (content["ledger"], content["entries"], content["head"])
    if not checked or (name, checked[-1].number, checked[-1].digest) != stated:
        raise CorruptFileError("The log in this export is not the one that the export names.")


def _fits(value: object, shape: Any) -> bool:
    """Say whether a JSON value has a shape; see above for what shapes are."""
    if shape is object or (value is None and shape is None):
        return True
    if isinstance(shape, tuple):
        return any(_fits(value, possible) for possible in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        same_names = isinstance(value, dict) and value.keys() == shape.keys()
        return same_names and all(_fits(value[name], shape[name]) for name in shape)  # type: ignore[index]  # a dict, as the line above says
    return type(value) in ((int, float) if shape is float else (shape,))
