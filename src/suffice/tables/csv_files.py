"""CSV files: what type a column has is read off its own first rows, never off a block of bytes.

Arrow guesses types from the first block of bytes, and where that block ends depends on every cell
before it, private ones too. Here a column's type depends on its own first cells alone, and their
number is fixed. Columns that may not be looked at (a label, categories, ranges) are declared.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

__all__ = ["csv_dataset", "csv_trouble"]

_TYPED_ROWS = 1 << 16  # of which a type is inferred
_LONGEST_HEADER = 1 << 20  # of which a message is made


def csv_dataset(path: Path, declared: Mapping[str, pa.DataType]) -> ds.Dataset:
    """Return the files, each column of its declared type or of that of its first 65,536 cells.

    An empty cell is missing, a quoted empty text is not. In a table of one column an empty line is
    a missing value.
    """
    names = ds.dataset(path, format="csv").schema.names
    lines = pa.csv.ParseOptions(ignore_empty_lines=len(names) > 1)
    types = {name: declared.get(name, pa.string()) for name in names}
    looked_at = [name for name in names if name not in declared]
    if looked_at:
        texts = _typed(path, lines, dict.fromkeys(names, pa.string()))
        types |= _inferred(texts.head(_TYPED_ROWS, columns=looked_at))
    return _typed(path, lines, types)


def _typed(
    path: Path, lines: pa.csv.ParseOptions, types: dict[str, pa.DataType]
) -> ds.FileSystemDataset:
    cells = pa.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return ds.dataset(path, format=ds.CsvFileFormat(lines, convert_options=cells))


def _inferred(rows: pa.Table) -> dict[str, pa.DataType]:
    """Return the type that Arrow infers for each column of texts, seen as one block."""
    types = dict.fromkeys(rows.column_names, pa.null())
    for name in rows.column_names if rows.num_rows else ():
        cells = pa.table({"cells": rows[name]})
        written = io.BytesIO()
        pa.csv.write_csv(cells, written, pa.csv.WriteOptions(include_header=False))
        found = pa.csv.read_csv(
            pa.BufferReader(written.getvalue()),
            pa.csv.ReadOptions(column_names=["cells"], block_size=max(written.tell(), 1)),
            pa.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
            pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
        )
        types[name] = found.schema.field(0).type
    return types


def csv_trouble(path: Path) -> str:
    """Return what is wrong with a CSV file, as far as its header shows it; never a cell."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline(_LONGEST_HEADER)
    names = next(csv.reader([header]), [])
    twice = sorted({name for name in names if names.count(name) > 1})
    if not header.strip():
        return "it is empty, or its first line is; the first line must name the columns"
    if twice:
        return f"its first line names {twice[0]!r} more than once"
    other = next((sign for sign in (";", "\t", "|") if header.count(sign) >= len(names)), None)
    if other is not None:
        return f"its columns seem to be separated by {other!r}; write commas"
    return (
        "some line has more or fewer cells than the first, or a column's type changes further down"
        " (write integers among decimals with a point, or the table as Parquet)"
    )
