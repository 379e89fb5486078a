"""Tables in the memory of this process: Arrow tables, frames of other libraries, arrays."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from suffice.errors import TableError
from suffice.tables import table as tables_table
from suffice.tables.columns import (
    feature_names,
    number_column,
    plain_batch,
    plain_schema,
    position_of,
)
from suffice.tables.labels import label_texts
from suffice.tables.table import Part, Table, equal_batches

__all__ = [
    "MemoryTable",
    "in_memory",
    "names_in_memory",
    "table_in_memory",
]


_PART_ROWS = 1 << 18  # of a table in memory
_IN_MEMORY = "The table is in the memory of this process. Save it as Parquet."


def table_in_memory(data: Any, texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """Return a table over an object of this process.

    Its columns ``texts`` become texts. Texts in its columns ``numbers`` become numbers.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return MemoryTable(data, texts, numbers)
    if isinstance(data, ds.Dataset):
        return _ScannedDataset(data, texts, numbers)
    if isinstance(data, _ScannedDataset):
        return data.declared(texts, numbers)
    if hasattr(data, "batches") and hasattr(data, "schema"):
        return data if hasattr(data, "parts") else _OneStream(data)
    return _convert(data, texts, numbers)


def names_in_memory(data: Any) -> list[str]:
    """Return the names of the columns of an object of this process; no cell is converted."""
    schema = getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        return list(schema.names)
    columns = getattr(data, "columns", None)  # of a frame
    if columns is not None and hasattr(data, "__arrow_c_stream__"):
        return [str(name) for name in columns]
    return list(table_in_memory(data, ()).schema.names)


