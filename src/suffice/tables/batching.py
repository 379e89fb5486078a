"""Batches of a fixed number of rows, whatever blocks a reader has cut a table into.

Where a reader cuts can depend on private cells: a longer label moves the next block of bytes of a
CSV file. Nothing that comes after may notice.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import Full, Queue
from threading import Event, Thread

import pyarrow as pa

__all__ = [
    "BATCH_ROWS",
    "equal_batches",
    "narrow_batches",
    "on_one_core",
    "read_ahead",
    "reads_alone",
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
