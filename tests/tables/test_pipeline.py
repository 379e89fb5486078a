"""The pipeline against a slow twin that goes cell by cell, and as data that travels."""

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from builders import clinic_table
from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.tables.pipeline import Column, Pipeline, encode

WARDS = Column("ward", ("north", "south", "west"))
CLINIC = (Column("age"), WARDS, Column("dose"))
WIDTH = 5


def clinic_pipeline(missing="error", bound=1.8, intercept=0.5, columns=CLINIC) -> Pipeline:
    mean = np.array([50.0, 0.3, 0.4, 0.3, 3.0])
    fill = {"error": None, "mean": mean, "zero": np.zeros(WIDTH)}[missing]
    scale = np.array([15.0, 0.45, 0.5, 0.45, 1.1])
    return Pipeline(columns, missing, mean, scale, bound, intercept, fill)


def numbers_pipeline(width: int, **changes) -> Pipeline:
    settings_ = {
        "columns": tuple(Column(f"x{j}") for j in range(width)),
        "missing": "error",
        "mean": np.zeros(width),
        "scale": np.ones(width),
        "bound": 1.0,
        "intercept": 0.0,
        "fill": None,
    }
    return Pipeline(**{**settings_, **changes})


def batch_of(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def slow_row(row: dict, pipeline: Pipeline) -> list[float]:
    encoded = []
    for column in pipeline.columns:
        cell = row[column.name]
        if column.categories is None:
            encoded.append(math.nan if cell is None else float(cell))
        elif cell is None:
            encoded += [math.nan] * len(column.categories)
        else:
            encoded += [float(cell == category) for category in column.categories]
    if pipeline.fill is not None:
        encoded = [
            f if math.isnan(x) else x for x, f in zip(encoded, pipeline.fill.tolist(), strict=True)
        ]
    moments = zip(encoded, pipeline.mean.tolist(), pipeline.scale.tolist(), strict=True)
    values = [(x - mean) / scale for x, mean, scale in moments]
    norm = math.hypot(*values)
    if norm > pipeline.bound:
        values = [x * pipeline.bound / norm for x in values]
    return values + [pipeline.intercept] * (pipeline.intercept > 0)


def slow_transform(table: pa.Table, pipeline: Pipeline) -> np.ndarray:
    return np.array([slow_row(row, pipeline) for row in table.to_pylist()])


def with_holes(table: pa.Table) -> pa.Table:
    """Return the table with every fourth cell missing, in another place in each column."""
    for j, name in enumerate(table.column_names):
        cells = [None if (i + j) % 4 == 0 else c for i, c in enumerate(table[name].to_pylist())]
        table = table.set_column(j, name, pa.array(cells, table[name].type))
    return table


# --- what it computes


@pytest.mark.parametrize("intercept", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("bound", [0.7, 1.8, 1e6])
def test_transform_equals_its_slow_twin(clinic, bound, intercept):
    pipeline = clinic_pipeline(bound=bound, intercept=intercept)
    rows = pipeline.transform(batch_of(clinic))
    assert rows.dtype == np.float64
    assert rows.shape == (120, len(pipeline.outputs))
    np.testing.assert_allclose(rows, slow_transform(clinic, pipeline), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_missing_values_become_what_the_policy_says(clinic, missing):
    table, pipeline = with_holes(clinic), clinic_pipeline(missing)
    rows = pipeline.transform(batch_of(table))
    np.testing.assert_allclose(rows, slow_transform(table, pipeline), rtol=1e-12, atol=1e-14)


def test_a_missing_value_filled_with_the_mean_becomes_zero():
    pipeline = clinic_pipeline("mean", bound=1e6)
    batch = pa.record_batch({"age": [None, 65.0], "ward": ["west", None], "dose": [3.0, 3.0]})
    rows = pipeline.transform(batch)
    assert rows[0, 0] == 0.0
    assert rows[1, 1:4].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "kind", [pa.float32(), pa.float64(), pa.int64(), pa.int8(), pa.bool_()], ids=str
)
def test_numbers_of_every_type_are_mapped_alike(kind):
    batch = pa.record_batch({"x0": pa.array([0, 1, 1]).cast(kind)})
    pipeline = numbers_pipeline(1, mean=np.array([0.5]), scale=np.array([2.0]))
    assert pipeline.transform(batch).tolist() == [[-0.25], [0.25], [0.25]]


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["a", "b"]),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_texts_of_every_type_are_encoded_alike(texts):
    batch = pa.record_batch({"c": texts})
    encoded = encode(batch, (Column("c", ("b", "a")),), unknown=None)
    assert encoded.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_declared_integers_and_booleans_are_encoded_as_categories():
    batch = pa.record_batch({"floor": [3, 1, None], "old": [True, False, True]})
    columns = (Column("floor", (1, 3)), Column("old", (False, True)))
    encoded = encode(batch, columns, unknown=None)
    np.testing.assert_array_equal(encoded, [[0, 1, np.nan], [1, 0, np.nan], [0, 1, 0], [1, 0, 1]])


def test_outputs_name_every_coordinate():
    names = ("age", "ward=north", "ward=south", "ward=west", "dose")
    assert clinic_pipeline(intercept=0.0).outputs == names
    assert clinic_pipeline().outputs == (*names, "(intercept)")


def test_the_order_of_the_tables_columns_does_not_matter(clinic):
    pipeline = clinic_pipeline()
    reordered = clinic.select(["sick", "ward", "dose", "age"])
    np.testing.assert_array_equal(
        pipeline.transform(batch_of(clinic)), pipeline.transform(batch_of(reordered))
    )


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 700), max_size=5), missing=st.sampled_from(["mean", "zero"]))
def test_cutting_a_table_into_batches_does_not_change_the_result(cuts, missing):
    batch = batch_of(with_holes(clinic_table(700)))
    pipeline = clinic_pipeline(missing)
    ends = [0, *sorted(cuts), 700]
    parts = [pipeline.transform(batch.slice(a, b - a)) for a, b in pairwise(ends)]
    np.testing.assert_array_equal(np.vstack(parts), pipeline.transform(batch))


