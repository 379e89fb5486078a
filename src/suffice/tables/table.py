"""The `Table` protocol: named columns in parts that can be read again in batches.

Batches have a fixed number of rows, whatever blocks a reader has cut a table into. Where a reader
cuts can depend on private cells: a longer label moves the next block of bytes of a CSV file.
Nothing that comes after may notice.

Tables in the memory of this process are here as well: Arrow tables, frames of other libraries,
arrays.

Rows have a name: a hash over values of named columns, never over file bytes.
The same values give the same hash whether they came as float32 or float64, from CSV or Parquet, in
this order or another. Integers beyond 2^53 count as the float that they are summed as. It notices
accidents: other rows, other columns, a changed cell, a row too many. It is no defence against
somebody who crafts rows on purpose (see docs/known-holes.md).
"""

import hashlib
import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from suffice.errors import TableError
from suffice.kernels import sums
from suffice.tables.columns import (
    check_one_type,
    feature_names,
    is_categorical,
    label_texts,
    number_column,
    numeric_columns,
    plain_batch,
    plain_schema,
    position_of,
)

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
            yield _joined([*waiting, rest.slice(0, needed)])
            waiting, count, rest = [], 0, rest.slice(needed)
        if rest.num_rows:
            waiting.append(rest)
            count += rest.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


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
    with ThreadPoolExecutor(1, thread_name_prefix="suffice reader") as reader:
        waiting = deque(reader.submit(next, batches, None) for _ in range(_AHEAD))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(reader.submit(next, batches, None))
                yield batch
        finally:
            for task in waiting:
                task.cancel()


