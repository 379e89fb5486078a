"""The `Table` protocol: named columns in parts that can be read again in batches.

Batches have a fixed number of rows, whatever blocks a reader has cut a table into. Where a reader
cuts can depend on private cells: a longer label moves the next block of bytes of a CSV file.
Nothing that comes after may notice.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from suffice.errors import TableError

__all__ = [
    "BATCH_ROWS",
    "Part",
    "Piece",
    "PiecesPart",
    "RowsPart",
    "SelectedRows",
    "Table",
    "check_order",
    "equal_batches",
    "is_ordered",
    "narrow_batches",
    "on_one_core",
    "order_columns",
    "pieces_parts",
    "read_ahead",
    "reads_alone",
    "rows_parts",
    "sizes_of",
]


BATCH_ROWS = 1 << 16  # larger batches cost memory, smaller ones time

_ONE_CORE: ContextVar[bool] = ContextVar("one core", default=False)

_AHEAD = 2  # batches that are read before they are wanted
_MOST_CELLS = 1 << 22  # of mapped rows that are in memory at once


def equal_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly ``rows``, the last of which may be shorter."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch
        while count + rest.num_rows >= rows:
            needed = rows - count
            yield _concatenate([*waiting, rest.slice(0, needed)])
            waiting, count, rest = [], 0, rest.slice(needed)
        if rest.num_rows:
            waiting.append(rest)
            count += rest.num_rows
    if waiting:
        yield _concatenate(waiting)


def narrow_batches(batch: pa.RecordBatch, width: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that still fit into memory with ``width`` coordinates each."""
    rows = max(1, _MOST_CELLS // width)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let tables be read by the thread that wants them, and by no other, until the block ends."""
    former = _ONE_CORE.set(True)
    try:
        yield
    finally:
        _ONE_CORE.reset(former)


def reads_alone() -> bool:
    """Say whether this thread has to read tables by itself."""
    return _ONE_CORE.get()


def read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same batches while the next ones are read by a thread that ends with this one."""
    if reads_alone():
        yield from batches
        return
    waiting: Queue[pa.RecordBatch | BaseException | None] = Queue(_AHEAD)
    stopped = Event()

    def put(item: pa.RecordBatch | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                waiting.put(item, timeout=0.1)
                return

    def fill() -> None:
        try:
            for batch in batches:
                put(batch)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001  # raised where the batches are wanted
            put(error)

    reader = Thread(target=fill, daemon=True)
    reader.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        reader.join()


def _concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows]
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)


def check_order(data: Any, why: str) -> None:
    """Raise if ``data`` is a query without an order; ``why`` says what depends on the order.

    A database may return the rows of such a query in another order each time.
    """
    if not is_ordered(data):
        raise TableError(
            f"The rows of this query have no order, and {why}. Name columns that identify each"
            " row: --order-by COLUMN (Python: Query(..., order_by=[COLUMN]))."
        )


def is_ordered(data: Any) -> bool:
    """Say whether rows have an order. Only the rows of a query without ``order_by`` have none."""
    return getattr(data, "ordered", True) is not False  # a frame may have a column of this name


def order_columns(data: Any) -> tuple[str, ...]:
    """Return the columns that order the rows of a query; none of other tables."""
    names = getattr(data, "order_by", ())
    return names if isinstance(names, tuple) else ()


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


@dataclass(frozen=True, eq=False)
class _SelectedPart:
    """Those rows of a part that ``mask`` picks."""

    part: Part
    mask: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.mask.sum())

    @property
    def stays(self) -> str:
        return self.part.stays

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return equal_batches(self._filter(columns), BATCH_ROWS)

    def _filter(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self.part.batches(columns):
            mask = self.mask[start : start + batch.num_rows]
            if len(mask) < batch.num_rows:
                raise TableError(
                    "The table changed while it was read. Use a copy that nobody writes to."
                )
            start += batch.num_rows
            yield batch.filter(pa.array(mask))


class SelectedRows:
    """The rows of a table that ``mask`` picks, one truth value for each row in order."""

    def __init__(self, table: Table, mask: np.ndarray) -> None:
        self._table, self._mask = table, mask
        self.schema = table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        part_batches = (batch for part in self.parts() for batch in part.batches(columns))
        return equal_batches(part_batches, BATCH_ROWS)

    def parts(self) -> Sequence[Part]:
        """Return the parts of the table in order, without the other rows."""
        parts = self._table.parts()
        sizes = sizes_of(parts)
        if sizes is None:
            return [_SelectedPart(parts[0], self._mask)]
        if sum(sizes) != len(self._mask):
            raise TableError(
                f"The table has {sum(sizes)} rows, but {len(self._mask)} were expected. Use the"
                " same table."
            )
        ends = np.cumsum(sizes)[:-1]
        masks = np.split(self._mask, ends)
        pairs = zip(parts, masks, strict=True)
        return [_SelectedPart(part, mask) for part, mask in pairs if mask.any()]


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
            at += batch.num_rows


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