# --- the promise about norms

moderate = st.floats(-1e60, 1e60)
positive = st.floats(1e-60, 1e60)


@settings(max_examples=200)
@given(
    rows=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 5)), elements=moderate),
    bound=positive,
    intercept=st.one_of(st.just(0.0), positive),
    data=st.data(),
)
def test_no_row_is_longer_than_the_norm_bound(rows, bound, intercept, data):
    width = rows.shape[1]
    mean = data.draw(arrays(np.float64, width, elements=moderate))
    scale = data.draw(arrays(np.float64, width, elements=positive))
    pipeline = numbers_pipeline(width, mean=mean, scale=scale, bound=bound, intercept=intercept)
    batch = pa.record_batch({f"x{j}": rows[:, j] for j in range(width)})
    norms = [math.hypot(*row) for row in pipeline.transform(batch).tolist()]
    assert max(norms) <= pipeline.norm_bound * (1 + 1e-9)


@pytest.mark.parametrize("bound", [1e-150, 1e-200, 1e-300])
def test_no_row_is_longer_than_a_very_small_norm_bound(bound):
    batch = pa.record_batch({"x0": [bound * 1e6]})
    try:
        rows = numbers_pipeline(1, bound=bound).transform(batch)
    except (ParameterError, TableError):
        return  # refusing is right as well
    assert abs(rows[0, 0]) <= bound * (1 + 1e-9)


def test_a_row_inside_the_bound_is_left_alone_and_one_outside_keeps_its_direction():
    batch = pa.record_batch({"x0": [0.3, 30.0], "x1": [0.4, 40.0]})
    rows = numbers_pipeline(2).transform(batch)
    assert rows[0].tolist() == [0.3, 0.4]
    np.testing.assert_allclose(rows[1], [0.6, 0.8], rtol=1e-14)


# --- what it refuses


def test_a_missing_number_is_an_error_that_names_the_column_and_the_count():
    batch = pa.record_batch({"x0": [1.0, 2.0, 3.0], "x1": [None, math.nan, 1.0]})
    with pytest.raises(TableError, match=r"Column 'x1' has 2 missing values, and"):
        numbers_pipeline(2).transform(batch)


