"""Tables from anywhere, read again and again in batches of bounded size.

Accepted: numpy arrays; pandas, polars and Arrow tables (anything with the Arrow C stream
interface); Parquet, CSV and Feather files, and folders of them.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv  # loaded on first use, and that could be in a reader thread
import pyarrow.dataset as ds

from suffice.errors import StorageError, TableError
from suffice.tables.columns import feature_names

__all__ = ["BATCH_ROWS", "Table", "concatenated", "open_table"]

BATCH_ROWS = 1 << 16  # larger batches cost memory, smaller ones time
_READ_AHEAD = 4  # batches in flight: this bounds the memory of a scan
_LONGEST_HEADER = 1 << 20  # of which a message is made
_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather",
    ".arrow": "feather", ".ipc": "feather",
}  # fmt: skip


class Table(Protocol):
    """Named columns that can be read several times."""

    schema: pa.Schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, at most BATCH_ROWS at a time."""


class _InMemory:
    def __init__(self, table: pa.Table) -> None:
        plain = [
            field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field
            for field in table.schema
        ]  # polars' strings: Arrow cannot yet take rows of them
        self._table = table.cast(pa.schema(plain)).unify_dictionaries()
        self.schema = self._table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS):
            if batch.num_rows:
                yield batch


class _Array:
    """A matrix with columns x0, x1, ...; its batches are copied column by column."""

    def __init__(self, rows: np.ndarray) -> None:
        if rows.ndim != 2:
            raise TableError(f"rows must form a matrix with two dimensions; got {rows.ndim}.")
        if rows.dtype.kind not in "fiub":
            raise TableError("an array of rows must be numeric; pass a table for other columns.")
        native = rows.dtype.newbyteorder("=") if rows.dtype.itemsize <= 8 else np.float64
        self._rows = rows = rows.astype(native, copy=False)
        kind = pa.from_numpy_dtype(rows.dtype)
        self.schema = pa.schema([(f"x{j}", kind) for j in range(rows.shape[1])])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        positions = [_position(self.schema, name) for name in columns]
        for start in range(0, len(self._rows), BATCH_ROWS):
            part = np.asfortranarray(self._rows[start : start + BATCH_ROWS])
            arrays = [pa.array(part[:, j]) for j in positions]
            yield pa.record_batch(arrays, names=list(columns))


class _Files:
    def __init__(self, path: Path) -> None:
        try:
            self._dataset = _dataset(path)
            self.schema = self._dataset.schema
        except UnicodeDecodeError:
            raise TableError(f"{path} is not UTF-8; save it so, its header too.") from None
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
        self._path = path
        # Whole row groups are not fetched ahead: 310 MB instead of 566 in our scan, and faster.
        self._options = (
            ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
            if self._dataset.format.default_extname == "parquet"
            else None
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._dataset.to_batches(
                columns=list(columns),
                batch_size=BATCH_ROWS,
                batch_readahead=_READ_AHEAD,
                fragment_readahead=1,
                fragment_scan_options=self._options,
                memory_pool=_scan_pool(),
            ):
                if batch.num_rows:
                    yield batch
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self._path, error) from None


def _position(schema: pa.Schema, name: str) -> int:
    position = schema.get_field_index(name)  # -1 would be the last column
    if position < 0:
        raise TableError(f"the table has no column {name!r}.")
    return position


def _scan_pool() -> pa.MemoryPool:
    """Return the pool that gave memory back soonest (a release peaked at 515 MB, not 628)."""
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # not built for every platform
        return pa.default_memory_pool()


class _Concatenated:
    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.schema = tables[0].schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for table in self._tables:
            yield from table.batches(columns)


def concatenated(tables: Sequence[Table]) -> Table:
    """Return the rows of several tables, one after the other; the first one's schema leads."""
    return _Concatenated(tables)


def _dataset(path: Path) -> ds.Dataset:
    kind = _format_of(path)
    if kind != "csv":
        return ds.dataset(path, format=kind, exclude_invalid_files=False)
    # An empty cell is missing, a quoted empty text is not.
    cells = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    found = ds.dataset(path, format=ds.CsvFileFormat(convert_options=cells))
    if len(found.schema.names) > 1:
        return found
    lines = pa.csv.ParseOptions(ignore_empty_lines=False)  # in one column, a missing value
    return ds.dataset(path, format=ds.CsvFileFormat(lines, convert_options=cells))


def _format_of(path: Path) -> str:
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    seen = [f for f in files if not any(p[0] in "._" for p in f.relative_to(path.parent).parts[1:])]
    suffixes = {f.suffix.lower() for f in (files if path.is_file() else seen)}
    formats = {_FORMATS.get(suffix, "") for suffix in suffixes}
    if not path.exists():
        raise StorageError(f"{path} does not exist.")
    if len(formats) != 1 or "" in formats:
        raise TableError(
            f"{path} must be, or hold only, Parquet, CSV or Feather files of one kind."
        )
    return formats.pop()


def _unreadable(path: Path, error: Exception) -> StorageError | TableError:
    # Arrow's own message may quote a cell: only its class is passed on.
    if isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        return StorageError(f"{path} cannot be read: {type(error).__name__}.")
    trouble = _csv_trouble(path) if path.suffix.lower() == ".csv" and path.is_file() else None
    return TableError(
        f"{path} is not a readable table ({type(error).__name__}): {trouble or 'check its format'}."
    )


def _csv_trouble(path: Path) -> str:
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


def open_table(data: Any) -> Table:
    """Return a table over ``data``, whatever it came as; nothing is read yet from files."""
    if isinstance(data, str | Path):
        return _Files(Path(data))
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _InMemory(data)
    if hasattr(data, "batches") and hasattr(data, "schema"):
        return data
    if hasattr(data, "__arrow_c_stream__"):  # pandas >= 2.2, polars, and others
        table = _as_table(data)
        return _InMemory(table.select(feature_names(table.schema)))
    try:
        return _Array(np.asarray(data))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError("this is no table: its rows differ in length or type.") from None


def _as_table(data: Any) -> pa.Table:
    """Return any object with the Arrow C stream interface as a table."""
    try:
        table = pa.table(data)
        return table.select(table.column_names)  # refuses a name that stands twice
    except (pa.ArrowException, TypeError, ValueError, KeyError):
        # Arrow's own message may quote a cell.
        raise TableError("this is no table of named columns of one type each.") from None
