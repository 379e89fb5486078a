"""Entries of docs/errata.md hold by number, and each that names its script is in it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _script():
    spec = importlib.util.spec_from_file_location("errata", ROOT / "lab" / "errata.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


errata = _script()


@pytest.mark.parametrize("name", errata.ENTRIES)
def test_the_numbers_bear_the_entry_out(name):
    text, holds = errata.ENTRIES[name]()
    assert holds, text


def test_the_script_says_by_its_exit_code_that_an_entry_does_not_hold(monkeypatch, capsys):
    monkeypatch.setattr(errata, "ENTRIES", {"an entry": lambda: ("1 is 2", False)})
    assert errata.main() == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out


def test_every_entry_that_names_the_script_is_shown_by_it():
    page = (ROOT / "docs" / "errata.md").read_text()
    assert page.count("`errata.py`") == len(errata.ENTRIES)
