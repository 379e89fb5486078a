"""``suffice advise``, through files: its commands run, and no private cell reaches a byte of it."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from suffice.errors import ParameterError, TableError

LABELS = "advise table.csv --label ill --private labels --epsilon 0.5 --delta 1e-6"
RECORDS = (
    "advise table.csv --label ill --private records --public public.csv --epsilon 1 --delta 1e-6"
)
ATTRIBUTES = RECORDS.replace("records", "attributes")
VALUES = "advise table.csv --label ill --private attributes --public public.csv --epsilon 8"


@pytest.fixture
def program(tmp_path, monkeypatch, streams):
    """Return the program, in a folder with a private table and public rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, pressure = rng.uniform(20, 80, 1500).round(1), rng.normal(130, 20, 1500).round(1)
    ill = (age + pressure / 2 + rng.normal(0, 8, 1500) > 118).astype(int)
    ward = rng.choice(["north", "south"], 1500)
    table = pd.DataFrame({"age": age, "pressure": pressure, "ward": ward, "ill": ill})
    table.iloc[:1000].to_csv("table.csv", index=False)
    table.iloc[1000:].drop(columns="ill").to_csv("public.csv", index=False)
    table.iloc[:1000].drop(columns="ill").to_csv("unlabelled.csv", index=False)
    return streams


@pytest.mark.parametrize("words", [LABELS, RECORDS, ATTRIBUTES, VALUES])
def test_the_commands_that_are_printed_run(program, words):
    printed, _ = program(*words.split())
    assert "Advised: " in printed
    commands = [line for line in printed.splitlines() if line.startswith("suffice ")]
    assert [command.split()[1] for command in commands] == ["ledger", "release", "fit"]
    for command in commands:
        program(*shlex.split(command)[1:])
    scored, _ = program("score", "model.suffice", "table.csv", "--label", "ill", "--json")
    assert json.loads(scored)["accuracy"] > 0.5


def changed(text: str, columns: list[int], cell) -> str:
    """Return a CSV text with other cells in some columns: functions of row number and cell."""
    head, *lines = text.splitlines()
    rows = [line.split(",") for line in lines]
    for i, row in enumerate(rows):
        for column in columns:
            row[column] = cell(i, row[column])
    return "\n".join([head, *(",".join(row) for row in rows)]) + "\n"


OTHER_CELLS = {
    "another label": lambda _, cell: str(1 - int(cell)) if cell in "01" else "0",
    "one label": lambda *_: "0",
    "missing": lambda *_: "",
    "no number": lambda i, _: f"n/a {i}",
    "decimal commas": lambda i, _: f'"{i},5"',
    "no text": lambda i, _: "\udcff\udcfe" * (i % 3),
    "long": lambda i, _: "x" * (5000 if i == 3 else 1),
    "formula": lambda *_: "=1+1",
}


@pytest.mark.parametrize("words", [LABELS, RECORDS, VALUES])
def test_no_byte_depends_on_a_private_cell(program, words):
    """All labels, and all cells of private records, are others; stdout and stderr are the same."""
    table = Path("table.csv")
    original, private = table.read_text(), [3] if words == LABELS else [0, 1, 2, 3]
    expected = program(*words.split()), program(*words.split(), "--json")
    for name, cell in OTHER_CELLS.items():
        text = changed(original, private, cell)
        table.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert program(*words.split()) == expected[0], name
    assert program(*words.split(), "--json") == expected[1]


def test_a_public_cell_counts(program):
    before = program(*LABELS.split(), "--json")
    table = Path("table.csv")
    table.write_text(changed(table.read_text(), [0], lambda _, cell: str(float(cell) ** 5)))
    assert program(*LABELS.split(), "--json") != before


def test_json_is_for_programs(program):
    advice = json.loads(program(*RECORDS.split(), "--json")[0])
    assert advice["private"] == "records"
    assert advice["rows"] == 1000
    assert [c["place"] for c in advice["candidates"]] == [1, 2, 3, 4, 5, 6]
    first, *_, last = advice["candidates"]
    assert first["release"] == "moments"
    assert 0.5 < first["signal_left"] <= 1
    assert last["name"] == "randomised records"
    assert last["signal_left"] is None
    assert 0 < last["effective_labels"] < 100
    assert advice["commands"][1].startswith("suffice release moments table.csv")


def test_how_a_file_is_written_goes_into_the_command(program):
    table = pd.read_csv("table.csv")
    table["ill"] = table["ill"].map({0: "no", 1: "yes"})
    table.insert(0, "the id", np.arange(1000) * 7)
    table.to_csv("semi colons.csv", sep=";", index=False)
    table.drop(columns="ill").to_csv("unlabelled.csv", index=False)
    words = LABELS.replace("table.csv ", "").split()
    more = ["semi colons.csv", "--drop", "the id", "--read", "delimiter=;", "--classes", "no,yes"]
    printed, _ = program(*words, *more)
    commands = [line for line in printed.splitlines() if line.startswith("suffice ")]
    assert "'semi colons.csv' --read 'delimiter=;' --label ill --drop 'the id'" in commands[1]
    assert "--classes no,yes" in commands[1]
    for command in commands:
        program(*shlex.split(command)[1:])


def test_errors_say_what_to_do(program):
    wrong = ParameterError.exit_code
    assert "--public" in program(*LABELS.split(), "--public", "public.csv", code=wrong)[1]
    words = LABELS.replace("labels", "records").replace("--delta 1e-6", "").split()
    assert "--delta" in program(*words, code=wrong)[1]
    words = LABELS.replace("--label ill", "--label sick").split()
    assert "'sick'" in program(*words, code=TableError.exit_code)[1]