def _convert(data: Any, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table over a frame of another library, or over what numpy turns into a matrix."""
    if hasattr(data, "__arrow_c_stream__"):  # pandas >= 2.2, polars, and others
        data = _with_named_columns(data)
        table = _as_table(_with_declared(data, texts, numbers))
        return MemoryTable(table.select(feature_names(table.schema)), texts, numbers)
    try:
        return _ArrayTable(np.asarray(data))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError(
            "This is not a table: its rows differ in length or type. Pass rows of equal length."
        ) from None


class MemoryTable:
    """An Arrow table; its columns ``texts`` become texts, and texts in ``numbers`` numbers."""

    stays = _IN_MEMORY

    def __init__(
        self,
        table: pa.Table,
        texts: Collection[str | None] = (),
        numbers: Collection[str] = (),
    ) -> None:
        self._table = _plain_table(table, texts, numbers)
        self.schema = self._table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        chosen = self._table.select(list(columns)).unify_dictionaries()
        size = tables_table.BATCH_ROWS
        return equal_batches(chosen.to_batches(max_chunksize=size), size)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._table.num_rows)

    def parts(self) -> Sequence[Part]:
        """Return the parts of the table in order."""
        return [MemoryTable(self._table.slice(*row_range)) for row_range in _row_ranges(self.rows)]


class _ArrayTable:
    """A matrix with columns x0, x1, ...; its batches are copied column by column."""

    stays = _IN_MEMORY

    def __init__(self, rows: np.ndarray) -> None:
        if rows.ndim != 2:
            raise TableError(
                f"Rows must form a matrix with two dimensions, but this array has {rows.ndim}."
            )
        if rows.dtype.kind not in "fiub":
            raise TableError(
                "A matrix of rows must hold numbers. Use a table for columns of other types."
            )
        native = rows.dtype.newbyteorder("=") if rows.dtype.itemsize <= 8 else np.float64
        self._rows = rows = rows.astype(native, copy=False)
        kind = pa.from_numpy_dtype(rows.dtype)
        self.schema = pa.schema([(f"x{j}", kind) for j in range(rows.shape[1])])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        positions, size = [position_of(self.schema, n) for n in columns], tables_table.BATCH_ROWS
        for start in range(0, len(self._rows), size):
            part = np.asfortranarray(self._rows[start : start + size])
            arrays = [pa.array(part[:, j]) for j in positions]
            yield pa.record_batch(arrays, names=list(columns))

    @property
    def rows(self) -> int:
        return len(self._rows)

    def parts(self) -> Sequence[Part]:
        row_ranges = _row_ranges(self.rows)
        return [_ArrayTable(self._rows[first : first + rows]) for first, rows in row_ranges]


def _row_ranges(rows: int) -> list[tuple[int, int]]:
    """Return first row and number of rows of each part of a table in memory; at least one."""
    starts = range(0, max(rows, 1), _PART_ROWS)
    return [(first, min(_PART_ROWS, rows - first)) for first in starts]


def _plain_table(
    table: pa.Table, texts: Collection[str | None], numbers: Collection[str]
) -> pa.Table:
    schema = plain_schema(table.schema, texts, numbers)
    if schema.types == table.schema.types and not set(texts) & set(table.column_names):
        return table
    return pa.Table.from_batches(
        [plain_batch(b, texts, numbers) for b in table.to_batches()], schema
    )


class _ScannedDataset:
    """A data set of pyarrow that somebody else opened."""

    rows, stays = None, "The data set is open in this process. Use the path of its files."

    def __init__(
        self, dataset: ds.Dataset, texts: Collection[str | None], numbers: Collection[str]
    ) -> None:
        self._dataset = dataset
        self._texts, self._numbers = frozenset(texts), frozenset(numbers)
        self.schema = plain_schema(dataset.schema, self._texts, self._numbers)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for name in columns:
            position_of(self.schema, name)
        scanned = self._dataset.to_batches(
            columns=list(columns), batch_size=tables_table.BATCH_ROWS
        )
        converted = (plain_batch(batch, self._texts, self._numbers) for batch in scanned)
        return equal_batches(converted, tables_table.BATCH_ROWS)

    def parts(self) -> Sequence[Part]:
        return [self]

    def declared(
        self, texts: Collection[str | None], numbers: Collection[str]
    ) -> "_ScannedDataset":
        return _ScannedDataset(
            self._dataset, self._texts | set(texts), self._numbers | set(numbers)
        )


class _OneStream:
    """A table of another program, which has no parts."""

    rows = None
    stays = "The table belongs to another program and is read in its process. Save it as Parquet."

    def __init__(self, table: Any) -> None:
        self.schema, self.batches = table.schema, table.batches

    def parts(self) -> Sequence[Part]:
        return [self]


def in_memory(table: Table) -> bool:
    """Say whether all rows of a table are in the memory of this process already."""
    return all(part.stays == _IN_MEMORY for part in table.parts())


def _with_named_columns(data: Any) -> Any:
    """Return a pandas table whose columns have different texts as names."""
    if not hasattr(data, "set_axis") or not hasattr(data, "columns"):
        return data
    names = [str(name) for name in data.columns]
    if len(set(names)) < len(names):
        raise TableError("Two columns of the table have the same name. Rename one of them.")
    return data if names == list(data.columns) else data.set_axis(names, axis=1)


def _with_declared(data: Any, texts: Sequence[str], numbers: Sequence[str]) -> Any:
    """Return a pandas table in which declared columns that held objects hold texts or numbers."""
    if not hasattr(data, "assign") or not hasattr(data, "dtypes"):
        return data
    mixed = [n for n in (*texts, *numbers) if n in data.columns and _holds_objects(data[n])]
    columns = {name: _declared_column(data[name], text=name in texts) for name in mixed}
    return data.assign(**columns) if mixed else data


def _declared_column(cells: Any, *, text: bool) -> Any:
    return label_texts(cells) if text else number_column(cells).to_numpy(zero_copy_only=False)


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
        raise TableError(
            "This is not a table: its columns must have different names and one type each. Convert"
            " it to a pyarrow Table."
        ) from None
