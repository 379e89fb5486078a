"""Tables as people have them, through all commands and in Python: each works or says what to do."""

import re
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import suffice as sf
from awkward_tables import (
    CLASSES,
    DECLARED,
    FILES,
    IN_MEMORY,
    clinic_rows,
    formatted,
    with_gaps,
    written,
)
from suffice.cli.main import app
from suffice.errors import SufficeError

ROWS = 240
PRICE = ("--epsilon", "5", "--no-ledger")
BETTER = 0.65  # than always the larger class: about .80 here, and .55


def run(*words: str):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)


def one_line(error: BaseException) -> str:
    """Return what a refusal says: one line of the library's own, that quotes no cell."""
    printed = "".join(traceback.format_exception(error))
    assert isinstance(error, SufficeError), printed
    assert "\n" not in str(error)
    assert "SECRET" not in str(error)
    return str(error)


@pytest.fixture
def write_tables(tmp_path, monkeypatch):
    """Return what writes the rows to learn from, and new ones, in a form."""
    monkeypatch.chdir(tmp_path)

    def make(awkward):
        handed = []
        for name, seed in (("train", 1), ("new", 2)):
            folder = tmp_path / name
            folder.mkdir()
            handed.append(awkward.make(clinic_rows(ROWS, seed), folder))
        return handed

    return make


def test_there_are_forty_of_them():
    assert len(FILES) + len(IN_MEMORY) >= 40


@pytest.mark.parametrize("awkward", FILES, ids=lambda awkward: awkward.name)
def test_a_file_goes_through_every_command_or_is_refused_in_a_line(awkward, write_tables):
    train, new = write_tables(awkward)
    reading = awkward.new
    release = run(
        *(
            "release",
            "mean-operator",
            "--map",
            "none",
            train,
            "--label",
            "diagnosis",
            *DECLARED,
            "--epsilon",
            "5",
        ),
        *(*awkward.release, "--no-ledger", "-o", "r.suffice"),
    )
    if awkward.refused is not None:
        assert re.search(awkward.refused, one_line(release.exception))
        return
    assert release.exception is None, "".join(traceback.format_exception(release.exception))
    assert awkward.said in release.stderr
    assert "SECRET" not in release.output
    for words in (
        ("inspect", "r.suffice"),
        ("fit", "r.suffice", "--rows", train, *reading, "-o", "m.suffice"),
        ("predict", "m.suffice", new, *reading, "--keep", "diagnosis", "-o", "p.csv"),
        ("score", "m.suffice", new, "--label", "diagnosis", *reading),
    ):
        done = run(*words)
        assert done.exception is None, (words, done.exception)
    assert float(done.stdout.split()[1]) > BETTER


@pytest.mark.parametrize("awkward", [*FILES, *IN_MEMORY], ids=lambda awkward: awkward.name)
def test_a_table_goes_through_the_library_or_is_refused_in_a_line(awkward, write_tables):
    train, new = write_tables(awkward)
    fields = dict(zip(awkward.release[::2], awkward.release[1::2], strict=True))
    dialect = dict([fields["--read"].split("=")]) if "--read" in fields else {}
    if dialect:
        train, new = (sf.TableFile(path, **dialect) for path in (train, new))
    mechanism = sf.MeanOperator(
        epsilon=5.0,
        classes=CLASSES,
        missing=fields.get("--missing", "error"),
        min_count=int(fields.get("--min-count", 1)),
        map=None,
    )
    inputs = {
        "label": "diagnosis",
        "ledger": None,
        "drop": [fields["--drop"]] if "--drop" in fields else [],
    }
    if awkward.refused is not None:
        with pytest.raises(SufficeError) as refused:
            mechanism.release(train, **inputs)
        assert re.search(awkward.refused, one_line(refused.value))
        return
    model = sf.FactoredClassifier().fit_release(mechanism.release(train, **inputs), train)
    assert len(model.predict(new)) == ROWS
    assert set(model.classes_) == set(CLASSES)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_without_labels_can_be_skipped_by_owner_and_learner(write_tables, form):
    awkward = next(case for case in FILES if case.name == "rows without labels")
    train, _ = write_tables(awkward)
    words = ("--label", "diagnosis", *DECLARED, "--epsilon", "5", "--no-ledger")
    done = run(
        "release",
        "mean-operator",
        "--map",
        "none",
        train,
        *words,
        "--missing-labels",
        "skip",
        "-o",
        "r",
    )
    assert done.exception is None
    assert "which rows have labels" in " ".join(done.stdout.split())
    release = sf.load("r")
    (part,) = release.parts
    rows = clinic_rows(ROWS, 1)
    labelled_rows = [k for k in range(ROWS) if k % 7]
    assert (part.rows.count, part.rows.labelled.rows) == (len(labelled_rows), ROWS)
    assert part.rows.labelled.mask.nonzero()[0].tolist() == labelled_rows
    all_rows, some = rows.drop(columns="diagnosis"), rows.iloc[labelled_rows]
    if form == "parquet":
        all_rows, some = (pa.Table.from_pandas(t, preserve_index=False) for t in (all_rows, some))
    coefficients = [
        sf.FactoredClassifier().fit_release(release, t).theta_ for t in (all_rows, some)
    ]
    assert (coefficients[0] == coefficients[1]).all()
    with pytest.raises(sf.errors.ForeignRowsError):
        sf.FactoredClassifier().fit_release(release, rows.iloc[::-1])


