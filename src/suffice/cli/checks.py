"""What is checked before a command does any work: where it writes, and what it has no use for."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError, StorageError

__all__ = ["check_outputs", "make_folder", "refuse_unused"]


def check_outputs(*outputs: Path | None, reads: Iterable[Path | str | None] = ()) -> None:
    """Raise unless every output can be written, to a file of its own that is not one of ``reads``.

    Of a folder that is read every file is taken to be read. None stands for what was not given.
    """
    written = [path for path in outputs if path is not None]
    sources = [Path(source) for source in reads if source is not None]
    for path in written:
        _check_place(path)
        if any(_holds(source, path) for source in sources):
            raise ParameterError(
                f"{path} is read by this command and would be overwritten: write to another file."
            )
    places = [path.resolve() for path in written]
    for path, place in zip(written, places, strict=True):
        if places.count(place) > 1:
            raise ParameterError(f"{path} is to be written twice: give each output its own file.")


def _check_place(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StorageError(f"{path} cannot be written: make the folder {folder} first.")
    if path.is_dir():
        raise StorageError(f"{path} cannot be written: it is a folder; name a file in it.")
    if not os.access(folder, os.W_OK):
        raise StorageError(f"{path} cannot be written: its folder is protected; choose another.")


def _holds(source: Path, path: Path) -> bool:
    """Say whether a file that is there is ``source``, by whatever name, or lies in it."""
    if not (source.exists() and path.exists()):
        return False
    return source.samefile(path) or source.resolve() in path.resolve().parents


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {path} cannot be made: {error.strerror}.") from None


def refuse_unused(where: str, given: Mapping[str, Any]) -> None:
    """Raise if an option was given (is not None) that means nothing ``where``: none is ignored."""
    for option, value in given.items():
        if value is not None:
            raise ParameterError(f"{option} means nothing {where}: leave it out.")
