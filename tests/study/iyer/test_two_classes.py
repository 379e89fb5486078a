"""Figure 2 measures every method at every ratio."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.papers import iyer
from suffice.papers.reproduce import reproduce
from suffice.papers.reproduction import SETS


@pytest.fixture
def folder(tmp_path, blobs, rng):
    rows, labels = blobs(2)
    kinds = pa.array(rng.choice(["a", "b"], len(labels))).dictionary_encode()
    table = rows.drop_columns(["place"]).append_column("kind", kinds)
    pq.write_table(
        table.append_column("label", pa.array(labels, pa.int8())), tmp_path / SETS["higgs"].file
    )
    return tmp_path


def test_figure_2_measures_every_method_at_every_ratio(folder, monkeypatch):
    monkeypatch.setattr(iyer, "_ROWS", 120)
    monkeypatch.setattr(iyer, "_SLOW_REPEATS", 1)
    steps = []
    (result,) = reproduce(
        ["ratio-binary"],
        folder=folder,
        sets=("higgs",),
        seeds=2,
        progress=lambda *step: steps.append(step),
    ).values()
    assert [step[:2] for step in steps] == [(0, 2), (1, 2)]
    measured = result.values["sets"]["higgs"]
    runs = {method: np.array(errors) for method, errors in measured["errors"].items()}
    assert {method: errors.shape for method, errors in runs.items()} == {
        "ours": (2, 9),
        "MMD": (2, 9),
        "classify and count": (2, 9),
        "pSVM": (1, 9),
    }
    assert sum(measured["ours_took"].values()) == 2
    assert all(errors.mean() < 0.25 for errors in runs.values())  # the classes are far apart
    (statement,) = result.compared
    ends = {method: errors.mean(axis=0)[[0, -1]] for method, errors in runs.items()}
    assert statement.ours == pytest.approx((1 - ends["MMD"] / ends["pSVM"]).max())
    assert statement.verdict == f"{'as much as' if statement.ours >= 0.7 else 'less than'} printed"
