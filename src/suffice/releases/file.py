r"""The ``*.suffice`` file, byte by byte; files are written whole or not at all.

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

import errno
import hashlib
import math
import os
import struct
import tempfile
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import CorruptFileError, StorageError, UnsupportedFileError
from suffice.plain_text import quoted

CHUNK_BYTES = 2**20
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}  # of file systems such as those of sticks


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, overwrite: bool = True) -> None:
    """Write ``data`` to a temporary neighbour, make it durable, then give it its name.

    Without ``overwrite`` a file of that name is never replaced, not even one that another process
    makes at the same moment: then `StorageError` is raised, and that file stays as it is. A device
    or a pipe is written to: root that replaced /dev/null would take it from the whole machine.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            path.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        if overwrite:
            Path(temporary).replace(path)
        else:
            try:  # one of two processes that give it this name fails
                path.hardlink_to(temporary)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # takes it, empty
                Path(temporary).replace(path)
    except FileExistsError:
        raise StorageError(
            f"{path} exists, and is not overwritten: write to another file."
        ) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def read_bounded(path: Path, most: int) -> bytes:
    """Return the file's bytes, if there are no more than ``most``; a pipe may only say so late.

    No more memory is asked for than the file says that it has, or a pipe has sent.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise StorageError(f"{path} is larger than {most} bytes. suffice does not read it.")
            data = file.read(size) if size else _piped(file, most + 1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    except MemoryError:
        raise StorageError(f"{path} needs more memory than this computer has.") from None
    if len(data) > most:
        raise StorageError(f"{path} is larger than {most} bytes. suffice does not read it.")
    return data


def _piped(file: BinaryIO, most: int) -> bytes:
    """Return what a file sends that does not say its size, up to ``most`` bytes."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(CHUNK_BYTES, most))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


MOST_BYTES = 2**33
_MOST_MANIFEST_BYTES = 2**24
_MAGIC = b"suffice\x01"
PART_MAGIC = b"suffpart"  # how a party's contribution begins, which is no release
_LENGTHS = struct.Struct("<QQQ")
_CHECKSUM_BYTES, _SIGNATURE_BYTES = 32, 96  # of SHA-256; of a public key and its signature
_ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
_MOST_AXES = 2
_MAY_LACK_COLUMNS = ("codes", "values")  # of records without features of either sort
_MAY_BE_EMPTY = ("pipeline.mean", "pipeline.scale", "pipeline.fill")  # without features at all


def sealed(magic: bytes, lengths: struct.Struct, *blocks: bytes) -> bytes:
    """Return a file of blocks: its magic, their lengths, the blocks, and a checksum of it all."""
    body = magic + lengths.pack(*map(len, blocks)) + b"".join(blocks)
    return body + hashlib.sha256(body).digest()


def unsealed(data: bytes, magic: bytes, lengths: struct.Struct) -> list[bytes]:
    """Return the blocks that `sealed` wrote, the manifest first, or raise if anything is off."""
    head = len(magic) + lengths.size
    if len(data) < head + _CHECKSUM_BYTES:
        raise CorruptFileError("The file is cut off.")
    sizes = lengths.unpack_from(data, len(magic))
    if head + sum(sizes) + _CHECKSUM_BYTES != len(data):
        raise CorruptFileError("The file is cut off, or longer than it states.")
    if sizes[0] > _MOST_MANIFEST_BYTES:
        raise CorruptFileError("The manifest has an impossible length.")
    if hashlib.sha256(data[:-_CHECKSUM_BYTES]).digest() != data[-_CHECKSUM_BYTES:]:
        raise CorruptFileError("The checksum does not match: the file was altered or damaged.")
    return [data[start:end] for start, end in pairwise(accumulate(sizes, initial=head))]


def joined(manifest: bytes, payload: bytes, signature: bytes) -> bytes:
    """Return the file of these three parts."""
    return sealed(_MAGIC, _LENGTHS, manifest, payload, signature)


def split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return manifest, payload and signature block after the checks that need no parsing."""
    if data[: len(PART_MAGIC)] == PART_MAGIC:
        raise UnsupportedFileError(
            "This is a party's contribution: not private, for the aggregator only. Make a release"
            " of it and the others' with suffice aggregate."
        )
    if data[: len(_MAGIC) - 1] != _MAGIC[:-1]:
        raise CorruptFileError("This is not a suffice release file.")
    if len(data) >= len(_MAGIC) and data[: len(_MAGIC)] != _MAGIC:
        raise UnsupportedFileError(
            "This version of suffice does not read this version of the file format."
        )
    manifest, payload, signature = unsealed(data, _MAGIC, _LENGTHS)
    if len(signature) not in (0, _SIGNATURE_BYTES):
        raise CorruptFileError("The signature block has an impossible length.")
    return manifest, payload, signature


def with_signature(data: bytes, signature: bytes) -> bytes:
    """Return a file with another signature block; nothing else of it changes."""
    manifest, payload, _ = split(data)
    return joined(manifest, payload, signature)


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
    for name, entry in header.items():  # before an array is made
        good = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        if name == "__metadata__" or not good or entry["dtype"] not in _ITEM_BYTES:
            raise CorruptFileError("The payload holds an array of a type that no kind has.")
        shape, ends = entry["shape"], entry["data_offsets"]
        valid = (
            all(isinstance(numbers, list) for numbers in (shape, ends))
            and all(type(number) is int and number >= 0 for number in (*shape, *ends))
            and len(ends) == 2
            and 1 <= len(shape) <= _MOST_AXES
        )
        if not valid or math.prod(shape) * _ITEM_BYTES[entry["dtype"]] != ends[1] - ends[0]:
            raise CorruptFileError("The payload holds an array whose shape does not fit its bytes.")
        lacks = shape[0] > 0 and name in _MAY_LACK_COLUMNS
        if 0 in shape and not lacks and name not in _MAY_BE_EMPTY:
            raise CorruptFileError(f"Array {quoted(name)} must not be empty.")
    try:
        arrays = safetensors.numpy.load(payload)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CorruptFileError("The payload is malformed.") from error
    return dict(arrays)
