"""``suffice fit`` of a mean operator: what it says about how good the model may be."""

import json

import pyarrow.parquet as pq
import pytest

from builders import clinic_table


@pytest.mark.parametrize(("epsilon", "doubtful"), [("0.001", True), ("100", False)])
def test_a_model_that_may_know_nothing_says_so(suffice, tmp_path, monkeypatch, epsilon, doubtful):
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic_table(400), "clinic.parquet")
    words = ("release", "mean-operator", "clinic.parquet", "--label", "sick", "--no-ledger")
    suffice(*words, "--epsilon", epsilon, "-o", "r.suffice")
    fit = ("fit", "r.suffice", "--rows", "clinic.parquet", "-o", "m.suffice")
    assert ("that of knowing nothing" in suffice(*fit)) == doubtful
    told = json.loads(suffice(*fit, "--json"))
    assert (told["risk_interval"][1] >= told["risk_of_knowing_nothing"]) == doubtful
    assert told["risk"] >= 0
