"""Batches of a fixed number of rows, read ahead by a thread that ends with whoever wanted them."""

import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.tables.table import equal_batches, narrow_batches, read_ahead


def batches(sizes):
    start = 0
    for size in sizes:
        cells = pa.array(range(start, start + size), pa.int64())
        yield pa.record_batch({"a": cells})
        start += size


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 15))
def test_rows_come_in_equal_batches_whatever_the_reader_gave(sizes, rows):
    equal = list(equal_batches(batches(sizes), rows))
    assert [b.num_rows for b in equal[:-1]] == [rows] * (len(equal) - 1)
    assert all(0 < b.num_rows <= rows for b in equal)
    assert [x for b in equal for x in b["a"].to_pylist()] == list(range(sum(sizes)))


def test_wide_rows_come_in_narrow_batches():
    (batch,) = batches([10])
    assert [b.num_rows for b in narrow_batches(batch, 1 << 21)] == [2] * 5
    assert [b.num_rows for b in narrow_batches(batch, 3)] == [10]


def test_reading_ahead_changes_nothing():
    values = [x for b in read_ahead(batches([3, 4, 0, 2] * 20)) for x in b["a"].to_pylist()]
    assert values == list(range(9 * 20))


def test_an_error_of_the_reader_is_raised_where_its_batch_is_wanted():
    def broken():
        yield from batches([2])
        raise OSError("no more")

    reader = read_ahead(broken())
    assert next(reader).num_rows == 2
    with pytest.raises(OSError, match="no more"):
        next(reader)


def test_the_thread_ends_when_nobody_wants_more():
    before = threading.active_count()
    endless = (batch for _ in iter(int, 1) for batch in batches([1]))
    reader = read_ahead(endless)
    next(reader)
    reader.close()
    assert threading.active_count() == before
