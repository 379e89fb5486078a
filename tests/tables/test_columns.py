"""Columns have one role each, and cells become numbers or codes without losing their meaning."""

import datetime as dt
import traceback

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import TableError
from suffice.tables.columns import (
    Roles,
    category_codes,
    is_categorical,
    numeric_column,
    numeric_columns,
    resolve_roles,
)

SCHEMA = pa.schema(
    [
        ("age", pa.float64()),
        ("ward", pa.string()),
        ("sick", pa.int64()),
        ("born", pa.date32()),
        ("bag", pa.int32()),
    ]
)


def batch_of(**columns) -> pa.RecordBatch:
    return pa.record_batch(columns)


# --- roles


def test_features_are_all_columns_without_another_role():
    schema = SCHEMA.remove(3)
    roles = resolve_roles(schema, label="sick", bag="bag")
    assert roles == Roles(("age", "ward"), label="sick")


def test_the_row_numbers_of_pandas_are_no_feature_unless_named():
    schema = pa.schema([("age", pa.float64()), ("__index_level_0__", pa.int64())])
    assert resolve_roles(schema).features == ("age",)
    assert resolve_roles(schema, features=["__index_level_0__"]).features == ("__index_level_0__",)


def test_named_features_keep_the_order_in_which_they_were_named():
    assert resolve_roles(SCHEMA, features=["ward", "age"]).features == ("ward", "age")


@pytest.mark.parametrize("role", ["label", "bag", "party"])
def test_a_missing_column_is_named_together_with_those_that_exist(role):
    with pytest.raises(TableError, match=r"no column 'sex'\. It has 'age', 'ward'"):
        resolve_roles(SCHEMA, features=["age"], **{role: "sex"})
    with pytest.raises(TableError, match="no column 'sex'"):
        resolve_roles(SCHEMA, features=["age", "sex"])


def test_a_wide_table_is_not_listed_in_full():
    wide = pa.schema([(f"c{j}", pa.int64()) for j in range(20)])
    with pytest.raises(TableError, match=r"'c7' and 12 more\.") as caught:
        resolve_roles(wide, label="sick")
    assert "'c8'" not in str(caught.value)


def test_a_name_that_two_columns_have_is_refused():
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    with pytest.raises(TableError, match="more than one column 'a'"):
        resolve_roles(twice, features=["a"])
    assert resolve_roles(twice, features=["b"]).features == ("b",)


@pytest.mark.parametrize(
    "roles",
    [
        {"label": "sick", "bag": "sick"},
        {"bag": "bag", "party": "bag"},
        {"label": "sick", "features": ["age", "sick"]},
        {"party": "age", "features": ["age"]},
    ],
)
def test_a_column_with_two_roles_is_refused(roles):
    with pytest.raises(TableError, match="two roles"):
        resolve_roles(SCHEMA, **{"features": ["ward"], **roles})


@pytest.mark.parametrize("features", [[], ["age", "age"]])
def test_no_feature_and_a_feature_named_twice_are_refused(features):
    with pytest.raises(TableError, match="empty or names a column twice"):
        resolve_roles(SCHEMA, features=features)


def test_a_label_alone_leaves_no_feature():
    with pytest.raises(TableError, match="at least one feature"):
        resolve_roles(pa.schema([("sick", pa.int64())]), label="sick")


def test_a_date_can_be_a_feature_or_a_label():
    assert "born" in resolve_roles(SCHEMA, label="sick").features
    assert resolve_roles(SCHEMA, features=["age"], label="born").label == "born"


@pytest.mark.parametrize(
    ("kind", "categorical"),
    [
        (pa.string(), True),
        (pa.large_string(), True),
        (pa.dictionary(pa.int8(), pa.string()), True),
        (pa.dictionary(pa.int32(), pa.int64()), True),
        (pa.uint8(), False),
        (pa.int64(), False),
        (pa.float16(), False),
        (pa.float32(), False),
        (pa.bool_(), False),
    ],
    ids=str,
)
def test_texts_and_dictionaries_are_categories_and_numbers_are_not(kind, categorical):
    assert is_categorical(kind) is categorical


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(5),
        pa.binary(),
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
    ],
    ids=str,
)
def test_what_is_neither_numbers_nor_categories_is_refused(kind):
    with pytest.raises(TableError, match="neither numbers nor categories"):
        is_categorical(kind)


def test_a_column_without_values_is_one_of_missing_numbers():
    assert not is_categorical(pa.null())
    assert np.isnan(numeric_columns(pa.record_batch([pa.nulls(3)], names=["a"]), ["a"])).all()


# --- numbers


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_columns_of_one_float_type_keep_it(kind):
    batch = batch_of(a=pa.array([1.5, 2.5], kind), b=pa.array([-1.0, None], kind))
    columns = numeric_columns(batch, ["b", "a"])
    assert columns.dtype == kind.to_pandas_dtype()
    np.testing.assert_array_equal(columns, [[-1.0, np.nan], [1.5, 2.5]])


