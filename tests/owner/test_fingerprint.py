"""What identifies private data for notes: their order, their values and nothing else."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from suffice.owner.labelled import CellFingerprint, LabelFingerprint


def cells(batch: pa.RecordBatch, cuts: tuple[int, ...] = ()) -> CellFingerprint:
    fingerprint = CellFingerprint(batch.schema, batch.schema.names)
    for start, end in zip((0, *cuts), (*cuts, batch.num_rows), strict=True):
        fingerprint.update(batch.slice(start, end - start))
    return fingerprint


def test_cells_belong_to_people_in_their_order():
    """Labels are in the order of rows: cells that changed places are those of other people."""
    rng = np.random.default_rng(0)
    batch = pa.record_batch({"age": rng.normal(size=30), "ward": rng.choice(["a", "b"], 30)})
    same, moved = cells(batch, (7, 20)), cells(batch.take(pa.array(np.arange(30)[::-1])))
    assert same.result() == cells(batch).result()
    assert moved.result() != same.result()
    assert moved.unordered() == same.unordered()


@given(
    st.lists(st.integers(-1, 1), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.booleans(),
)
def test_labels_of_parts_have_the_fingerprint_of_the_whole(codes, cuts, leading):
    one_pass = LabelFingerprint(("no", "yes"))
    one_pass.update(np.array(codes))
    first, *others = (np.array(part) for part in np.split(codes, sorted(cuts)))
    merged = LabelFingerprint(("no", "yes"))
    if leading:
        merged.lead()
    merged.update(first)
    for part in others:
        more = LabelFingerprint(("no", "yes"))
        more.update(part)
        merged.merge(more)
    assert merged.result() == one_pass.result()
    assert merged.outside == one_pass.outside == codes.count(-1)


def test_the_spelling_and_the_order_of_classes_are_no_other_data():
    prints = set()
    for classes, codes in (
        ((0, 1), [0, 1, -1]),
        (("1", "0"), [1, 0, -1]),
        ((False, True), [0, 1, -1]),
    ):
        labels = LabelFingerprint(classes)
        labels.update(np.array(codes))
        prints.add(labels.result())
    assert len(prints) == 1


def test_labels_are_counted_and_not_hashed_where_no_ledger_asks():
    parts = [LabelFingerprint((0, 1), identified=False) for _ in range(2)]
    for part in parts:
        part.update(np.array([0, -1, 1, -1]))
    parts[0].merge(parts[1])
    assert parts[0].result() == LabelFingerprint((0, 1)).result()  # of no row
    assert parts[0].outside == 4
    assert parts[1]._waiting_codes == []  # nor held: nothing of them crosses a cluster