def test_a_table_of_a_hospital_takes_five_commands(tmp_path, monkeypatch):
    """Packed, Latin-1, semicolons, decimal commas, ids, dates, padded labels, gaps everywhere."""
    monkeypatch.chdir(tmp_path)
    for name, seed, first in (("train", 1, 1), ("new", 2, 9001)):
        rows = with_gaps(clinic_rows(ROWS, seed))
        rows.insert(0, "Nummer", range(first, first + ROWS))
        rows["Aufnahme"] = formatted("%d.%m.%Y")(ROWS)
        rows["diagnosis"] = " " + rows["diagnosis"] + "  "
        written(".csv.gz", ";", ",", "latin-1")(rows, tmp_path).rename(f"{name}.csv.gz")
    options = ("--label", "diagnosis", *DECLARED, "--drop", "Nummer", "--missing", "mean")
    for words in (
        (
            "release",
            "mean-operator",
            "--map",
            "none",
            "train.csv.gz",
            *options,
            *PRICE,
            "-o",
            "r.suffice",
        ),
        ("inspect", "r.suffice"),
        ("fit", "r.suffice", "--rows", "train.csv.gz", "-o", "m.suffice"),
        ("predict", "m.suffice", "new.csv.gz", "--keep", "Nummer", "-o", "p.csv"),
        ("score", "m.suffice", "new.csv.gz", "--label", "diagnosis"),
    ):
        done = run(*words)
        assert done.exception is None, (words, done.exception)
        assert "dates          Aufnahme in days" in done.stdout or words[0] != "inspect"
    assert float(done.stdout.split()[1]) > BETTER
    numbers = [line.split(",")[0].strip('"') for line in Path("p.csv").read_text().splitlines()]
    assert numbers == ["Nummer", *map(str, range(9001, 9001 + ROWS))]


def test_a_category_that_is_new_is_counted_and_said(write_tables):
    awkward = FILES[0]
    train, new = write_tables(awkward)
    words = ("--label", "diagnosis", *DECLARED, "--epsilon", "5", "--no-ledger", "-o", "r")
    assert run("release", "mean-operator", "--map", "none", train, *words).exception is None
    assert run("fit", "r", "--rows", train, "-o", "m").exception is None
    new.write_text(new.read_text().replace("West", "SECRET", 5))
    done = run("predict", "m", new, "-o", "p.csv")
    assert "Column 'ward': 5 cells hold a category that the release does not list" in done.stderr
    assert "SECRET" not in done.output


def test_gaps_in_new_rows_take_the_rule_that_is_typed(write_tables):
    train, new = write_tables(FILES[0])
    words = ("--label", "diagnosis", *DECLARED, "--epsilon", "5", "--no-ledger", "-o", "r")
    assert run("release", "mean-operator", "--map", "none", train, *words).exception is None
    assert run("fit", "r", "--rows", train, "-o", "m").exception is None
    lines = new.read_text().splitlines()
    new.write_text("\n".join([lines[0], *("," + line.partition(",")[2] for line in lines[1:])]))
    predicted = ("predict", "m", new, "-o", "p.csv", "--force")
    for command in (predicted, ("score", "m", new, "--label", "diagnosis")):
        assert "--missing mean" in one_line(run(*command).exception)
        for rule in ("mean", "zero"):
            assert run(*command, "--missing", rule).exception is None


def test_ten_rows_get_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ten.csv"
    clinic_rows(10, 3).to_csv(path, index=False)
    words = ("--label", "diagnosis", *DECLARED, "--epsilon", "5", "--no-ledger", "-o", "r")
    assert (
        "The table has only 10 rows. The noise"
        in run("release", "mean-operator", "--map", "none", path, *words).stderr
    )


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_a_query_goes_through_every_command(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    fill_database(scheme, {"visits": clinic_rows(ROWS, 1), "later": clinic_rows(ROWS, 2)})
    rows = (f"{scheme}:///clinic.db", "--read", "query=select * from visits")
    new = (f"{scheme}:///clinic.db", "--read", "query=select * from later", "--read", "order-by=id")
    options = ("--label", "diagnosis", *DECLARED, "--epsilon", "5")
    paid = ("--ledger", "l", "--dataset", "d", "-o", "r")
    assert run("ledger", "init", "l", "--dataset", "d", "--epsilon", "5").exception is None
    release = ("release", "mean-operator", "--map", "none", *rows, *options, *paid)
    assert "--read order-by" in one_line(run(*release).exception)
    release = (*release, "--read", "order-by=id")
    assert "--drop id" in one_line(run(*release).exception)
    for words in (
        (*release, "--drop", "id"),
        ("fit", "r", "--rows", *rows, "--read", "order-by=id", "-o", "m"),
        ("predict", "m", *new, "--keep", "id", "-o", "p.csv"),
        ("score", "m", *new, "--label", "diagnosis"),
    ):
        done = run(*words)
        assert done.exception is None, (words, done.exception)
    assert float(done.stdout.split()[1]) > BETTER


def fill_database(scheme: str, tables: dict) -> None:
    """Write tables with a key into a database file."""
    if scheme == "duckdb":
        with duckdb.connect("clinic.db") as database:
            for name, rows in tables.items():
                stored = pa.Table.from_pandas(rows.reset_index(names="id"), preserve_index=False)
                database.register("kept", stored)
                database.execute(f"create table {name} as select * from kept")
        return
    with closing(sqlite3.connect("clinic.db")) as database:
        for name, rows in tables.items():
            rows.to_sql(name, database, index_label="id")
