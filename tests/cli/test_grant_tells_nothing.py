"""What a learner can see of a grant is the same whatever the labels are: the real command, run.

Neighbouring tables, and worse ones: a label flipped, missing, outside the classes, all of one
class, changed after an earlier grant, equal to those of another data set.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import suffice as sf
from suffice.errors import TableError
from suffice.owner.ledger import Ledger
from suffice.owner.policy import Policy
from suffice.plain_text import collected_notes
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import grant, propose
from suffice.protocol.messages import Answer, Refused
from suffice.releases.codec import load
from suffice.releases.release import encode

ROWS = 60
RNG = np.random.default_rng(8)
FEATURES = RNG.normal(size=(ROWS, 2)).round(3)
FEATURES_TABLE = pa.table({"age": FEATURES[:, 0], "dose": FEATURES[:, 1]})
LABELS = ["1" if value > 0 else "0" for value in FEATURES[:, 0]]


def write_table(path: Path, labels: list[str]) -> None:
    lines = [f"{a},{b},{label}" for (a, b), label in zip(FEATURES, labels, strict=True)]
    path.write_text("\n".join(["age,dose,sick", *lines]) + "\n")


def changed(value: str) -> list[str]:
    return [value if row == 7 else label for row, label in enumerate(LABELS)]


CASES: dict[str, list[str]] = {
    "as they are": LABELS,
    "one flipped": changed("0" if LABELS[7] == "1" else "1"),
    "one missing": changed(""),
    "one outside": changed("7"),
    "one no number": changed("unknown"),
    "one class only": ["0"] * ROWS,
    "all outside": ["5"] * ROWS,
}


def command(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "suffice", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )


def seen_by_a_learner(folder: Path, labels: list[str], before: Callable[[Path], None]) -> object:
    """Grant, and return all that leaves the owner's machine, but for the noise itself."""
    folder.mkdir()
    write_table(folder / "table.csv", labels)
    (folder / "policy.json").write_text('{"largest_epsilon": 2, "classes": ["0", "1"]}')
    Ledger(folder / "l", {"d": Budget(4.0), "e": Budget(4.0)})
    before(folder)
    rows = (
        *("grant", "p", "table.csv", "--label", "sick", "--policy", "policy.json"),
        *("--ledger", "l", "--dataset", "d", "-o", "out.suffice"),
    )
    propose(FEATURES_TABLE, epsilon=1.0).save(folder / "p")
    done = command(folder, *rows)
    release, answer = (
        load(folder / "out.suffice"),
        json.loads((folder / "out.answer.json").read_text()),
    )
    assert {*release.arrays} == {"mean_operator"}
    return {
        "status": done.returncode,
        "stdout": re.sub("[0-9a-f]{16,}", "#", done.stdout),
        "files": sorted(file.name for file in folder.iterdir() if "earlier" not in file.name),
        "answer": {k: v for k, v in answer.items() if k not in ("release", "digest")},
        "release": encode(replace(release, arrays={"mean_operator": np.zeros(3)})),
        "size": (folder / "out.suffice").stat().st_size,
    }, done.stderr


def nothing(_: Path) -> None:
    pass


def test_a_grant_looks_the_same_for_all_labels(tmp_path):
    seen, notes = {}, {}
    for name, labels in CASES.items():
        seen[name], notes[name] = seen_by_a_learner(tmp_path / name, labels, nothing)
    assert all(one == seen["as they are"] for one in seen.values()), seen
    assert seen["as they are"]["status"] == 0
    assert notes["as they are"] == notes["one flipped"] == notes["one class only"]
    public = notes["as they are"]
    assert public.startswith("suffice: table.csv is read as: commas, decimal points, utf-8.\n")
    assert all(note.startswith(public) for note in notes.values())
    for name in ("one missing", "one outside", "one no number"):
        assert "1 of 60 labels are missing or not in" in notes[name]
        assert notes[name].endswith("Only you see this line.\n")
    assert "60 of 60" in notes["all outside"]


