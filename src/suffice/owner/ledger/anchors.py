"""Anchors: the end of a ledger's log, kept in another place than the ledger itself.

A ledger that was put back from a copy cannot know it. Its anchor can: it says how many entries the
log had after the last charge, and the digest of the last one, in one line::

    suffice anchor 1 5f0c6e0e8f7d4c1b9a2d3e4f50617283 42 9c56cc51b374c3ba189210d5b6d4...

The anchor moves forward only, after each charge and before its noise is drawn. So it may be behind
the log (a process was killed in between), and is never ahead of it. It holds nothing that depends
on a record: the log is public. Somebody who copies ledger and anchor together is not noticed.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from suffice.errors import LedgerError, ParameterError, StorageError
from suffice.owner.ledger.locks import whole_folder
from suffice.owner.ledger.store import Tables, anchor_kind
from suffice.release.file import write_whole

__all__ = ["LOST", "NO_ANCHOR", "Anchor", "Mark", "anchor_of", "recorded_place"]

NO_ANCHOR = "none"
LOST = "its log lacks entries that its anchor counts, so it was put back from a copy"
_MISSING = "its anchor is missing, so it may be a copy or was moved"
_UNREADABLE = "its anchor cannot be read"
_STATE_FOLDER = "state folder"  # of whoever uses the ledger, on whatever machine
_COMMAND = "command:"
_COMMAND_SECONDS = 60
_MOST_BYTES = 4096
_LINE = re.compile(
    r"suffice anchor 1 (?P<ledger>[0-9a-f]{32}) (?P<entries>[1-9][0-9]{0,15})"
    r" (?P<head>[0-9a-f]{64})\n?",
    re.ASCII,
)
_CHOICES = (
    "Choose another place: --anchor FILE, or --anchor 'command:PROGRAM'; --anchor none goes without"
    " (Python: anchor=...)."
)


@dataclass(frozen=True)
class Mark:
    """What an anchor says: the ledger's name, how many entries its log had, and the last digest."""

    ledger: str
    entries: int
    head: str

    def to_line(self) -> str:
        """Return the line that is kept."""
        return f"suffice anchor 1 {self.ledger} {self.entries} {self.head}\n"


@dataclass(frozen=True)
class Anchor:
    """The anchor of one ledger.

    Parameters
    ----------
    place : str
        Where it is, as `recorded_place` returns it and the ledger stores it.
    ledger : str
        Name of the ledger.
    """

    place: str
    ledger: str

    @property
    def kind(self) -> str:
        """What the anchor is: file, command or none."""
        return anchor_kind(self.place)

    @property
    def shown_place(self) -> str:
        """Where the anchor is, for the owner alone."""
        return str(self._path()) if self.kind == "file" else self.place

    def read(self) -> Mark | None:
        """Return what the anchor says, or None if there is none.

        Raises
        ------
        StorageError
            If it cannot be read, or is not an anchor of this ledger.
        """
        text = self._text()
        if not text:
            return None
        match = _LINE.fullmatch(text)
        if match is None or match["ledger"] != self.ledger:
            raise StorageError(f"{self.shown_place} is not the anchor of this ledger.")
        return Mark(match["ledger"], int(match["entries"]), match["head"])

    def trouble(self, records: Tables) -> str:
        """Return why the ledger may not be charged; empty if its log continues the anchor."""
        if self.kind == "none":
            return ""
        try:
            mark = self.read()
        except StorageError:
            return _UNREADABLE
        if mark is None:
            return _MISSING
        return "" if records.digest_at(mark.entries) == mark.head else LOST

    def advance(self, records: Tables) -> None:
        """Move the anchor to the end of the log, which must continue it.

        The caller holds the ledger's lock. A lock of the anchor's folder excludes copies of the
        ledger, which have another lock: one of two copies that charge at once fails here.

        Raises
        ------
        LedgerError
            If the log does not continue the anchor, or there is none.
        StorageError
            If it cannot be written.
        """
        if self.kind == "none":
            return
        with self._alone():
            if trouble := self.trouble(records):
                raise LedgerError(f"The ledger is frozen: {trouble}.")
            self._write(self._end_of(records))

    def replace(self, records: Tables) -> None:
        """Write the end of the log, whatever was there: for a new ledger, or a recovered one.

        Raises
        ------
        StorageError
            If it cannot be written. The message says what to choose.
        """
        if self.kind == "none":
            return
        try:
            with self._alone():
                self._write(self._end_of(records))
        except StorageError as error:
            raise StorageError(f"{error} {_CHOICES}") from None

    def _end_of(self, records: Tables) -> Mark:
        entries, head = records.head()
        return Mark(self.ledger, entries, head)

    def _path(self) -> Path:
        if self.place != _STATE_FOLDER:
            return Path(self.place)
        return _state_folder() / f"{self.ledger}.anchor"

    def _text(self) -> str:
        if self.kind == "command":
            return self._run("read", "")
        try:
            with self._path().open("rb") as file:
                return file.read(_MOST_BYTES).decode("ascii", "replace") or "an empty file"
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise StorageError(
                f"The anchor {self.shown_place} cannot be read: {error.strerror}."
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder of the anchor alone, and make the new name in it durable at the end."""
        if self.kind == "command":
            yield
            return
        path = self._path()
        try:
            if self.place == _STATE_FOLDER:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_folder(path.parent):
                yield
        except OSError as error:
            raise StorageError(f"The anchor {path} cannot be written: {error.strerror}.") from None

    def _write(self, mark: Mark) -> None:
        if self.kind == "command":
            self._run("write", mark.to_line())
        else:
            write_whole(self._path(), mark.to_line().encode(), mode=0o600)

    def _run(self, verb: str, line: str) -> str:
        """Run the program with one more word, read or write; return what it prints."""
        words = [*shlex.split(self.place.removeprefix(_COMMAND)), verb]
        try:
            done = subprocess.run(  # noqa: S603  # the owner's own program, without a shell
                words,
                input=line.encode(),
                capture_output=True,
                timeout=_COMMAND_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            raise StorageError(
                f"The program of the ledger's anchor failed to {verb} it: {words[0]}."
            ) from None
        return done.stdout[:_MOST_BYTES].decode("ascii", "replace")


def anchor_of(records: Tables) -> Anchor:
    """Return the anchor that a ledger names."""
    return Anchor(records.anchor(), records.name())


def recorded_place(anchor: str | Path | None) -> str:
    """Return where an anchor is, as ledgers store it: the state folder if nothing is named.

    Raises
    ------
    ParameterError
        If it is empty, or a command without a program.

    Examples
    --------
    >>> recorded_place("none"), recorded_place("/var/lib/anchor"), recorded_place(None)
    ('none', '/var/lib/anchor', 'state folder')
    """
    if anchor is None:
        return _STATE_FOLDER
    text = str(anchor)
    if text == NO_ANCHOR:
        return NO_ANCHOR
    if text.startswith(_COMMAND):
        try:
            words = shlex.split(text.removeprefix(_COMMAND))
        except ValueError:
            words = []
        if not words:
            raise ParameterError("Name a program after command: and close every quotation mark.")
        return text
    if not text:
        raise ParameterError(f"The anchor has no place. {_CHOICES}")
    return os.path.abspath(text)  # noqa: PTH100  # a link stays a link


def _state_folder() -> Path:
    """Return the folder of this user's state, as the XDG base directories name it."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    if named.is_absolute():
        return named / "suffice"
    try:
        return Path.home() / ".local" / "state" / "suffice"
    except RuntimeError:
        raise StorageError("The anchor cannot be written: this user has no home folder.") from None
