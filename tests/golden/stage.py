"""Where golden files are made: a folder with tables, one moment, one version, one program.

The program is run in this process as ``python -m suffice`` runs it. Only public names are used: no
module of the package is named here, so that modules may move.
"""

import contextlib
import datetime as dt
import importlib
import io
import json
import runpy
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import suffice as sf
from golden.tables import write_all

__all__ = ["Stage", "stage"]

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
LIBRARY = "suffice 0"


class Stage:
    """A folder in which the program runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command; return what it printed on stdout."""
        out, err = io.StringIO(), io.StringIO()
        ended: Any = 0
        with (
            pytest.MonkeyPatch.context() as patched,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patched.setattr(sys, "argv", ["suffice", *words])
            try:
                runpy.run_module("suffice", run_name="__main__")
            except SystemExit as end:
                ended = end.code or 0
        if ended != code:
            raise AssertionError(f"{' '.join(words)}: ended with {ended}\n{err.getvalue()}")
        return out.getvalue()

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with --json; return what it printed, without the folder's name."""
        printed = self.run(*words, "--json", code=code)
        return json.loads(printed.replace(str(self.folder), "FOLDER"))

    def key(self) -> None:
        """Write the key that signs: the same at every call."""
        key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        secret = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption())
        (self.folder / "owner.key").write_bytes(secret)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """Yield a fresh folder with all tables; in it no clock moves and no version shows."""
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patched,
        contextlib.redirect_stderr(io.StringIO()),  # notes for people: no file, and no --json
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        folder = Path(name).resolve()
        write_all(folder)
        patched.chdir(folder)
        patched.setenv("XDG_STATE_HOME", str(folder / "state"))
        patched.setenv("COLUMNS", "200")
        patched.delenv("SUFFICE_TOKEN", raising=False)
        _stop_clocks(patched)
        _hide_version(patched)
        yield Stage(folder)


class _AnyMoment(type(dt.datetime)):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, dt.datetime)


class _StoppedClock(dt.datetime, metaclass=_AnyMoment):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
        return MOMENT.astimezone(tz)


def _stop_clocks(patched: pytest.MonkeyPatch) -> None:
    """Stop the clock of every module of the package that reads one, wherever it lies."""
    patched.setattr(time, "time", MOMENT.timestamp)
    package = Path(sf.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if "datetime.now(" in path.read_text():
            place = path.relative_to(package.parent).with_suffix("")
            module = importlib.import_module(".".join(place.parts).removesuffix(".__init__"))
            assert vars(module)["datetime"] is dt.datetime, f"{place} reads a clock"
            patched.setattr(module, "datetime", _StoppedClock)


def _hide_version(patched: pytest.MonkeyPatch) -> None:
    """Let new releases name no version as their library's: hashes of whole files cover it."""
    stated = f"suffice {sf.__version__}"
    defaults = sf.Release.__init__.__defaults__
    assert stated in defaults, "a release takes its library from another place"
    hidden = tuple(LIBRARY if value == stated else value for value in defaults)
    patched.setattr(sf.Release.__init__, "__defaults__", hidden)