def spend_earlier(name: str, dataset: str) -> Callable[[Path], None]:
    """Return what makes a grant of other labels, or of these under another name, beforehand."""

    def spend(folder: Path) -> None:
        write_table(folder / "earlier.csv", CASES[name])
        proposal = propose(FEATURES_TABLE, epsilon=0.5)
        answer, _ = grant(
            proposal,
            folder / "earlier.csv",
            policy=Policy(2.0, classes=(0, 1)),
            ledger=Ledger(folder / "l"),
            dataset=dataset,
            label="sick",
        )
        assert answer.name == "granted"

    return spend


@pytest.mark.parametrize("dataset", ["d", "e"])
def test_an_earlier_grant_makes_no_difference_that_is_seen(tmp_path, dataset):
    """Of the same labels or of others, under this name or under another."""
    seen, notes = {}, {}
    for name in ("as they are", "one flipped", "one missing"):
        before = spend_earlier(name, dataset)
        seen[name], notes[name] = seen_by_a_learner(tmp_path / name, LABELS, before)
    assert all(one == seen["as they are"] for one in seen.values()), seen
    told = {name: "also have a budget under the name 'e'" in note for name, note in notes.items()}
    assert told == {
        "as they are": dataset == "e",
        "one flipped": False,
        "one missing": False,
    }
    for name in seen:
        ledger = Ledger(tmp_path / name / "l")
        assert sum(balance.spent for balance in ledger.balances()) == pytest.approx(1.5)


@pytest.mark.parametrize("classes", [(0, 1, 2), (0, 2), ("no", "yes"), ("0", "7")])
def test_other_classes_are_refused_from_public_facts_alone(tmp_path, classes):
    """The oracle of old: an answer existed if and only if no label was outside these classes."""
    table, policy = tmp_path / "table.csv", Policy(2.0)
    answers = []
    for number, labels in enumerate(CASES.values()):
        write_table(table, labels)
        ledger = Ledger(tmp_path / f"l{number}", {"d": Budget(4.0)}, {"d": {"sick": (0, 1)}})
        proposal = propose(FEATURES_TABLE, epsilon=1.0, classes=classes)
        asked = {"policy": policy, "ledger": ledger, "dataset": "d", "label": "sick"}
        answer, release = grant(proposal, table, **asked)
        assert release is None
        assert ledger.history() == []
        answers.append(answer)
        table.unlink()
        assert grant(proposal, table, **asked) == (answer, None)  # nothing was read for it
    assert answers == [
        Refused(answers[0].proposal, ("the classes are '0', '1'; propose these",))
    ] * len(CASES)
    answers[0].save(tmp_path / "answer")
    assert Answer.load(tmp_path / "answer") == answers[0]


def test_without_declared_classes_nothing_is_granted(tmp_path):
    write_table(tmp_path / "table.csv", LABELS)
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0)})
    asked = {"ledger": ledger, "dataset": "d", "label": "sick"}
    proposal = propose(FEATURES_TABLE, epsilon=1.0)
    with pytest.raises(ValueError, match="ledger init --classes"):
        grant(proposal, tmp_path / "table.csv", policy=Policy(2.0), **asked)
    Ledger(tmp_path / "l", classes={"d": (0, 1)})
    with pytest.raises(ValueError, match="other classes than the ledger"):
        grant(proposal, tmp_path / "table.csv", policy=Policy(2.0, classes=(0, 2)), **asked)


def test_labels_given_as_a_list_may_be_anything(tmp_path):
    """In Python too: what is no label, or of another type, is told to the owner alone."""
    told = []
    for number, strange in enumerate(
        [None, "x", 1.5, float("nan"), float("inf"), b"?", [], 10**30]
    ):
        ledger = Ledger(tmp_path / f"l{number}", {"d": Budget(4.0)}, {"d": (0, 1)})
        labels = [strange, *(int(label) for label in LABELS[1:])]
        with collected_notes() as notes:
            answer, release = grant(
                propose(FEATURES_TABLE, epsilon=1.0),
                FEATURES_TABLE,
                labels,
                policy=Policy(2.0),
                ledger=ledger,
                dataset="d",
            )
        assert answer.name == "granted"
        assert release is not None
        told.append(notes[-1])
    line = "1 of 60 labels are missing or not in the class list. They count for no class."
    assert told == [f"{line} Only you see this line."] * 8