@pytest.mark.parametrize(
    "other",
    [
        pa.array([1.0, 2.0], pa.float64()),
        pa.array([1, 2], pa.int8()),
        pa.array([1, 2], pa.uint64()),
        pa.array([1.0, 2.0], pa.float16()),
    ],
    ids=lambda array: str(array.type),
)
def test_columns_of_several_types_become_float64_with_the_same_values(other):
    single = pa.array([0.1, None], pa.float32())
    columns = numeric_columns(batch_of(a=single, b=other), ["a", "b"])
    assert columns.dtype == np.float64
    np.testing.assert_array_equal(columns, [[np.float32(0.1), np.nan], [1.0, 2.0]])


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.bool_()], ids=str
)
def test_a_missing_number_becomes_nan(kind):
    column = pa.array([1, None, 0]).cast(kind)
    np.testing.assert_array_equal(numeric_column(column), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(numeric_columns(batch_of(a=column), ["a"]), [[1.0, np.nan, 0.0]])


def test_true_is_one_and_false_is_zero():
    columns = numeric_columns(batch_of(a=[True, False], b=[0.5, 1.5]), ["a", "b"])
    np.testing.assert_array_equal(columns, [[1.0, 0.0], [0.5, 1.5]])


def test_no_columns_give_an_array_without_width():
    assert numeric_columns(batch_of(a=[1, 2, 3]), []).shape == (0, 3)


@settings(max_examples=50)
@given(
    cells=st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=1, max_size=30),
    kind=st.sampled_from([pa.float32(), pa.float64()]),
    data=st.data(),
)
def test_a_slice_of_a_batch_gives_a_c_ordered_slice_of_the_numbers(cells, kind, data):
    column = pa.array(cells, kind)
    batch = batch_of(a=column, b=column)
    start = data.draw(st.integers(0, len(cells)))
    count = data.draw(st.integers(0, len(cells) - start))
    part = numeric_columns(batch.slice(start, count), ["a", "b"])
    assert part.flags.c_contiguous
    expected = [np.nan if cell is None else cell for cell in cells[start : start + count]]
    np.testing.assert_array_equal(part, np.array([expected, expected]).reshape(2, count))


def test_an_integer_too_large_for_a_float_is_never_quoted():
    column = pa.array([None, 2**53 + 1])
    try:
        numbers = numeric_column(column)
    except TableError as error:
        assert "9007199254740993" not in "".join(traceback.format_exception(error))  # noqa: PT017
    else:
        np.testing.assert_array_equal(numbers, [np.nan, 2.0**53])  # as it is without the null


# --- categories


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_texts_become_positions_in_the_declared_list(kind):
    texts = pa.array(["b", None, "a", "strange", "b", ""])
    column = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    assert category_codes(column, ("a", "b")).tolist() == [1, -1, 0, -2, 1, -2]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16(), pa.float32()], ids=str)
def test_numbers_become_positions_in_the_declared_list(kind):
    column = pa.array([30, 10, None, 20]).cast(kind)
    assert category_codes(column, (10, 30)).tolist() == [1, 0, -1, -2]


def test_booleans_become_positions_in_the_declared_list():
    column = pa.array([True, False, None])
    assert category_codes(column, (False, True)).tolist() == [1, 0, -1]
    assert category_codes(column, (True,)).tolist() == [0, -2, -1]


def test_a_dictionary_may_hold_more_than_the_declared_list_and_nothing():
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, None]), pa.array(["z", None, "a"]))
    assert category_codes(column, ("a", "b")).tolist() == [0, -2, -1, -1]


def test_an_empty_list_knows_no_category():
    assert category_codes(pa.array(["a", None]), ()).tolist() == [-2, -1]


def test_a_slice_is_coded_like_its_own_cells():
    column = pa.array(["a", "b", None, "c"]).dictionary_encode().slice(1, 2)
    assert category_codes(column, ("a", "b")).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("column", "categories"),
    [
        (pa.array([1, 2]), ("a", "b")),
        (pa.array([1, 2], pa.int8()), (1, 300)),
        (pa.array([dt.date(2020, 1, 1)]), (1, 2)),
    ],
    ids=["texts for numbers", "too large", "dates"],
)
def test_a_cell_of_another_type_is_none_of_the_categories(column, categories):
    """Which type a reader gave a column, it may have got from private cells: that is no error."""
    codes = category_codes(column, categories)
    assert set(codes.tolist()) <= {-2, 0}
    assert codes[-1] == -2


def test_numbers_by_their_looks_are_still_the_texts_that_were_declared():
    assert category_codes(pa.array([1, 2]), ("x", "2", "1")).tolist() == [2, 1]
