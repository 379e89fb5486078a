"""Locks on files that the operating system lets go of when their holder ends, however it ends.

`whole_file` makes one inode one ledger: SQLite names its journal by path, so that two names of a
file would have two journals, and its own locks are lost when any thread of a process closes the
file. `FileClaim` says that somebody is still at work on a request; process ids and host names,
which mean little in containers, have no part in it.
"""

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from suffice.errors import LedgerError, StorageError
from suffice.owner.ledger.store import Claim
from suffice.privacy.randomness import private_words

__all__ = ["FileClaim", "is_held", "sweep_claims", "whole_file", "whole_folder"]

_BUSY_SECONDS = 120.0
_LONGEST_WAIT_SECONDS = 0.01  # between two tries
_MOUNTS = Path("/proc/self/mountinfo")


class _LockFile:
    """An open file with a lock on it; its number is forgotten in a child process."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number
        _LOCK_FILES.add(self)

    def close(self) -> None:
        number, self.number = self.number, None
        if number is not None:
            os.close(number)

    def __del__(self) -> None:
        self.close()


_LOCK_FILES: "weakref.WeakSet[_LockFile]" = weakref.WeakSet()
_GUARD = threading.Lock()
_INODES: dict[tuple[int, int], threading.Lock] = {}  # one thread at a time opens a ledger's inode


def _after_fork() -> None:
    """Let go, in a child, of what its parent holds: else the child would hold it on."""
    global _GUARD  # noqa: PLW0603  # a lock that some other thread held is never released here
    _GUARD = threading.Lock()
    _INODES.clear()
    for lock_file in list(_LOCK_FILES):
        lock_file.close()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def whole_file(path: Path) -> Iterator[None]:
    """Hold the inode of ``path`` alone, among threads and processes; it must have one name only.

    The file is opened before SQLite opens it and closed after: a close drops SQLite's own locks.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
    with _thread_alone(path, deadline), _locked(path, deadline):
        yield


@contextmanager
def whole_folder(path: Path) -> Iterator[None]:
    """Hold a folder alone, among threads and processes; names in it are durable at the end."""
    lock_file = _LockFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    try:
        fcntl.flock(lock_file.number, fcntl.LOCK_EX)
        yield
        os.fsync(lock_file.number)
    finally:
        lock_file.close()


@contextmanager
def _thread_alone(path: Path, deadline: float) -> Iterator[None]:
    about = path.stat()
    with _GUARD:
        mutex = _INODES.setdefault((about.st_dev, about.st_ino), threading.Lock())
    if not mutex.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise _busy(path)
    try:
        yield
    finally:
        mutex.release()


@contextmanager
def _locked(path: Path, deadline: float) -> Iterator[None]:
    lock_file = _LockFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    try:
        nap = 0.0005
        while not _try(lock_file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise _busy(path)
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_WAIT_SECONDS)
        _check_one_name(path, lock_file)
        yield
    finally:
        lock_file.close()


def _busy(path: Path) -> StorageError:
    return StorageError(
        f"The ledger {path} cannot be used: another process holds it. Try again later."
    )


def _try(lock_file: _LockFile, kind: int) -> bool:
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    try:
        fcntl.flock(lock_file.number, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_one_name(path: Path, lock_file: _LockFile) -> None:
    assert lock_file.number is not None  # noqa: S101  # for the type checker
    about, at_path = os.fstat(lock_file.number), path.stat()
    if (about.st_dev, about.st_ino) != (at_path.st_dev, at_path.st_ino):
        raise StorageError(f"The ledger {path} was replaced while it was opened. Try again.")
    if about.st_nlink > 1:
        raise LedgerError(
            f"{path} is one of {about.st_nlink} names (hard links) of one file. Through two names a"
            " budget could be spent twice. Keep one name. Where others need the ledger, mount its"
            " folder, not the file."
        )
    if os.path.realpath(path) in _mount_points():
        raise LedgerError(
            f"{path} is mounted as a single file, so it has another name elsewhere. Through two"
            " names a budget could be spent twice. Mount its folder, not the file."
        )


def _mount_points() -> set[str]:
    """Return the paths where something is mounted, as far as this system tells."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return set()
    paths = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    return {os.fsdecode(path.decode("unicode_escape").encode("latin-1")) for path in paths}


class FileClaim(Claim):
    """The lock of somebody who is at work on a request: a file beside the ledger, of its own name.

    It is locked before the charge is written, so a charge whose file is gone, or not locked, is
    nobody's any more.
    """

    def __init__(self, ledger: Path) -> None:
        while True:
            self.token = private_words(2).tobytes().hex()
            self._path = _claim_path(ledger, self.token)
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
            self._lock_file = _LockFile(os.open(self._path, flags, 0o600))
            if _try(self._lock_file, fcntl.LOCK_EX) and self._path.exists():
                return
            self._lock_file.close()  # somebody was sweeping, and took it for a dead one

    def release(self) -> None:
        """Let go, and leave nothing behind."""
        if self._lock_file.number is not None:
            self._path.unlink(missing_ok=True)
            self._lock_file.close()


def is_held(ledger: Path, token: str) -> bool:
    """Say whether somebody holds the claim of this name."""
    try:
        claim_file = _LockFile(os.open(_claim_path(ledger, token), os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    try:
        return not _try(claim_file, fcntl.LOCK_SH)  # shared: two who ask do not exclude each other
    finally:
        claim_file.close()


def sweep_claims(ledger: Path) -> None:
    """Remove the files of claims that nobody holds: those of processes that were killed."""
    first = _claim_path(ledger, "")
    for entry in os.scandir(first.parent):
        if entry.name.startswith(first.name):
            with suppress(FileNotFoundError):
                claim_file = _LockFile(os.open(entry.path, os.O_RDWR | os.O_CLOEXEC))
                if _try(claim_file, fcntl.LOCK_SH):
                    Path(entry.path).unlink()
                claim_file.close()


def _claim_path(ledger: Path, token: str) -> Path:
    """Return the path of a claim, beside the file itself where the ledger's name is a link."""
    resolved = Path(os.path.realpath(ledger))
    return resolved.with_name(f"{resolved.name}-claim-{token}")