def test_a_declared_class_list_is_the_default_of_a_release(tmp_path):
    write_table(tmp_path / "t.csv", ["yes" if label == "1" else "no" for label in LABELS])
    words = ("--dataset", "d", "--epsilon", 2, "--classes", "no,yes", "--label", "sick")
    assert command(tmp_path, "ledger", "init", "l", *words).returncode == 0
    release = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "t.csv",
        "--label",
        "sick",
        "--epsilon",
        1,
    )
    paid = ("--ledger", "l", "--dataset", "d", "-o", "out.suffice", "--force")
    done = command(tmp_path, *release, *paid, "--classes", "no,maybe")
    assert done.returncode == 2
    assert "The ledger lists the classes no, yes" in done.stderr
    assert command(tmp_path, *release, *paid).returncode == 0
    assert load(tmp_path / "out.suffice").classes == ("no", "yes")


def granted(path, classes, *, features=("x",), public=None) -> str:
    """Return what a learner sees of a grant about a CSV file: the answer's name, or an error's."""
    ledger = Ledger(path.with_suffix(".ledger"), {"d": Budget(4.0)}, {"d": classes})
    proposal = propose(public, epsilon=1.0, classes=classes, features=features)
    how = {"policy": Policy(2.0), "ledger": ledger, "dataset": "d", "label": "label"}
    return grant(proposal, path, **how)[0].name


@pytest.mark.parametrize("label", ["1", "unknown", "0.5", "true", ""])
def test_no_type_is_read_off_a_label(tmp_path, label):
    """65,600 short rows are one block of bytes, and more rows than a type is inferred from."""
    path = tmp_path / "t.csv"
    path.write_text("x,label\n" + "1,1\n" * 65_600 + f"0,{label}\n")
    public = pa.table({"x": [1] * 65_600 + [0]})
    assert granted(path, ("0", "1", "unknown"), public=public) == "granted"


def test_a_label_that_the_ledger_knows_is_no_feature(tmp_path):
    """Whether the rows' hash fits would tell a cell of it; the refusal reads nothing."""
    rows = pa.table({"x": [0.5, 1.5, 2.5], "relapse": [0, 1, 0], "sick": [1, 0, 1]})
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0)}, {"d": {"sick": (0, 1), "relapse": (0, 1)}})
    how = {"policy": Policy(2.0), "ledger": ledger, "dataset": "d", "label": "sick"}
    answers = []
    for guess in (0, 1):
        known = pa.table({"x": rows["x"], "relapse": [0, guess, 0]})
        answer, release = grant(propose(known, epsilon=1.0), rows, **how)
        assert isinstance(answer, Refused)
        assert release is None
        answers.append(answer.reasons)
    assert answers == [("these features are private labels: 'relapse'",)] * 2
    from suffice.owner.mean_operator import MeanOperator

    with pytest.raises(ValueError, match="declares column 'relapse' as a label"):
        MeanOperator(1.0, map=None).release(rows, ledger=ledger, dataset="d", label="sick")


@pytest.mark.parametrize("kind", [sf.Moments, sf.Rados])
def test_a_label_is_no_feature_beside_private_records(tmp_path, kind):
    """With the unit label moments hold exact means of features, and differences of rados theirs."""
    numbers = {"x": [0.5, -0.5] * 30, "relapse": [0, 1] * 30, "sick": [1, 0, 0, 1] * 15}
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0)}, {"d": {"sick": (0, 1), "relapse": (0, 1)}})
    moments = kind is sf.Moments
    ranges = {"x": (-1, 1), "relapse": (0, 1)} | ({"sick": (0, 1)} if moments else {})
    mechanism = kind(epsilon=1.0, delta=1e-6, unit="label", ranges=ranges)
    private = {"target" if moments else "label": "sick", "ledger": ledger, "dataset": "d"}
    with pytest.raises(ValueError, match="declares column 'relapse' as a label"):
        mechanism.release(pa.table(numbers), **private)
    assert not ledger.history()


