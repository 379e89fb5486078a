"""From labels of public bags to class ratios of a new table, by two commands."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suffice.cli.main import app
from suffice.errors import ParameterError


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Two bags of 600 public rows, a fifth and four fifths sick, and a new table at half."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)

    def people(count: int, share: float) -> pd.DataFrame:
        sick = (rng.random(count) < share).astype(int)
        a, b = rng.normal(size=(2, count))
        return pd.DataFrame({"a": a + 2 * sick, "b": b, "sick": sick})

    bags = [people(600, share).assign(clinic=name) for name, share in (("n", 0.2), ("s", 0.8))]
    table = pd.concat(bags, ignore_index=True)
    table.to_parquet("labelled.parquet")
    table.drop(columns="sick").to_parquet("rows.parquet")
    new = people(600, 0.5)
    new.drop(columns="sick").to_parquet("new.parquet")
    return new["sick"].mean()


def call(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_ratios_come_from_a_release_and_public_rows_alone(desk, tmp_path):
    call(
        "release", "proportions", "labelled.parquet", "--label", "sick", "--bag", "clinic",
        "--epsilon", "1", "--no-ledger", "-o", "bags.suffice",
    )  # fmt: skip
    words = ("ratio", "bags.suffice", "new.parquet", "--rows", "rows.parquet", "--bag", "clinic")
    estimate = json.loads(call(*words, "--json", "--plot", "ratio.svg"))
    assert estimate["classes"] == [0, 1]
    assert sum(estimate["ratios"]) == pytest.approx(1)
    assert estimate["ratios"][1] == pytest.approx(desk, abs=0.12)
    assert estimate["low"][1] <= estimate["ratios"][1] <= estimate["high"][1]
    reason = "2 bags with 2 classes leave nothing to test"
    untested = {"tested": False, "p": None, "rejected": None, "reason": reason}
    assert estimate["label_shift"] == untested
    assert estimate["estimates"] == {"label_shift": estimate["ratios"]}
    assert (tmp_path / "ratio.svg").read_text().startswith("<?xml")
    text = call(*words)
    assert text.index("Label shift cannot be tested") < text.index("Proportion of each class")


@pytest.mark.usefixtures("desk")
def test_a_release_is_needed():
    with pytest.raises(ParameterError, match="one release or more"):
        call("ratio", "new.parquet", "--rows", "rows.parquet", "--bag", "clinic")


@pytest.mark.usefixtures("desk")
def test_the_new_table_may_be_a_query_of_a_database_and_the_bags_a_file():
    call(
        "release", "proportions", "labelled.parquet", "--label", "sick", "--bag", "clinic",
        "--epsilon", "1", "--no-ledger", "-o", "bags.suffice",
    )  # fmt: skip
    new = pd.read_parquet("new.parquet")
    with closing(sqlite3.connect("new.db")) as database:
        new.to_sql("patients", database, index=False)
    new.to_csv("new.csv", index=False)
    words = ("ratio", "bags.suffice", "--rows", "rows.parquet", "--bag", "clinic", "--json")
    query = ("sqlite:///new.db", "--read", "query=select * from patients", "--read", "order-by=a")
    stored = json.loads(call(*words, *query))
    in_file = json.loads(call(*words, "new.csv"))
    assert stored["ratios"] == pytest.approx(in_file["ratios"], abs=1e-6)
    with pytest.raises(ParameterError, match="must begin with postgresql://"):
        call(*words, "new.csv", "--read", "query=select * from patients")


def test_natural_bags_are_answered_with_words_and_then_a_range(tmp_path, monkeypatch):
    """Twelve jobs whose people differ: no ratio, one range, and the warning before the figures."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    job = np.repeat(np.arange(12), 200)
    rows = rng.normal(size=(12, 3))[job] + rng.normal(size=(2400, 3))
    sick = (rng.random(2400) < 1 / (1 + np.exp(-2 * rows[:, 0]))).astype(int)
    table = pd.DataFrame(rows, columns=list("abc")).assign(job=job, sick=sick)
    table.to_parquet("labelled.parquet")
    table.drop(columns="sick").to_parquet("rows.parquet")
    ill, well = table[sick == 1].iloc[::4], table[sick == 0].iloc[::40]
    new = pd.concat([ill, well])
    new.drop(columns=["sick", "job"]).to_parquet("new.parquet")
    call(
        "release", "proportions", "labelled.parquet", "--label", "sick", "--bag", "job",
        "--epsilon", "1", "--no-ledger", "-o", "bags.suffice",
    )  # fmt: skip
    words = ("ratio", "bags.suffice", "new.parquet", "--rows", "rows.parquet", "--bag", "job")
    estimate = json.loads(call(*words, "--json", "--plot", "ratio.svg"))
    assert estimate["label_shift"]["rejected"]
    assert estimate["label_shift"]["p"] < 0.001
    assert estimate["ratios"] is estimate["level"] is None
    assert set(estimate["estimates"]) == {"label_shift", "stable"}
    assert estimate["low"][1] <= new["sick"].mean() <= estimate["high"][1]
    text = call(*words)
    assert text.index("differ in more than their class proportions") < text.index("from")
    assert f"{estimate['low'][1]:.4f}" in text
    assert f"{estimate['high'][1]:.4f}" in text
    assert "%" not in text
