r"""The ``*.suffice`` file, byte by byte.

====================  ======================================================================
8 bytes               ``suffice\x01``: the container and its version
8 + 8 + 8 bytes       lengths of manifest, payload and signature block, little endian
manifest              canonical JSON (RFC 8785), with the payload's SHA-256
payload               safetensors: the kind's arrays, the pipeline's vectors, the noise's array
signature block       empty, or public key (32) and Ed25519 signature of the manifest (64)
32 bytes              SHA-256 of everything before
====================  ======================================================================

The checksum covers every byte, so an altered file is noticed even when it is not signed. Nothing is
compressed, so a file never needs more memory than a small multiple of its own size. Every field of
the manifest is critical: one that this version does not know is an error.
"""

import hashlib
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import (
    CorruptFileError,
    ParameterError,
    ReleaseError,
    StorageError,
    UnsupportedFileError,
)
from suffice.privacy.guarantee import Guarantee
from suffice.release.artifact import Part, Release, RowSet, Signature
from suffice.release.claims import check_claims
from suffice.release.covariance import Covariance
from suffice.release.files import read_bounded
from suffice.release.kinds import Kind, kind_named
from suffice.release.payload import arrays_of
from suffice.tables.pipeline import Pipeline

__all__ = [
    "MOST_BYTES",
    "PART_MAGIC",
    "decode",
    "encode",
    "load",
    "manifest_bytes",
    "manifest_of",
]

MOST_BYTES = 2**33
_MOST_MANIFEST = 2**24
_MAGIC = b"suffice\x01"
PART_MAGIC = b"suffpart"  # how a party's contribution begins, which is no release
_LENGTHS = struct.Struct("<QQQ")
_HEAD = len(_MAGIC) + _LENGTHS.size
_SIGNATURE_BYTES = 96
_MOST_GUARANTEES = 2048  # of a file: each is computed anew, and read by people
_FIELDS = {
    "kind", "kind_version", "library", "parts", "pipeline", "noise", "details", "payload"
}  # fmt: skip


def manifest_of(release: Release, payload: bytes | None = None) -> dict[str, Any]:
    """Return the manifest as plain JSON values: what `suffice inspect --json` shows."""
    payload = _payload_of(release) if payload is None else payload
    return {
        "kind": release.kind,
        "kind_version": kind_named(release.kind).stating(release.details).version,
        "library": release.library,
        "parts": [
            {
                "rows": {
                    "count": part.rows.count,
                    "hash": part.rows.hash,
                    "found_at": part.rows.found_at,
                },
                "guarantees": [guarantee.to_json() for guarantee in part.guarantees],
            }
            for part in release.parts
        ],
        "pipeline": release.pipeline.to_json(),
        "noise": release.noise.to_json(),
        "details": dict(release.details),
        "payload": {"sha256": hashlib.sha256(payload).hexdigest()},
    }


def _payload_of(release: Release) -> bytes:
    arrays = {**release.arrays, **release.pipeline.arrays(), **release.noise.arrays()}
    return safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()})


def manifest_bytes(release: Release) -> bytes:
    """Return what a signature signs."""
    return strict_json.canonical(manifest_of(release))


def encode(release: Release) -> bytes:
    """Return the file's bytes: the same release always gives the same."""
    payload = _payload_of(release)
    manifest = strict_json.canonical(manifest_of(release, payload))
    signature = (
        b"" if release.signature is None else release.signature.key + release.signature.value
    )
    lengths = _LENGTHS.pack(len(manifest), len(payload), len(signature))
    body = _MAGIC + lengths + manifest + payload + signature
    return body + hashlib.sha256(body).digest()


def load(source: str | Path | bytes) -> Release:
    """Return the release in a file, or raise: nothing in it is trusted before it was checked.

    The signature, if there is one, must be valid for the key inside the file; whether that key is
    the owner's is for `suffice.verify` to say.
    """
    data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
    try:
        return decode(data)
    except MemoryError:
        raise StorageError("the file needs more memory than there is; it is not read.") from None


