"""What a table is to everybody else: named columns in parts, read again and again in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["Part", "RowsPart", "Table", "rows_parts", "sizes_of"]


class Part(Protocol):
    """Some rows of a table that follow each other.

    ``rows`` is their number, None if it is not known before they were read. ``stays`` says why they
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
    """The feature columns of a part of a table, as an engine reads them: no label.

    Parameters
    ----------
    part : Part
        Rows that follow each other.
    columns : tuple of str
        The columns that are read.
    """

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


def sizes_of(parts: Sequence[Part]) -> list[int] | None:
    """Return the number of rows of each part, or None if they are known only once they are read."""
    sizes = [part.rows for part in parts if part.rows is not None]
    return sizes if len(sizes) == len(parts) else None
