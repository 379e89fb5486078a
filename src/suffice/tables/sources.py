"""Tables from anywhere, read again and again in batches of bounded size.

Accepted: numpy arrays; pandas, polars and Arrow tables (anything with the Arrow C stream
interface); Parquet, CSV and Feather files, and folders of them, also in object storage; queries.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.tables import batching
from suffice.tables.batching import equal_batches
from suffice.tables.columns import feature_names
from suffice.tables.databases import Query, QueryTable
from suffice.tables.files import (
    Files,
    format_of,
    names_of_csv,
    plain_batch,
    plain_schema,
    position_of,
)
from suffice.tables.labels import label_texts
from suffice.tables.places import place_of

__all__ = [
    "Part", "RowsPart", "Table", "column_names", "concatenated", "in_memory", "open_table",
    "row_count", "rows_parts", "sizes_of",
]  # fmt: skip

_PART_ROWS = 1 << 18  # of a table in memory
_IN_MEMORY = "The table is in the memory of this process; save it as Parquet."


class Part(Protocol):
    """Some rows of a table that follow each other.

    ``rows`` is their number, None if nobody knows it before they were read. ``stays`` says why they
    can be read in this process alone; it is empty if any process that reaches the files can.
    """

    @property
    def rows(self) -> int | None:
        """The number of rows, or None."""

    @property
    def stays(self) -> str:
        """Why the rows are read in this process alone, or nothing."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, BATCH_ROWS at a time until the last of them."""


class Table(Protocol):
    """Named columns that can be read several times."""

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, BATCH_ROWS at a time until the last of them."""

    def parts(self) -> Sequence[Part]:
        """Return the parts of the table in order; one of unknown size is the only one."""


@dataclass(frozen=True, eq=False)
class RowsPart:
    """The feature columns of a part of a table, as an engine reads them: no label."""

    part: Part
    columns: tuple[str, ...]

    @property
    def rows(self) -> int | None:
        """The number of rows, or None."""
        return self.part.rows

    @property
    def stays(self) -> str:
        """Why the rows are read in this process alone, or nothing."""
        return self.part.stays

    def batches(self) -> Iterator[Any]:
        """Yield the rows."""
        return self.part.batches(self.columns)


def rows_parts(table: Table, features: Sequence[str]) -> list[RowsPart]:
    """Return the feature columns of a table in parts; no label is read."""
    return [RowsPart(part, tuple(features)) for part in table.parts()]


class _InMemory:
    stays = _IN_MEMORY

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
        size = batching.BATCH_ROWS
        return equal_batches(chosen.to_batches(max_chunksize=size), size)

    @property
    def rows(self) -> int:
        return self._table.num_rows

    def parts(self) -> Sequence[Part]:
        return [_InMemory(self._table.slice(*place)) for place in _places(self.rows)]


class _Array:
    """A matrix with columns x0, x1, ...; its batches are copied column by column."""

    stays = _IN_MEMORY

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
        positions, size = [position_of(self.schema, n) for n in columns], batching.BATCH_ROWS
        for start in range(0, len(self._rows), size):
            part = np.asfortranarray(self._rows[start : start + size])
            arrays = [pa.array(part[:, j]) for j in positions]
            yield pa.record_batch(arrays, names=list(columns))

    @property
    def rows(self) -> int:
        return len(self._rows)

    def parts(self) -> Sequence[Part]:
        places = _places(self.rows)
        return [_Array(self._rows[first : first + rows]) for first, rows in places]


def _places(rows: int) -> list[tuple[int, int]]:
    """Return first row and number of rows of each part of a table in memory; at least one."""
    starts = range(0, max(rows, 1), _PART_ROWS)
    return [(first, min(_PART_ROWS, rows - first)) for first in starts]


def _with_plain_texts(table: pa.Table, texts: Collection[str | None]) -> pa.Table:
    if not set(texts) & set(table.column_names):
        return table
    batches = [plain_batch(batch, texts) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, plain_schema(table.schema, texts))


class _OneStream:
    """Somebody else's table, which knows no parts."""

    rows, stays = None, "The table is a program's own, and is read in its process."

    def __init__(self, table: Any) -> None:
        self.schema, self.batches = table.schema, table.batches

    def parts(self) -> Sequence[Part]:
        return [self]


