"""The two places where a ledger can be: what is tested of one is tested of the other."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from suffice.releases.signing import generate_keys

_NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path) -> Callable[[str], str]:
    """Return what a new ledger of some name is opened by: a path, or an address."""
    if request.param == "sqlite":
        return lambda name="l": str(tmp_path / name)
    url, number = request.getfixturevalue("postgres_url"), next(_NUMBERS)
    return lambda name="l": f"{url}#t{number}_{name}"


@pytest.fixture
def keys(tmp_path) -> tuple[Path, Path]:
    """Return the files of a new private key and of its public key."""
    return generate_keys(tmp_path / "officer")
