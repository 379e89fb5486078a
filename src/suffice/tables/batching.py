"""Batches of a fixed number of rows, whatever blocks a reader has cut a table into.

Where a reader cuts can depend on private cells: a longer label moves the next block of bytes of a
CSV file. Nothing that comes after may notice.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

__all__ = ["equal_batches", "narrow_batches"]

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


def narrow_batches(batch: pa.RecordBatch, width: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that still fit into memory with ``width`` coordinates each."""
    rows = max(1, _MOST_CELLS // width)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows]
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)
