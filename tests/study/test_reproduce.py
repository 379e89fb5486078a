"""Reproductions run, say what they need and what they changed, and write pages that stand alone."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.cli.main import run
from suffice.errors import ParameterError, StorageError, TableError
from suffice.study.data_sets import SETS, split
from suffice.study.left_out import left_out_table
from suffice.study.patrini import factorisation
from suffice.study.reproduce import REPRODUCTIONS, document, overview, reproduce, write_report
from suffice.study.reproduction import Result, Setting

ROWS = 160
OTHERS = {
    "kddcup99": "kddcup99_10pct.parquet",
    "mnist": "mnist.parquet",
    "covertype": "covertype.parquet",
    "twitter": "twitter_sentiment.parquet",
}


def small_table(labels: tuple[int, int], **extra) -> pa.Table:
    """Return rows like those of the real files, two of whose columns tell the classes apart."""
    rng = np.random.default_rng(0)
    second = rng.random(ROWS) < 0.4
    columns = {
        "f0": (rng.normal(size=ROWS) + 2 * second).astype(np.float32),
        "f1": rng.integers(0, 200, ROWS).astype(np.uint8) + (40 * second).astype(np.uint8),
        "kind": pa.array(rng.choice(["a", "b"], ROWS)).dictionary_encode(),
        "label": np.where(second, labels[1], labels[0]).astype(np.int8),
    }
    return pa.table({**columns, **extra})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make files in the layout of the real ones: a plain one, with subjects, with a split."""
    place = tmp_path_factory.mktemp("data")
    subjects = np.repeat(np.arange(8), ROWS // 8).astype(np.uint8)
    parts = pa.array(["train"] * (ROWS - 40) + ["test"] * 40).dictionary_encode()
    pq.write_table(small_table((0, 1)), place / "magic.parquet")
    pq.write_table(small_table((0, 5), subject=subjects), place / "uci_har_train.parquet")
    other = small_table((0, 1), split=parts)
    digits = pa.concat_tables([small_table((7, 9), split=parts), other])
    pq.write_table(digits, place / "mnist.parquet")
    return place


@pytest.fixture(scope="module")
def factored():
    return reproduce(["factorisation"])


@pytest.fixture
def few_epsilons(monkeypatch):
    monkeypatch.setattr(factorisation, "_EPSILONS", (0.5, 20.0))


def test_every_entry_declares_its_paper_and_files():
    assert len(REPRODUCTIONS) >= 2
    for name, entry in REPRODUCTIONS.items():
        assert name == entry.name
        assert entry.title
        assert entry.seeds >= 1
        assert "20" in entry.paper
        for data_set, file in entry.files.items():
            assert file == (SETS[data_set].file if data_set in SETS else OTHERS[data_set])


def test_only_the_hinge_does_not_factor(factored):
    losses = dict(factored["factorisation"].values["losses"])
    hinge = losses.pop("hinge")
    assert hinge["odd_deviation"] > 0.1
    assert hinge["even_difference"] is None
    slopes = {"logistic": 1, "square": 4, "matsushita": 2, "linear": 2, "rho": 1}
    assert {name: factors["a"] for name, factors in losses.items()} == pytest.approx(slopes)
    for factors in losses.values():
        assert factors["odd_deviation"] <= 1e-8
        assert factors["even_difference"] <= 1e-8


def test_a_page_stands_alone_with_its_values_beside_it(factored, tmp_path):
    beside = write_report(factored, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == 1
    assert "<caption>f(z) - f(-z) = -a z" in text
    assert "<td>matsushita</td>" in text
    assert "src=" not in text
    assert "Notes" in text
    assert json.loads(beside.read_text()) == document(factored)
    again = tmp_path / "again.html"
    write_report(reproduce(["factorisation"]), again)
    assert again.read_text() == text
    with pytest.raises(ParameterError, match="name the page"):
        write_report(factored, tmp_path / "page.json")


@pytest.mark.usefixtures("few_epsilons")
def test_label_privacy_measures_every_mechanism_on_every_set(folder, tmp_path):
    told = []
    sets = ("magic", "uci-har")
    results = reproduce(
        ["label-privacy"], folder=folder, sets=sets, seeds=2, progress=lambda *t: told.append(t)
    )
    values = results["label-privacy"].values
    assert tuple(values["sets"]) == sets
    for found in values["sets"].values():
        assert set(found["accuracies"]) == {"auto", "laplace", "gaussian", "knorm", "response"}
        assert all(len(runs) == 2 for curve in found["accuracies"].values() for runs in curve)
        assert np.mean(found["accuracies"]["auto"][-1]) > np.mean(found["larger_class"]) + 0.1
        assert np.mean(found["without_privacy"]) > np.mean(found["larger_class"]) + 0.1
    done, totals, _ = zip(*told, strict=True)
    assert done == tuple(range(totals[0]))
    assert set(totals) == {2 * 2 * (1 + 5 * 2)}
    write_report(results, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "The paper has no experiments." in text
    assert "<td>auto took</td>" in text


def test_a_split_keeps_the_origins_test_rows_and_whole_subjects(folder):
    digits = split("mnist-7v9", 0, folder)
    assert (len(digits.labels), len(digits.test_labels)) == (ROWS - 40, 40)
    assert digits.rows.column_names == ["f0", "f1", "kind"]
    assert digits.rows.schema.field("f1").type == pa.float32()
    people = split("uci-har", 3, folder)
    assert len(people.test_labels) == ROWS // 4
    again = split("uci-har", 3, folder)
    assert people.rows.equals(again.rows)
    assert not people.rows.equals(split("uci-har", 4, folder).rows)


def test_rows_and_labels_stay_together(folder):
    data = split("magic", 1, folder)
    first = np.concatenate([data.rows["f0"].to_numpy(), data.test_rows["f0"].to_numpy()])
    labels = np.concatenate([data.labels, data.test_labels])
    whole = pq.read_table(folder / "magic.parquet")
    assert dict(zip(first, labels, strict=True)) == dict(
        zip(whole["f0"].to_numpy(), whole["label"].to_numpy(), strict=True)
    )


def test_what_is_asked_is_checked_before_anything_runs(folder, tmp_path):
    with pytest.raises(StorageError, match=r"lacks spambase\.parquet, adult\.parquet\."):
        reproduce(["factorisation", "label-privacy"], folder=folder)
    with pytest.raises(StorageError, match="is no folder"):
        reproduce(["label-privacy"], folder=tmp_path / "nowhere")
    with pytest.raises(ParameterError, match="needs data: --data, a folder with spambase"):
        reproduce(["label-privacy"])
    with pytest.raises(ParameterError, match="there are factorisation"):
        reproduce(["nonsense"])
    with pytest.raises(ParameterError, match="no data set of these reproductions: cats"):
        reproduce(["label-privacy"], folder=folder, sets=["magic", "cats"])
    with pytest.raises(ParameterError, match="seeds"):
        reproduce(["factorisation"], seeds=0)
    with pytest.raises(ParameterError, match="mean nothing to factorisation, voting"):
        reproduce(["factorisation", "voting"], seeds=2)
    (tmp_path / "magic.parquet").write_bytes(b"no table")
    with pytest.raises(TableError, match="not a readable table"):
        split("magic", 0, tmp_path)


@pytest.mark.parametrize("name", ["factorisation", "voting", "spread-reconstruction"])
def test_what_does_not_repeat_does_not_ask_how_often(name):
    setting = Setting(Path(), (), None, lambda *_: None)  # a number of seeds that cannot be used
    assert REPRODUCTIONS[name].run(setting).notes


def test_where_the_page_goes_is_checked_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("suffice.study.reproduce.reproduce", lambda *_, **__: pytest.fail("it ran"))
    for output, says in (("r.json", "name the page .html"), ("no/r.html", "make the folder")):
        words = ["suffice", "reproduce", "voting", "-o", str(tmp_path / output)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit):
            run()
        assert says in capsys.readouterr().err


def test_the_command_lists_writes_and_names_a_missing_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def suffice(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["suffice", "reproduce", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            run()
        return (left.value.code, *capsys.readouterr())

    code, listed, _ = suffice("--list", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(listed)] == list(REPRODUCTIONS)
    code, printed, _ = suffice("factorisation", "-o", "page.html", "--json")
    assert code == 0
    assert json.loads(printed) == json.loads((tmp_path / "page.json").read_text())
    assert "<svg" in (tmp_path / "page.html").read_text()
    code, _, error = suffice("label-privacy", "--data", tmp_path, "--sets", "magic")
    assert (code, error) == (6, f"suffice: {tmp_path} lacks magic.parquet.\n")
    code, _, error = suffice()
    assert code == 2
    assert "--list" in error


def test_every_entry_compares_or_says_why_not():
    """An empty cell of the overview needs a reason; what is not run at all has one, too."""
    quick = ["factorisation", "voting"]
    results = reproduce(quick)
    assert all(result.compared for result in results.values())
    alone = {name for name, entry in REPRODUCTIONS.items() if entry.uncompared}
    assert alone == {"label-privacy", "rados-dp", "rados-units"}
    nothing = dict.fromkeys(REPRODUCTIONS, Result((), (), ("none",), {}))
    for row in overview({**nothing, **results}).rows:
        assert all(row[:-1]), row
    assert all(all(row) for row in overview(results).rows)
    assert overview(results).rows[0][0] == "Patrini 2016, Figure 1 and Table 1"
    for row in left_out_table().rows:
        assert all(row)


def test_the_page_of_everything_has_the_overview_first(tmp_path):
    results = dict.fromkeys(REPRODUCTIONS, Result((), (), ("none",), {}))
    write_report(results, tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text()
    assert 0 < text.index("All that was compared") < text.index("Not computed anew")
    write_report({"voting": results["voting"]}, tmp_path / "one.html")
    assert "All that was compared" not in (tmp_path / "one.html").read_text()
