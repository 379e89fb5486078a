"""Private numbers: each cell by itself, whatever the others are, and no cell is an error."""

import math
import re
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from suffice.tables.columns import number_column, numbers_of
from suffice.tables.databases import Query
from suffice.tables.files import TableFile
from suffice.tables.sources import open_declared

UGLY = (
    "", " ", ".", "abc", "true", "False", "nan", "NaN", "NA", "null", "inf", "-inf", "Infinity",
    "1e400", "-1e400", "1_000", "0x10", "1e", "1e+", "--5", "5%", "-", "+", "1.2.3", "1,5", "1 5",
    "2020-01-01", "é", "\uff11", "\x00", "5\x00", "9" * 400, "1e99999999999999999999", "e5", ". 5",
)  # fmt: skip
NUMBERS = {
    "5": 5.0, "-5": -5.0, "+5": 5.0, " 5": 5.0, "5\t": 5.0, "5.": 5.0, ".5": 0.5, "-.5e+3": -500.0,
    "1E5": 1e5, "007": 7.0, "1e-400": 0.0, "0.1": 0.1,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "2.2250738585072011e-308": 2.2250738585072011e-308, "-0": -0.0,
}  # fmt: skip
WRITTEN = re.compile(rb"[ \t\r\n]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\r\n]*")


def slow(cell: bytes | None, decimal: str = ".") -> float | None:
    """Return one cell as Python reads it, by a pattern of the same grammar."""
    if cell is None or (decimal != "." and b"." in cell):
        return None
    cell = cell.replace(decimal.encode(), b".")
    if not WRITTEN.fullmatch(cell):
        return None
    return value if math.isfinite(value := float(cell)) else None


def test_cells_are_numbers_or_missing():
    cells = [*NUMBERS, *UGLY]
    expected = [*NUMBERS.values(), *[None] * len(UGLY)]
    assert numbers_of(pa.array(cells)).to_pylist() == expected
    assert number_column(cells).to_pylist() == expected


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_random_cells_are_what_the_slow_twin_reads(decimal, kind):
    rng = np.random.default_rng(0)
    signs = np.frombuffer(b"0123456789eE+-., \t\n_xa\xe9", np.uint8)
    chance = np.array([8] * 10 + [3, 1, 2, 3, 5, 2, 1, 1, 1, 0.3, 0.3, 0.3, 0.3])
    chance /= chance.sum()
    cells = [
        None if length == 12 else rng.choice(signs, length, p=chance).tobytes()
        for length in rng.integers(0, 13, 20_000)
    ]
    column = pa.array([b"x", *cells], kind).slice(1)  # as parts of a batch are
    found = numbers_of(column, decimal).to_pylist()
    assert found == [slow(cell, decimal) for cell in cells]
    assert 0.1 < sum(number is not None for number in found) / len(found) < 0.9
    assert numbers_of(column.slice(0, 0)).to_pylist() == []


def test_python_values_are_numbers_by_their_type():
    values = [
        1,
        True,
        2.5,
        np.int8(3),
        np.float32(0.5),
        np.bool_(1),
        None,
        math.nan,
        math.inf,
        10**400,
    ]
    values += ["4", "x", "\ud800", b"5", object(), pd.NA, pd.Timestamp("2020-01-01")]
    numbers = [1.0, 1.0, 2.5, 3.0, 0.5, 1.0, None, None, None, None]
    assert number_column(values).to_pylist() == numbers + [4.0] + [None] * 6


def _csv(cells, folder):
    quoted = [f'"{cell}"' for cell in cells]
    (folder / "t.csv").write_text("\n".join(["a", *quoted]) + "\n")
    return folder / "t.csv"


def _spreadsheet(cells, folder):
    with_commas = [f'"{cell.replace(".", ",")}";1' for cell in cells]
    text = "\n".join(["a;b", *with_commas])
    (folder / "t.txt").write_bytes(text.encode("latin-1", errors="replace"))
    return TableFile(folder / "t.txt", decimal=",", encoding="latin-1")


def _parquet(cells, folder):
    pq.write_table(pa.table({"a": cells}), folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet"


def _feather(cells, folder):
    pa.feather.write_feather(pa.table({"a": cells}), folder / "t.feather")
    return folder / "t.feather"


def _duckdb(cells, folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.execute("create table t (k integer, a varchar)")
        connection.executemany("insert into t values (?, ?)", list(enumerate(cells)))
    return Query(f"duckdb:///{folder / 't.duckdb'}", "select a, k from t", ("k",))


def _excel(cells, folder):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for cell in ("a", *cells):
        book.active.append([cell.replace("\x00", "?"), "."])
    book.active["B1"] = "b"
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


FORMS = {
    "CSV": _csv,
    "spreadsheet CSV": _spreadsheet,
    "Parquet": _parquet,
    "Feather": _feather,
    "data set": lambda cells, folder: ds.dataset(_parquet(cells, folder)),
    "Arrow": lambda cells, _: pa.table({"a": pa.array(cells).dictionary_encode()}),
    "pandas": lambda cells, _: pd.DataFrame({"a": cells}, dtype=object),
    "pandas categories": lambda cells, _: pd.DataFrame({"a": pd.Categorical(cells)}),
    "DuckDB": _duckdb,
    "Excel": _excel,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_each_private_cell_by_itself(tmp_path, form):
    without_dots = [cell for cell in UGLY if "." not in cell and "," not in cell]
    cells = [*NUMBERS, *without_dots]
    table = open_declared(FORMS[form](cells, tmp_path), numbers=["a"])
    assert table.schema.field("a").type == pa.float64()
    found = [cell for batch in table.batches(["a"]) for cell in batch["a"].to_pylist()]
    assert found == [*NUMBERS.values(), *[None] * len(without_dots)]


def test_one_object_of_pandas_changes_no_type_and_no_other_cell():
    for strange in ("abc", "", None, object(), {"a": 1}):
        frame = pd.DataFrame({"a": [1.5, 2, strange, 4]}, dtype=object)
        table = open_declared(frame, numbers=["a"])
        (batch,) = table.batches(["a"])
        assert table.schema.field("a").type == pa.float64()
        values = batch["a"].to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(values, [1.5, 2.0, np.nan, 4.0])


def test_a_cell_of_sqlite_that_is_no_number_is_missing(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table t (k, a)")
        connection.executemany("insert into t values (?, ?)", enumerate([1, "abc", 2.5, b"x"]))
    connection.close()
    query = Query(f"sqlite:///{tmp_path / 't.db'}", "select a, k from t", ("k",))
    (batch,) = open_declared(query, numbers=["a"]).batches(["a"])
    assert batch["a"].to_pylist() == [1.0, None, 2.5, None]
