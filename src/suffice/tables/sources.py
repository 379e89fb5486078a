"""Tables from anywhere, read again and again in batches of bounded size.

Accepted: numpy arrays; pandas, polars and Arrow tables (anything with the Arrow C stream
interface); Parquet, CSV and Feather files, and folders of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from suffice.errors import StorageError, TableError
from suffice.tables.batching import equal_batches, read_ahead
from suffice.tables.columns import feature_names
from suffice.tables.csv_files import CsvFiles, csv_trouble, header_of
from suffice.tables.labels import label_texts, plain_texts, plain_type

__all__ = ["BATCH_ROWS", "Table", "column_names", "concatenated", "open_table", "row_count"]

BATCH_ROWS = 1 << 16  # larger batches cost memory, smaller ones time
_READ_AHEAD = 4  # batches in flight: this bounds the memory of a scan
# Whole row groups are not fetched ahead: less memory in our scan, and faster.
_PARQUET = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather",
    ".arrow": "feather", ".ipc": "feather",
}  # fmt: skip


class Table(Protocol):
    """Named columns that can be read several times."""

    schema: pa.Schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, BATCH_ROWS at a time until the last of them."""


class _InMemory:
    def __init__(self, table: pa.Table, texts: Collection[str | None] = ()) -> None:
        table = _with_plain_texts(table, texts)
        plain = [
            field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field
            for field in table.schema
        ]  # polars' strings: Arrow cannot yet take rows of them
        self._table = table.cast(pa.schema(plain)).unify_dictionaries()
        self.schema = self._table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        chosen = self._table.select(list(columns))
        return equal_batches(chosen.to_batches(max_chunksize=BATCH_ROWS), BATCH_ROWS)


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
    """Files of one format; ``declared`` holds the types of columns that CSV files do not tell."""

    def __init__(self, path: Path, declared: Mapping[str, pa.DataType]) -> None:
        self.path, self.declared = path, declared
        self._format = _format_of(path)
        self._texts = {name for name, kind in declared.items() if pa.types.is_string(kind)}
        try:
            if self._format == "csv":
                self._csv = CsvFiles(path, declared)
                self.schema = self._csv.schema
            else:
                self._dataset = ds.dataset(path, format=self._format, exclude_invalid_files=False)
                self.schema = _plain_schema(self._dataset.schema, self._texts)
        except UnicodeDecodeError:
            raise TableError(f"{path} is not UTF-8; save it so, its header too.") from None
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for name in columns:
            self._check_text(self.schema.field(_position(self.schema, name)))
        read = {"csv": self._csv_batches, "parquet": self._parquet_batches}
        reader = read.get(self._format, lambda names: _scanned(self._dataset, names))
        parts = (_plain_batch(batch, self._texts) for batch in reader(list(columns)))
        try:
            yield from read_ahead(equal_batches(parts, BATCH_ROWS))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.path, error) from None

    def _check_text(self, field: pa.Field) -> None:
        """Raise if the first cells of a CSV column are no text."""
        if self._format == "csv" and pa.types.is_binary(field.type):
            raise TableError(
                f"{self.path}: column {field.name!r} is not UTF-8; save it as CSV UTF-8."
            )

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of columns that are read apart and put side by side again."""
        readers = self._csv.readers(columns, _scanned)
        parts = [equal_batches(reader, BATCH_ROWS) for reader in readers]
        for side_by_side in zip(*parts, strict=True):
            found = {n: part.column(n) for part in side_by_side for n in part.schema.names}
            yield pa.record_batch([found[name] for name in columns], names=columns)

    def _parquet_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches row group by row group: one scan would fetch all of them ahead of us."""
        for fragment in self._dataset.get_fragments():
            for group in fragment.split_by_row_group():
                schema = self._dataset.schema
                yield from _scanned(group, columns, schema=schema, options=_PARQUET)


def _plain_schema(schema: pa.Schema, texts: Collection[str | None]) -> pa.Schema:
    fields = [f.with_type(plain_type(f.type)) if f.name in texts else f for f in schema]
    return pa.schema(fields)


