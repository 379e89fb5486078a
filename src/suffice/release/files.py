"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from suffice.errors import StorageError

__all__ = ["read_bounded", "write_whole"]

_CHUNK = 2**20


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write ``data`` to a temporary neighbour, make it durable, then give it its name."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None


def read_bounded(path: Path, most: int) -> bytes:
    """Return the file's bytes, if there are no more than ``most``; a pipe may only say so late.

    No more memory is asked for than the file says that it has, or a pipe has sent.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise StorageError(f"{path} is larger than {most} bytes; it is not read.")
            data = file.read(size) if size else _piped(file, most + 1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    except MemoryError:
        raise StorageError(f"{path} needs more memory than there is; it is not read.") from None
    if len(data) > most:
        raise StorageError(f"{path} is larger than {most} bytes; it is not read.")
    return data


def _piped(file: BinaryIO, most: int) -> bytes:
    """Return what a file sends that does not say its size, up to ``most`` bytes."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(_CHUNK, most))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
