"""Sums of rows are integers: no split, order or merge changes them."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clinic_table
from suffice.engines.engine import fold
from suffice.engines.summary import PublicSummary, fit_pipeline
from suffice.engines.sums import MappedSums, WeightedSums, label_weights, lattice_step
from suffice.errors import ParameterError, TableError
from suffice.tables.pipeline import Column, Pipeline

NAMES = ["age", "dose", "ward"]


def clinic_rows(rows: int = 700, seed: int = 0, **options) -> tuple[pa.RecordBatch, Pipeline]:
    table = clinic_table(rows, seed).select(NAMES)
    summary = fold(table.to_batches(), PublicSummary(table.schema)).result()
    choices = {"categories": {}, "missing": "error", "clip": 0.9, "intercept": 1.0, **options}
    return table.combine_chunks().to_batches()[0], fit_pipeline(summary, NAMES, **choices)


def number_pipeline(width: int, bound: float = 3.0, intercept: float = 1.0) -> Pipeline:
    columns = tuple(Column(f"x{j}") for j in range(width))
    return Pipeline(columns, "error", np.zeros(width), np.ones(width), bound, intercept)


def signs(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([-1.0, 1.0], (1, rows))


def lattice_codes(rows: np.ndarray, step: float) -> list[list[int]]:
    return [[int(code) for code in row] for row in np.rint(rows / step)]


# --- the lattice


@settings(max_examples=200)
@given(st.floats(1e-250, 1e250))
def test_the_step_is_a_power_of_two_that_gives_at_most_2_to_the_30_codes(bound):
    step = lattice_step(bound)
    assert math.frexp(step)[0] == 0.5
    assert round(bound / step) <= 2**30
    assert bound / step > 2**29  # and no coarser than that


@pytest.mark.parametrize("exponent", [-100, -1, 0, 1, 5, 100])
def test_a_bound_that_is_a_power_of_two_takes_every_code(exponent):
    assert lattice_step(2.0**exponent) == 2.0 ** (exponent - 30)
    assert lattice_step(math.nextafter(2.0**exponent, 0)) == 2.0 ** (exponent - 30)
    assert lattice_step(math.nextafter(2.0**exponent, math.inf)) == 2.0 ** (exponent - 29)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_that_is_none_gets_no_step(bound):
    with pytest.raises(ParameterError, match="finite and above 0"):
        lattice_step(bound)


def test_a_pipeline_whose_norm_bound_overflows_is_a_parameter_error():
    with pytest.raises(ParameterError):
        MappedSums(number_pipeline(1, bound=1.5e308, intercept=1.5e308), 1)


# --- weights


def test_two_classes_weigh_minus_one_and_one():
    assert label_weights(np.array([0, 1, 1]), 2).tolist() == [[-1.0, 1.0, 1.0]]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_of_no_class_weighs_nothing(classes):
    weights = label_weights(np.array([-1, 0, -1, 1]), classes)
    assert not weights[:, [0, 2]].any()
    assert weights[:, [1, 3]].any(axis=0).all()


def test_more_classes_weigh_one_hot():
    weights = label_weights(np.array([2, 0, 1, 2]), 3)
    assert weights.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]


# --- weighted sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_and_columns_give_the_sums_of_python_integers(rng, dtype, order, classes):
    rows = np.asarray(rng.uniform(-1, 1, (1500, 4)), dtype=dtype, order=order)
    weights = label_weights(rng.integers(0, classes, 1500), classes)
    step = lattice_step(1.0)
    codes = lattice_codes(rows.astype(np.float64), step)
    expected = [
        [sum(int(w) * code[j] for w, code in zip(row, codes, strict=True)) for j in range(4)]
        for row in weights
    ]
    by_rows, by_columns = (WeightedSums(4, len(weights), step) for _ in range(2))
    by_rows.update((rows, weights))
    by_columns.update(([np.ascontiguousarray(column) for column in rows.T], weights))
    assert by_rows.result().tolist() == expected
    assert by_columns.result().tolist() == expected


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 600), max_size=4), seed=st.integers(0, 99))
def test_merged_parts_equal_one_pass_exactly(cuts, seed):
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(600, 3)), signs(600, seed)
    one_pass = WeightedSums(3, 1, 2.0**-28)
    one_pass.update((rows, weights))
    order = rng.permutation(600)
    merged = WeightedSums(3, 1, 2.0**-28)
    for part in np.split(order, sorted(cuts)):
        piece = WeightedSums(3, 1, 2.0**-28)
        piece.update((rows[part], weights[:, part]))
        merged.merge(piece)
    np.testing.assert_array_equal(merged.result(), one_pass.result())


def test_a_result_does_not_change_with_what_comes_later():
    sums = WeightedSums(1, 1, 1.0)
    sums.update((np.array([[2.0]]), np.ones((1, 1))))
    before = sums.result()
    sums.update((np.array([[3.0]]), np.ones((1, 1))))
    assert before.tolist() == [[2]]
    assert sums.result().tolist() == [[5]]


# --- mapped sums


def mapped(pipeline: Pipeline, batch: pa.RecordBatch, weights: np.ndarray) -> MappedSums:
    sums = MappedSums(pipeline, len(weights))
    sums.update((pipeline.encoded(batch), weights))
    return sums


@pytest.mark.parametrize("intercept", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("clip", [0.2, 1.0])
def test_mapped_sums_are_the_weighted_sums_of_the_transformed_rows(intercept, classes, clip):
    batch, pipeline = clinic_rows(intercept=intercept, clip=clip)
    codes = np.random.default_rng(1).integers(0, classes, batch.num_rows)
    weights = label_weights(codes, classes)
    fused = mapped(pipeline, batch, weights)
    unfused = WeightedSums(len(pipeline.outputs), len(weights), fused.step)
    unfused.update((pipeline.transform(batch), weights))
    assert fused.result().tolist() == unfused.result().tolist()
    assert np.abs(unfused.result()).max() > 2**30  # there was something to be exact about


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), dtype=st.sampled_from([np.float32, np.float64]))
def test_mapped_sums_are_those_of_the_transformed_rows_for_any_numbers(seed, dtype):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 5)).astype(dtype)
    pipeline = Pipeline(
        tuple(Column(f"x{j}") for j in range(5)),
        "error",
        rng.normal(size=5),
        rng.uniform(0.1, 3.0, 5),
        2.0,
    )
    batch = pa.record_batch({f"x{j}": X[:, j].copy() for j in range(5)})
    fused = mapped(pipeline, batch, signs(2000, seed))
    unfused = WeightedSums(6, 1, fused.step)
    unfused.update((pipeline.transform(batch), signs(2000, seed)))
    assert fused.result().tolist() == unfused.result().tolist()


@pytest.mark.parametrize("intercept", [0.0, 0.3, 1.0])
def test_the_reach_is_the_largest_norm_of_a_row_on_the_lattice(intercept):
    batch, pipeline = clinic_rows(intercept=intercept)
    sums = mapped(pipeline, batch, signs(batch.num_rows))
    codes = lattice_codes(pipeline.transform(batch), sums.step)
    largest = max(sum(c * c for c in row) for row in codes)
    assert sums.reach.l1 == max(sum(map(abs, row)) for row in codes)
    assert math.isclose(sums.reach.l2, math.sqrt(largest), rel_tol=1e-14)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), width=st.integers(1, 12))
def test_the_reach_is_never_below_the_true_norm(seed, width):
    rng = np.random.default_rng(seed)
    pipeline = number_pipeline(width, bound=float(rng.uniform(0.5, 4.0)))
    batch = pa.record_batch({f"x{j}": rng.normal(size=300) for j in range(width)})
    sums = mapped(pipeline, batch, signs(300))
    codes = lattice_codes(pipeline.transform(batch), sums.step)
    longest = max(sum(c * c for c in row) for row in codes)
    numerator, denominator = sums.reach.l2.as_integer_ratio()
    assert numerator**2 >= longest * denominator**2  # in exact arithmetic
    assert numerator**2 <= longest * denominator**2 * (1 + 1e-13)


def test_the_reach_does_not_depend_on_the_weights():
    batch, pipeline = clinic_rows()
    reaches = {mapped(pipeline, batch, signs(700, seed)).reach for seed in range(3)}
    reaches.add(mapped(pipeline, batch, np.zeros((1, 700))).reach)
    assert len(reaches) == 1


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 700), max_size=4))
def test_merged_parts_of_mapped_rows_equal_one_pass_exactly(cuts):
    batch, pipeline = clinic_rows()
    weights = signs(700)
    one_pass = mapped(pipeline, batch, weights)
    merged = MappedSums(pipeline, 1)
    order = np.random.default_rng(len(cuts)).permutation(700)
    for part in np.split(order, sorted(cuts)):
        rows = batch.take(pa.array(part))
        merged.merge(mapped(pipeline, rows, np.ascontiguousarray(weights[:, part])))
    np.testing.assert_array_equal(merged.result(), one_pass.result())
    assert merged.reach == one_pass.reach


def test_updates_one_after_the_other_equal_one_pass_exactly():
    batch, pipeline = clinic_rows()
    weights = signs(700)
    sums = MappedSums(pipeline, 1)
    for start in range(0, 700, 97):
        columns = pipeline.encoded(batch.slice(start, 97))
        sums.update((columns, weights[:, start : start + 97]))
    one_pass = mapped(pipeline, batch, weights)
    np.testing.assert_array_equal(sums.result(), one_pass.result())
    assert sums.reach == one_pass.reach


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_a_table_error_and_adds_nothing(wrong):
    pipeline = number_pipeline(1)
    sums = MappedSums(pipeline, 1)
    values = np.ones((1, 600))
    values[0, 599] = wrong
    with pytest.raises(TableError, match="Column 'x0'"):
        sums.update((values, np.ones((1, 600))))
    assert sums.result().tolist() == [[0, 0]]
