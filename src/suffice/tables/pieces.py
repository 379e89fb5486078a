"""Rows of several owners, one owner's after the other's, in pieces that belong to one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.tables.table import RowsPart, Table, sizes_of

__all__ = ["Piece", "PiecesPart", "pieces_parts"]


@dataclass(frozen=True, eq=False)
class Piece:
    """Neighbouring rows of one owner.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The rows.
    owner : int
        The position of the owner. Rows behind the last owner's belong to nobody: their owner is the
        number of owners.
    start : int
        The position of the first row in the table.
    values : ndarray, optional
        What was given beside the rows, one line for each.
    """

    rows: pa.RecordBatch
    owner: int
    start: int
    values: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, eq=False)
class PiecesPart(RowsPart):
    """Columns of a part of a table, cut where one owner's rows end.

    Parameters
    ----------
    first : int
        The row of the table that the part begins with.
    ends : tuple of int
        The row behind each owner's last row.
    wanted : range
        The owners whose pieces are read.
    values : ndarray, optional
        What is given beside the rows.
    valued : int
        The row of the table that ``values`` begin with.
    """

    first: int
    ends: tuple[int, ...]
    wanted: range
    values: np.ndarray | None = None
    valued: int = 0

    def batches(self) -> Iterator[Piece]:
        """Yield the pieces in order."""
        at = self.first
        for batch in self.part.batches(self.columns):
            yield from self._cut(batch, at)
            at += batch.num_rows

    def _cut(self, batch: pa.RecordBatch, at: int) -> Iterator[Piece]:
        start, stop = at, at + batch.num_rows
        owner = int(np.searchsorted(self.ends, at, side="right"))
        while start < stop:
            end = min(stop, self.ends[owner]) if owner < len(self.ends) else stop
            if owner in self.wanted:
                values = None
                if self.values is not None:
                    values = self.values[start - self.valued : end - self.valued]
                yield Piece(batch.slice(start - at, end - start), owner, start, values)
            start, owner = end, owner + 1


def pieces_parts(
    table: Table,
    columns: Sequence[str],
    ends: Sequence[int],
    wanted: range,
    values: np.ndarray | None = None,
) -> list[Any]:
    """Return the parts of a table that hold rows of the owners ``wanted``, cut into pieces.

    ``values`` has one line for each row of these owners.
    """
    parts = table.parts()
    sizes = sizes_of(parts)
    low = ends[wanted.start - 1] if wanted.start else 0
    high = ends[wanted.stop - 1] if wanted.stop <= len(ends) else None
    selected, first = [], 0
    for k, part in enumerate(parts):
        stop = None if sizes is None else first + sizes[k]
        if (stop is None or stop > low) and (high is None or first < high):
            valued = max(first, low)
            own = None if values is None else values[valued - low : stop and stop - low]
            cut = PiecesPart(part, tuple(columns), first, tuple(ends), wanted, own, valued)
            selected.append(cut)
        first = stop or first
    return selected
