"""Randomised columns as data: valid noise, its JSON, and the encoding of clean rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import CorruptFileError, ParameterError
from suffice.learner.spread_likelihood import coordinates
from suffice.releases.columns import Added, Flips, SpreadColumn, declared_pipeline, discrete_sizes
from suffice.strict_json import canonical, parse_canonical

ANY = ((0.8, 0.1, 0.1), (0.1, 0.7, 0.3), (0.1, 0.2, 0.6))
COLUMNS = (
    SpreadColumn("ward", ("north", "south", "west"), Flips(3, table=ANY)),
    SpreadColumn("pixel", tuple(range(256)), Flips(256, keep=0.8)),
    SpreadColumn("grade", (5, 1, 3), Flips(3, keep=0.7)),
    SpreadColumn("below", (-2, -1, 0), Flips(3, keep=0.1)),
    SpreadColumn("size", None, Added(-1.0, 3.0, "gaussian", 0.5)),
    SpreadColumn("dose", None, Added(0.1, 0.7, "laplace", 2.0)),
)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_column_survives_the_trip_through_json(column):
    again = SpreadColumn.from_json(parse_canonical(canonical(column.to_json())))
    assert again == column
    assert again.to_json() == column.to_json()
    if isinstance(column.noise, Flips):
        assert discrete_sizes([column.to_json()]) == [column.noise.states]
        np.testing.assert_allclose(again.noise.matrix.sum(axis=0), 1.0, rtol=1e-12)
    else:
        assert discrete_sizes([column.to_json()]) == []


@given(st.integers(-(10**6), 10**6), st.integers(2, 256), st.floats(0.01, 0.99))
def test_consecutive_integers_are_written_as_their_ends(first, count, keep):
    if keep == 1 / count:
        return
    column = SpreadColumn("x", tuple(range(first, first + count)), Flips(count, keep=keep))
    assert column.to_json()["integers"] == [first, first + count - 1]
    assert SpreadColumn.from_json(column.to_json()) == column


def test_other_states_are_written_one_by_one():
    assert "integers" not in COLUMNS[2].to_json()
    assert SpreadColumn("x", (1, 0), Flips(2, keep=0.8)).to_json()["states"] == [1, 0]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Flips(1, keep=0.5), "2 to 256"),
        (lambda: Flips(257, keep=0.5), "2 to 256"),
        (lambda: Flips(2), "once"),
        (lambda: Flips(2, keep=0.8, table=((0.8, 0.2), (0.2, 0.8))), "once"),
        (lambda: Flips(2, keep=1.0), "between"),
        (lambda: Flips(2, keep=float("nan")), "between"),
        (lambda: Flips(4, keep=0.25), "not near 1 / "),
        (lambda: Flips(3, keep=1 / 3 + 1e-12), "not near 1 / "),
        (lambda: Flips(2, table=((1.0, 0.2), (0.0, 0.8))), "positive"),
        (lambda: Flips(2, table=((0.8, 0.2), (0.1, 0.8))), "sum to one"),
        (lambda: Flips(2, table=((0.5, 0.5), (0.5, 0.5))), "singular"),
        (lambda: Flips(3, table=((0.8, 0.2), (0.2, 0.8))), "3 rows"),
        (lambda: Added(1.0, 1.0, "gaussian", 1.0), "low < high"),
        (lambda: Added(0.0, float("inf"), "gaussian", 1.0), "low < high"),
        (lambda: Added(0.0, 1.0, "uniform", 1.0), "noise type must be"),
        (lambda: Added(0.0, 1.0, "laplace", 0.0), "positive"),
        (lambda: SpreadColumn("x", ("a", 1), Flips(2, keep=0.8)), "texts, or integers"),
        (lambda: SpreadColumn("x", ("a", "a"), Flips(2, keep=0.8)), "different"),
        (lambda: SpreadColumn("x", (False, True), Flips(2, keep=0.8)), "integers"),
        (
            lambda: SpreadColumn("x", ("a", "b", "c"), Flips(2, keep=0.8)),
            "number of possible values",
        ),
        (lambda: SpreadColumn("x", None, Flips(2, keep=0.8)), "does not fit"),
    ],
)
def test_noise_that_is_not_valid_is_refused_with_the_reason(make, reason):
    with pytest.raises(ParameterError, match=reason):
        make()


GOOD = {"name": "x", "integers": [0, 1], "noise": {"keep": 0.8}}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        {},
        {**GOOD, "more": 1},
        {**GOOD, "name": 1},
        {**GOOD, "noise": {}},
        {**GOOD, "noise": {"keep": 0.8, "table": []}},
        {**GOOD, "noise": {"keep": "0.8"}},
        {**GOOD, "noise": {"keep": 0.5}},
        {**GOOD, "noise": {"table": [[0.8, 0.2]]}},
        {**GOOD, "noise": {"kernel": "laplace", "variance": 1}},
        {**GOOD, "integers": [1, 0]},
        {**GOOD, "integers": [0, 256]},
        {**GOOD, "integers": [0, 10**15]},
        {**GOOD, "integers": [0.0, 1.0]},
        {**GOOD, "integers": [False, True]},
        {**GOOD, "integers": "01"},
        {"name": "x", "states": "ab", "noise": {"keep": 0.8}},
        {"name": "x", "states": [["a"], ["b"]], "noise": {"keep": 0.8}},
        {"name": "x", "range": [0, 1], "noise": {"keep": 0.8}},
        {"name": "x", "range": [1, 0], "noise": {"kernel": "laplace", "variance": 1}},
        {"name": "x", "range": [0, 1], "noise": {"kernel": "laplace", "variance": 1, "more": 1}},
    ],
)
def test_a_malformed_column_is_a_corrupt_file(data):
    with pytest.raises(CorruptFileError):
        SpreadColumn.from_json(data)


def test_the_declared_pipeline_gives_the_coordinates_of_the_learner():
    rng = np.random.default_rng(0)
    rows, expected = {}, []
    for column in COLUMNS:
        if column.states is None:
            noise = column.noise
            values = np.append(rng.uniform(noise.low, noise.high, 38), [noise.low, noise.high])
            middle, half = (noise.low + noise.high) / 2, (noise.high - noise.low) / 2
            expected.append(((values - middle) / half)[:, None])
        else:
            codes = rng.integers(0, len(column.states), 40)
            values = np.array(column.states)[codes]
            expected.append(coordinates(column)[codes])
        rows[column.name] = values
    pipeline = declared_pipeline(COLUMNS)
    found = pipeline.transform(pa.record_batch(rows))
    np.testing.assert_allclose(found, np.hstack([*expected, np.ones((40, 1))]), atol=1e-13)
    assert pipeline.outputs[-1] == "(intercept)"


def test_the_declared_pipeline_clips_no_row_of_the_domain():
    corners = pa.record_batch({c.name: [(c.states or (c.noise.high,))[-1]] for c in COLUMNS})
    found = declared_pipeline(COLUMNS).transform(corners)[0]
    assert found[2] == 1.0
    assert np.abs(found).max() == pytest.approx(1.0, abs=1e-15)
