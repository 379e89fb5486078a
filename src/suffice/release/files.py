"""Files that are written whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from suffice.errors import StorageError

__all__ = ["read_bounded", "write_whole"]

_CHUNK = 2**20
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}  # of file systems such as those of sticks


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, overwrite: bool = True) -> None:
    """Write ``data`` to a temporary neighbour, make it durable, then give it its name.

    Without ``overwrite`` a file of that name is never replaced, not even one that another process
    makes at the same moment: then `StorageError` is raised, and that file stays as it is.
    """
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
        if overwrite:
            Path(temporary).replace(path)
        else:
            _name_once(Path(temporary), path)
    except FileExistsError:
        raise StorageError(
            f"{path} exists, and is not overwritten: write to another file."
        ) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _name_once(temporary: Path, path: Path) -> None:
    """Give a file its name, unless there is a file of that name: one of two processes fails."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # takes the name, empty
        temporary.replace(path)


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
    while most > 0 and (part := file.read(min(_CHUNK, most))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
