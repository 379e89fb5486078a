"""Tables from anywhere, read again and again in batches of bounded size.

Accepted: numpy arrays; pandas, polars and Arrow tables (anything with the Arrow C stream
interface) and data sets; files of every kind that `suffice.tables.files` reads, and folders of
them, also in object storage; queries of databases.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.tables import table as tables_table
from suffice.tables.columns import feature_names
from suffice.tables.databases import Query, QueryTable
from suffice.tables.files import StoredTable, TableFile
from suffice.tables.table import (
    Part,
    SelectedRows,
    Table,
    equal_batches,
    is_ordered,
    names_in_memory,
    order_columns,
    sizes_of,
    table_in_memory,
)

# What is opened again when more is known of its columns; an open table keeps its connection.
_REOPENED_TYPES = (TableFile, StoredTable, Query, QueryTable)


@dataclass(frozen=True)
class _PartOfTable:
    """Some columns or rows of a table in any form; they are in the order that it has."""

    data: Any

    @property
    def ordered(self) -> bool:
        """Whether its rows have an order."""
        return is_ordered(self.data)

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns that order the rows of a query."""
        return order_columns(self.data)


@dataclass(frozen=True)
class Without(_PartOfTable):
    """A table in any form, without the columns ``dropped``: each of them must be there."""

    dropped: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Picked(_PartOfTable):
    """A table in any form, of which ``mask`` picks rows, one truth value for each in order."""

    mask: np.ndarray


class _WithoutColumns:
    def __init__(self, table: Table, request: Without) -> None:
        for name in request.dropped:
            if name not in table.schema.names:
                raise TableError(
                    f"The table has no column {name!r} to leave out. Check the name in --drop"
                    " (Python: drop=...)."
                )
        self.request, self._table = request, table
        self.schema = pa.schema([f for f in table.schema if f.name not in request.dropped])
        self.batches, self.parts = table.batches, table.parts
        self.ordered, self.order_by = request.ordered, request.order_by


class Concatenated:
    """The rows of several tables, one after the other, with the schema of the first."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables, self.schema = tables, tables[0].schema
        self.ordered = all(map(is_ordered, tables))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        parts = (batch for table in self._tables for batch in table.batches(columns))
        return equal_batches(parts, tables_table.BATCH_ROWS)

    @property
    def rows(self) -> int | None:
        """The number of rows, or None."""
        sizes = sizes_of(self._every_part)
        return None if sizes is None else sum(sizes)

    @property
    def stays(self) -> str:
        """Why some rows are read in this process alone, or nothing."""
        return next((part.stays for part in self._every_part if part.stays), "")

    def parts(self) -> Sequence[Part]:
        """Return the parts of all tables, or one if their sizes are not known."""
        return [self] if self.rows is None else self._every_part

    @cached_property
    def _every_part(self) -> list[Part]:
        return [part for table in self._tables for part in table.parts()]


def row_count(table: Table, column: str | None = None) -> int:
    """Return the number of rows: as the parts state it, or by reading one column."""
    sizes = sizes_of(table.parts())
    if sizes is not None:
        return sum(sizes)
    first = table.schema.names[:1] if column is None else [column]
    return sum(batch.num_rows for batch in open_table(table, text=first).batches(first))


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns; of a CSV file nothing but its first line is read."""
    if isinstance(data, Without):
        return [name for name in column_names(data.data) if name not in data.dropped]
    if isinstance(data, Picked):
        return column_names(data.data)
    stored = TableFile(data) if isinstance(data, str | Path) else data
    has_names = isinstance(stored, TableFile | Query | QueryTable)
    names = stored.names() if has_names else names_in_memory(data)
    return feature_names(pa.schema([(name, pa.string()) for name in names]))


def open_table(data: Any, *, text: Iterable[str | None] = (), numbers: Iterable[str] = ()) -> Table:
    """Return a table over ``data``: a path, a `TableFile`, a `Query`, a frame or an array.

    Columns ``text`` (private labels, declared categories) and ``numbers`` (private columns with a
    declared range) are read as these without a look at their cells; a cell that is no number is
    missing. A CSV file has no types: each other column gets the type of its first rows.
    """
    texts, figures = [name for name in text if name is not None], list(numbers)
    if isinstance(data, Without | _WithoutColumns):
        request = data if isinstance(data, Without) else data.request
        unseen = [*texts, *request.dropped]  # what is left out is not looked at either
        return _WithoutColumns(open_table(request.data, text=unseen, numbers=figures), request)
    if isinstance(data, Picked):
        return SelectedRows(open_table(data.data, text=texts, numbers=figures), data.mask)
    if isinstance(data, str | Path):
        data = TableFile(data)
    if isinstance(data, _REOPENED_TYPES):
        declared = dict.fromkeys(figures, pa.float64()) | dict.fromkeys(texts, pa.string())
        return data.opened(declared)
    return table_in_memory(data, texts, figures)


def open_declared(
    data: Any, *, text: Iterable[str | None] = (), numbers: Iterable[str] = ()
) -> Table:
    """Return a private table without a look at any cell. Columns that are not declared are text.

    Only the first line, or a `TableFile`, then says how a CSV file is written.
    """
    figures = list(numbers)
    texts = [name for name in column_names(data) if name not in figures]
    return open_table(data, text=[*text, *texts], numbers=figures)


def open_columns(data: Any, public: Iterable[str], *, label: str | None) -> Table:
    """Return a table with some public columns. No cell of the other columns is looked at."""
    public_names = set(public)
    texts = [name for name in column_names(data) if name not in public_names]
    return open_table(data, text=[label, *texts])
