"""Figure 3 learns from real releases, and counts what learners refuse."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.papers import iyer
from suffice.papers.reproduce import reproduce


def test_figure_3_learns_from_real_releases(tmp_path, monkeypatch, blobs):
    task = iyer._Task("mnist.parquet", lambda _: blobs(3), 3, 150, 0.1, 1)
    monkeypatch.setattr(iyer, "TASKS", {"mnist": task})
    monkeypatch.setattr(iyer, "_EPSILON", 1.0)
    (tmp_path / "mnist.parquet").touch()
    (result,) = reproduce(["ratio-multiclass"], folder=tmp_path, sets=("mnist",), seeds=1).values()
    errors = result.values["sets"]["mnist"]
    assert list(errors) == [f"{who}, {fed}" for who, fed in iyer._CURVES]
    assert all(len(runs) == 1 for runs in errors.values())
    assert np.mean(errors["MMD, no noise"][0]["errors"]) < 0.2
    assert np.mean(errors["ours, auto"][0]["errors"]) < 0.25
    assert errors["MMD, auto"][0]["method"] == "mmd"
    assert [statement.printed for statement in result.compared] == [0.6, None, None, None]


def test_refusals_are_counted_and_left_out_of_means():
    refused = {"errors": None, "method": "refused"}
    answered = {"errors": [0.1, 0.2, 0.3, 0.4], "method": "mmd"}
    errors = {f"{who}, {fed}": [answered, refused] for who, fed in iyer._CURVES}
    errors["ours, Laplace"] = [refused, refused]
    rows = {row[0]: row[1:] for row in iyer._table("twitter", errors).rows}
    assert rows["MMD, auto"] == ("0.100", "0.200", "0.300", "0.400", "0.250", "mmd 1, refused 1")
    assert rows["ours, Laplace"][-1] == "refused 2"
    compared = iyer._compare("twitter", errors)
    assert [(statement.what, statement.ours, statement.verdict) for statement in compared] == [
        ("twitter: MMD, Scaled Dirichlet against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
        ("twitter: MMD, auto against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
        ("twitter: ours, auto against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
    ]


def test_tweets_become_components_that_are_left_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(iyer, "_COMPONENTS", 2)
    words = ["good day", "bad day", "a day"] * 4
    table = pa.table({"text": words, "label": np.tile([2, 0, 1], 4)})
    pq.write_table(table, tmp_path / "tweets.parquet")
    rows, labels = iyer._tweets(tmp_path / "tweets.parquet")
    assert rows.column_names == ["f0", "f1"]
    assert labels.tolist() == [2, 0, 1] * 4
    (batch,) = rows.to_batches()
    mapped = iyer._leave_columns_alone(rows)["pipeline"].transform(batch)
    np.testing.assert_allclose(mapped, np.column_stack([rows["f0"], rows["f1"]]))