class _Concatenated:
    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.schema = tables[0].schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        parts = (batch for table in self._tables for batch in table.batches(columns))
        return equal_batches(parts, batching.BATCH_ROWS)

    @property
    def rows(self) -> int | None:
        sizes = sizes_of(self._every_part)
        return None if sizes is None else sum(sizes)

    @property
    def stays(self) -> str:
        return next((part.stays for part in self._every_part if part.stays), "")

    @property
    def ordered(self) -> bool:
        return all(getattr(table, "ordered", True) for table in self._tables)

    def parts(self) -> Sequence[Part]:
        return [self] if self.rows is None else self._every_part

    @cached_property
    def _every_part(self) -> list[Part]:
        return [part for table in self._tables for part in table.parts()]


def sizes_of(parts: Sequence[Part]) -> list[int] | None:
    """Return the number of rows of each part, or None if they are known only once they are read."""
    sizes = [part.rows for part in parts if part.rows is not None]
    return sizes if len(sizes) == len(parts) else None


def in_memory(table: Table) -> bool:
    """Say whether all rows of a table are in the memory of this process already."""
    return all(part.stays == _IN_MEMORY for part in table.parts())


def concatenated(tables: Sequence[Table]) -> Table:
    """Return the rows of several tables, one after the other; the first one's schema leads."""
    return _Concatenated(tables)


def row_count(table: Table, column: str | None = None) -> int:
    """Return the number of rows, as the parts state it, or from one column: the first, or this."""
    sizes = sizes_of(table.parts())
    if sizes is not None:
        return sum(sizes)
    first = table.schema.names[:1] if column is None else [column]
    return sum(batch.num_rows for batch in open_table(table, text=first).batches(first))


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns; of a CSV file nothing but its first line is read."""
    if isinstance(data, str | Path) and format_of(place := place_of(data)) == "csv":
        return feature_names(pa.schema([(n, pa.string()) for n in names_of_csv(place)]))
    if isinstance(data, Query | QueryTable):
        return feature_names(pa.schema([(n, pa.string()) for n in data.names()]))
    return feature_names(open_table(data).schema)


def open_table(data: Any, *, text: Iterable[str | None] = (), numbers: Iterable[str] = ()) -> Table:
    """Return a table over ``data``, whatever it came as.

    A CSV file has no types: its columns get those of their first rows. Those named in ``text`` and
    ``numbers`` are not looked at and are what they are declared to be: a private label, declared
    categories, private columns with a declared range.
    """
    texts = [name for name in text if name is not None]
    if isinstance(data, str | Path | Files | Query | QueryTable):
        return _stored(
            data, dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
        )
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _InMemory(data, texts)
    if hasattr(data, "batches") and hasattr(data, "schema"):
        return data if hasattr(data, "parts") else _OneStream(data)
    if hasattr(data, "__arrow_c_stream__"):  # pandas >= 2.2, polars, and others
        table = _as_table(_with_texts(data, texts))
        return _InMemory(table.select(feature_names(table.schema)), texts)
    try:
        return _Array(np.asarray(data))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError("this is no table: its rows differ in length or type.") from None


def _stored(data: Any, declared: dict[str, pa.DataType]) -> Table:
    """Return a table in files or in a database; what was declared of it before still is."""
    if isinstance(data, Query | QueryTable):
        return data.opened(declared)
    if not isinstance(data, Files):
        return Files(place_of(data), declared)
    union = {**data.declared, **declared}
    return data if union == data.declared else Files(data.path, union)


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
