r"""The ``*.part`` file: one party's contribution, byte by byte. It is not private.

====================  ====================================================================
8 bytes               ``suffpart``: no release, so that `suffice.load` refuses it
4 + 8 bytes           lengths of manifest and array, little endian
manifest              canonical JSON: version, warning, party, statistic, names, classes, shape
array                 integers, little endian, in C order
32 bytes              SHA-256 of everything before
====================  ====================================================================

The checksum notices damage, not a forger: who sent the file is for the channel to say.
"""

import hashlib
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.owner.parties.contribution import STATISTICS, PartyContribution
from suffice.release.codec import PART_MAGIC
from suffice.release.files import read_bounded
from suffice.tables.labels import check_classes

__all__ = ["encode_part", "read_part"]

_VERSION = 1
_LENGTHS = struct.Struct("<IQ")
_MOST_MANIFEST, _MOST_BYTES = 2**20, 2**32
_WARNING = "not private: for the aggregator only"
_NAMES = ("party", "statistic", "rows", "pipeline", "grid")
_DTYPES = {"operator": "<i8", "votes": "<u2", "parameters": "<i8"}


def encode_part(part: PartyContribution) -> bytes:
    """Return the file's bytes: the same contribution always gives the same."""
    array = np.asarray(part.array)
    stored = array.astype(_DTYPES[part.statistic]) if array.dtype.kind in "iu" else array[:0]
    if not np.array_equal(stored, array):
        raise ParameterError("a contribution holds integers of its grid only.")
    fields = {name: getattr(part, name) for name in _NAMES}
    fields |= {"classes": list(part.classes), "shape": list(array.shape)}
    manifest = strict_json.canonical({"version": _VERSION, "warning": _WARNING, **fields})
    payload = np.ascontiguousarray(stored).tobytes()
    body = PART_MAGIC + _LENGTHS.pack(len(manifest), len(payload)) + manifest + payload
    return body + hashlib.sha256(body).digest()


def read_part(source: str | Path | bytes) -> PartyContribution:
    """Return the contribution that `encode_part` wrote; all else is a `ReleaseError`."""
    data = source if isinstance(source, bytes) else read_bounded(Path(source), _MOST_BYTES)
    manifest, payload = _split(data)
    fields = strict_json.parse_canonical(manifest)
    wanted = {"version", "warning", "classes", "shape", *_NAMES}
    if not isinstance(fields, dict) or fields.get("version") != _VERSION or set(fields) != wanted:
        raise UnsupportedFileError("the contribution is of a version that is not read here.")
    names = {name: strict_json.text(fields[name]) for name in _NAMES}
    hashes = strict_json.is_digest(names["rows"]) and strict_json.is_digest(names["pipeline"])
    if names["statistic"] not in STATISTICS or not names["party"].isprintable() or not hashes:
        raise CorruptFileError("the contribution's manifest is not valid.")
    try:
        classes = check_classes(fields["classes"])
    except ParameterError:
        raise CorruptFileError("the contribution's classes are not valid.") from None
    array = _array(payload, fields["shape"], _DTYPES[names["statistic"]])
    return PartyContribution(**names, array=array.astype(np.int64), classes=classes)


def _split(data: bytes) -> tuple[bytes, bytes]:
    head = len(PART_MAGIC) + _LENGTHS.size
    if data[: len(PART_MAGIC)] != PART_MAGIC:
        raise CorruptFileError("this is not a party's contribution.")
    if len(data) < head + 32:
        raise CorruptFileError("the contribution is cut off.")
    manifest, payload = _LENGTHS.unpack_from(data, len(PART_MAGIC))
    if head + manifest + payload + 32 != len(data) or manifest > _MOST_MANIFEST:
        raise CorruptFileError("the contribution is cut off, or longer than it says.")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise CorruptFileError("the checksum does not match: the file was altered or damaged.")
    return data[head : head + manifest], data[head + manifest : -32]


def _array(payload: bytes, shape: Any, dtype: str) -> np.ndarray:
    sizes = shape if isinstance(shape, list) else []
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes)
    if not whole or len(sizes) != 2 or math.prod(sizes) * np.dtype(dtype).itemsize != len(payload):
        raise CorruptFileError("the contribution's array has the wrong shape.")
    return np.frombuffer(payload, dtype=dtype).reshape(sizes)
