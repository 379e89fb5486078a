"""Crowds: who holds what, and that every record has one place."""

import numpy as np
import pyarrow as pa
import pytest

from suffice.errors import ParameterError
from suffice.papers.hamm import auxiliary_of_unit_norm, crowd_of_table, deal

CLASSES = (0, 1, 2)


def test_every_row_is_auxiliary_or_tested_or_one_partys(crowd):
    counts = np.bincount(crowd.parties.index)
    assert crowd.auxiliary.count == 60
    assert len(crowd.test_codes) == 150
    assert counts.sum() == 390
    assert counts.max() - counts.min() <= 1
    assert crowd.count == 40
    assert len(np.unique(crowd.auxiliary.rows, axis=0)) == 60


def test_shares_cut_every_row_once(table, rng):
    few = table.slice(0, 50)
    asked = {"label": "label", "classes": CLASSES, "parties": 5}
    crowd = crowd_of_table(few, rng, shares=(0.2, 0.3), **asked)
    parts = crowd.auxiliary.rows, crowd.test_rows, crowd.parties.rows
    assert [len(part) for part in parts] == [10, 15, 25]
    assert len(np.unique(np.concatenate(parts), axis=0)) == 50
    for bad in ((0.0, 0.3), (0.5, 0.5), (0.2, -0.1)):
        with pytest.raises(ParameterError, match="their sum below 1"):
            crowd_of_table(few, rng, shares=bad, **asked)


def test_parties_come_from_a_column(table, rng):
    crowd = crowd_of_table(table, rng, label="label", classes=CLASSES, party="user")
    assert crowd.count == 30
    assert "user" not in [column.name for column in crowd.auxiliary.pipeline.columns]


def test_parties_come_from_a_column_or_a_number_never_both(table, rng):
    for both in ({}, {"party": "user", "parties": 3}):
        with pytest.raises(ParameterError, match="column or"):
            crowd_of_table(table, rng, label="label", classes=CLASSES, **both)
    for count in (0, 10_000):
        with pytest.raises(ParameterError, match="number of private records"):
            crowd_of_table(table, rng, label="label", classes=CLASSES, parties=count)


def test_the_first_parties_are_a_crowd_of_their_own(crowd):
    few = crowd.first(7)
    assert few.count == 7
    assert few.parties.names == crowd.parties.names[:7]
    for party in range(7):
        own, same = few.parties.index == party, crowd.parties.index == party
        assert few.parties.rows[own].tolist() == crowd.parties.rows[same].tolist()
    assert few.auxiliary is crowd.auxiliary


def test_dealing_names_sort_as_numbers_and_take_no_column_that_is_there():
    records, name = deal(pa.table({"party": range(25)}), 12)
    assert name == "party_"
    owners = records[name].to_pylist()
    assert owners[:13] == [f"{p:02d}" for p in range(12)] + ["00"]


def test_rows_have_norm_one_but_for_the_intercept(table):
    public = table.select(["f0", "f1", "f2", "f3"])
    rows = auxiliary_of_unit_norm(public).rows
    assert np.linalg.norm(rows[:, :-1], axis=1).max() == pytest.approx(1.0)
    assert rows[:, -1] == pytest.approx(0.25)
