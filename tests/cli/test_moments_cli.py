"""``suffice plan``, ``release``, ``inspect`` and ``fit`` of moments, through files."""

import json

import numpy as np
import pandas as pd
import pytest

from suffice.errors import BudgetError, ParameterError


@pytest.fixture
def program(tmp_path, monkeypatch, suffice):
    """Return the program, in a folder with private records, public rows and new ones."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, pressure = rng.uniform(20, 80, 4000).round(1), rng.normal(130, 20, 4000).round(1)
    ill = (age + pressure / 2 + rng.normal(0, 8, 4000) > 118).astype(int)
    ward = rng.choice(["north", "south"], 4000)
    table = pd.DataFrame({"age": age, "pressure": pressure, "ward": ward, "ill": ill})
    table.iloc[:2500].to_csv("records.csv", index=False)
    table.iloc[2500:3000].drop(columns="ill").to_csv("public.csv", index=False)
    table.iloc[3000:].to_csv("new.csv", index=False)
    return suffice


RELEASE = (
    "release moments records.csv --label ill --unit record --epsilon 1 --delta 1e-6"
    " --standardize public.csv"
)


def test_a_release_teaches_a_model_without_rows(program):
    program(*f"{RELEASE} --no-ledger -o a.suffice".split())
    printed = program("inspect", "a.suffice")
    assert "noisy second moments of private records" in printed
    assert "Protects each record" in printed
    assert "class proportions" in printed
    report = json.loads(program("fit", "a.suffice", "-o", "model", "--json"))
    assert report["majority_known"] in (True, False)
    assert 0.8 < report["accuracy"] < 1
    scored = json.loads(program("score", "model", "new.csv", "--label", "ill", "--json"))
    assert scored["accuracy"] > 0.85
    assert "MomentClassifier" in program("inspect", "model", "--json")


def test_the_ledger_guards_records(program):
    budget = "--epsilon 1.1 --delta 1e-6 --unit record"
    program(*f"ledger init l --dataset d {budget}".split())
    program(*f"{RELEASE} --ledger l --dataset d -o a.suffice".split())
    again = f"{RELEASE} --ledger l --dataset d --request b -o b"
    assert "'d'" in program(*again.split(), code=BudgetError.exit_code)


def test_odd_cells_are_told_on_stderr_alone(program, streams):
    """What a program prints is passed on more easily: no byte of it depends on a record."""
    del program
    words = f"{RELEASE} --no-ledger --force -o a.suffice".split()
    printed = [streams(*words, "--json"), streams(*words)]
    table = pd.read_csv("records.csv", dtype=str)
    table.iloc[3] = ["no number", "", "nowhere", "perhaps"]
    table.to_csv("records.csv", index=False)
    for (before, _), (after, told) in zip(
        printed, [streams(*words, "--json"), streams(*words)], strict=True
    ):
        assert after == before
        assert "column 'ward': 1 cells hold no declared value" in told
        assert "1 of 2,500 labels are missing or not in the class list" in told
    assert json.loads(printed[0][0])["rows"] == 2500


def test_a_plan_reads_no_private_cell(program):
    words = "plan moments records.csv --label ill --delta 1e-6 --epsilon 0.1 --epsilon 1"
    declared = "--range 0,200 --categories ward=north,south"
    plan = json.loads(program(*f"{words} {declared} --json".split()))
    assert [option["epsilon"] for option in plan["options"]] == [0.1, 1.0]
    assert plan["rows"] == 2500
    assert plan["coordinates"] == 4


def test_what_is_missing_is_asked_for(program):
    words = "release moments records.csv --label ill --epsilon 1 --delta 1e-6 --no-ledger -o a"
    line = program(*words.split(), code=ParameterError.exit_code)
    assert "--categories" in line or "--range" in line


def test_a_map_is_fitted_on_the_public_rows(program):
    program(*f"{RELEASE} --map ranks --no-ledger -o ranks.suffice".split())
    program("fit", "ranks.suffice", "-o", "of_ranks")
    scored = json.loads(program("score", "of_ranks", "new.csv", "--label", "ill", "--json"))
    assert scored["accuracy"] > 0.85


PRESSURE = (
    "release moments records.csv --target pressure --range pressure=50,210 --range age=20,80"
    " --categories ward=north,south --drop ill --delta 1e-6 --no-ledger"
)


def test_a_number_is_predicted_described_and_scored(program):
    program(*PRESSURE.split(), "--epsilon", "3", "-o", "p.suffice")
    assert "pressure, held between 50 and 210" in program("inspect", "p.suffice")
    report = json.loads(program("fit", "p.suffice", "-o", "model", "--json"))
    assert report["target"] == "pressure"
    printed = program("inspect", "model", "--explain")
    assert "noise and sampling" in printed
    assert "(intercept)" in printed
    scored = json.loads(program("score", "model", "new.csv", "--label", "pressure", "--json"))
    assert scored["rows"] == 1000
    assert scored["rmse"] < 1.1 * scored["constant_rmse"]
    assert "R^2" in program("score", "model", "new.csv", "--label", "pressure")
    program("predict", "model", "new.csv", "-o", "predicted.csv")
    assert list(pd.read_csv("predicted.csv").columns) == ["prediction"]
    found = json.loads(program("describe", "p.suffice", "--json"))
    (mean,) = (c["mean"] for c in found["columns"] if c["name"] == "pressure")
    assert mean["low"] < 130 < mean["high"]
    assert "Correlations" in program("describe", "p.suffice")
    for words in ("score model new.csv --label pressure --plot a.svg",
                  "predict model new.csv -o b.csv --class-weight 1=2"):  # fmt: skip
        assert "predicts numbers" in program(*words.split(), code=ParameterError.exit_code)


def test_a_regression_without_intervals_says_why(program):
    program(*PRESSURE.split(), "--epsilon", "0.01", "-o", "p.suffice")
    program("fit", "p.suffice", "-o", "model")
    assert "no interval can be stated" in " ".join(program("inspect", "model", "--explain").split())


def test_synthetic_rows_are_drawn_into_a_file_that_says_so(program):
    program(*f"{RELEASE} --map ranks --no-ledger -o r.suffice".split())
    assert "They are no people" in program("sample", "r.suffice", "-n", "300", "-o", "rows.parquet")
    rows = pd.read_parquet("rows.parquet")
    assert list(rows.columns) == ["age", "pressure", "ward", "label"]
    assert len(rows) == 300
    refused = program(
        "sample", "r.suffice", "-n", "9", "-o", "a.csv", code=ParameterError.exit_code
    )
    assert "synthetic" in refused
