"""Public moments, categories and the pipeline fitted on them, against numpy."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clinic_table
from suffice.engines.engine import fold
from suffice.engines.summary import PublicSummary, Summary, fit_pipeline
from suffice.errors import ParameterError, TableError
from suffice.tables.pipeline import Column
from suffice.tables.sources import open_table


def summary_of(table: pa.Table, batch_rows: int = 1000, categorical=frozenset()) -> Summary:
    batches = table.to_batches(max_chunksize=batch_rows)
    return fold(batches, PublicSummary(table.schema, frozenset(categorical))).result()


def fitted(table: pa.Table, **options):
    choices = {"categories": {}, "missing": "error", "clip": 0.95, "intercept": 1.0, **options}
    summary = summary_of(table, categorical=choices["categories"])
    return fit_pipeline(summary, table.column_names, **choices)


def holes(values: np.ndarray, every: int) -> pa.Array:
    mask = np.arange(len(values)) % every == 1
    return pa.array(values, mask=mask)


# --- the summary


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_moments_and_counts_are_those_of_numpy(clinic, batch_rows):
    summary = summary_of(clinic, batch_rows)
    assert summary.rows == 120
    for name in ("age", "dose", "sick"):
        values = clinic[name].to_numpy().astype(np.float64)
        assert math.isclose(summary.mean[name], values.mean(), rel_tol=1e-12)
        assert math.isclose(summary.deviation[name], values.std(), rel_tol=1e-12)
    assert summary.counts == {"ward": Counter(clinic["ward"].to_pylist())}
    assert summary.missing == dict.fromkeys(clinic.column_names, 0)
    assert set(summary.mean) == set(summary.deviation) == {"age", "dose", "sick"}


def test_missing_cells_are_counted_and_left_out_of_the_moments(rng):
    values = rng.normal(5.0, 2.0, 90)
    table = pa.table(
        {
            "null": holes(values, 3),
            "nan": np.where(np.arange(90) % 3 == 1, np.nan, values),
            "text": pa.array(["a", None, "b"] * 30),
            "gone": pa.array([None] * 90, pa.float64()),
        }
    )
    summary = summary_of(table, 8)
    present = values[np.arange(90) % 3 != 1]
    for name in ("null", "nan"):
        assert math.isclose(summary.mean[name], present.mean(), rel_tol=1e-12)
        assert math.isclose(summary.deviation[name], present.std(), rel_tol=1e-12)
    assert summary.missing == {"null": 30, "nan": 30, "text": 30, "gone": 90}
    assert summary.counts["text"] == {"a": 30, None: 30, "b": 30}
    assert (summary.mean["gone"], summary.deviation["gone"]) == (0.0, 0.0)


@pytest.mark.parametrize("batch_rows", [50, 1000])
@pytest.mark.parametrize("offset", [1e9, -1e12])
def test_a_large_offset_does_not_cost_precision(rng, offset, batch_rows):
    values = offset + rng.integers(-100, 100, 1000) / 8
    summary = summary_of(pa.table({"a": values}), batch_rows)
    assert math.isclose(summary.mean["a"], values.mean(), rel_tol=1e-14)
    assert math.isclose(summary.deviation["a"], (values - offset).std(), rel_tol=1e-9)


@pytest.mark.parametrize("gone", [1, 60])
def test_a_large_offset_does_not_cost_precision_if_the_first_cells_are_missing(rng, gone):
    values = 1e9 + rng.integers(-100, 100, 1000) / 8
    cells = pa.array(values, mask=np.arange(1000) < gone)
    summary = summary_of(pa.table({"a": cells}), 50)
    assert math.isclose(summary.deviation["a"], (values[gone:] - 1e9).std(), rel_tol=1e-9)


def test_declared_numbers_are_counted_as_categories():
    table = pa.table({"floor": [3, 1, None, 3], "old": [True, False, True, None]})
    summary = summary_of(table, categorical={"floor", "old"})
    assert summary.mean == {}
    assert summary.counts == {"floor": {3: 2, 1: 1, None: 1}, "old": {True: 2, False: 1, None: 1}}


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_texts_of_every_type_are_counted(kind):
    texts = pa.array(["b", None, "a", "b"])
    cells = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    assert summary_of(pa.table({"a": cells})).counts["a"] == {"b": 2, None: 1, "a": 1}


def sampled(table: pa.Table, batch_rows: int = 1000) -> tuple[list, list]:
    sample = summary_of(table, batch_rows).sample
    return sample.rows.to_pylist(), sample.weights.tolist()


def test_the_sample_is_the_same_rows_in_the_same_order_whatever_the_batches(rng):
    values = rng.permutation(np.repeat(np.arange(30_000), 3))
    table = pa.table({"a": values, "b": values % 7})
    first = sampled(table, 7_001)
    assert len(first[0]) == 20_000
    assert first[1] == [3] * 20_000
    assert sampled(table.take(rng.permutation(90_000)), 90_000) == first
    values = np.array([row["a"] for row in first[0]])
    assert abs(values.mean() - 15_000) < 5 * 30_000 / np.sqrt(12 * 20_000)  # chosen by chance


def test_a_small_table_is_its_own_sample(clinic):
    rows, weights = sampled(clinic, 7)
    key = lambda row: tuple(map(str, row.values()))  # noqa: E731
    assert sorted(rows, key=key) == sorted(clinic.to_pylist(), key=key)
    assert weights == [1] * 120


def test_a_wide_table_has_a_smaller_sample(rng):
    table = open_table(rng.normal(size=(4_000, 4_200)).astype(np.float32))
    schema = pa.schema([table.schema.field(n) for n in table.schema.names])
    summary = fold(table.batches(schema.names), PublicSummary(schema)).result()
    assert len(summary.sample.weights) == 2**23 // 4_200


def test_rows_that_differ_in_the_sign_of_a_zero_are_equal():
    first = pa.table({"a": [0.0, -0.0, 1.0], "b": [2.0, 2.0, 3.0]})
    other = first.take([1, 0, 2])
    assert sampled(first)[1] == sampled(other)[1]
    assert sorted(sampled(first)[1]) == [1, 2]
    assert fitted(first).digest() == fitted(other).digest()


def test_more_than_a_thousand_categories_are_refused_by_name():
    table = pa.table({"name": [f"SECRET {i}" for i in range(1001)]})
    assert len(summary_of(table.slice(1)).counts["name"]) == 1000
    with pytest.raises(TableError, match="'name' has more than 1,000 different texts") as caught:
        summary_of(table)
    assert "SECRET" not in str(caught.value)


def test_more_than_a_thousand_categories_can_be_declared_as_the_error_advises():
    table = pa.table({"name": [f"n{i}" for i in range(1001)]})
    summary = summary_of(table, categorical={"name"})
    assert len(summary.counts["name"]) == 1001


def test_a_table_without_rows_is_refused():
    table = clinic_table(0)
    with pytest.raises(TableError, match="no rows"):
        PublicSummary(table.schema).result()
    with pytest.raises(TableError, match="no rows"):
        summary_of(table)


def test_a_batch_without_rows_changes_nothing(clinic):
    empty = pa.RecordBatch.from_pylist([], schema=clinic.schema)
    batches = [empty, *clinic.to_batches(), empty]
    summary = fold(batches, PublicSummary(clinic.schema)).result()
    assert summary.mean == summary_of(clinic).mean


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, 1e200])
@pytest.mark.parametrize("row", [0, 5])
def test_infinite_and_enormous_values_are_refused_by_column(wrong, row):
    values = np.ones(10)
    values[row] = wrong
    with pytest.raises(TableError, match="'b' holds infinite or enormous values"):
        summary_of(pa.table({"a": np.ones(10), "b": values}))


# --- merging


def assert_alike(first: Summary, second: Summary) -> None:
    assert (first.rows, first.counts, first.missing) == (second.rows, second.counts, second.missing)
    for name, mean in second.mean.items():
        assert math.isclose(first.mean[name], mean, rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(first.deviation[name], second.deviation[name], rel_tol=1e-8)


@settings(max_examples=30)
@given(cut=st.integers(0, 200), offset=st.sampled_from([0.0, 1e6]))
def test_merged_halves_equal_one_pass(cut, offset):
    table = clinic_table(200)
    table = table.set_column(0, "age", holes(table["age"].to_numpy() + offset, 5))
    halves = [
        fold(part.to_batches(max_chunksize=30), PublicSummary(table.schema))
        for part in (table.slice(0, cut), table.slice(cut))
    ]
    halves[0].merge(halves[1])
    assert_alike(halves[0].result(), summary_of(table))


def test_merging_leaves_the_other_one_as_it_was(clinic):
    target, other = (
        fold(part.to_batches(), PublicSummary(clinic.schema))
        for part in (clinic.slice(0, 50), clinic.slice(50))
    )
    target.merge(other)
    assert_alike(other.result(), summary_of(clinic.slice(50)))


def test_merging_refuses_more_than_a_thousand_categories_as_one_pass_does():
    table = pa.table({"name": [f"n{i}" for i in range(1400)]})
    target, other = (
        fold(part.to_batches(), PublicSummary(table.schema))
        for part in (table.slice(0, 700), table.slice(700))
    )
    with pytest.raises(TableError, match="more than 1,000 different texts"):
        target.merge(other)


# --- the fitted pipeline


def test_columns_are_centred_and_scaled_and_categories_sorted(clinic):
    pipeline = fitted(clinic)
    assert pipeline.columns == (
        Column("age"),
        Column("dose"),
        Column("ward", ("north", "south", "west")),
        Column("sick"),
    )
    wards = np.array(clinic["ward"].to_pylist())
    columns = [clinic["age"], clinic["dose"], *(wards == w for w in ("north", "south", "west"))]
    expected = np.array([np.asarray(column, dtype=np.float64) for column in columns])
    np.testing.assert_allclose(pipeline.mean[:5], expected.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(pipeline.scale[:5], expected.std(axis=1), rtol=1e-6)


@pytest.mark.parametrize("clip", [0.1, 0.5, 0.95, 1.0])
def test_the_bound_is_the_clip_quantile_of_the_norms(rng, clip):
    X = rng.normal(3.0, [1.0, 5.0, 0.1], (500, 3))
    norms = np.linalg.norm((X - X.mean(axis=0)) / X.std(axis=0), axis=1)
    table = open_table(X)
    summary = fold(table.batches(["x0", "x1", "x2"]), PublicSummary(table.schema)).result()
    pipeline = fit_pipeline(
        summary, ["x0", "x1", "x2"], categories={}, missing="error", clip=clip, intercept=0.25
    )
    expected = np.quantile(norms, clip, method="inverted_cdf")
    assert math.isclose(pipeline.bound, expected, rel_tol=1e-6)
    assert pipeline.intercept == 0.25
    assert pipeline.clipped == pytest.approx(np.mean(norms > expected * (1 + 1e-6)), abs=1e-3)


def test_rows_of_one_length_are_not_called_clipped():
    pipeline = fitted(pa.table({"a": [-1.0, 1.0] * 50}), clip=0.5)
    assert pipeline.clipped == 0
    assert pipeline.clipping.endswith("shortened to it: 0 % of the public rows.")


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9, -3.3e-20])
def test_a_constant_column_becomes_zero(value):
    table = pa.table({"a": np.full(100, value), "b": np.arange(100.0)})
    pipeline = fitted(table)
    assert pipeline.scale[0] == 1.0
    rows = pipeline.transform(table.to_batches()[0])
    np.testing.assert_allclose(rows[:, 0], 0.0, atol=1e-12 * abs(value))


def test_a_table_of_constants_still_has_a_positive_bound():
    assert fitted(pa.table({"a": [2.0, 2.0, 2.0]})).bound == 1.0


def test_the_bound_is_the_largest_norm_where_the_quantile_is_zero():
    cells = pa.array([None] * 8 + [4.0, 6.0])
    pipeline = fitted(pa.table({"a": cells, "b": cells}), missing="mean", clip=0.5)
    assert math.isclose(pipeline.bound, math.sqrt(2.0), rel_tol=1e-6)


def test_a_rare_category_is_not_scaled_up_beyond_ten():
    pipeline = fitted(pa.table({"a": ["common"] * 9999 + ["rare"]}))
    np.testing.assert_allclose(pipeline.scale, [0.1, 0.1])


def test_declared_categories_keep_their_order_and_may_be_absent(clinic):
    wards = ("west", "south", "east", "north")
    pipeline = fitted(clinic, categories={"ward": wards})
    assert pipeline.columns[2] == Column("ward", wards)
    assert pipeline.mean[4] == 0.0


def test_a_category_that_was_not_declared_is_refused(clinic):
    with pytest.raises(TableError, match=r"Column 'ward': .* not declared"):
        fitted(clinic, categories={"ward": ("west", "south")})


@pytest.mark.parametrize("wards", [(), ("west", "west")])
def test_declared_categories_must_be_different_ones(clinic, wards):
    with pytest.raises(ParameterError, match="'ward' must be a list without repetitions"):
        fitted(clinic, categories={"ward": wards})


@pytest.mark.parametrize("clip", [0.0, -0.5, 1.01, math.nan])
def test_a_clip_outside_its_domain_is_refused(clinic, clip):
    with pytest.raises(ParameterError, match="quantile above"):
        fitted(clinic, clip=clip)


def test_missing_values_are_refused_by_name_or_filled():
    table = pa.table(
        {
            "a": pa.array([1.0, None, 3.0, 8.0]),
            "b": pa.array(["x", "y", "y", None]),
            "c": [1, 2, 3, 4],
        }
    )
    with pytest.raises(TableError, match=r"'a' has 1 missing values\. .*--missing mean"):
        fitted(table)
    mean = fitted(table, missing="mean")
    np.testing.assert_allclose(mean.fill, [4.0, 1 / 3, 2 / 3, 2.5], rtol=1e-6)
    np.testing.assert_array_equal(mean.fill, mean.mean)
    np.testing.assert_array_equal(fitted(table, missing="zero").fill, np.zeros(4))


def test_a_text_column_without_any_text_has_no_coordinates():
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": pa.array([None] * 3, pa.string())})
    pipeline = fitted(table, missing="mean")
    assert pipeline.outputs == ("a", "(intercept)")
    assert pipeline.transform(table.to_batches()[0]).shape == (3, 2)
