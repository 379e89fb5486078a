"""Pieces of a table hold each row of the wanted owners once, in order, with what is beside it."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.tables import files
from suffice.tables import table as tables_table
from suffice.tables.sources import open_table
from suffice.tables.table import pieces_parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pieces")
    table = pa.table({"n": np.arange(40.0), "other": np.zeros(40)})
    pq.write_table(table, path / "rows.parquet", row_group_size=6)
    pa.csv.write_csv(table, path / "rows.csv")
    return path


@settings(max_examples=60)
@given(data=st.data())
def test_every_wanted_row_comes_once_with_its_owner_and_its_values(folder, data):
    counts = data.draw(st.lists(st.integers(1, 15), min_size=1, max_size=4))
    counts = [c for k, c in enumerate(counts) if sum(counts[: k + 1]) <= 40]
    ends = np.cumsum(counts).tolist()
    start = data.draw(st.integers(0, max(len(counts) - 1, 0)))
    wanted = range(start, data.draw(st.integers(start + 1, len(counts) + 1)))
    owners = np.searchsorted(ends, np.arange(40), side="right")
    inside = np.isin(owners, wanted)
    rows = np.flatnonzero(inside)
    values = 3.0 * rows if data.draw(st.booleans()) else None
    name = data.draw(st.sampled_from(["rows.parquet", "rows.csv"]))
    sizes = {files: ("_PART_ROWS", 9), tables_table: ("BATCH_ROWS", data.draw(st.integers(1, 20)))}
    with pytest.MonkeyPatch.context() as patch:
        for module, change in sizes.items():
            patch.setattr(module, *change)
        parts = pieces_parts(open_table(folder / name), ["n"], ends, wanted, values)
        pieces = [piece for part in parts for piece in part.batches()]
    row_numbers = [n for piece in pieces for n in piece.rows.column("n").to_pylist()]
    assert row_numbers == rows.tolist()
    assert [p.owner for p in pieces for _ in range(len(p))] == owners[inside].tolist()
    assert [p.start + k for p in pieces for k in range(len(p))] == rows.tolist()
    if values is not None:
        assert np.concatenate([piece.values for piece in pieces]).tolist() == values.tolist()


def test_parts_without_a_wanted_row_are_not_read(folder, monkeypatch):
    monkeypatch.setattr(files, "_PART_ROWS", 6)
    table = open_table(folder / "rows.parquet")
    assert len(pieces_parts(table, ["n"], (10, 20, 30), range(4))) == 7
    assert [part.first for part in pieces_parts(table, ["n"], (10, 20, 30), range(1, 2))] == [
        6,
        12,
        18,
    ]