@pytest.mark.parametrize("role", ["bags", "person", "order_by"])
def test_a_label_that_the_ledger_knows_is_no_bag_id_or_order(tmp_path, role):
    """Sizes of bags, the rows of a person and the order of rows are all public."""
    table = {"x": [0.5 * k for k in range(40)], "relapse": [0, 1] * 20, "sick": [1, 0, 0, 1] * 10}
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0)}, {"d": {"sick": (0, 1), "relapse": (0, 1)}})
    rows, mechanism = pa.table(table), sf.MeanOperator(1.0, mechanism="response", map=None)
    how = {"features": ["x"], "label": "sick", "ledger": ledger, "dataset": "d"}
    if role == "bags":
        mechanism = sf.LabelProportions(1.0)
    if role == "order_by":
        with closing(sqlite3.connect(tmp_path / "t.db")) as database, database:
            database.execute("create table t (x real, relapse integer, sick integer)")
            database.executemany(
                "insert into t values (?, ?, ?)", zip(*table.values(), strict=True)
            )
        rows = sf.Query(f"sqlite:///{tmp_path / 't.db'}", "select * from t", ("relapse", "x"))
    else:
        how[role] = "relapse"
    with pytest.raises(ValueError, match="declares column 'relapse' as a label"):
        mechanism.release(rows, **how)
    assert not ledger.history()


def test_a_repeated_release_looks_the_same_whether_labels_changed_or_not(tmp_path):
    """Bytes, exit code, JSON and charge; the owner's stderr alone tells."""
    seen, told = [], []
    for name in ("as they are", "one flipped"):
        folder = tmp_path / name
        folder.mkdir()
        Ledger(folder / "l", {"d": Budget(4.0)})
        words = (
            "release",
            "mean-operator",
            "--map",
            "none",
            "t.csv",
            "--label",
            "sick",
            "--epsilon",
            1,
            "--json",
        )
        paid = ("--ledger", "l", "--dataset", "d")
        write_table(folder / "t.csv", LABELS)
        first = command(folder, *words, *paid, "-o", "first.suffice")
        assert json.loads(first.stdout)["repeated"] is False
        write_table(folder / "t.csv", CASES[name])
        done = command(folder, *words, *paid, "-o", "out.suffice")
        files = [(folder / file).read_bytes() for file in ("first.suffice", "out.suffice")]
        seen.append((done.returncode, done.stdout, files[0] == files[1], first.stderr))
        told.append(done.stderr)
        assert json.loads(done.stdout)["made"] == json.loads(first.stdout)["made"]
        assert json.loads(done.stdout)["repeated"] is True
        named = command(folder, *words, *paid, "--request", "today", "-o", "today.suffice")
        assert named.returncode == 0
        assert Ledger(folder / "l").balances()[0].spent == pytest.approx(2.0)
    assert seen[0] == seen[1]
    assert seen[0][0] == 0
    assert seen[0][2]
    assert ["have changed since" in note for note in told] == [False, True]
    assert "name it: --request NAME" in told[1]


@pytest.mark.parametrize("label", ["no", "m" * 60])
@pytest.mark.parametrize("room", [40, 0, -40])
def test_no_label_decides_whether_a_long_row_can_be_read(tmp_path, label, room):
    """A row that reaches over two ends of blocks was refused, and labels before it move those."""
    classes, rows = ("no", "m" * 60), [f"{k % 7 / 10},short,no\n" for k in range(40)]
    rows[0] = f"0.0,short,{label}\n"
    before = len("x,note,label\n") + sum(map(len, rows[:20])) - len(label)
    rows[20] = f"0.6,{'n' * (2 * 2**20 - before - room)},no\n"
    (tmp_path / "t.csv").write_text("x,note,label\n" + "".join(rows))
    public = pa.table({"x": [k % 7 / 10 for k in range(40)]})
    assert granted(tmp_path / "t.csv", classes, public=public) == "granted"


