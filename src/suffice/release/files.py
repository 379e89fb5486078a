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
    """Return the file's bytes, after checking its size against ``most``."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > most:
                raise StorageError(f"{path} is larger than {most} bytes; it is not read.")
            return file.read(most + 1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
