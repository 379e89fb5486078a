"""The sample of public rows: a guessed limit and a journey to another process change no bit."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.engines import summary as summary_module
from suffice.engines.engine import Computing, fold
from suffice.engines.summary import PublicSummary, SampleLimit
from suffice.owner import labelled
from suffice.tables.sources import open_table

ROWS, SAMPLE = 6000, 100


@pytest.fixture(autouse=True)
def _small_samples(monkeypatch):
    monkeypatch.setattr(summary_module, "_MOST_SAMPLE_ROWS", SAMPLE)
    monkeypatch.setattr(summary_module, "_LEAST_SAMPLE_ROWS", 10)


def table_of(different: int, rng: np.random.Generator) -> pa.Table:
    """Return 6,000 rows, of which so many differ, in any order."""
    values = rng.normal(size=(different, 3))[rng.integers(0, different, ROWS)]
    values[:different] = rng.normal(size=(min(different, ROWS), 3))
    return pa.table({name: values[:, j] for j, name in enumerate("abc")})


def described(summary: PublicSummary) -> tuple:
    result = summary.result()
    sample = result.sample
    return result.rows_hash, result.mean, sample.rows.to_pydict(), sample.weights.tolist()


def test_a_guessed_limit_changes_no_bit_and_lets_few_rows_through(rng):
    table = table_of(ROWS, rng)
    batches = table.to_batches(max_chunksize=500)
    limit = SampleLimit.guessed(table.schema, ROWS)
    assert limit.key == (2 * SAMPLE << 64) // ROWS
    guessed = fold(batches, PublicSummary(table.schema, limit=limit))
    assert len(guessed.sample._keys) < 2.5 * SAMPLE
    assert not guessed.sample.is_short()
    assert described(guessed) == described(fold(batches, PublicSummary(table.schema)))


@pytest.mark.parametrize(("different", "passes"), [(ROWS, 1), (300, 2), (40, 2)])
def test_rows_that_repeat_cost_another_pass_and_no_bit(
    different, passes, rng, tmp_path, monkeypatch
):
    table = table_of(different, rng)
    pq.write_table(table, tmp_path / "rows.parquet")
    limits = []

    class Counted(PublicSummary):
        def __init__(self, schema, declared, limit, **options):
            limits.append(limit)
            super().__init__(schema, declared, limit, **options)

    monkeypatch.setattr(labelled, "PublicSummary", Counted)
    summary = labelled.public_summary(
        open_table(tmp_path / "rows.parquet"), table.column_names, frozenset(), Computing(workers=1)
    )
    assert len({id(limit) for limit in limits}) == passes
    expected = fold(table.to_batches(), PublicSummary(table.schema)).result()
    assert summary.sample.rows.to_pydict() == expected.sample.rows.to_pydict()
    assert summary.sample.weights.tolist() == expected.sample.weights.tolist()
    assert summary.rows_hash == expected.rows_hash


@pytest.mark.parametrize(
    ("kind", "rows"), [(pa.int64(), ROWS), (pa.string(), ROWS), (pa.float64(), None)]
)
def test_nothing_is_guessed_where_rows_probably_repeat_or_nobody_counted_them(kind, rows):
    limit = SampleLimit.guessed(pa.schema([("a", kind)]), rows)
    assert limit.key == np.iinfo(np.uint64).max


def test_a_small_table_is_sampled_whole():
    schema = pa.schema([("a", pa.float64())])
    assert SampleLimit.guessed(schema, SAMPLE).key == np.iinfo(np.uint64).max
    assert SampleLimit.guessed(schema, 0).key == np.iinfo(np.uint64).max


@pytest.mark.parametrize("rows", [0, 30, ROWS])
def test_a_sample_that_crosses_to_another_process_stays_as_it_is(rows, rng):
    table = table_of(ROWS, rng).slice(0, rows)
    first = fold(table.to_batches(max_chunksize=70), PublicSummary(table.schema))
    buffers = []
    crossed = pickle.loads(
        pickle.dumps(first, protocol=5, buffer_callback=buffers.append), buffers=buffers
    )
    assert len(buffers) < 20  # not two for each column of each batch
    rest = table_of(ROWS, rng)
    for summary in (first, crossed):
        summary.merge(fold(rest.to_batches(), PublicSummary(rest.schema)))
    assert described(crossed) == described(first)