@pytest.mark.parametrize(
    "cell", [b"\xff\xfe", b"\x00", b"9" * 3_000_000, b'"a\n""b"', b'"a,b"', b"NA", b'""', b"1e999"]
)
@pytest.mark.parametrize("place", [0, 39])
def test_whatever_bytes_a_label_is_it_counts_as_none(tmp_path, cell, place):
    rows = [b"%d,%s\n" % (k, cell if k == place else b"1") for k in range(40)]
    (tmp_path / "t.csv").write_bytes(b"x,label\n" + b"".join(rows))
    public = pa.table({"x": list(range(40))})
    assert granted(tmp_path / "t.csv", ("0", "1"), public=public) == "granted"


def broken_text() -> pa.Array:
    """Return texts of which the last is no UTF-8."""
    ends = pa.array(["1"] * 39 + ["??"]).buffers()[1]
    return pa.Array.from_buffers(
        pa.string(), 40, [None, ends, pa.py_buffer(b"1" * 39 + b"\xff\xfe")]
    )


def many_words(first: int) -> pa.Array:
    """Return labels as a dictionary that has room for few more."""
    words = [f"word {k}" for k in range(first, first + 100)]
    return pa.DictionaryArray.from_arrays(pa.array(range(20), pa.int8()), pa.array(words))


STRANGE = {
    "broken text": broken_text(),
    "broken dictionary": broken_text().dictionary_encode(),
    "far time": pa.array([0] * 39 + [2**61], pa.timestamp("s")),
    "far date": pa.array([0] * 39 + [2**30], pa.date32()),
    "long text": pa.array(["1"] * 39 + ["1" * 20_000]),
    "two dictionaries": pa.chunked_array([many_words(0), many_words(100)]),
    "nothing": pa.nulls(40),
    "views": pa.array(["1"] * 40).cast(pa.string_view()),
}


FILES = {
    ".feather": {*STRANGE} - {"two dictionaries", "views"},  # which cannot be written
    ".parquet": {*STRANGE} - {"far time", "views"},
}


def granted_labels(folder: Path, data: object, y: object = None) -> str:
    """Return the answer about 40 public rows, whatever the column ``label`` or ``y`` holds."""
    ledger = Ledger(folder / "l", {"d": Budget(4.0)}, {"d": (0, 1)})
    proposal = propose(pa.table({"x": list(range(40))}), epsilon=1.0)
    label = "label" if y is None else None
    how = {"policy": Policy(2.0), "ledger": ledger, "dataset": "d", "label": label}
    return grant(proposal, data, y, **how)[0].name


@pytest.mark.parametrize("name", STRANGE)
def test_a_label_of_any_kind_counts_as_none(tmp_path, name):
    public = pa.table({"x": list(range(40))})
    table = public.append_column("label", STRANGE[name])
    for ending, write in ((".feather", feather.write_feather), (".parquet", parquet.write_table)):
        if name in FILES[ending]:
            path = tmp_path / ending / f"t{ending}"
            path.parent.mkdir()
            write(table, str(path))
            assert granted_labels(path.parent, path) == "granted"
    for data in ((table,), (public, STRANGE[name])):
        folder = tmp_path / str(len(data))
        folder.mkdir()
        assert granted_labels(folder, *data) == "granted"


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical([0, "x"] * 20),
        pd.Categorical([10**30, 1] * 20),
        pd.array(["\ud800", "1"] * 20, dtype="string[python]"),
        pd.Series([object(), b"\xff"] * 20, dtype=object),
    ],
    ids=["mixed categories", "a huge category", "half a character", "objects"],
)
def test_a_pandas_label_of_any_kind_counts_as_none(tmp_path, labels):
    frame = pd.DataFrame({"x": range(40)}).assign(label=labels)
    assert granted_labels(tmp_path, frame) == "granted"


@pytest.mark.parametrize("labels", [[[1]] * 40, [{"a": 1}] * 40], ids=["lists", "structs"])
def test_a_column_that_can_hold_no_label_is_one_line(tmp_path, labels):
    with pytest.raises(TableError, match="cannot hold labels or categories"):
        granted_labels(tmp_path, pa.table({"x": list(range(40)), "label": labels}))