def test_a_missing_category_is_an_error_that_names_the_column(clinic):
    batch = batch_of(clinic.set_column(2, "ward", pa.array(["west", None] * 60)))
    with pytest.raises(TableError, match="'ward=north' has 60 missing values"):
        clinic_pipeline().transform(batch)


@pytest.mark.parametrize("missing", ["error", "mean", "zero"])
@pytest.mark.parametrize("wrong", [math.inf, -math.inf])
def test_infinite_values_are_an_error_under_every_policy(missing, wrong):
    fill = None if missing == "error" else np.zeros(1)
    pipeline = numbers_pipeline(1, missing=missing, fill=fill)
    with pytest.raises(TableError, match="Column 'x0' holds infinite values"):
        pipeline.transform(pa.record_batch({"x0": [1.0, wrong]}))


def test_numbers_too_large_to_standardise_are_an_error():
    with pytest.raises(TableError, match="too large to standardise") as caught:
        numbers_pipeline(1).transform(pa.record_batch({"x0": [4.2e250]}))
    assert "4.2" not in str(caught.value)


def test_an_unknown_category_is_an_error_that_counts_but_does_not_show_it(clinic):
    batch = batch_of(clinic.set_column(2, "ward", pa.array(["west", "SECRET", "north"] * 40)))
    with pytest.raises(TableError, match="Column 'ward': 40 cells") as caught:
        clinic_pipeline().transform(batch)
    assert "SECRET" not in str(caught.value)


def test_an_unknown_category_can_be_no_category(clinic):
    strange = clinic.set_column(2, "ward", pa.array(["west", "east", "north"] * 40))
    pipeline = clinic_pipeline()
    rows = pipeline.transform(batch_of(strange), unknown=Counter())
    np.testing.assert_allclose(rows, slow_transform(strange, pipeline), rtol=1e-12, atol=1e-14)


def test_a_column_that_is_not_there_is_named(clinic):
    with pytest.raises(TableError, match="no column 'dose'"):
        clinic_pipeline().transform(batch_of(clinic.drop_columns(["dose"])))


def test_texts_where_numbers_belong_are_refused(clinic):
    texts = clinic.set_column(0, "age", pa.array(["old"] * 120))
    with pytest.raises(TableError, match="'age' must hold numbers, but it holds string"):
        clinic_pipeline().transform(batch_of(texts))


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": np.zeros(3)},
        {"mean": np.array([0.0, np.nan])},
        {"scale": np.array([1.0, 0.0])},
        {"scale": np.array([1.0, -1.0])},
        {"scale": np.array([1.0, np.inf])},
        {"bound": 0.0},
        {"bound": -1.0},
        {"bound": math.inf},
        {"bound": math.nan},
        {"intercept": -1.0},
        {"intercept": math.nan},
        {"missing": "drop"},
        {"missing": "mean"},
        {"fill": np.zeros(2)},
        {"missing": "zero", "fill": np.zeros(1)},
        {"missing": "zero", "fill": np.array([np.nan, 0.0])},
    ],
    ids=str,
)
def test_parameters_outside_their_domain_are_refused(changes):
    assert numbers_pipeline(2).bound == 1.0
    with pytest.raises(ParameterError):
        numbers_pipeline(2, **changes)


# --- as data


def travelled(pipeline: Pipeline) -> Pipeline:
    text = json.dumps(pipeline.to_json())
    copies = {name: array.copy() for name, array in pipeline.arrays().items()}
    return Pipeline.from_json(json.loads(text), copies)


@pytest.mark.parametrize("missing", ["error", "mean", "zero"])
def test_a_pipeline_survives_its_journey_as_json_and_arrays(clinic, missing):
    pipeline = clinic_pipeline(missing, bound=0.1 + 0.2)
    copy = travelled(pipeline)
    assert copy == pipeline
    assert copy.digest() == pipeline.digest()
    assert copy.columns == pipeline.columns
    np.testing.assert_array_equal(
        copy.transform(batch_of(clinic)), pipeline.transform(batch_of(clinic))
    )


def test_integer_categories_stay_integers_on_the_journey():
    columns = (Column("age", (1, 2, 3, 5)), Column("dose"))
    pipeline = clinic_pipeline(columns=columns)
    assert travelled(pipeline).columns == columns
    texts = clinic_pipeline(columns=(Column("age", ("1", "2", "3", "5")), Column("dose")))
    assert texts != pipeline


