"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from suffice.errors import StorageError

__all__ = ["read_bounded", "write_whole"]


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
    """Return the file's bytes, if there are no more than ``most``; a pipe may only say so late."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(most + 1) if size <= most else b""
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    if max(size, len(data)) > most:
        raise StorageError(f"{path} is larger than {most} bytes; it is not read.")
    return data
