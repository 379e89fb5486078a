"""Rows that stay in their table: every sum equals that of a matrix, on any cut and any owners."""

import pickle
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.engines.engine import Computing, fold
from suffice.engines.streamed import MappedPass, OwnersTable, StreamedRows, take_grams, take_sums
from suffice.errors import ForeignRowsError, TableError
from suffice.learner.penalty import _SpreadCurves
from suffice.models import problem as rows_module
from suffice.models.problem import (
    LOSSES,
    FactoredProblem,
    MatrixRows,
    _ColumnCurves,
    _EvenPart,
    _PairCurves,
)
from suffice.tables import files, table
from suffice.tables.pipeline import Column, Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import pieces_parts

COUNTS = (40, 25, 55)
MEAN, SCALE = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
PIPELINE = Pipeline(tuple(map(Column, "abc")), "error", MEAN, SCALE, 3.0, 0.75)


def table_of(seed: int = 3) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table({name: generator.normal(size=sum(COUNTS)) for name in "abc"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamed")
    pq.write_table(table_of(), folder / "rows.parquet", row_group_size=11)
    pa.csv.write_csv(table_of(), folder / "rows.csv")
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(files, "_PART_ROWS", 20)
    monkeypatch.setattr(table, "BATCH_ROWS", 8)
    monkeypatch.setattr(rows_module, "_SAMPLE_CELLS", 100)


def streamed(path, owners=range(3), each=None, workers=2) -> StreamedRows:
    source = OwnersTable(open_table(path), PIPELINE, COUNTS, Computing(workers=workers))
    first = source.first([False] * 3)
    source.hashes = tuple(digest.unordered() for digest in first.digests)
    count = sum(COUNTS[k] for k in owners)
    return StreamedRows(source, first.result(), owners, each or [1 / count] * len(owners))


def matrix(owners=range(3), each=None) -> MatrixRows:
    rows = PIPELINE.transform(table_of().combine_chunks().to_batches()[0])
    owner_of_row = np.repeat(range(3), COUNTS)
    inside = np.isin(owner_of_row, owners)
    if each is None:
        return MatrixRows(np.ascontiguousarray(rows[inside]))
    weights = np.asarray(each)[owner_of_row[inside] - owners.start]
    return MatrixRows(np.ascontiguousarray(rows[inside]), weights)


FUNCTIONS = [
    *(("sums", _EvenPart(loss)) for loss in (*LOSSES.values(), None)),
    *(("grams", _ColumnCurves(loss)) for loss in (*LOSSES.values(), None)),
    *(("grams", _SpreadCurves(loss)) for loss in (*LOSSES.values(), None)),
    ("grams", _PairCurves()),
]


@settings(max_examples=40)
@given(data=st.data())
def test_every_sum_is_that_of_the_matrix(folder, data):
    owners = data.draw(st.sampled_from([range(3), range(1, 2), range(1, 3)]))
    each = None
    if data.draw(st.booleans()):
        shares = np.array([data.draw(st.floats(0.1, 1)) for _ in owners])
        each = (shares / shares.sum() / [COUNTS[k] for k in owners]).tolist()
    path = folder / data.draw(st.sampled_from(["rows.parquet", "rows.csv"]))
    fast = streamed(path, owners, each, workers=data.draw(st.sampled_from([1, 2, 5])))
    slow = matrix(owners, each)
    if data.draw(st.booleans()):
        basis = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(4, 3))
        fast, slow = fast.in_basis(basis), slow.in_basis(basis)
    method, function = data.draw(st.sampled_from(FUNCTIONS))
    several = isinstance(function, _PairCurves) or function.loss is None
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    theta = generator.normal(size=(fast.shape[1], 3) if several else fast.shape[1])
    streamed_sums, matrix_sums = (getattr(rows, method)(theta, function) for rows in (fast, slow))
    for actual, expected in zip(streamed_sums, matrix_sums, strict=True):
        assert actual == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("each", [None, [0.01, 0.016, 0.2 / 55]])
def test_what_is_known_of_the_rows_is_that_of_the_matrix(folder, each, rng):
    fast, slow = streamed(folder / "rows.parquet", each=each), matrix(each=each)
    assert fast.shape == slow.shape
    assert len(fast) == 120
    basis = rng.normal(size=(4, 2))
    for actual, expected in ((fast, slow), (fast.in_basis(basis), slow.in_basis(basis))):
        for name in ("weights", "labels", "mean", "mean_square", "moment"):
            assert getattr(actual, name) == pytest.approx(getattr(expected, name), rel=1e-12), name
        assert actual.sample.matrix == pytest.approx(expected.matrix[::4], rel=1e-12)
        assert actual.sample.weights == pytest.approx(expected.sample.weights, rel=1e-12)
        values = rng.random(size=(120, 2))
        assert actual.combined(values) == pytest.approx(expected.combined(values))
        assert actual.gram(values[:, 0]) == pytest.approx(expected.gram(values[:, 0]))
        theta = rng.normal(size=actual.shape[1])
        assert actual.scores(theta) == pytest.approx(expected.scores(theta))
    assert np.array_equal(fast.sample.matrix, slow.sample.matrix)  # to the last bit


def test_blocks_of_owners_are_joined_under_their_weights(folder):
    first, rest = streamed(folder / "rows.parquet", range(1)), range(1, 3)
    both = first.with_others([streamed(folder / "rows.parquet", rest)], [0.01, 0.0075])
    assert np.array_equal(both.weights, np.repeat([0.01, 0.0075], [40, 80]))


def test_the_last_answer_is_not_computed_twice(folder):
    rows, passes = streamed(folder / "rows.parquet"), []
    rows.run_on(Computing(workers=1, progress=passes.append))
    problem = FactoredProblem(rows, np.ones(4), LOSSES["logistic"])
    value, gradient = problem.risk(np.ones(4))
    gradient += 1  # of no consequence for the next one
    again = problem.with_operator(np.zeros(4)).risk(np.ones(4))
    assert sum(passes) == 120
    assert again[0] == pytest.approx(value + 0.5 * 4)
    problem.risk(np.zeros(4))
    assert sum(passes) == 240


@pytest.mark.parametrize("change", ["a cell", "a row more", "a row less", "a missing cell"])
def test_a_table_that_changes_between_passes_is_noticed(tmp_path, change):
    path = tmp_path / "rows.csv"  # a Parquet file's row groups are known from the first pass on
    pa.csv.write_csv(table_of(), path)
    rows = streamed(path)
    rows.sums(np.ones(4), _EvenPart(LOSSES["logistic"]))
    lines = path.read_text().splitlines()
    lines[70] = {"a cell": "0.5,0.5,0.5", "a missing cell": ",0.5,0.5"}.get(change, lines[70])
    lines = {"a row more": [*lines, lines[3]], "a row less": lines[:-1]}.get(change, lines)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises((TableError, ForeignRowsError), match=r"changed while|do not match"):
        rows.sums(np.zeros(4), _EvenPart(LOSSES["logistic"]))


def test_a_parquet_file_that_is_written_again_is_noticed(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table_of(), path, row_group_size=11)
    rows = streamed(path)
    pq.write_table(table_of(seed=4), path, row_group_size=11)
    with pytest.raises(TableError, match="changed while it was read"):
        rows.moment.sum()


@pytest.mark.parametrize(("method", "function"), FUNCTIONS)
def test_passes_travel_to_other_processes_before_and_after_they_have_seen_rows(
    folder, method, function
):
    several = isinstance(function, _PairCurves) or function.loss is None
    theta = np.ones((4, 3) if several else 4)
    source = OwnersTable(open_table(folder / "rows.parquet"), PIPELINE, COUNTS, Computing())
    mapping = source.mapping([0.1, 0.2, 0.3])
    take = partial(take_sums if method == "sums" else take_grams, theta, function)
    parts = pieces_parts(source.table, "abc", source.ends, range(3))
    halves = []
    for some in (parts[:3], parts[3:]):
        empty, *travelled = pickle.loads(pickle.dumps((MappedPass(mapping, take), *some)))
        done = fold((piece for part in travelled for piece in part.batches()), empty)
        halves.append(pickle.loads(pickle.dumps(done)))
    halves[0].merge(halves[1])
    pieces = (piece for part in parts for piece in part.batches())
    expected = fold(pieces, MappedPass(mapping, take)).result()
    for actual, two in zip(halves[0].result(), expected, strict=True):
        assert actual == pytest.approx(two, rel=1e-12)
