"""The hash of rows depends on their values and on nothing else."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from builders import clinic_table
from suffice.errors import TableError
from suffice.tables import table as tables_table
from suffice.tables.sources import open_table
from suffice.tables.table import RowDigest, RowLanes

NAMES = ("age", "dose", "ward", "sick")


def digest_of(data, names: Sequence[str] = ()) -> RowDigest:
    table = open_table(data)
    names = names or tuple(table.schema.names)
    lanes, digest = RowLanes(table.schema, names), RowDigest(names)
    for batch in table.batches(names):
        digest.update(lanes.of(batch))
    return digest


def hash_of(data, names: Sequence[str] = ()) -> str:
    return digest_of(data, names).result()


def with_cell(table: pa.Table, row: int, name: str, value) -> pa.Table:
    cells = table[name].to_pylist()
    assert cells[row] != value
    cells[row] = value
    position = table.column_names.index(name)
    return table.set_column(position, name, pa.array(cells, table[name].type))


# --- what does not matter


def test_the_hash_is_written_as_a_release_writes_it():
    written = hash_of(clinic_table(5))
    assert written.startswith("sha256:")
    assert len(written) == 71


@settings(max_examples=30)
@given(order=st.permutations(range(40)), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_neither_the_order_of_rows_nor_their_batches_matter(order, cuts):
    table = clinic_table(40)
    mixed = table.take(pa.array(order))
    ends = [0, *sorted(cuts), 40]
    lanes, digest = RowLanes(table.schema, NAMES), RowDigest(NAMES)
    for a, b in pairwise(ends):
        for batch in mixed.slice(a, b - a).to_batches():
            digest.update(lanes.of(batch))
    assert digest.count == 40
    assert digest.result() == hash_of(table)


def test_the_size_of_batches_does_not_matter(monkeypatch):
    expected = hash_of(clinic_table(100))
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 7)
    assert hash_of(clinic_table(100)) == expected


def test_the_order_of_columns_and_of_their_names_does_not_matter(clinic):
    reordered = clinic.select(["sick", "ward", "dose", "age"])
    assert hash_of(reordered) == hash_of(clinic)
    assert hash_of(clinic, ("ward", "age")) == hash_of(reordered, ("age", "ward"))


def test_columns_that_are_not_named_do_not_matter(clinic):
    assert hash_of(clinic, ("age", "ward")) == hash_of(clinic.select(["age", "ward"]))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.int8(), pa.uint16()])
def test_the_type_of_a_number_does_not_matter(kind):
    table = pa.table({"a": [0, 1, 7, 100], "b": [1.5, 2.5, 3.5, 4.5]})
    assert hash_of(table.set_column(0, "a", table["a"].cast(kind))) == hash_of(table)


def test_float32_and_the_float64_of_the_same_value_are_alike(clinic):
    wide = clinic.set_column(1, "dose", clinic["dose"].cast(pa.float64()))
    assert hash_of(wide) == hash_of(clinic)
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    assert hash_of(X) == hash_of(X.astype(np.float64))


def test_csv_and_parquet_are_alike(tmp_path, clinic):
    table = clinic.set_column(1, "dose", clinic["dose"].cast(pa.float64()))
    csv.write_csv(table, tmp_path / "rows.csv")
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert hash_of(tmp_path / "rows.csv") == hash_of(tmp_path / "rows.parquet") == hash_of(table)


def test_csv_and_parquet_are_alike_where_cells_are_missing(tmp_path):
    table = pa.table({"a": [1.5, None, 2.5], "b": ["x", "y", None], "c": [1, 2, 3]})
    csv.write_csv(table, tmp_path / "rows.csv")
    assert hash_of(tmp_path / "rows.csv") == hash_of(table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_minus_zero_is_zero(dtype):
    assert hash_of(np.array([[-0.0, 1.0]], dtype=dtype)) == hash_of(np.array([[0.0, 1.0]]))


def test_every_nan_and_every_missing_number_is_one_value():
    bits = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001]
    nans = np.array(bits, dtype=np.uint64).view(np.float64)
    assert np.isnan(nans).all()
    hashes = {hash_of(pa.table({"a": [nan, 1.0]})) for nan in nans}
    hashes.add(hash_of(pa.table({"a": pa.array([None, 1.0])})))
    hashes.add(hash_of(pa.table({"a": pa.array([None, 1])})))
    hashes.add(hash_of(pa.table({"a": np.array([np.nan, 1.0], dtype=np.float32)})))
    assert len(hashes) == 1


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_a_text_is_alike_in_every_type(kind):
    texts = pa.array(["b", None, "a", "b", ""])
    other = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    assert hash_of(pa.table({"a": other})) == hash_of(pa.table({"a": texts}))


def test_a_dictionary_may_list_its_texts_in_any_order_with_some_unused():
    coded = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["x", "unused", "y"]))
    assert hash_of(pa.table({"a": coded})) == hash_of(pa.table({"a": ["y", "x", "y"]}))


def test_a_dictionary_that_lists_the_missing_text_is_alike():
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert hash_of(pa.table({"a": coded})) == hash_of(pa.table({"a": ["x", None]}))


def test_numbers_that_the_caller_has_already_give_the_same_lanes(clinic):
    batch = clinic.to_batches()[0]
    lanes = RowLanes(clinic.schema, NAMES)
    numbers = np.array([batch.column(name).to_numpy() for name in ("age", "dose", "sick")])
    np.testing.assert_array_equal(lanes.of(batch, numbers), lanes.of(batch))


# --- what matters


CHANGES = {
    "age": lambda cell: np.nextafter(cell, np.inf).item(),
    "dose": lambda cell: np.nextafter(np.float32(cell), np.float32(-np.inf)).item(),
    "ward": lambda cell: cell + " ",
    "sick": lambda cell: 1 - cell,
}


@settings(max_examples=40)
@given(row=st.integers(0, 19), name=st.sampled_from(NAMES), gone=st.booleans())
def test_the_least_change_of_one_cell_changes_the_hash(row, name, gone):
    table = clinic_table(20)
    changed = None if gone else CHANGES[name](table[name][row].as_py())
    assert hash_of(with_cell(table, row, name, changed)) != hash_of(table)


@settings(max_examples=40)
@given(values=st.lists(st.floats(allow_nan=False), min_size=2, max_size=2, unique=True))
def test_two_different_numbers_have_different_hashes(values):
    first, second = values
    assert (hash_of(np.array([[first]])) == hash_of(np.array([[second]]))) == (first == second)


def test_a_missing_text_is_neither_empty_nor_a_word():
    texts = [None, "", "None", "null", "nan"]
    assert len({hash_of(pa.table({"a": pa.array([t], pa.string())})) for t in texts}) == len(texts)


def test_a_missing_number_is_neither_zero_nor_infinite():
    numbers = [None, 0.0, float("inf"), -float("inf")]
    hashes = {hash_of(pa.table({"a": pa.array([x], pa.float64())})) for x in numbers}
    assert len(hashes) == len(numbers)


def test_a_row_more_a_row_less_and_a_row_twice_change_the_hash(clinic):
    added = pa.concat_tables([clinic, clinic_table(1, seed=9)])
    doubled = pa.concat_tables([clinic, clinic.slice(3, 1)])
    thrice = pa.concat_tables([doubled, clinic.slice(3, 1)])
    tables = [clinic, added, doubled, thrice, clinic.slice(1), clinic.slice(0, 0)]
    assert len({hash_of(table, NAMES) for table in tables}) == len(tables)


def test_replacing_one_row_by_a_copy_of_another_changes_the_hash(clinic):
    replaced = pa.concat_tables([clinic.slice(1), clinic.slice(1, 1)])
    assert hash_of(replaced) != hash_of(clinic)


def test_a_renamed_column_changes_the_hash(clinic):
    assert hash_of(clinic.rename_columns(["years", *NAMES[1:]])) != hash_of(clinic)
    swapped = clinic.rename_columns(["dose", "age", "ward", "sick"])
    assert hash_of(swapped) != hash_of(clinic)


@pytest.mark.parametrize("pair", [("x0", "x1"), ("x0", "x2"), ("x1", "x2")])
def test_two_cells_of_a_row_swapped_change_the_hash(pair):
    table = pa.table({"x0": [1.0, 2.0], "x1": [3.0, 4.0], "x2": [5.0, 6.0]})
    first, second = (table[name][0].as_py() for name in pair)
    swapped = with_cell(with_cell(table, 0, pair[0], second), 0, pair[1], first)
    assert hash_of(swapped) != hash_of(table)


def test_two_texts_of_a_row_swapped_change_the_hash():
    assert hash_of(pa.table({"a": ["x"], "b": ["y"]})) != hash_of(
        pa.table({"a": ["y"], "b": ["x"]})
    )


def test_two_cells_of_a_column_swapped_change_the_hash():
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    swapped = table.set_column(0, "a", pa.array([2, 1, 3]))
    assert hash_of(swapped) != hash_of(table)


# --- merging


@settings(max_examples=20)
@given(cut=st.integers(0, 40))
def test_merged_halves_equal_one_pass(cut):
    table = clinic_table(40)
    first, second = digest_of(table.slice(0, cut), NAMES), digest_of(table.slice(cut), NAMES)
    second.merge(first)
    assert second.count == 40
    assert second.result() == hash_of(table)


# --- rows in order


def ordered_of(data, batch_rows: int = 7) -> RowDigest:
    table = open_table(data)
    lanes, digest = RowLanes(table.schema, NAMES), RowDigest(NAMES, ordered=True)
    for batch in pa.table(data).to_batches(max_chunksize=batch_rows):
        digest.update(lanes.of(batch))
    return digest


def test_an_ordered_hash_depends_on_the_order_and_not_on_batches():
    table = clinic_table(30)
    order = np.arange(30)
    order[[4, 5]] = order[[5, 4]]
    swapped = table.take(pa.array(order))
    assert ordered_of(table).result() == ordered_of(table, 30).result()
    assert ordered_of(swapped).result() != ordered_of(table).result()
    assert hash_of(swapped) == hash_of(table)


def test_an_ordered_hash_is_no_unordered_one_but_knows_it():
    table = clinic_table(30)
    assert ordered_of(table).result() != hash_of(table)
    assert ordered_of(table).unordered() == hash_of(table)
    assert digest_of(table).unordered() == hash_of(table)


def test_ordered_rows_merge_in_their_order_unless_they_come_first():
    table = clinic_table(20)
    first, second = ordered_of(table.slice(0, 8)), ordered_of(table.slice(8))
    first.merge(second)
    assert first.result() == ordered_of(table).result()
    swapped = ordered_of(table.slice(8))
    swapped.merge(ordered_of(table.slice(0, 8)))
    assert swapped.result() != first.result()
    leading = ordered_of(table.slice(0, 8))
    leading.lead()
    with pytest.raises(TableError, match="come first and cannot follow others"):
        ordered_of(table.slice(8)).merge(leading)
    leading.merge(ordered_of(table.slice(8)))
    assert leading.result() == first.result()
