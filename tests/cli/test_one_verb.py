"""`suffice release TABLE --private ...` makes what `suffice advise` picks, or says: do not."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import suffice as sf
from engine_cases import every_type
from suffice.releases.codec import load

VERB = ("--private", "labels", "--label", "ill", "--epsilon", "1", "--classes", "no,yes")
VERB += ("--delta", "1e-6")


@pytest.fixture
def table(tmp_path, rng):
    rows = rng.standard_normal((600, 4))
    frame = pd.DataFrame(rows, columns=[f"x{n}" for n in range(4)])
    frame["ill"] = np.where(rows[:, 0] > 0, "yes", "no")
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_table_alone_is_released_as_advise_says(streams, table, tmp_path):
    made = tmp_path / "a.suffice"
    _, said = streams("release", table, *VERB, "--no-ledger", "-o", made)
    assert "Released by the rule of advise" in said
    advice = sf.advise(table, 1.0, 1e-6, private="labels", label="ill", classes=("no", "yes"))
    release = load(made)
    assert release.kind == advice.mechanism.name == "mean-operator"
    assert release.pipeline.map.kind == advice.best.map.partition(":")[0] == "ranks+kernel"
    assert f"{release.guarantee.epsilon:.6g}" == "1"


@pytest.mark.parametrize("first", [(), ("advised",)])
def test_options_may_come_before_the_table(streams, table, tmp_path, first):
    streams("release", *first, *VERB, "--no-ledger", "-o", tmp_path / "a.suffice", table)
    assert load(tmp_path / "a.suffice").kind == "mean-operator"


def test_the_ledger_knows_the_classes_and_is_charged_once(streams, table, tmp_path):
    ledger = tmp_path / "clinic.ledger"
    budget = ("--dataset", "ill", "--epsilon", "2", "--delta", "1e-5", "--classes", "no,yes")
    streams("ledger", "init", ledger, *budget)
    for name in ("a", "b"):  # the second is the first
        words = (*VERB[:6], *VERB[8:], "--ledger", ledger, "--dataset", "ill")
        streams("release", table, *words, "-o", tmp_path / f"{name}.suffice")
    first, second = ((tmp_path / f"{name}.suffice").read_bytes() for name in "ab")
    assert first == second
    assert [balance.debits for balance in sf.Ledger(ledger).balances()] == [1]


def test_where_noise_leaves_nothing_the_answer_is_do_not(streams, table, tmp_path):
    ledger = tmp_path / "clinic.ledger"
    streams("ledger", "init", ledger, "--dataset", "ill", "--epsilon", "2", "--delta", "1e-5")
    words = ["0.0001" if word == "1" else word for word in VERB]
    words += ["--ledger", ledger, "--dataset", "ill", "-o", tmp_path / "a.suffice"]
    _, said = streams("release", table, *words, code=2)
    assert "Do not release this" in said
    assert sf.Ledger(ledger).history() == []
    assert not (tmp_path / "a.suffice").exists()


def test_a_mechanism_that_is_misspelt_is_no_table(streams):
    assert "No such command" in streams("release", "mean-operatr", "--epsilon", "1", code=2)[1]


@pytest.mark.parametrize("verb", ["advise", "release"])
def test_columns_of_every_type_are_advised_on_and_released(streams, tmp_path, verb):
    pq.write_table(every_type(400), tmp_path / "rows.parquet")
    made = ("--no-ledger", "-o", tmp_path / "a.suffice") if verb == "release" else ()
    words = ("--private", "labels", "--label", "sick", "--epsilon", "2", *made)
    shown = streams(verb, tmp_path / "rows.parquet", *words)
    assert "ranks+kernel" in "".join(shown)
