"""The program as the tests of its commands call it."""

import sys

import pytest

from suffice.cli.main import run


@pytest.fixture
def suffice(monkeypatch, capsys):
    """Run the program in this process; return what it printed, or its one line of error."""

    def call(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["suffice", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = capsys.readouterr()
        assert ended.value.code == code, printed.err
        return printed.err if code else printed.out

    return call
