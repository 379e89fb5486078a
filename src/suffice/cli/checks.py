"""Checks before a command does any work: where it writes, and which options have no effect."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError, StorageError
from suffice.participant import MOST_BYTES

__all__ = ["check_outputs", "make_folder", "refuse_unused"]

# What is never written over, by how its contents begin. The keys of a survey stand in the order of
# their names, so that its questions come before what says that it is one.
_PRECIOUS = {
    "a ledger, or another database": re.compile(
        rb"SQLite format 3\0|\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # or its journal
    ),
    "a survey, or an answer to one": re.compile(
        rb"""\s*\{(?s:.*)"suffice"\s*:\s*"(survey|answer)\""""
    ),
    "the memory of answers to surveys": re.compile(
        rb"""\{"version": \d+, "kind": "(cost|token|answer)\""""
    ),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}


def check_outputs(
    *outputs: Path | None,
    reads: Iterable[Path | str | None] = (),
    appends: Iterable[Path] = (),
    force: bool | None = False,
) -> None:
    """Raise unless every output can be written, to a file of its own that is not one of ``reads``.

    A file that exists is not written over without ``force``; a ledger, a survey, the memory of
    answers or a private key never is, whatever its name. ``force`` is None for a command that has
    no such option. Files in ``appends`` may exist: they only grow. Of a folder that is read every
    file is taken to be read. None stands for an option that is not set.
    """
    new_files = [path for path in outputs if path is not None]
    written = [*new_files, *appends]
    if force and not written:
        raise ParameterError("--force cannot be used without a file to write. Remove --force.")
    sources = [Path(source) for source in reads if source is not None]
    for path in written:
        _check_folder(path)
        if any(_holds(source, path) for source in sources):
            raise ParameterError(
                f"{path} is read by this command and would be overwritten. Write to another file."
            )
    resolved = [path.resolve() for path in written]
    for path, target in zip(written, resolved, strict=True):
        if resolved.count(target) > 1:
            raise ParameterError(f"{path} would be written twice. Give each output its own file.")
    for path in new_files:
        _check_free(path, force=force)


def _check_free(path: Path, *, force: bool | None) -> None:
    """Raise if there is a file that may not be written over."""
    if not os.path.lexists(path):
        return
    if path.exists():
        if not path.is_file():
            raise StorageError(f"{path} is not a file that can be overwritten. Name another file.")
        if (kind := _precious(path)) is not None:
            raise StorageError(f"{path} is {kind}, and never overwritten. Write to another file.")
    if not force:
        hint = "" if force is None else ", or use --force"
        raise StorageError(f"{path} exists. Write to another file{hint}.")


def _precious(path: Path) -> str | None:
    """Return what a file holds that is never written over, or None."""
    try:
        with path.open("rb") as file:
            head = file.read(MOST_BYTES)
    except OSError:
        raise StorageError(
            f"{path} exists and cannot be read, so it may be a ledger. Write to another file."
        ) from None
    return next((kind for kind, begins in _PRECIOUS.items() if begins.match(head)), None)


def _check_folder(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StorageError(f"{path} cannot be written. Make the folder {folder} first.")
    if path.is_dir():
        raise StorageError(f"{path} cannot be written, because it is a folder. Name a file in it.")
    if not os.access(folder, os.W_OK):
        raise StorageError(
            f"{path} cannot be written, because its folder is protected. Choose another."
        )


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
        raise StorageError(f"The folder {path} cannot be made: {error.strerror}.") from None


def refuse_unused(where: str, options: Mapping[str, Any]) -> None:
    """Raise if an option is set (is not None) that has no effect ``where``: none is ignored."""
    for option, value in options.items():
        if value is not None:
            raise ParameterError(f"{option} cannot be used {where}. Remove {option}.")