def _plain_batch(batch: pa.RecordBatch, texts: Collection[str | None]) -> pa.RecordBatch:
    """Return rows whose columns ``texts`` are texts, or missing where they cannot be."""
    schema = _plain_schema(batch.schema, texts)
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    return pa.record_batch([plain_texts(c) if n in texts else c for n, c in pairs], schema=schema)


def _with_plain_texts(table: pa.Table, texts: Collection[str | None]) -> pa.Table:
    if not set(texts) & set(table.column_names):
        return table
    batches = [_plain_batch(batch, texts) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, _plain_schema(table.schema, texts))


def _scanned(
    source: ds.Dataset | ds.Fragment, columns: list[str], *, options: Any = None, **more: Any
) -> Iterator[pa.RecordBatch]:
    return source.to_batches(
        columns=columns,
        batch_size=BATCH_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=1,
        fragment_scan_options=options,
        memory_pool=_scan_pool(),
        **more,
    )


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
        parts = (batch for table in self._tables for batch in table.batches(columns))
        return equal_batches(parts, BATCH_ROWS)


def concatenated(tables: Sequence[Table]) -> Table:
    """Return the rows of several tables, one after the other; the first one's schema leads."""
    return _Concatenated(tables)


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
    trouble = csv_trouble(path) if path.suffix.lower() == ".csv" and path.is_file() else None
    return TableError(
        f"{path} is not a readable table ({type(error).__name__}): {trouble or 'check its format'}."
    )


def row_count(table: Table) -> int:
    """Return the number of rows, from one column."""
    first = table.schema.names[:1]
    return sum(batch.num_rows for batch in open_table(table, text=first).batches(first))


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns; of a CSV file nothing but its first line is read."""
    if isinstance(data, str | Path) and _format_of(Path(data)) == "csv":
        return feature_names(pa.schema([(n, pa.string()) for n in _names_of_csv(Path(data))]))
    return feature_names(open_table(data).schema)


def _names_of_csv(path: Path) -> list[str]:
    try:
        return header_of(path)
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8; save it so, its header too.") from None
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def open_table(data: Any, *, text: Iterable[str | None] = (), numbers: Iterable[str] = ()) -> Table:
    """Return a table over ``data``, whatever it came as.

    A CSV file has no types: its columns get those of their first rows. Those named in ``text`` and
    ``numbers`` are not looked at and are what they are declared to be: a private label, declared
    categories, private columns with a declared range.
    """
    texts = [name for name in text if name is not None]
    if isinstance(data, str | Path | _Files):
        known = dict(data.declared) if isinstance(data, _Files) else {}
        declared = known | dict.fromkeys(numbers, pa.float64())
        declared |= dict.fromkeys(texts, pa.string())
        if isinstance(data, _Files):
            return data if declared == known else _Files(data.path, declared)
        return _Files(Path(data), declared)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _InMemory(data, texts)
    if hasattr(data, "batches") and hasattr(data, "schema"):
        return data
    if hasattr(data, "__arrow_c_stream__"):  # pandas >= 2.2, polars, and others
        table = _as_table(_with_texts(data, texts))
        return _InMemory(table.select(feature_names(table.schema)), texts)
    try:
        return _Array(np.asarray(data))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError("this is no table: its rows differ in length or type.") from None


def _with_texts(data: Any, names: Sequence[str]) -> Any:
    """Return a pandas table whose columns ``names``, if they hold objects, are labels as texts."""
    if not hasattr(data, "assign") or not hasattr(data, "dtypes"):
        return data
    given = [name for name in names if name in data.columns]
    mixed = [name for name in given if _holds_objects(data[name])]
    return data.assign(**{name: label_texts(data[name]) for name in mixed}) if mixed else data


def _holds_objects(column: Any) -> bool:
    """Say whether cells of a pandas column may have types of their own, also as categories."""
    if getattr(column.dtype, "kind", "O") != "O":
        return False
    try:
        pa.array(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return True
    return str(column.dtype) == "object"


def _as_table(data: Any) -> pa.Table:
    """Return any object with the Arrow C stream interface as a table."""
    try:
        table = pa.table(data)
        return table.select(table.column_names)  # refuses a name that stands twice
    except (pa.ArrowException, TypeError, ValueError, KeyError, OverflowError):
        # Arrow's own message may quote a cell.
        raise TableError("this is no table of named columns of one type each.") from None
