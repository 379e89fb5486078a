"""Pages state what the store holds; what is stale is named, and a run goes on where one ended."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def evidence(monkeypatch):
    """Return the script, which leaves nothing imported behind."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "lab" / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "evidence", module)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("harness", None)


def test_pages_are_those_of_the_store(evidence):
    store = evidence.load()
    for path, text in evidence.pages(store).items():
        assert path.read_text() == text, f"{path.name}: run `python lab/evidence.py --write`"
    (line, *_) = store["reproduce/voting"]["values"]
    line["ours"] = 0.123456
    page = ROOT / "docs" / "evidence.md"
    assert evidence.pages(store)[page] != page.read_text()


def test_the_page_of_accuracies_states_the_rivals_store(evidence, monkeypatch, tmp_path):
    lines = evidence.RIVALS.read_text().splitlines()
    moved = [
        json.dumps({**line, "accuracy": line["accuracy"] + 0.002}) if "commit" not in line else text
        for text in lines
        for line in (json.loads(text),)
    ]
    (tmp_path / "rivals.jsonl").write_text("\n".join(moved))
    monkeypatch.setattr(evidence, "RIVALS", tmp_path / "rivals.jsonl")
    page = ROOT / "docs" / "accuracy.md"
    assert evidence.pages(evidence.load())[page] != page.read_text()


def test_every_entry_depends_on_files_that_are_there(evidence):
    for entry in evidence.entries():
        assert entry.modules
        assert all((ROOT / "src" / "suffice" / module).exists() for module in entry.modules), entry


@pytest.fixture
def place(evidence, monkeypatch, tmp_path):
    """Return a copy of nothing but two files, of which one is measured, under git."""

    def git(*words: str) -> str:
        author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *author, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    package = tmp_path / "src" / "suffice"
    package.mkdir(parents=True)
    (package / "one.py").write_text("1\n")
    (tmp_path / "count.py").write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path('runs')\n"
        "path.write_text(f'{path.read_text()}x' if path.exists() else 'x')\n"
        "sys.exit('no data' if sys.argv[1:] == ['bad'] else print('measured'))\n"
    )
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "Begin")
    entries = tuple(
        evidence.Entry(name, ("count.py", word), ("one.py",))
        for name, word in (("first", "good"), ("second", "bad"))
    )
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "STORE", tmp_path / "evidence.json")
    monkeypatch.setattr(evidence, "entries", lambda: entries)
    monkeypatch.setattr(evidence, "pages", lambda _: {})
    monkeypatch.setattr(evidence, "commit", lambda: git("rev-parse", "--short", "HEAD"))
    return tmp_path


def test_a_run_goes_on_and_measures_only_what_is_stale(evidence, place, capsys):
    with pytest.raises(SystemExit, match="second failed"):
        evidence.main(["--data", str(place)])
    assert list(evidence.load()) == ["first"]
    assert evidence.main(["--data", str(place), "first"]) == 0
    assert "0 measured, 1 were up to date" in capsys.readouterr().out
    assert (place / "runs").read_text() == "xx"
    assert evidence.main(["--stale"]) == 1
    assert capsys.readouterr().out == "second: never measured\n"
    (place / "src" / "suffice" / "one.py").write_text("2\n")
    assert evidence.main(["--stale", "first"]) == 1
    stated = capsys.readouterr().out
    assert stated.startswith("first: changed since ")
    assert stated.endswith("src/suffice/one.py\n")
    evidence.keep({"first": {**evidence.load()["first"], "commit": "0000000"}})
    assert evidence.main(["--stale", "first"]) == 1
    assert "is not in this copy of the history" in capsys.readouterr().out
