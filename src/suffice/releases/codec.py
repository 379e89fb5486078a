"""Read a ``*.suffice`` file: nothing in it is trusted before it was checked.

Every field of the manifest is critical: one that this version does not know is an error.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import (
    CorruptFileError,
    ParameterError,
    ReleaseError,
    StorageError,
    UnsupportedFileError,
)
from suffice.privacy.accounting import Effort
from suffice.privacy.guarantee import Guarantee, Protection
from suffice.releases.claims import check_numbers
from suffice.releases.file import MOST_BYTES, arrays_of, read_bounded, split
from suffice.releases.kinds import Kind, kind_named
from suffice.releases.release import (
    Covariance,
    Part,
    Release,
    RowSet,
    Signature,
)
from suffice.tables.pipeline import Pipeline

_MOST_GUARANTEES = 2048  # of a file: each is computed anew, and read by people
_FIELDS = {
    "kind", "kind_version", "library", "parts", "pipeline", "noise", "details", "payload"
}  # fmt: skip


def load(source: str | Path | bytes) -> Release:
    """Return the release in a file, after checking all of it.

    A signature must be valid for the key inside the file. `suffice.verify` checks whether that key
    is the owner's.

    Parameters
    ----------
    source
        The file, or its bytes.

    Raises
    ------
    ReleaseError
        If the file is damaged, of an unknown version, or states more protection than its own
        numbers give.
    StorageError
        If the file cannot be read.
    """
    data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
    try:
        return decode(data)
    except MemoryError:
        raise StorageError("The file needs more memory than this computer has.") from None


def decode(data: bytes) -> Release:
    """Return the release that `encode` wrote; every other byte string is a `ReleaseError`."""
    manifest, payload, block = split(data)
    signature = Signature(block[:32], block[32:]) if block else None
    fields = strict_json.parse_canonical(manifest)
    if not isinstance(fields, dict) or not fields.keys() >= _FIELDS:
        raise CorruptFileError("The manifest lacks a field.")
    if fields.keys() != _FIELDS:
        raise UnsupportedFileError(
            "The manifest has a field that this version of suffice does not know."
        )
    kind = kind_named(fields["kind"])
    kind.check_version(fields["kind_version"])
    if fields["payload"] != {"sha256": hashlib.sha256(payload).hexdigest()}:
        raise CorruptFileError("The payload is not the one that the manifest describes.")
    try:
        with np.errstate(all="ignore"):  # what overflows is found by the checks
            release = _assemble(kind, fields, arrays_of(payload), signature)
            check_claims(release)
            check_numbers(release)
    except ReleaseError:
        raise
    except (ParameterError, TypeError, KeyError, AttributeError) as error:
        raise CorruptFileError("The manifest is not valid for its kind.") from error
    if signature is not None:
        from suffice.releases.signing import check_signature

        check_signature(signature, manifest)
    return release


def _assemble(
    kind: Kind,
    fields: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    signature: Signature | None,
) -> Release:
    own = {name: array for name, array in arrays.items() if name in kind.arrays}
    pipeline = Pipeline.from_json(fields["pipeline"], arrays)
    noise = Covariance.from_json(fields["noise"], arrays)
    if set(arrays) != {*own, *pipeline.arrays(), *noise.arrays()}:
        raise CorruptFileError("The payload holds an array that nothing refers to.")
    if not isinstance(fields["details"], dict):
        raise CorruptFileError("The manifest is not valid for its kind.")
    items = fields["parts"]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise CorruptFileError("A release must list its parts.")
    stated = [item.get("guarantees") for item in items]
    if not all(isinstance(guarantees, list) for guarantees in stated):
        raise CorruptFileError("A part must list its guarantees.")
    if max(len(items), sum(map(len, stated))) > _MOST_GUARANTEES:
        raise CorruptFileError(
            f"A release has at most {_MOST_GUARANTEES:,} parts, and as many guarantees."
        )
    if any(set(item) != {"rows", "guarantees"} for item in items):
        raise CorruptFileError("A part must hold its rows and its guarantees only.")
    effort = Effort()
    parts = tuple(
        Part(
            strict_json.read(RowSet, item["rows"]),
            tuple(Guarantee.from_json(guarantee, effort) for guarantee in item["guarantees"]),
        )
        for item in items
    )
    library = strict_json.text(fields["library"])
    if not re.fullmatch(r"[A-Za-z0-9 ._+-]{1,100}", library):
        raise CorruptFileError("The library in a file must be a name and a version.")
    return Release(
        kind=kind.name,
        arrays=own,
        details=fields["details"],
        parts=parts,
        pipeline=pipeline,
        noise=noise,
        library=library,
        signature=signature,
    )


def check_claims(release: Release) -> None:
    """Raise if a guarantee of the release claims more than the release itself can keep."""
    keeps = kind_named(release.kind).claims(release)
    for guarantee in release.guarantees:
        if guarantee.kind is not Protection.NONE and not keeps(guarantee):
            raise CorruptFileError(
                "A guarantee in the file states more protection than the file's own numbers give."
                " Do not rely on this file."
            )
