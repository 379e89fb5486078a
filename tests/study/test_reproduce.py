"""Reproductions run, say what they need and what they changed, and write pages that stand alone."""

import json
import sys
from pathlib import Path

import pytest

from suffice.cli.main import run
from suffice.errors import ParameterError, StorageError
from suffice.papers.reproduce import (
    REPRODUCTIONS,
    document,
    left_out,
    overview,
    reproduce,
    write_report,
)
from suffice.papers.reproduction import SETS, Result, Setting

OTHERS = {
    "kddcup99": "kddcup99_10pct.parquet",
    "mnist": "mnist.parquet",
    "covertype": "covertype.parquet",
    "twitter": "twitter_sentiment.parquet",
}


@pytest.fixture(scope="module")
def factored():
    return reproduce(["factorisation"])


def test_every_entry_declares_its_paper_and_files():
    assert len(REPRODUCTIONS) >= 2
    for name, entry in REPRODUCTIONS.items():
        assert name == entry.name
        assert entry.title
        assert entry.seeds >= 1
        assert "20" in entry.paper
        for data_set, file in entry.files.items():
            assert file == (SETS[data_set].file if data_set in SETS else OTHERS[data_set])


def test_a_page_stands_alone_with_its_values_beside_it(factored, tmp_path):
    beside = write_report(factored, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<figure>") == 1
    assert "<caption>How well f(z) - f(-z) = -a z holds" in text
    assert "<td>matsushita</td>" in text
    assert "src=" not in text
    assert "Notes" in text
    assert json.loads(beside.read_text()) == document(factored)
    again = tmp_path / "again.html"
    write_report(reproduce(["factorisation"]), again)
    assert again.read_text() == text
    with pytest.raises(ParameterError, match=r"Choose a name that ends in .html"):
        write_report(factored, tmp_path / "page.json")


def test_what_is_asked_is_checked_before_anything_runs(data_folder, tmp_path):
    with pytest.raises(StorageError, match=r"does not contain spambase\.parquet, adult\.parquet\."):
        reproduce(["factorisation", "label-privacy"], folder=data_folder)
    with pytest.raises(StorageError, match="is not a folder"):
        reproduce(["label-privacy"], folder=tmp_path / "nowhere")
    with pytest.raises(
        ParameterError, match=r"needs data. Use --data with a folder that contains spambase"
    ):
        reproduce(["label-privacy"])
    with pytest.raises(ParameterError, match="Use one of factorisation"):
        reproduce(["nonsense"])
    with pytest.raises(ParameterError, match="do not use cats"):
        reproduce(["label-privacy"], folder=data_folder, sets=["magic", "cats"])
    with pytest.raises(ParameterError, match="seeds"):
        reproduce(["factorisation"], seeds=0)
    with pytest.raises(ParameterError, match="cannot be used with factorisation, voting"):
        reproduce(["factorisation", "voting"], seeds=2)


@pytest.mark.parametrize("name", ["factorisation", "voting", "spread-reconstruction"])
def test_what_does_not_repeat_does_not_ask_how_often(name):
    setting = Setting(Path(), (), None, lambda *_: None)  # a number of seeds that cannot be used
    assert REPRODUCTIONS[name].run(setting).notes


def test_where_the_page_goes_is_checked_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "suffice.papers.reproduce.reproduce", lambda *_, **__: pytest.fail("it ran")
    )
    for output, says in (
        ("r.json", "Choose a name that ends in .html"),
        ("no/r.html", "Make the folder"),
    ):
        words = ["suffice", "reproduce", "voting", "-o", str(tmp_path / output)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit):
            run()
        assert says in capsys.readouterr().err


def test_the_command_lists_writes_and_names_a_missing_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def suffice(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["suffice", "reproduce", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            run()
        return (end.value.code, *capsys.readouterr())

    code, listed, _ = suffice("--list", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(listed)] == list(REPRODUCTIONS)
    code, printed, _ = suffice("factorisation", "-o", "page.html", "--json")
    assert code == 0
    assert json.loads(printed) == json.loads((tmp_path / "page.json").read_text())
    assert "<svg" in (tmp_path / "page.html").read_text()
    code, _, error = suffice("label-privacy", "--data", tmp_path, "--sets", "magic")
    assert (code, error) == (
        6,
        f"suffice: {tmp_path} does not contain magic.parquet. Add the missing files.\n",
    )
    code, _, error = suffice()
    assert code == 2
    assert "--list" in error


def test_every_entry_compares_or_says_why_not():
    """An empty cell of the overview needs a reason; what is not run at all has one, too."""
    quick = ["factorisation", "voting"]
    results = reproduce(quick)
    assert all(result.compared for result in results.values())
    uncompared = {name for name, entry in REPRODUCTIONS.items() if entry.uncompared}
    assert uncompared == {"label-privacy", "rados-units"}
    nothing = dict.fromkeys(REPRODUCTIONS, Result((), (), ("none",), {}))
    for row in overview({**nothing, **results}).rows:
        assert all(row[:-1]), row
    assert all(all(row) for row in overview(results).rows)
    assert overview(results).rows[0][0] == "Patrini 2016, Figure 1 and Table 1"
    for row in left_out().rows:
        assert all(row)


def test_the_page_of_everything_has_the_overview_first(tmp_path):
    results = dict.fromkeys(REPRODUCTIONS, Result((), (), ("none",), {}))
    write_report(results, tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text()
    assert 0 < text.index("All statements of") < text.index("What we do not reproduce")
    write_report({"voting": results["voting"]}, tmp_path / "one.html")
    assert "All statements of" not in (tmp_path / "one.html").read_text()
