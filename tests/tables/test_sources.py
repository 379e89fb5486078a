"""Whatever rows come as, they are the same rows, in batches of bounded size."""

import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, dataset, feather, parquet

from builders import clinic_table
from suffice.errors import StorageError, TableError
from suffice.tables import table as tables_table
from suffice.tables.columns import category_codes
from suffice.tables.files import TableFile
from suffice.tables.sources import Concatenated, open_table

NAMES = ["age", "dose", "ward", "sick"]


def plain_table(rows: int = 50) -> pa.Table:
    """Return a table that CSV keeps: no float32, which would come back as another float64."""
    table = clinic_table(rows)
    return table.set_column(1, "dose", table["dose"].cast(pa.float64()))


def written(folder: Path, table: pa.Table, ending: str) -> Path:
    path = folder / f"rows{ending}"
    kind = {".pq": ".parquet", ".arrow": ".feather", ".ipc": ".feather"}.get(ending, ending)
    writers = {
        ".parquet": parquet.write_table,
        ".csv": csv.write_csv,
        ".feather": feather.write_feather,
    }
    writers[kind.lower()](table, str(path))
    return path


def folder_of(folder: Path, table: pa.Table, ending: str) -> Path:
    """Write a folder of three files, the last one inside another folder."""
    home = folder / "many"
    for name, start, stop in (("a", 0, 20), ("b", 20, 21), ("inner/c", 21, None)):
        part = home / name
        part.parent.mkdir(parents=True, exist_ok=True)
        length = None if stop is None else stop - start
        written(part.parent, table.slice(start, length), ending).rename(f"{part}{ending}")
    return home


def rows_of(data, names=NAMES) -> list[dict]:
    return [row for batch in open_table(data).batches(names) for row in batch.to_pylist()]


SOURCES = {
    "arrow": lambda _, t: t,
    "arrow in chunks": lambda _, t: pa.concat_tables([t.slice(0, 9), t.slice(9)]),
    "record batch": lambda _, t: t.combine_chunks().to_batches()[0],
    "pandas": lambda _, t: t.to_pandas(),
    "pandas with its own index": lambda _, t: t.to_pandas().set_index(pd.Index(range(100, 150))),
    "polars": lambda _, t: pl.from_arrow(t),
    "parquet": lambda folder, t: written(folder, t, ".parquet"),
    "pq": lambda folder, t: str(written(folder, t, ".pq")),
    "csv": lambda folder, t: written(folder, t, ".csv"),
    "CSV in capitals": lambda folder, t: written(folder, t, ".csv").rename(folder / "ROWS.CSV"),
    "feather": lambda folder, t: written(folder, t, ".feather"),
    "arrow file": lambda folder, t: written(folder, t, ".arrow"),
    "ipc": lambda folder, t: written(folder, t, ".ipc"),
    "folder of parquet": lambda folder, t: folder_of(folder, t, ".parquet"),
    "folder of csv": lambda folder, t: str(folder_of(folder, t, ".csv")),
    "folder of feather": lambda folder, t: folder_of(folder, t, ".feather"),
    "opened table": lambda _, t: open_table(t),
    "two tables": lambda _, t: Concatenated([open_table(t.slice(0, 7)), open_table(t.slice(7))]),
}
every_source = pytest.mark.parametrize("source", SOURCES)


@every_source
def test_the_same_rows_come_out_of_every_source(source, tmp_path):
    table = plain_table()
    data = open_table(SOURCES[source](tmp_path, table))
    assert data.schema.names == NAMES
    assert rows_of(data) == table.to_pylist()


@every_source
def test_a_table_can_be_read_again_and_in_other_columns(source, tmp_path):
    table = plain_table()
    data = open_table(SOURCES[source](tmp_path, table))
    rows_of(data)
    assert rows_of(data, ["sick", "age"]) == table.select(["sick", "age"]).to_pylist()


@every_source
def test_no_batch_is_larger_than_batch_rows(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 7)
    table = plain_table()
    data = open_table(SOURCES[source](tmp_path, table))
    sizes = [batch.num_rows for batch in data.batches(NAMES)]
    assert max(sizes) == 7
    assert sum(sizes) == 50


@every_source
def test_the_categories_of_every_source_can_be_coded(source, tmp_path):
    table = plain_table()
    data = open_table(SOURCES[source](tmp_path, table))
    wards = ("north", "south", "west")
    codes = [category_codes(batch.column(0), wards) for batch in data.batches(["ward"])]
    assert np.concatenate(codes).tolist() == [wards.index(w) for w in table["ward"].to_pylist()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint16, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_has_columns_x0_x1_of_its_own_type(dtype, order, monkeypatch):
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 3)
    rows = np.array(np.arange(20).reshape(10, 2) % 5, dtype=dtype, order=order)
    table = open_table(rows)
    assert table.schema == pa.schema([(f"x{j}", pa.from_numpy_dtype(dtype)) for j in (0, 1)])
    batches = list(table.batches(["x1", "x0"]))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
    assert all(batch.schema.types == table.schema.types for batch in batches)
    table = pa.Table.from_batches(batches)
    np.testing.assert_array_equal(table["x0"].to_numpy(), rows[:, 0])
    np.testing.assert_array_equal(table["x1"].to_numpy(), rows[:, 1])


