"""Ids, free text and odd numbers are refused with what to type; what is odd is said."""

import logging

import numpy as np
import pyarrow as pa
import pytest

from suffice import MeanOperator
from suffice.engines.summary import ColumnMoments
from suffice.errors import TableError

ROWS = 60
AGE = np.random.default_rng(4).normal(size=ROWS)


def release(features=None, min_count=1, **columns):
    table = pa.table({"age": AGE, **columns, "sick": [k % 2 for k in range(ROWS)]})
    mechanism = MeanOperator(epsilon=1.0, min_count=min_count, map=None)
    return mechanism.release(table, label="sick", features=features, ledger=None)


@pytest.mark.parametrize("start", [0, 1, 1000])
def test_numbers_in_a_row_are_refused_in_any_order_unless_they_are_named(start):
    numbers = np.random.default_rng(start).permutation(ROWS) + start
    with pytest.raises(TableError, match=r"Column 'nr' numbers the rows.*--drop nr"):
        release(nr=numbers)
    assert release(nr=numbers, features=["age", "nr"]).pipeline.outputs[1] == "nr"


def test_numbers_with_a_gap_or_twice_are_features():
    for numbers in ([*range(ROWS - 1), ROWS], [*range(ROWS - 1), 0], [2 * k for k in range(ROWS)]):
        assert "nr" in release(nr=numbers).pipeline.outputs


def test_a_run_is_found_by_its_spread_alone():
    rng = np.random.default_rng(1)
    rows = [rng.permutation(500) + 1.0, rng.permutation(500) * 3.0, np.full(500, 2.0)]
    moments = ColumnMoments(3)
    moments.update(np.vstack(rows)[:, :200])
    moments.update(np.vstack(rows)[:, 200:])
    assert moments.result().runs.tolist() == [True, False, False]


def test_texts_that_most_rows_have_alone_are_refused_and_can_be_joined():
    texts = [f"name {k}" if k % 5 else "none" for k in range(ROWS)]
    with pytest.raises(
        TableError, match=r"a different text in 48 of 60 rows.*--drop t.*--min-count"
    ):
        release(t=texts)
    joined = release(t=texts, min_count=5).pipeline
    assert joined.outputs[1:3] == ("t=none", "t: other")
    rows = joined.transform(pa.record_batch({"age": [0.0, 0.0], "t": ["none", "never seen"]}))
    assert np.argmax(rows[:, 1:3], axis=1).tolist() == [0, 1]


def test_all_columns_to_leave_out_are_named_at_once():
    with pytest.raises(TableError, match=r"--drop id --drop 'full name'"):
        release(**{"id": range(ROWS), "full name": [f"n{k}" for k in range(ROWS)]})


def test_numbers_in_texts_are_refused_even_where_they_are_named():
    with pytest.raises(TableError, match="commas, blanks, percent or currency signs"):
        release(t=[f"{k % 4},5" for k in range(ROWS)], features=["age", "t"])
    with pytest.raises(TableError, match="30 cells that are not numbers"):
        release(t=[f"{k}.5" if k % 2 else "n/k" for k in range(ROWS)], features=["age", "t"])


def test_codes_that_are_numbers_in_texts_stay_categories():
    assert "t=401.9" in release(t=["401.9", "250.0"] * (ROWS // 2)).pipeline.outputs


def test_what_is_odd_is_said(caplog):
    with caplog.at_level(logging.INFO, "suffice"):
        release(unit=["kg"] * ROWS, zero=[0.0] * ROWS, split=[k % 3 for k in range(ROWS)])
    assert "same value in all rows, from which nothing can be learnt: unit, zero." in caplog.text
    assert "used as features: split." in caplog.text
    assert "The table has only 60 rows" in caplog.text
