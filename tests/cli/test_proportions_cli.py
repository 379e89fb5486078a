"""``suffice plan`` and ``release`` of proportions and of sets, as people meet them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.privacy.guarantee import Protection
from suffice.releases.codec import load

ROWS = 600
RELEASE = (
    "release", "proportions", "rows.parquet", "--label", "sick", "--classes", "no,yes,unsure",
    "-o", "p.suffice",
)  # fmt: skip
FORM = (
    "release", "bags", "rows.parquet", "--label", "sick", "--classes", "no,yes,unsure",
    "--features", "age", "--features", "size", "-o", "sets.suffice",
)  # fmt: skip


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch) -> Path:
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.normal(size=ROWS),
        "size": rng.normal(size=ROWS),
        "ward": rng.choice(["north", "south", "west"], ROWS),
        "year": rng.integers(2020, 2022, ROWS),
        "sick": rng.choice(["no", "yes", "unsure"], ROWS),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_column_of_sets_leaves_as_proportions(suffice):
    printed = suffice(*RELEASE, "--bag", "ward", "--epsilon", "0.5", "--no-ledger")
    assert "Protects each label" in printed
    release = load("p.suffice")
    assert release.details == {
        "classes": ["no", "yes", "unsure"],
        "bags": ["north", "south", "west"],
        "mechanism": "laplace",
    }
    assert [c.name for c in release.pipeline.columns] == ["age", "size", "year"]
    told = suffice("inspect", "p.suffice")
    assert "bag south" in told
    assert "not decided by looking at its label" in told
    assert "standard deviation per count" in told
    assert json.loads(suffice("inspect", "p.suffice", "--json"))["kind"] == "proportions"


def test_several_columns_are_sets_that_overlap(suffice):
    words = (*RELEASE, "--bag", "ward", "--bag", "year", "--epsilon", "0.5", "--no-ledger")
    written = json.loads(suffice(*words, "--json"))
    assert written["rows"] == 2 * ROWS
    assert "up to 2 of them" in written["guarantees"][0]["public"][1]


def test_the_unsound_mechanism_needs_to_be_called_so(suffice):
    words = (*RELEASE, "--bag", "ward", "--epsilon", "0.5", "--delta", "0.05", "--no-ledger")
    words = (*words, "--noise", "scaled-dirichlet")
    assert "--unprotected" in suffice(*words, code=4)
    assert not Path("p.suffice").exists()
    assert "Not differentially private" in suffice(*words, "--unprotected")
    assert load("p.suffice").guarantee.kind is Protection.DATA_DEPENDENT


def test_plan_reads_sets_and_no_label(suffice, desk):
    words = ("--classes", "no,yes,unsure", "--epsilon", "0.05", "--delta", "0.05")
    plan = json.loads(
        suffice("plan", "proportions", "rows.parquet", "--bag", "ward", *words, "--json")
    )
    assert sum(plan["sizes"]) == ROWS
    chosen = [row["mechanism"] for row in plan["rows"] if row["chosen"]]
    assert len(chosen) == 5
    assert len({row["epsilon"] for row in plan["rows"]}) == 5
    unlabelled = pq.read_table(desk / "rows.parquet").drop(["sick"])
    pq.write_table(unlabelled, desk / "rows.parquet")
    again = suffice("plan", "proportions", "rows.parquet", "--bag", "ward", *words, "--json")
    assert json.loads(again) == plan
    shown = suffice("plan", "proportions", "--sizes", "1000", "--classes", "5", *words[2:])
    assert "gaussian *" in shown
    assert "0.0283" in shown


def test_plan_shows_how_skew_trades_against_noise(suffice):
    words = ("plan", "bags", "rows.parquet", "--classes", "3", "--epsilon", "4")
    assert " *" in suffice(*words)
    plan = json.loads(suffice(*words, "--json"))
    assert sum(row["chosen"] for row in plan["rows"]) == 1
    for row in plan["rows"]:
        assert row["sets_epsilon"] + row["counts_epsilon"] == pytest.approx(4.0)


def test_skewed_sets_are_formed_paid_for_and_released(suffice):
    suffice("ledger", "init", "clinic.ledger", "--dataset", "d", "--epsilon", "4")
    pays = ("--ledger", "clinic.ledger", "--dataset", "d")
    suffice(*FORM, "--skew", "0.8", "--write-rows", "public.parquet", *pays)
    assert "label-responses" in suffice("ledger", "history", "clinic.ledger")
    written = pq.read_table("public.parquet")
    assert written.column_names == ["age", "size", "bag"]
    given = ("--features", "age,size", "--bags-file", "sets.suffice", "--epsilon", "1")
    assert "randomised response on the labels" in suffice(*RELEASE, *given, *pays)
    release = load("p.suffice")
    sizes = [written["bag"].to_pylist().count(name) for name in release.details["bags"]]
    assert release.arrays["sizes"].tolist() == sizes
    (balance,) = json.loads(suffice("ledger", "show", "clinic.ledger", "--json"))
    assert balance["spent"] == pytest.approx(np.log(8) + 1, rel=1e-6)
    assert "would exceed the budget" in suffice(
        *FORM, "--skew", "0.9", "--request", "again", *pays, "--force", code=4
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((*RELEASE, "--epsilon", "1", "--no-ledger"), 2, "--bag COLUMN, or --bags-file FILE"),
        ((*RELEASE, "--bag", "street", "--epsilon", "1", "--no-ledger"), 2, "no column 'street'"),
        ((*RELEASE, "--bag", "ward", "--epsilon", "1"), 2, "Choose a ledger"),
        (
            (*RELEASE, "--bag", "ward", "--bag-names", "north,south,west,east", "--epsilon", "1",
             "--no-ledger"),
            2,
            "for example 'east'",
        ),
        ((*RELEASE, "--bag", "age", "--epsilon", "1", "--no-ledger"), 2, "whole numbers"),
        ((*RELEASE, "--bag", "ward", "--epsilon", "0.001", "--no-ledger"), 2, "too small"),
        ((*FORM, "--no-ledger"), 2, "either --skew or --epsilon"),
        ((*FORM, "--skew", "0.2", "--no-ledger"), 2, "between 1/3 and 1"),
        (("plan", "proportions", "--epsilon", "1"), 2, "Give the rows once"),
        (("plan", "proportions", "rows.parquet", "--epsilon", "1"), 2, "--bag COLUMN"),
        (("plan", "proportions", "--sizes", "ten", "--epsilon", "1"), 2, "--sizes takes"),
        (
            ("plan", "proportions", "--sizes", "100", "--classes", "", "--epsilon", "1"),
            2,
            "--classes takes",
        ),
    ],
)  # fmt: skip
def test_errors_are_one_line_that_says_what_to_change(suffice, words, code, says):
    told = suffice(*words, code=code)
    assert says in told
    assert told.count("\n") == 1
