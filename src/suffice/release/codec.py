"""Read a ``*.suffice`` file: nothing in it is trusted before it was checked.

Every field of the manifest is critical: one that this version does not know is an error.

Numbers that a file's own bounds and noise cannot give are refused before anybody computes. A mean
of rows is no longer than the longest row, a sum of m rows no longer than m of them, a share of
votes no more than one, a count no larger than its set. On top of that comes the noise that the file
states: no further than a sampler reaches, and no more of it than 64-bit integers hold.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping
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
from suffice.release.file import MOST_BYTES, PART_MAGIC, arrays_of, read_bounded, split
from suffice.release.kinds import Kind, check_moments, kind_named
from suffice.release.release import (
    Covariance,
    Part,
    Release,
    RowSet,
    Signature,
    encode,
    manifest_bytes,
    manifest_of,
)
from suffice.tables.pipeline import Pipeline

__all__ = [
    "MOST_BYTES",
    "PART_MAGIC",
    "check_claims",
    "check_numbers",
    "decode",
    "encode",
    "load",
    "manifest_bytes",
    "manifest_of",
]


_TAIL = 100.0  # deviations: beyond with probability e^-100, of any noise that is drawn here
_MOST_NOISE = 2.0**61  # in units of what is summed: integers are finer, and end there
_LOST = 1e-6  # to rounding, in the file's favour


def check_numbers(release: Release) -> None:
    """Raise if the release holds numbers that its declared bound and noise cannot give."""
    if release.kind == "moments":
        check_moments(release)
    if release.kind not in _REACHES:
        return
    name, exact_of, unit_of = _REACHES[release.kind]
    numbers, unit = release.arrays[name], unit_of(release)
    deviation = math.sqrt(float(release.noise.diagonal(1).max()))
    # K-norm noise of d coordinates reaches d times as far as its deviation says, at most.
    noise = deviation * (_TAIL + numbers.size) * len(release.parts)
    if release.noise.form == "none":  # unknown
        noise = math.inf
    limit = exact_of(release) + min(noise, _MOST_NOISE * unit)
    if deviation > _MOST_NOISE * unit or np.abs(numbers).max() > limit * (1 + _LOST):
        raise CorruptFileError(
            "The file holds numbers that its declared bound and noise cannot give."
        )


def _longest_row(release: Release) -> float:
    return release.pipeline.norm_bound


def _longest_sum(release: Release) -> float:
    return release.rows * release.pipeline.norm_bound


def _largest_set(release: Release) -> float:
    return float(release.arrays["sizes"].max())


def _one(_: Release) -> float:
    return 1.0


Size = Callable[[Release], float]
# By kind: the array with noise, how large its exact numbers are, and the size of one term.
_REACHES: Mapping[str, tuple[str, Size, Size]] = {
    "mean-operator": ("mean_operator", _longest_row, _longest_row),
    "rados": ("rados", _longest_sum, _longest_row),
    "votes": ("votes", _one, _one),
    "proportions": ("counts", _largest_set, _one),
}


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
        from suffice.release.signing import check_signature

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
    expected = {*own, *pipeline.arrays(), *noise.arrays()}
    if set(arrays) != expected:
        raise CorruptFileError("The payload holds an array that nothing refers to.")
    if not isinstance(fields["details"], dict):
        raise CorruptFileError("The manifest is not valid for its kind.")
    return Release(
        kind=kind.name,
        arrays=own,
        details=fields["details"],
        parts=_parts(fields["parts"]),
        pipeline=pipeline,
        noise=noise,
        library=_library(fields["library"]),
        signature=signature,
    )


def _library(value: Any) -> str:
    """Return who wrote the file: a name and a version, in plain letters."""
    if not re.fullmatch(r"[A-Za-z0-9 ._+-]{1,100}", strict_json.text(value)):
        raise CorruptFileError("The library in a file must be a name and a version.")
    return str(value)


def _parts(items: Any) -> tuple[Part, ...]:
    """Return the parts, once they are few enough to be read one by one."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise CorruptFileError("A release must list its parts.")
    stated = [item.get("guarantees") for item in items]
    if not all(isinstance(guarantees, list) for guarantees in stated):
        raise CorruptFileError("A part must list its guarantees.")
    if max(len(items), sum(map(len, stated))) > _MOST_GUARANTEES:
        raise CorruptFileError(
            f"A release has at most {_MOST_GUARANTEES:,} parts, and as many guarantees."
        )
    effort = Effort()
    return tuple(_part(item, effort) for item in items)


def _part(item: dict[str, Any], effort: Effort) -> Part:
    if set(item) != {"rows", "guarantees"}:
        raise CorruptFileError("A part must hold its rows and its guarantees only.")
    return Part(
        strict_json.read(RowSet, item["rows"]),
        tuple(Guarantee.from_json(guarantee, effort) for guarantee in item["guarantees"]),
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
