"""``suffice fit`` of rados: a file, no rows, and a model that classifies."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import labelled_examples
from suffice.owner.rados import Rados


@pytest.fixture
def program(tmp_path, monkeypatch, suffice):
    """Return the program, in a folder with two owners' rados and a table to score on."""
    monkeypatch.chdir(tmp_path)
    names = [f"x{k}" for k in range(4)]
    pipeline = None
    for seed in range(3):
        X, y = labelled_examples(300, seed)
        table = pa.table({**dict(zip(names, X.T, strict=True)), "sick": (y > 0).astype(np.int8)})
        if seed == 2:
            pq.write_table(table, "test.parquet")
            break
        release = Rados(count=64, pipeline=pipeline).release(
            table, label="sick", ledger=None, unprotected=True
        )
        pipeline = release.pipeline
        release.save(f"{seed}.suffice")
    return suffice


@pytest.mark.parametrize(
    ("words", "keys", "lines"),
    [
        ((), {"loss", "lam", "risk", "intercept_only"}, ("penalty", "square loss")),
        (("--loss", "logistic"), {"loss", "rounds", "rado_risk"}, ("rounds", "rado-risk")),
    ],
)
def test_rados_need_no_rows(program, words, keys, lines):
    for files in (("0.suffice",), ("0.suffice", "1.suffice")):
        result = json.loads(program("fit", *files, *words, "-o", "m.suffice", "--force", "--json"))
        assert set(result) == {"written", "classes", "probabilities"} | keys
        assert result["classes"] == [0, 1]
        score = program("score", "m.suffice", "test.parquet", "--label", "sick", "--json")
        # The larger class is .52. In 5 of 12 draws boosting stops at its first feature: .82.
        assert json.loads(score)["accuracy"] > 0.8
    program("predict", "m.suffice", "test.parquet", "-o", "p.parquet")
    shares = pq.read_table("p.parquet")["probability of 1"].to_numpy()
    assert shares.min() < 0.1
    assert shares.max() > 0.9
    assert "penalty" in program("inspect", "m.suffice")
    printed = program("fit", "0.suffice", *words, "-o", "n.suffice")
    assert all(line in printed for line in lines)


def test_a_loss_that_rados_do_not_stand_for_is_refused(program):
    error = program("fit", "0.suffice", "--loss", "matsushita", "-o", "m.suffice", code=2)
    choose = "Choose one of them."
    assert (
        error == f"suffice: Rados can be learnt from with loss square or logistic only. {choose}\n"
    )
