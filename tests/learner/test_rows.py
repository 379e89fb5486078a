"""The learner's rows are those of the release, or they are refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clinic_table
from suffice.errors import ForeignRowsError, ParameterError, TableError
from suffice.learner import problem as learner_problem
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix, matching_rows
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.merge import merge
from suffice.releases.release import Release
from suffice.tables import table as tables_table

FEATURES = ["age", "dose", "ward"]


def released(table: pa.Table, mechanism: str = "laplace", **options) -> Release:
    operator = MeanOperator(epsilon=1.0, mechanism=mechanism, **{"map": None, **options})
    return operator.release(table, label="sick", ledger=None)


@pytest.fixture(scope="module")
def owners() -> list[pa.Table]:
    return [clinic_table(60, seed=1), clinic_table(35, seed=2), clinic_table(50, seed=3)]


@pytest.fixture(scope="module")
def single_release(owners) -> Release:
    return released(owners[0])


@pytest.fixture(scope="module")
def together(owners, single_release) -> Release:
    others = [released(table, pipeline=single_release.pipeline) for table in owners[1:]]
    return merge([single_release, *others])


def match(release: Release, rows) -> np.ndarray:
    (block,) = matching_rows(rows, [release])
    return block


# --- one owner


def test_the_owners_rows_are_accepted_and_mapped(owners, single_release):
    rows = match(single_release, owners[0])
    assert rows.flags.c_contiguous
    expected = single_release.pipeline.transform(owners[0].combine_chunks().to_batches()[0])
    np.testing.assert_array_equal(rows, expected)


@settings(max_examples=20)
@given(data=st.data())
def test_rows_in_any_order_are_accepted_and_stay_in_it(owners, single_release, data):
    order = data.draw(st.permutations(range(60)))
    rows = match(single_release, owners[0].take(pa.array(order)))
    np.testing.assert_array_equal(rows, match(single_release, owners[0])[order])


def test_columns_may_come_in_any_order_and_without_the_label(owners, single_release):
    reordered = owners[0].select(["ward", "age", "dose"])
    np.testing.assert_array_equal(
        match(single_release, reordered), match(single_release, owners[0])
    )


def test_the_size_of_batches_does_not_matter(owners, single_release, together, monkeypatch):
    everything = pa.concat_tables(owners)
    in_one_batch, of_all_owners = match(single_release, owners[0]), match(together, everything)
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 7)
    np.testing.assert_array_equal(match(single_release, owners[0]), in_one_batch)
    np.testing.assert_array_equal(match(together, everything), of_all_owners)


def test_one_changed_cell_is_refused(owners, single_release):
    ages = owners[0]["age"].to_numpy().copy()
    ages[30] = np.nextafter(ages[30], 0)
    with pytest.raises(ForeignRowsError, match="do not match the release") as caught:
        match(single_release, owners[0].set_column(0, "age", pa.array(ages)))
    assert "order of the releases" not in str(caught.value)


def test_other_rows_of_the_same_number_are_refused(single_release):
    with pytest.raises(ForeignRowsError, match="do not match the release"):
        match(single_release, clinic_table(60, seed=9))


@pytest.mark.parametrize("ward", ["east", None])
def test_other_rows_that_the_pipeline_cannot_map_are_refused_as_other_rows(
    owners, single_release, ward
):
    wards = [ward, *owners[0]["ward"].to_pylist()[1:]]
    with pytest.raises(ForeignRowsError):
        match(single_release, owners[0].set_column(2, "ward", pa.array(wards)))


@pytest.mark.parametrize("count", [0, 1, 59])
def test_too_few_rows_are_refused(owners, single_release, count):
    with pytest.raises(ForeignRowsError, match=f"belongs to 60 rows, but there are {count}"):
        match(single_release, owners[0].slice(0, count))


@pytest.mark.parametrize("extra", [1, 35])
def test_too_many_rows_are_refused(owners, single_release, extra):
    rows = pa.concat_tables([owners[0], owners[1].slice(0, extra)])
    with pytest.raises(ForeignRowsError, match=f"belongs to 60 rows, but there are {60 + extra}"):
        match(single_release, rows)


@pytest.mark.parametrize("batch_rows", [1, 59, 60, 61])
def test_too_many_rows_are_counted_whatever_the_batches(
    owners, single_release, batch_rows, monkeypatch
):
    monkeypatch.setattr(tables_table, "BATCH_ROWS", batch_rows)
    with pytest.raises(ForeignRowsError, match="belongs to 60 rows, but there are 95"):
        match(single_release, pa.concat_tables(owners[:2]))


def test_a_missing_column_is_a_table_error(owners, single_release):
    with pytest.raises(TableError, match="no column 'dose'"):
        match(single_release, owners[0].drop_columns(["dose"]))


def test_rows_with_missing_values_match_where_the_owner_filled_them(owners):
    ages = pa.array([None, *owners[0]["age"].to_pylist()[1:]], pa.float64())
    table = owners[0].set_column(0, "age", ages)
    release = released(table, missing="mean")
    assert match(release, table)[0, 0] == 0.0
    with pytest.raises(ForeignRowsError):
        match(release, owners[0])


# --- several owners


def test_several_owners_rows_are_accepted_in_their_order(owners, together):
    rows = match(together, pa.concat_tables(owners))
    parts = [design_matrix(table, together.pipeline) for table in owners]
    np.testing.assert_array_equal(rows, np.vstack(parts))


def test_within_one_owner_the_order_does_not_matter(owners, together):
    rng = np.random.default_rng(0)
    mixed = [table.take(pa.array(rng.permutation(table.num_rows))) for table in owners]
    assert match(together, pa.concat_tables(mixed)).shape[0] == 145


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_owners_in_the_wrong_order_are_refused_with_advice(owners, together, order):
    with pytest.raises(ForeignRowsError, match="in the order of the releases"):
        match(together, pa.concat_tables([owners[i] for i in order]))


def test_one_row_across_the_border_of_two_owners_is_refused(owners, together):
    everything = pa.concat_tables(owners)
    order = np.arange(145)
    order[[59, 60]] = order[[60, 59]]
    with pytest.raises(ForeignRowsError):
        match(together, everything.take(pa.array(order)))


def test_rows_of_too_few_or_too_many_owners_are_refused(owners, together):
    with pytest.raises(ForeignRowsError, match="belongs to 50 rows, but there are 0"):
        match(together, pa.concat_tables(owners[:2]))
    with pytest.raises(ForeignRowsError, match="belongs to 145 rows, but there are 150"):
        match(together, pa.concat_tables([*owners, owners[0].slice(0, 5)]))


def test_several_releases_get_one_block_each(owners, together, single_release):
    others = [released(table, pipeline=single_release.pipeline) for table in owners[1:]]
    blocks = matching_rows(pa.concat_tables(owners), [single_release, *others])
    assert [len(block) for block in blocks] == [60, 35, 50]
    np.testing.assert_array_equal(np.vstack(blocks), match(together, pa.concat_tables(owners)))
    blocks = matching_rows(pa.concat_tables(owners), [single_release, merge(others)])
    assert [len(block) for block in blocks] == [60, 85]


def test_where_a_release_speaks_of_each_row_their_order_matters(owners):
    release = released(owners[0], "response")
    np.testing.assert_array_equal(
        match(release, owners[0]), design_matrix(owners[0], release.pipeline)
    )
    order = np.arange(60)
    order[[3, 4]] = order[[4, 3]]
    with pytest.raises(ForeignRowsError, match="order of rows, differs"):
        match(release, owners[0].take(pa.array(order)))


@pytest.mark.parametrize("mechanisms", [("laplace", "response"), ("response", "response")])
def test_the_same_rows_twice_are_refused_in_any_order_and_of_any_kind(owners, mechanisms):
    """Hashes with and without an order never agree, so the rows themselves are compared."""
    reversed_rows = owners[0].take(pa.array(np.arange(60)[::-1]))
    first = released(owners[0], mechanisms[0])
    second = released(reversed_rows, mechanisms[1], pipeline=first.pipeline)
    with pytest.raises(ParameterError, match="same rows"):
        matching_rows(pa.concat_tables([owners[0], reversed_rows]), [first, second])


# --- plain mapping


def test_the_design_matrix_maps_rows_of_any_number(owners, single_release):
    assert design_matrix(owners[1], single_release.pipeline).shape == (35, 6)
    with pytest.raises(TableError, match="no rows"):
        design_matrix(owners[1].slice(0, 0), single_release.pipeline)


def test_the_design_matrix_treats_unknown_categories_as_it_is_told(owners, single_release):
    strange = owners[1].set_column(2, "ward", pa.array(["east"] * 35))
    rows = design_matrix(strange, single_release.pipeline, new=True)
    assert np.isfinite(rows).all()
    with pytest.raises(TableError, match="35 cells"):
        design_matrix(strange, single_release.pipeline)


# --- a matrix


@pytest.mark.parametrize("spec", [None, "polynomial:2"])
def test_a_matrix_is_mapped_as_the_table_of_its_columns(rng, monkeypatch, spec):
    X = rng.normal(size=(700, 3)) * 5
    operator = MeanOperator(epsilon=1.0, map=spec, missing="mean")
    pipeline = operator.release(X, rng.integers(0, 2, 700), ledger=None).pipeline
    X[5, 1] = np.nan  # the pipeline has a rule for it
    monkeypatch.setattr(learner_problem, "CELLS_IN_CACHE", 1000)
    table = pa.table({f"x{j}": column for j, column in enumerate(X.T)})
    assert np.array_equal(design_matrix(X, pipeline), design_matrix(table, pipeline))
    with pytest.raises(TableError, match="no rows"):
        design_matrix(X[:0], pipeline)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_matrix_without_a_rule_is_refused_as_its_table_is(rng, wrong):
    X = rng.normal(size=(50, 3))
    release = MeanOperator(epsilon=1.0, map=None).release(X, rng.integers(0, 2, 50), ledger=None)
    X[5, 1] = wrong
    with pytest.raises(TableError, match="'x1'"):
        design_matrix(X, release.pipeline)


def test_a_frame_of_numbers_is_mapped_as_its_table_in_any_layout(rng):
    X = rng.normal(size=(90, 3)) * 5
    names = ["age", "dose", "score"]
    by_rows, by_columns = (
        pd.DataFrame(X, columns=names),
        pd.DataFrame(dict(zip(names, X.T, strict=True))),
    )
    release = MeanOperator(epsilon=1.0, map=None).release(
        by_rows, rng.integers(0, 2, 90), ledger=None
    )
    expected = design_matrix(pa.Table.from_pandas(by_rows), release.pipeline)
    single = by_rows.astype({"dose": "float32"})
    others = {"in other order": by_rows[names[::-1]], "with more": by_rows.assign(more=1.0)}
    for frame in (by_rows, by_columns, *others.values()):
        np.testing.assert_array_equal(design_matrix(frame, release.pipeline), expected)
    np.testing.assert_array_equal(
        design_matrix(single, release.pipeline),
        design_matrix(pa.Table.from_pandas(single), release.pipeline),
    )
    exact = FactoredClassifier(lam=0.1).fit(by_rows, X[:, 0] > 0)
    np.testing.assert_array_equal(
        exact.decision_function(by_rows), exact.decision_function(by_columns)
    )
