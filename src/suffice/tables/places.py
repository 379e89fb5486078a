"""Where the files of a table are: on this machine's disk, or at an address with a scheme.

``s3://bucket/folder?endpoint_override=...`` and the like go to the file systems of pyarrow, which
also reach those of fsspec (``fsspec+NAME://...``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from suffice.errors import StorageError, TableError

__all__ = ["Place", "names_at", "place_of", "shown_address"]

_SCHEME = "://"
_DATABASES = {"postgresql", "postgres", "sqlite", "duckdb"}


@dataclass(frozen=True)
class Place:
    """A file or folder in a file system that is not this machine's.

    It prints as its address without what may be secret: user, password, parameters.
    """

    filesystem: pa.fs.FileSystem
    path: str
    address: str

    def __str__(self) -> str:
        return self.address


def place_of(data: str | Path) -> Path | Place:
    """Return where ``data`` leads: a path, or an address with a scheme."""
    if isinstance(data, Path) or _SCHEME not in data:
        return Path(data)
    address = shown_address(data)
    if data.partition(_SCHEME)[0].lower() in _DATABASES:
        raise TableError(f'{address} is a database. Choose its rows with --query "select ...".')
    try:
        filesystem, path = pa.fs.FileSystem.from_uri(data)
    except (pa.ArrowException, ValueError, ImportError):  # their messages quote the whole address
        raise TableError(
            f"{address} cannot be read. Use a path, or an address that pyarrow.fs supports, for"
            " example s3://bucket/folder."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{address} cannot be read: {type(error).__name__}. Check the address and your"
            " permissions."
        ) from None
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        return Path(path)
    return Place(filesystem, path, address)


def names_at(place: Path | Place) -> list[PurePosixPath] | None:
    """Return the file itself, or the files of a folder that Arrow reads. None if nothing is there.

    Names that begin with a point or an underscore are left out.
    """
    if isinstance(place, Path):
        if not place.is_dir():
            return [PurePosixPath(place.name)] if place.exists() else None
        files = (file for file in place.rglob("*") if file.is_file())
        return _visible_files(file.relative_to(place).as_posix() for file in files)
    kind = place.filesystem.get_file_info(place.path).type
    if kind != pa.fs.FileType.Directory:
        missing = kind == pa.fs.FileType.NotFound
        return None if missing else [PurePosixPath(PurePosixPath(place.path).name)]
    inside = place.filesystem.get_file_info(pa.fs.FileSelector(place.path, recursive=True))
    paths = (info.path for info in inside if info.type == pa.fs.FileType.File)
    return _visible_files(path.removeprefix(place.path).lstrip("/") for path in paths)


def _visible_files(paths: Iterable[str]) -> list[PurePosixPath]:
    paths_below = (PurePosixPath(path) for path in paths)
    return [path for path in paths_below if not any(part[0] in "._" for part in path.parts)]


def shown_address(address: str) -> str:
    """Return an address without user, password and parameters.

    Examples
    --------
    >>> shown_address("postgresql://me:secret@db.example/clinic?sslmode=require")
    'postgresql://db.example/clinic'
    >>> shown_address("postgresql://me:se#cret@db.example/clinic")
    'postgresql://...'
    """
    scheme, _, rest = address.partition(_SCHEME)
    try:
        parts = urlsplit("//" + rest)
    except ValueError:
        return f"{scheme}{_SCHEME}..."
    if ":" in parts.netloc and "@" in rest[len(parts.netloc) :]:  # a password with / ? or # in it
        return f"{scheme}{_SCHEME}..."
    return f"{scheme}{_SCHEME}{parts.netloc.rpartition('@')[2]}{parts.path}"