def check_order(data: Any, why: str) -> None:
    """Raise if ``data`` is a query without an order; ``why`` says what depends on the order.

    A database may return the rows of such a query in another order each time.
    """
    if not is_ordered(data):
        raise TableError(
            f"The rows of this query have no order, and {why}. Name columns that identify each"
            " row: --read order-by=COLUMN (Python: Query(..., order_by=[COLUMN]))."
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
    """The feature columns of a part of a table, as an engine reads them: no label."""

    part: Part
    columns: tuple[str, ...]  # those that are read

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

    Rows behind the last owner's belong to nobody: their owner is the number of owners.
    """

    rows: pa.RecordBatch
    owner: int  # its position
    start: int  # the position of the first row in the table
    values: np.ndarray | None = None  # what was given beside the rows, one line for each

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, eq=False)
class PiecesPart(RowsPart):
    """Columns of a part of a table, cut where one owner's rows end."""

    first: int  # the row of the table that the part begins with
    ends: tuple[int, ...]  # the row behind each owner's last row
    wanted: range  # the owners whose pieces are read
    values: np.ndarray | None = None  # what is given beside the rows
    valued: int = 0  # the row of the table that ``values`` begin with

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
        return _ScannedDataset(data.dataset, data.texts | {*texts}, data.numbers | {*numbers})
    if hasattr(data, "batches") and hasattr(data, "schema"):
        return data if hasattr(data, "parts") else _OneStream(data)
    if hasattr(data, "__arrow_c_stream__"):  # pandas >= 2.2, polars, and others
        table = _frame_table(data, texts, numbers)
        return MemoryTable(table.select(feature_names(table.schema)), texts, numbers)
    try:
        return _ArrayTable(np.asarray(data))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError(
            "This is not a table: its rows differ in length or type. Pass rows of equal length."
        ) from None


def names_in_memory(data: Any) -> list[str]:
    """Return the names of the columns of an object of this process; no cell is converted."""
    schema = getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        return list(schema.names)
    columns = getattr(data, "columns", None)  # of a frame
    if columns is not None and hasattr(data, "__arrow_c_stream__"):
        return [str(name) for name in columns]
    return list(table_in_memory(data, ()).schema.names)


class MemoryTable:
    """An Arrow table; its columns ``texts`` become texts, and texts in ``numbers`` numbers."""

    stays = _IN_MEMORY

    def __init__(
        self,
        table: pa.Table,
        texts: Collection[str | None] = (),
        numbers: Collection[str] = (),
    ) -> None:
        schema = plain_schema(table.schema, texts, numbers)
        if schema.types != table.schema.types or set(texts) & set(table.column_names):
            plain = [plain_batch(batch, texts, numbers) for batch in table.to_batches()]
            table = pa.Table.from_batches(plain, schema)
        self._table, self.schema = table, table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        chosen = self._table.select(list(columns)).unify_dictionaries()
        return equal_batches(chosen.to_batches(max_chunksize=BATCH_ROWS), BATCH_ROWS)

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
        positions = [position_of(self.schema, name) for name in columns]
        for start in range(0, len(self._rows), BATCH_ROWS):
            part = np.asfortranarray(self._rows[start : start + BATCH_ROWS])
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


class _ScannedDataset:
    """A data set of pyarrow that somebody else opened."""

    rows, stays = None, "The data set is open in this process. Use the path of its files."

    def __init__(
        self, dataset: ds.Dataset, texts: Collection[str | None], numbers: Collection[str]
    ) -> None:
        self.dataset, self.texts, self.numbers = dataset, frozenset(texts), frozenset(numbers)
        self.schema = plain_schema(dataset.schema, self.texts, self.numbers)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for name in columns:
            position_of(self.schema, name)
        private = {*columns} & (self.texts | self.numbers)
        for fragment in self.dataset.get_fragments():
            check_one_type(fragment.physical_schema, self.dataset.schema, private)
        scanned = self.dataset.to_batches(columns=list(columns), batch_size=BATCH_ROWS)
        converted = (plain_batch(batch, self.texts, self.numbers) for batch in scanned)
        return equal_batches(converted, BATCH_ROWS)

    def parts(self) -> Sequence[Part]:
        return [self]


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


def _frame_table(data: Any, texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    """Return any object with the Arrow C stream interface as a table.

    A pandas table gets different texts as names of its columns. Declared columns of it that held
    objects, also as categories, hold texts or numbers.
    """
    if hasattr(data, "set_axis") and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        if len(set(names)) < len(names):
            raise TableError("Two columns of the table have the same name. Rename one of them.")
        data = data if names == list(data.columns) else data.set_axis(names, axis=1)
    if hasattr(data, "assign") and hasattr(data, "dtypes"):
        mixed = [n for n in (*texts, *numbers) if n in data.columns and _holds_objects(data[n])]
        columns = {
            name: label_texts(data[name])
            if name in texts
            else number_column(data[name]).to_numpy(zero_copy_only=False)
            for name in mixed
        }
        data = data.assign(**columns) if mixed else data
    try:
        table = pa.table(data)
        return table.select(table.column_names)  # refuses a name that stands twice
    except (pa.ArrowException, TypeError, ValueError, KeyError, OverflowError):
        # Arrow's own message may quote a cell.
        raise TableError(
            "This is not a table: its columns must have different names and one type each. Convert"
            " it to a pyarrow Table."
        ) from None


def _holds_objects(column: Any) -> bool:
    """Say whether cells of a pandas column may have types of their own, also as categories."""
    if getattr(column.dtype, "kind", "O") != "O":
        return False
    try:
        pa.array(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return True
    return str(column.dtype) == "object"


_MISSING_TEXT = 0x6D697373696E6721


class RowLanes:
    """Computes two 64-bit lanes per row from the values of named columns; it keeps no row."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._texts = [name for name in names if is_categorical(schema.field(name).type)]
        self._numbers = [name for name in names if name not in self._texts]
        self._keys = {}
        for name in names:  # four public 32-bit constants that depend on the column's name alone
            stream = hashlib.shake_256(b"suffice row hash 1\0" + name.encode()).digest(16)
            self._keys[name] = np.frombuffer(stream, dtype="<u4").astype(np.uint64)
        self._number_keys = np.array([self._keys[n] for n in self._numbers], dtype=np.uint64)

    def of(self, batch: pa.RecordBatch, numbers: np.ndarray | None = None) -> np.ndarray:
        """Return the lanes (2, rows) of a batch.

        ``numbers`` are its numeric columns in the order of the names, if the caller has them
        already.
        """
        lanes = np.zeros((2, batch.num_rows), dtype=np.uint64)
        if self._numbers:
            columns = numeric_columns(batch, self._numbers) if numbers is None else numbers
            sums.add_numbers(columns, self._number_keys, lanes)
        for name in self._texts:
            column = batch.column(name)
            coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            words = [  # the first 8 bytes of each text's SHA-256, every distinct text once
                int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:8], "little")
                if value is not None
                else _MISSING_TEXT
                for value in [*coded.dictionary.to_pylist(), None]
            ]
            codes = pc.fill_null(coded.indices.cast(pa.int64()), len(words) - 1)
            picked = np.array(words, dtype=np.uint64)[codes.to_numpy(zero_copy_only=False)]
            sums.add_words(picked, self._keys[name], lanes)
        return lanes


class RowDigest:
    """Computes the hash of rows, order-free or ``ordered``; an accumulator over lanes.

    A statistic that sums rows has no order; one that says something about each row has. Of rows in
    order the bytes are held until they are merged into those before, or `lead` says that they come
    first: a state of SHA-256 cannot be appended.
    """

    def __init__(self, names: Sequence[str], *, ordered: bool = False) -> None:
        self._names = sorted(names)
        self._sums = np.zeros(2, dtype=np.uint64)
        self._ordered = ordered
        self._waiting: list[bytes] = []
        self._leading: Any = None  # SHA-256 of the rows that come first
        self.count = 0

    def lead(self) -> None:
        """Say that no rows come before these: from now on none of their bytes is held."""
        if self._ordered:
            self._leading, self._waiting = self._hash_state(), []

    def update(self, lanes: np.ndarray) -> None:
        """Take in the lanes of a batch of rows."""
        sums.fold_lanes(lanes, self._sums)
        if self._ordered:
            self._append(np.ascontiguousarray(lanes.T).tobytes())
        self.count += lanes.shape[1]

    def merge(self, other: "RowDigest") -> None:
        """Take in everything that ``other`` has seen; of rows in order, those that follow."""
        if other._leading is not None:
            raise TableError(
                "These rows come first and cannot follow others. Merge parts in the order of the"
                " table."
            )
        for data in other._waiting:
            self._append(data)
        self._sums += other._sums
        self.count += other.count

    def _append(self, data: bytes) -> None:
        if self._leading is None:
            self._waiting.append(data)
        else:
            self._leading.update(data)

    def _hash_state(self) -> Any:
        """Return the state of SHA-256 after all rows so far."""
        if self._leading is not None:
            return self._leading.copy()
        state = hashlib.sha256(b"rows in order\0")
        for data in self._waiting:
            state.update(data)
        return state

    def result(self) -> str:
        """Return ``sha256:...`` over the sorted column names, the row count and the rows."""
        if not self._ordered:
            return self.unordered()
        return self._hash_with_names(self._hash_state().digest())

    def unordered(self) -> str:
        """Return the hash that the same rows have in any order."""
        return self._hash_with_names(self._sums.tobytes())

    def _hash_with_names(self, body: bytes) -> str:
        head = json.dumps([self._names, self.count], ensure_ascii=True).encode()
        return "sha256:" + hashlib.sha256(head + b"\0" + body).hexdigest()


def hash_rows(table: Table, names: Sequence[str], *, ordered: bool = False) -> RowDigest:
    """Return the hash of these columns of a table, read in one pass."""
    if ordered:
        check_order(table, "their hash depends on it")
    lanes, digest = RowLanes(table.schema, names), RowDigest(names, ordered=ordered)
    for batch in table.batches(names):
        digest.update(lanes.of(batch))
    return digest
