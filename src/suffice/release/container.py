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

Every shape in the payload is checked before an array is made. A header of a few bytes can name axes
of any length where one of them is zero. No kind has such an array but for columns or coordinates
that a release need not have; all others are refused.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import CorruptFileError, UnsupportedFileError
from suffice.plain_text import quoted

__all__ = ["MOST_BYTES", "PART_MAGIC", "arrays_of", "joined", "payload_of", "split"]

MOST_BYTES = 2**33
_MOST_MANIFEST = 2**24
_MAGIC = b"suffice\x01"
PART_MAGIC = b"suffpart"  # how a party's contribution begins, which is no release
_LENGTHS = struct.Struct("<QQQ")
_HEAD = len(_MAGIC) + _LENGTHS.size
_SIGNATURE_BYTES = 96
_ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
_MOST_AXES = 2
_MAY_LACK_COLUMNS = ("codes", "values")  # of records without features of either sort
_MAY_BE_EMPTY = ("pipeline.mean", "pipeline.scale", "pipeline.fill")  # without features at all


def joined(manifest: bytes, payload: bytes, signature: bytes) -> bytes:
    """Return the file of these three parts."""
    lengths = _LENGTHS.pack(len(manifest), len(payload), len(signature))
    body = _MAGIC + lengths + manifest + payload + signature
    return body + hashlib.sha256(body).digest()


def split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return manifest, payload and signature block after the checks that need no parsing."""
    if data[: len(PART_MAGIC)] == PART_MAGIC:
        raise UnsupportedFileError(
            "This is a party's contribution: not private, for the aggregator only. Make a release"
            " of it and the others' with suffice aggregate."
        )
    if data[: len(_MAGIC) - 1] != _MAGIC[:-1]:
        raise CorruptFileError("This is not a suffice release file.")
    if len(data) < _HEAD + 32:
        raise CorruptFileError("The file is cut off.")
    if data[: len(_MAGIC)] != _MAGIC:
        raise UnsupportedFileError(
            "This version of suffice does not read this version of the file format."
        )
    manifest, payload, signature = _LENGTHS.unpack_from(data, len(_MAGIC))
    if _HEAD + manifest + payload + signature + 32 != len(data):
        raise CorruptFileError("The file is cut off, or longer than it states.")
    if manifest > _MOST_MANIFEST or signature not in (0, _SIGNATURE_BYTES):
        raise CorruptFileError("The manifest or the signature block has an impossible length.")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise CorruptFileError("The checksum does not match: the file was altered or damaged.")
    middle, end = _HEAD + manifest, _HEAD + manifest + payload
    return data[_HEAD:middle], data[middle:end], data[end:-32]


def payload_of(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the payload that holds these arrays."""
    return safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()})


def arrays_of(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a payload, once the shapes in its header are those of their bytes."""
    if len(payload) < 8 or (length := int.from_bytes(payload[:8], "little")) > len(payload) - 8:
        raise CorruptFileError("The payload is cut off.")
    header = strict_json.parse(payload[8 : 8 + length])
    if not isinstance(header, dict):
        raise CorruptFileError("The payload's header is malformed.")
    for name, entry in header.items():
        _check_shape(name, entry)
    try:
        arrays = safetensors.numpy.load(payload)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CorruptFileError("The payload is malformed.") from error
    return dict(arrays)


def _check_shape(name: str, entry: Any) -> None:
    """Raise unless a header states a shape that the array's bytes can have."""
    good = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
    if name == "__metadata__" or not good or entry["dtype"] not in _ITEM_BYTES:
        raise CorruptFileError("The payload holds an array of a type that no kind has.")
    shape, ends = entry["shape"], entry["data_offsets"]
    valid = (
        _are_integers(shape)
        and _are_integers(ends)
        and len(ends) == 2
        and 1 <= len(shape) <= _MOST_AXES
    )
    if not valid or math.prod(shape) * _ITEM_BYTES[entry["dtype"]] != ends[1] - ends[0]:
        raise CorruptFileError("The payload holds an array whose shape does not fit its bytes.")
    lacks = shape[0] > 0 and name in _MAY_LACK_COLUMNS
    if 0 in shape and not lacks and name not in _MAY_BE_EMPTY:
        raise CorruptFileError(f"Array {quoted(name)} must not be empty.")


def _are_integers(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
