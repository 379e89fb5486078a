"""A table of three easy classes, and a crowd dealt from it."""

import numpy as np
import pyarrow as pa
import pytest

from suffice.papers.hamm import Crowd, crowd_of_table

CLASSES = (0, 1, 2)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Make three easy classes in four columns, with a column of 30 owners."""
    rng, rows = np.random.default_rng(0), 600
    label = rng.integers(0, 3, rows)
    columns = rng.normal(size=(rows, 4)) * 0.4
    columns[np.arange(rows), label] += 2.0
    numbers = {f"f{j}": column for j, column in enumerate(columns.T)}
    return pa.table({**numbers, "label": label, "user": rng.integers(0, 30, rows)})


@pytest.fixture(scope="module")
def crowd(table) -> Crowd:
    rng = np.random.default_rng(1)
    records = table.drop_columns(["user"])
    return crowd_of_table(records, rng, label="label", classes=CLASSES, parties=40)
