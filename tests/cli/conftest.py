"""The program as the tests of its commands call it."""

import sys

import pytest

from suffice.cli.main import run


@pytest.fixture
def streams(monkeypatch, capsys):
    """Run the program in this process; return what it printed on stdout and on stderr."""
    monkeypatch.setenv("COLUMNS", "300")

    def call(*words: object, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["suffice", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = capsys.readouterr()
        assert ended.value.code == code, printed.err
        return printed.out, printed.err

    return call


@pytest.fixture
def suffice(streams):
    """Run the program in this process; return what it printed, or its one line of error."""

    def call(*words: str, code: int = 0) -> str:
        return streams(*words, code=code)[code != 0]

    return call
