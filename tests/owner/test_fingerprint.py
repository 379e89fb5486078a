"""What identifies private data: order, values and nothing else decide whose budget it is."""

import numpy as np
import pyarrow as pa

from suffice.owner.fingerprint import CellFingerprint


def cells(batch: pa.RecordBatch, cuts: tuple[int, ...] = ()) -> CellFingerprint:
    found = CellFingerprint(batch.schema, batch.schema.names)
    for start, end in zip((0, *cuts), (*cuts, batch.num_rows), strict=True):
        found.update(batch.slice(start, end - start))
    return found


def test_cells_belong_to_people_in_their_order():
    """Labels are in the order of rows: cells that changed places are those of other people."""
    rng = np.random.default_rng(0)
    batch = pa.record_batch({"age": rng.normal(size=30), "ward": rng.choice(["a", "b"], 30)})
    same, moved = cells(batch, (7, 20)), cells(batch.take(pa.array(np.arange(30)[::-1])))
    assert same.result() == cells(batch).result()
    assert moved.result().keys() == same.result().keys()
    assert moved.result() != same.result()
    assert moved.unordered() == same.unordered()