def test_a_slice_of_every_other_row_and_column_is_read_right():
    rows = np.arange(24.0).reshape(6, 4)[::2, 1::2]
    assert rows_of(rows, ["x0", "x1"]) == [{"x0": a, "x1": b} for a, b in rows.tolist()]


def test_a_list_of_rows_is_an_array():
    assert rows_of([[1, 2], [3, 4]], ["x1"]) == [{"x1": 2}, {"x1": 4}]


def test_float32_stays_float32_in_tables_and_binary_files(tmp_path):
    table = clinic_table(10)
    for data in (table, table.to_pandas(), pl.from_arrow(table), written(tmp_path, table, ".pq")):
        assert open_table(data).schema.field("dose").type == pa.float32()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_missing_cells_of_data_frames_are_missing(make):
    frame = make({"a": [1.5, None, 2.5], "b": ["x", None, "y"]})
    assert rows_of(frame, ["a", "b"])[1] == {"a": None, "b": None}


def test_categories_of_data_frames_are_dictionaries():
    for frame in (
        pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
        pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Categorical)}),
    ):
        assert pa.types.is_dictionary(open_table(frame).schema.field("a").type)
        assert rows_of(frame, ["a"]) == [{"a": "x"}, {"a": "y"}]


def test_chunks_with_different_dictionaries_keep_their_values():
    chunks = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["y", "z"]).dictionary_encode()]
    table = pa.table({"a": pa.chunked_array(chunks)})
    assert [row["a"] for row in rows_of(table, ["a"])] == ["x", "y", "y", "z"]


@pytest.mark.parametrize(
    "empty",
    [
        np.zeros((0, 1)),
        pa.table({"x0": pa.array([], pa.float64())}),
        pa.record_batch({"x0": pa.array([], pa.float64())}),
        pd.DataFrame({"x0": np.zeros(0)}),
        pl.DataFrame({"x0": np.zeros(0)}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_a_table_without_rows_has_no_batches(empty):
    assert list(open_table(empty).batches(["x0"])) == []


def test_an_empty_chunk_gives_no_empty_batch():
    table = pa.table({"a": pa.chunked_array([pa.array([], pa.float64()), pa.array([1.0])])})
    assert [batch.num_rows for batch in open_table(table).batches(["a"])] == [1]


def test_a_csv_file_keeps_missing_texts_apart_from_empty_ones(tmp_path):
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, ""]})
    assert rows_of(written(tmp_path, table, ".csv"), ["a", "b"]) == table.to_pylist()


def test_a_csv_file_of_one_column_keeps_its_missing_rows(tmp_path):
    table = pa.table({"a": [1.5, None, 2.5]})
    assert rows_of(written(tmp_path, table, ".csv"), ["a"]) == table.to_pylist()


def test_hidden_files_in_a_folder_do_not_count(tmp_path):
    home = folder_of(tmp_path, plain_table(), ".parquet")
    (home / "_SUCCESS").touch()
    (home / ".rows.crc").write_text("x")
    assert len(rows_of(home)) == 50


# --- what is refused


@pytest.mark.parametrize("name", ["gone.parquet", "gone.csv", "gone"])
def test_a_missing_file_is_a_storage_error(tmp_path, name):
    with pytest.raises(StorageError, match="does not exist"):
        open_table(tmp_path / name)


def test_a_file_that_vanishes_after_opening_is_a_storage_error(tmp_path):
    path = written(tmp_path, plain_table(), ".parquet")
    table = open_table(path)
    path.unlink()
    with pytest.raises(StorageError):
        list(table.batches(NAMES))


def test_a_folder_of_two_kinds_is_refused(tmp_path):
    written(tmp_path, plain_table(), ".parquet")
    written(tmp_path, plain_table(), ".csv")
    with pytest.raises(TableError, match="of one kind"):
        open_table(tmp_path)


@pytest.mark.parametrize("role", ["text", "numbers"])
@pytest.mark.parametrize("kind", ["parquet", "feather", "dataset"])
def test_a_private_column_of_two_types_is_refused_whatever_its_cells_are(tmp_path, kind, role):
    """Arrow would convert the second file's cells: an error would tell what they are."""
    for cell in ("7", "no number", "0.5"):
        folder = tmp_path / cell
        folder.mkdir()
        for name, column in {"1": [1, 2], "2": ["1", cell]}.items():
            table = pa.table({"x": [0.5, 1.5], "y": column})
            written(folder, table, ".feather" if kind == "feather" else ".parquet").rename(
                folder / f"{name}.{'feather' if kind == 'feather' else 'parquet'}"
            )
        data = dataset.dataset(folder) if kind == "dataset" else folder
        opened = open_table(data, **{role: ["y"]})
        with pytest.raises(TableError, match="'y' in two types, int64 and string"):
            list(opened.batches(["x", "y"]))
        with pytest.raises(TableError, match="'y' in two types"):
            [list(part.batches(["y"])) for part in opened.parts()]
        assert sum(batch.num_rows for batch in opened.batches(["x"])) == 4


