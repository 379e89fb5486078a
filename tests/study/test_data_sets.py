"""Data sets: splits keep rows and labels together, and categories become numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.errors import TableError
from suffice.papers.reproduction import numbers, split


def test_a_split_keeps_the_origins_test_rows_and_whole_subjects(data_folder):
    digits = split("mnist-7v9", 0, data_folder)
    assert (len(digits.labels), len(digits.test_labels)) == (120, 40)
    assert digits.rows.column_names == ["f0", "f1", "kind"]
    assert digits.rows.schema.field("f1").type == pa.float32()
    people = split("uci-har", 3, data_folder)
    assert len(people.test_labels) == 40
    again = split("uci-har", 3, data_folder)
    assert people.rows.equals(again.rows)
    assert not people.rows.equals(split("uci-har", 4, data_folder).rows)


def test_rows_and_labels_stay_together(data_folder):
    data = split("magic", 1, data_folder)
    rows, labels = data.all_rows
    table = pq.read_table(data_folder / "magic.parquet")
    assert dict(zip(rows["f0"].to_numpy(), labels, strict=True)) == dict(
        zip(table["f0"].to_numpy(), table["label"].to_numpy(), strict=True)
    )


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "magic.parquet").write_bytes(b"no table")
    with pytest.raises(TableError, match="not a readable table"):
        split("magic", 0, tmp_path)


def test_categories_and_missing_numbers_become_numbers(tmp_path):
    kinds = pa.array(["b", "a", "c", "a"]).dictionary_encode()
    hole = [1.0, None, 4.0, 1.0]
    table = pa.table({"kind": kinds, "hole": hole, "label": pa.array([10, 9, 10, 9], pa.int8())})
    pq.write_table(table, tmp_path / "abalone.parquet")
    rows, labels = numbers("abalone", tmp_path)
    np.testing.assert_array_equal(rows, [[2, 1], [1, 2], [3, 4], [1, 1]])
    assert labels.tolist() == [1, 0, 1, 0]
