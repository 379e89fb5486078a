"""Every entry of docs/errata.md is shown: by lab/errata.py, or by a command that it names."""

import importlib.util
import re
from pathlib import Path

from suffice.papers.reproduce import REPRODUCTIONS

ROOT = Path(__file__).parents[1]


def _script():
    spec = importlib.util.spec_from_file_location("errata", ROOT / "lab" / "errata.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


errata = _script()


def test_the_numbers_bear_every_entry_out(capsys):
    assert errata.main() == 0, capsys.readouterr().out


def test_the_script_says_by_its_exit_code_that_an_entry_does_not_hold(monkeypatch, capsys):
    monkeypatch.setattr(errata, "ENTRIES", {"A paper": {"an entry": lambda: ("1 is 2", False)}})
    assert errata.main() == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out


def test_every_entry_of_the_page_is_shown():
    page = (ROOT / "docs" / "errata.md").read_text()
    shown = set()
    for section in page.split("\n## ")[1:]:
        paper = re.split("[,:]", section)[0]
        for entry in section.split("\n- **")[1:]:
            title = entry.partition("**")[0]
            names = [name for name in errata.ENTRIES[paper] if name in title]
            commands = re.findall(r"`suffice reproduce ([\w-]+)`", entry)
            assert names or commands, f"{paper}: nothing shows {title!r}"
            assert set(commands) <= set(REPRODUCTIONS)
            shown |= {(paper, name) for name in names}
    assert shown == {(paper, name) for paper, of in errata.ENTRIES.items() for name in of}