def test_a_private_column_may_be_packed_in_some_files_and_empty_in_others(tmp_path):
    texts = pa.array(["a", "b"])
    for name, column in enumerate([texts, texts.dictionary_encode(), pa.nulls(2)]):
        parquet.write_table(pa.table({"y": column}), tmp_path / f"{name}.parquet")
    batches = open_table(tmp_path, text=["y"]).batches(["y"])
    assert [cell for batch in batches for cell in batch["y"].to_pylist()] == [
        *"abab",
        None,
        None,
    ]


@pytest.mark.parametrize("name", ["rows.doc", "rows", "rows.parquet.gz", "rows.gz"])
def test_a_file_of_no_known_kind_is_refused(tmp_path, name):
    (tmp_path / name).write_text("a\n1\n")
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(TableError, match="of one kind: Parquet"):
            open_table(path)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(TableError):
        open_table(tmp_path)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_a_text_file_under_another_name_is_refused(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    path.write_text("SECRET,1\n" * 100)
    with pytest.raises(TableError, match="not a readable table") as caught:
        open_table(path)
    assert says_nothing_of("SECRET", caught)


def test_a_damaged_parquet_file_is_refused_when_it_is_read(tmp_path):
    path = written(tmp_path, plain_table(5000), ".parquet")
    damaged = bytearray(path.read_bytes())
    damaged[4:64] = b"\xff" * 60  # the head of the first page
    path.write_bytes(damaged)
    table = open_table(path)
    with pytest.raises((TableError, StorageError)):
        list(table.batches(NAMES))


@pytest.mark.parametrize("shape", [(), (4,), (2, 2, 2)])
def test_an_array_without_two_dimensions_is_refused(shape):
    with pytest.raises(TableError, match=f"two dimensions, but this array has {len(shape)}"):
        open_table(np.zeros(shape))


@pytest.mark.parametrize("dtype", [object, str, "datetime64[s]", complex])
def test_an_array_that_is_not_numeric_is_refused(dtype):
    with pytest.raises(TableError, match="must hold numbers"):
        open_table(np.zeros((2, 2)).astype(dtype))


@pytest.mark.parametrize("dtype", [">f8", ">i4", np.longdouble])
def test_an_array_of_unusual_numbers_is_read_or_refused_as_a_table_error(dtype):
    rows = np.array([[1, 2], [3, 4]], dtype=dtype)
    try:
        values = rows_of(rows, ["x0"])
    except TableError:
        return
    assert values == [{"x0": 1}, {"x0": 3}]


@pytest.mark.parametrize(
    "data",
    [
        [[1], [2, 3]],
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        pa.chunked_array([[1, 2]]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
    ids=["ragged list", "pandas series", "polars series", "chunked array", "doubled column"],
)
def test_what_is_no_table_is_a_table_error(data):
    with pytest.raises(TableError):
        open_table(data)


@pytest.mark.parametrize("source", ["arrow", "parquet", "csv", "array"])
def test_a_column_that_is_not_there_is_never_answered_with_another(source, tmp_path):
    data = np.zeros((3, 2)) if source == "array" else SOURCES[source](tmp_path, plain_table())
    with pytest.raises((TableError, KeyError)):
        list(open_table(data).batches(["nope"]))


# --- nothing of a cell in an error


def says_nothing_of(secret: str, caught: pytest.ExceptionInfo) -> bool:
    return secret not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\nSECRET\n",
        "a,b\n1,2\n3,4,SECRET\n",
        "a,b\n" + "1,2\n" * 400_000 + "SECRET,3\n",
        "a,b\n" + "1,2\n" * 400_000 + "1,2,SECRET\n",
    ],
    ids=["short row", "long row", "text after the first block", "long row after the first block"],
)
def test_a_malformed_csv_file_is_refused_without_quoting_it(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        list(open_table(path).batches(["a", "b"]))
    assert says_nothing_of("SECRET", caught)


@pytest.mark.parametrize("first", [1, 1.5, True])
def test_a_data_frame_of_mixed_cells_is_refused_without_quoting_them(first):
    frame = pd.DataFrame({"a": np.array([first, "SECRET"], dtype=object)})
    with pytest.raises(TableError) as caught:
        open_table(frame)
    assert says_nothing_of("SECRET", caught)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_sign_between_columns_is_found_in_the_header(tmp_path, sign):
    path = tmp_path / "t.csv"
    path.write_text(f"age{sign}dose\n1{sign}2\n")
    assert rows_of(path, ["age", "dose"]) == [{"age": 1, "dose": 2}]


def test_a_public_cell_that_is_not_utf_8_says_that_the_file_is_latin_1(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("age,ward\n1,S\u00fcd\n".encode("latin-1"))
    assert rows_of(path, ["age", "ward"]) == [{"age": 1, "ward": "S\u00fcd"}]


def test_a_public_cell_that_is_not_in_the_declared_encoding_is_said_to_be_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("age,ward\n1,S\u00fcd\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"is not UTF-8\. .*--read encoding=latin-1"):
        list(open_table(TableFile(path, encoding="utf-8")).batches(["age", "ward"]))
