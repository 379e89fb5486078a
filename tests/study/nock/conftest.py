"""Small files in the layout of the real ones, and figures that take little time on them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.papers import nock
from suffice.papers.reproduction import SETS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make files in the layout of the real ones: numbers, a category, a missing number."""
    folder = tmp_path_factory.mktemp("data")
    rng, count = np.random.default_rng(0), 160
    second = rng.random(count) < 0.4
    columns = {
        "f0": (rng.normal(size=count) + 2 * second).astype(np.float32),
        "f1": rng.integers(0, 200, count).astype(np.uint8) + (40 * second).astype(np.uint8),
        "kind": pa.array(rng.choice(["b", "a", "c"], count)).dictionary_encode(),
        "flag": rng.integers(0, 2, count).astype(np.int8),
        "hole": np.where(np.arange(count) == 3, np.nan, second + rng.normal(size=count)),
    }
    for name, labels in {"magic": second, "transfusion": second, "abalone": 9 + second}.items():
        table = pa.table({**columns, "label": labels.astype(np.int8)})
        pq.write_table(table, folder / SETS[name].file)
    return folder


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(nock, "FOLDS", 2)
    monkeypatch.setattr(nock, "ROUNDS", 20)
    monkeypatch.setattr(nock, "_TRUNCATIONS", (0.3, 2.0))
    monkeypatch.setattr(nock, "_NOISES", (0.0, 2.0))
    monkeypatch.setattr(nock, "_LABEL_EPSILONS", (3.0,))
    monkeypatch.setattr(nock, "_RECORD_EPSILONS", (10.0,))
    monkeypatch.setattr(nock, "_RECORD_RADOS", 8)
