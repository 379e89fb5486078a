"""``suffice fit`` of a mean operator: what it says about how good the model may be."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from builders import clinic_table, rado_release
from suffice.learner import problem


@pytest.mark.parametrize(("epsilon", "doubtful"), [("0.001", True), ("100", False)])
def test_a_model_that_may_know_nothing_says_so(suffice, tmp_path, monkeypatch, epsilon, doubtful):
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic_table(400), "clinic.parquet")
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "clinic.parquet",
        "--label",
        "sick",
        "--no-ledger",
    )
    suffice(*words, "--epsilon", epsilon, "-o", "r.suffice")
    fit = ("fit", "r.suffice", "--rows", "clinic.parquet", "-o", "m.suffice")
    assert ("a guess without the release" in suffice(*fit)) == doubtful
    report = json.loads(suffice(*fit, "--force", "--json"))
    assert (report["risk_interval"][1] >= report["risk_of_knowing_nothing"]) == doubtful
    assert report["risk"] >= 0


def test_workers_of_a_fit_are_for_kinds_that_need_rows(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic_table(400), "clinic.parquet")
    words = ("clinic.parquet", "--label", "sick", "--epsilon", "3", "--no-ledger")
    suffice("release", "mean-operator", "--map", "none", *words, "-o", "r.suffice")
    fit = ("fit", "r.suffice", "--rows", "clinic.parquet", "-o", "m.suffice", "--force")
    in_memory = json.loads(suffice(*fit, "--json"))
    monkeypatch.setattr(problem, "_HELD_BYTES", 0)
    streamed = json.loads(
        suffice(*fit, "--json", "--computing", "engine=threads", "--computing", "workers=2")
    )
    assert streamed["lam"] == pytest.approx(in_memory["lam"], rel=1e-12)  # sums of other parts
    assert streamed["risk"] == pytest.approx(in_memory["risk"], abs=1e-8)
    assert "only with engine=dask or engine=spark" in suffice(
        *fit, "--computing", "scheduler=tcp://127.0.0.1:1", code=2
    )
    rado_release(np.ones((4, 3)), rows=10).save("sums.suffice")
    unused = ("fit", "sums.suffice", "--computing", "workers=2", "-o", "n.suffice")
    assert "--computing workers" in suffice(*unused, code=2)