@pytest.mark.parametrize(
    "other",
    [
        clinic_pipeline(bound=1.9),
        clinic_pipeline(intercept=1.0),
        clinic_pipeline("mean"),
        clinic_pipeline(columns=(Column("age"), WARDS, Column("weight"))),
        clinic_pipeline(columns=(Column("age"), Column("ward", WARDS.categories[::-1]), CLINIC[2])),
        clinic_pipeline(columns=(WARDS, Column("age"), Column("dose"))),
    ],
)
def test_pipelines_that_do_something_else_are_not_equal(other):
    assert other != clinic_pipeline()
    assert other.digest() != clinic_pipeline().digest()
    assert other != "a pipeline"


def test_filling_with_the_mean_and_with_zero_are_different_pipelines():
    assert clinic_pipeline("mean") != clinic_pipeline("zero")


@pytest.mark.parametrize("vector", ["pipeline.mean", "pipeline.scale", "pipeline.fill"])
def test_one_changed_number_changes_the_digest(vector):
    pipeline = clinic_pipeline("mean")
    changed = {name: array.copy() for name, array in pipeline.arrays().items()}
    changed[vector][2] = np.nextafter(changed[vector][2], 2.0)
    assert Pipeline.from_json(pipeline.to_json(), changed).digest() != pipeline.digest()


def test_a_pipeline_has_no_hash():
    with pytest.raises(TypeError):
        hash(clinic_pipeline())


@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"columns": []},
        {"columns": "age"},
        {"columns": {"name": "age", "categories": None}},
        {"columns": [{"name": "age"}]},
        {"columns": [{"name": 3, "categories": None}]},
        {"columns": [{"name": "age", "categories": "abc"}]},
        {"columns": [{"name": "age", "categories": [1.5, 2, 3, 4, 5]}]},
        {"columns": [{"name": "age", "categories": [None, 2, 3, 4, 5]}]},
        {"columns": [{"name": "age", "categories": [1, 2, 3, 4, 5], "more": 1}]},
        {"columns": [{"name": "age", "categories": ["a", "a", "b", "c", "d"]}]},
        {"missing": None},
        {"missing": "drop"},
        {"missing": ["error"]},
        {"missing": "mean"},
        {"bound": None},
        {"bound": "wide"},
        {"bound": "2.0"},
        {"bound": True},
        {"bound": 0},
        {"bound": 10**400},
        {"bound": math.nan},
        {"bound": [1.0]},
        {"intercept": -1},
        {"intercept": None},
        {"intercept": "0.5"},
        {"intercept": 10**400},
        {"extra": 1},
    ],
    ids=lambda change: str(change)[:70],
)
def test_wrong_json_is_a_corrupt_file(change):
    pipeline = clinic_pipeline()
    assert travelled(pipeline) == pipeline
    with pytest.raises(CorruptFileError):
        Pipeline.from_json({**pipeline.to_json(), **change}, pipeline.arrays())


@pytest.mark.parametrize("data", [None, [], "pipeline", 3, {}, {"columns": []}])
def test_json_that_is_no_pipeline_is_a_corrupt_file(data):
    with pytest.raises(CorruptFileError):
        Pipeline.from_json(data, clinic_pipeline().arrays())


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline.mean": None},
        {"pipeline.scale": None},
        {"pipeline.mean": np.zeros(WIDTH + 1)},
        {"pipeline.mean": np.zeros((WIDTH, 1))},
        {"pipeline.mean": np.full(WIDTH, np.inf)},
        {"pipeline.scale": np.zeros(WIDTH)},
        {"pipeline.fill": np.zeros(WIDTH)},
        {"pipeline.mean": np.array(["0"] * WIDTH)},
    ],
    ids=lambda change: str(change)[:40],
)
def test_wrong_arrays_are_a_corrupt_file(change):
    pipeline = clinic_pipeline()
    changed = {**pipeline.arrays(), **change}
    remaining_arrays = {name: array for name, array in changed.items() if array is not None}
    with pytest.raises(CorruptFileError):
        Pipeline.from_json(pipeline.to_json(), remaining_arrays)
