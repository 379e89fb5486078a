"""Small public data sets in the layout of the real files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 160


def _table(labels: tuple[int, int], **extra) -> pa.Table:
    """Return rows like those of the real files, two of whose columns tell the classes apart."""
    rng = np.random.default_rng(0)
    second = rng.random(ROWS) < 0.4
    columns = {
        "f0": (rng.normal(size=ROWS) + 2 * second).astype(np.float32),
        "f1": rng.integers(0, 200, ROWS).astype(np.uint8) + (40 * second).astype(np.uint8),
        "kind": pa.array(rng.choice(["a", "b"], ROWS)).dictionary_encode(),
        "label": np.where(second, labels[1], labels[0]).astype(np.int8),
    }
    return pa.table({**columns, **extra})


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Make files in the layout of the real ones: a plain one, with subjects, with a split."""
    folder = tmp_path_factory.mktemp("data")
    subjects = np.repeat(np.arange(8), ROWS // 8).astype(np.uint8)
    parts = pa.array(["train"] * (ROWS - 40) + ["test"] * 40).dictionary_encode()
    pq.write_table(_table((0, 1)), folder / "magic.parquet")
    pq.write_table(_table((0, 5), subject=subjects), folder / "uci_har_train.parquet")
    other = _table((0, 1), split=parts)
    digits = pa.concat_tables([_table((7, 9), split=parts), other])
    pq.write_table(digits, folder / "mnist.parquet")
    return folder