def decode(data: bytes) -> Release:
    """Return the release that `encode` wrote; every other byte string is a `ReleaseError`."""
    manifest, payload, signature = _split(data)
    fields = strict_json.parse_canonical(manifest)
    if not isinstance(fields, dict) or not fields.keys() >= _FIELDS:
        raise CorruptFileError("the manifest lacks a field.")
    if fields.keys() != _FIELDS:
        raise UnsupportedFileError("the manifest has a field that this version does not know.")
    kind = kind_named(fields["kind"]).at(fields["kind_version"])
    if fields["payload"] != {"sha256": hashlib.sha256(payload).hexdigest()}:
        raise CorruptFileError("the payload is not the one that the manifest describes.")
    try:
        with np.errstate(all="ignore"):  # what overflows is found by the checks
            release = _assemble(kind, fields, arrays_of(payload), signature)
            check_claims(release)
    except ReleaseError:
        raise
    except (ParameterError, TypeError, KeyError, AttributeError) as error:
        raise CorruptFileError("the manifest is not valid for its kind.") from error
    if signature is not None:
        from suffice.release.signing import check_signature

        check_signature(signature, manifest)
    return release


def _split(data: bytes) -> tuple[bytes, bytes, Signature | None]:
    """Return manifest, payload and signature after the checks that need no parsing."""
    if data[: len(PART_MAGIC)] == PART_MAGIC:
        raise UnsupportedFileError(
            "this is a party's contribution: not private, for the aggregator only. Make a release"
            " of it and the others' with suffice aggregate."
        )
    if data[: len(_MAGIC) - 1] != _MAGIC[:-1]:
        raise CorruptFileError("this is not a suffice release file.")
    if len(data) < _HEAD + 32:
        raise CorruptFileError("the file is cut off.")
    if data[: len(_MAGIC)] != _MAGIC:
        raise UnsupportedFileError("the container's version is not one that this version reads.")
    manifest, payload, signature = _LENGTHS.unpack_from(data, len(_MAGIC))
    if _HEAD + manifest + payload + signature + 32 != len(data):
        raise CorruptFileError("the file is cut off, or longer than it says.")
    if manifest > _MOST_MANIFEST or signature not in (0, _SIGNATURE_BYTES):
        raise CorruptFileError("the manifest or the signature block has an impossible length.")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise CorruptFileError("the checksum does not match: the file was altered or damaged.")
    middle, end = _HEAD + manifest, _HEAD + manifest + payload
    block = data[end:-32]
    signed = Signature(block[:32], block[32:]) if block else None
    return data[_HEAD:middle], data[middle:end], signed


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
        raise CorruptFileError("the payload holds an array that nothing refers to.")
    if not isinstance(fields["details"], dict):
        raise CorruptFileError("the manifest is not valid for its kind.")
    release = Release(
        kind=kind.name,
        arrays=own,
        details=fields["details"],
        parts=_parts(fields["parts"]),
        pipeline=pipeline,
        noise=noise,
        library=_library(fields["library"]),
        signature=signature,
    )
    if kind_named(kind.name).stating(release.details).version != kind.version:
        raise CorruptFileError("the details are not those of the version that the file names.")
    return release


def _library(value: Any) -> str:
    """Return who wrote the file: a name and a version, in plain letters."""
    if not re.fullmatch(r"[A-Za-z0-9 ._+-]{1,100}", strict_json.text(value)):
        raise CorruptFileError("the library that a file names must be a name and a version.")
    return str(value)


def _parts(items: Any) -> tuple[Part, ...]:
    """Return the parts, once they are few enough to be read one by one."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise CorruptFileError("a release must list its parts.")
    stated = [item.get("guarantees") for item in items]
    if not all(isinstance(guarantees, list) for guarantees in stated):
        raise CorruptFileError("a part must list its guarantees.")
    if max(len(items), sum(map(len, stated))) > _MOST_GUARANTEES:
        raise CorruptFileError(
            f"a release has at most {_MOST_GUARANTEES:,} parts, and as many guarantees."
        )
    return tuple(_part(item) for item in items)


def _part(item: dict[str, Any]) -> Part:
    if set(item) != {"rows", "guarantees"} or set(item["rows"]) != {"count", "hash", "found_at"}:
        raise CorruptFileError("a part must hold its rows and its guarantees, and no more.")
    rows = item["rows"]
    found_at = rows["found_at"]
    if found_at is not None:
        found_at = strict_json.text(found_at)
    return Part(
        RowSet(rows["count"], strict_json.text(rows["hash"]), found_at),
        tuple(Guarantee.from_json(guarantee) for guarantee in item["guarantees"]),
    )
