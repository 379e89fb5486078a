"""Labels become codes of the declared classes; a label outside them is refused, never shown."""

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import ParameterError, TableError
from suffice.tables.columns import canonical_class, check_classes, label_codes

TEXTS = ["no", "yes", "no"]


@pytest.mark.parametrize(
    "labels",
    [
        [3, -1, 3],
        [3.0, -1.0, 3.0],
        np.array([3, -1, 3], dtype=np.int8),
        np.array([3, -1, 3], dtype=np.float32),
        pd.Series([3, -1, 3]),
        pl.Series([3, -1, 3]),
        pa.array([3, -1, 3], pa.int16()),
        pa.chunked_array([[3], [-1, 3]]),
        pa.array([3, -1, 3]).dictionary_encode(),
    ],
    ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}".strip(),
)
def test_numbers_become_positions_in_the_order_of_the_declaration(labels):
    codes = label_codes(labels, (3, 7, -1))
    assert codes.dtype == np.int64
    assert codes.tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    "labels",
    [
        TEXTS,
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        pd.Series(TEXTS),
        pd.Series(TEXTS, dtype="category"),
        pl.Series(TEXTS),
        pl.Series(TEXTS, dtype=pl.Categorical),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS).dictionary_encode(),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pa.chunked_array([pa.array(TEXTS).dictionary_encode()]),
    ],
    ids=lambda labels: (
        f"{type(labels).__name__} {getattr(labels, 'dtype', getattr(labels, 'type', ''))}".strip()
    ),
)
def test_texts_become_positions_in_the_order_of_the_declaration(labels):
    codes = label_codes(labels, ("yes", "no"))
    assert codes.dtype == np.int64
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("classes", [(False, True), (0, 1)])
@pytest.mark.parametrize(
    "labels", [[True, False], [1, 0], [1.0, 0.0], pa.array([True, False])], ids=str
)
def test_one_is_true_and_zero_is_false(labels, classes):
    assert label_codes(labels, classes).tolist() == [1, 0]


@settings(max_examples=50)
@given(
    classes=st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=6, unique=True),
    data=st.data(),
)
def test_the_codes_lead_back_to_the_labels(classes, data):
    labels = data.draw(st.lists(st.sampled_from(classes), min_size=1))
    codes = label_codes(np.array(labels), tuple(classes))
    assert [classes[code] for code in codes] == labels


def test_no_labels_have_no_codes():
    assert label_codes(np.array([], dtype=np.int64), (0, 1)).tolist() == []


# --- labels outside the classes


def refused(labels, classes) -> str:
    with pytest.raises(TableError) as caught:
        label_codes(labels, classes)
    printed = "".join(traceback.format_exception(caught.value))
    assert "424242" not in printed
    assert "SECRET" not in printed
    return str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1, 424242, 424242], (0, 1)),
        ([0, 1, -424242, 424242], (0, 1)),
        ([0.0, 1.0, 0.424242, 1.424242], (0, 1)),
        (np.array([0, 1, 424242, 2**63 + 424242], dtype=np.uint64), (0, 1)),
        ([False, True, True, True], (0, 5)),
        (pa.array([0, 1, 424242, 424242]).dictionary_encode(), (0, 1)),
    ],
    ids=["above", "on both sides", "between", "unsigned", "booleans", "dictionary"],
)
def test_a_number_outside_the_classes_is_counted_and_not_shown(labels, classes):
    message = refused(labels, classes)
    outside = 3 if classes == (0, 5) else 2
    assert message.startswith(f"{outside} of 4 labels")
    assert ", ".join(map(str, classes)) in message


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "SECRET", "yes"],
        np.array(["no", "SECRET", "yes"], dtype=object),
        pa.array(["no", "SECRET", "yes"]).dictionary_encode(),
        ["no", "NO SECRET", "yes"],
    ],
    ids=["list", "objects", "dictionary", "case"],
)
def test_a_text_outside_the_classes_is_counted_and_not_shown(labels):
    message = refused(labels, ("no", "yes"))
    assert message.startswith("1 of 3 labels")
    assert "(no, yes)" in message


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, None, 1], (0, 1)),
        ([0.0, float("nan"), 1.0], (0, 1)),
        ([True, None, False], (False, True)),
        (["no", None, "yes"], ("no", "yes")),
        (pd.Series([0.0, None, 1.0]), (0, 1)),
        (pl.Series([0, None, 1]), (0, 1)),
        (pa.array([0, None, 1]), (0, 1)),
        (pa.array(["no", None, "yes"]).dictionary_encode(), ("no", "yes")),
    ],
    ids=["int", "nan", "bool", "text", "pandas", "polars", "arrow", "dictionary"],
)
def test_missing_labels_are_counted(labels, classes):
    assert refused(labels, classes).startswith("1 of 3 labels are missing")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["SECRET", "no"], (0, 1)),
        ([424242, 0], ("no", "yes")),
        (np.array([1, "SECRET"], dtype=object), (0, 1)),
        (np.array(["SECRET", 1], dtype=object), (0, 1)),
        (np.array([1j]), (0, 1)),
        (np.array(["2020-01-01"], dtype="M8[D]"), (0, 1)),
        ([None, None], (0, 1)),
        ([[0], [1]], (0, 1)),
        ([[0], [0, 1]], (0, 1)),
        ([0, 424242 * 2**70], (0, 1)),
        (np.array([0, 424242 * 2**70], dtype=object), (0, 1)),
    ],
    ids=[
        "text for numbers", "numbers for text", "mixed", "mixed the other way", "complex", "dates",
        "nothing", "two dimensions", "ragged", "beyond 64 bits", "objects beyond 64 bits",
    ],
)  # fmt: skip
def test_labels_of_another_kind_are_a_table_error(labels, classes):
    refused(labels, classes)


# --- classes


@pytest.mark.parametrize(
    ("given_classes", "expected"),
    [
        ([0, 1], (0, 1)),
        (["b", "a", "c"], ("b", "a", "c")),
        ([False, True], (False, True)),
        (np.array([5, 3]), (5, 3)),
        (np.array(["x", "y"]), ("x", "y")),
        (np.array([True, False]), (True, False)),
    ],
)
def test_classes_become_plain_values_in_their_order(given_classes, expected):
    checked = check_classes(given_classes)
    assert checked == expected
    assert [type(value) for value in checked] == [type(value) for value in expected]


@pytest.mark.parametrize("classes", [[], [1], ["a", "a"], [0, 1, 0], [0, False], [1, True]])
def test_classes_must_be_two_or_more_and_different(classes):
    with pytest.raises(ParameterError, match="at least two classes"):
        check_classes(classes)


@pytest.mark.parametrize("classes", [[0, "a"], [0.0, 1.0], [None, 1], [b"a", b"b"], [(0,), (1,)]])
def test_classes_must_be_all_text_or_all_integers(classes):
    with pytest.raises(ParameterError, match="all texts or all integers"):
        check_classes(classes)


@pytest.mark.parametrize("classes", [[[0], [1]], 2])
def test_classes_that_are_no_list_of_values_are_a_parameter_error(classes):
    with pytest.raises(ParameterError):
        check_classes(classes)


def test_classes_beyond_64_bits_are_a_parameter_error():
    with pytest.raises(ParameterError):
        label_codes([0, 1], check_classes([0, 2**70]))


@pytest.mark.parametrize("classes", [(False, True), (0, 1), ("False", "True"), ("false", "true")])
def test_true_and_false_may_be_written_as_people_write_them(classes):
    assert label_codes(pa.array([True, False, True]), classes).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (1, "1"),
        (True, "1"),
        (1.0, "1"),
        ("1", "1"),
        ("TRUE", "1"),
        (np.int8(1), "1"),
        ("false", "0"),
        (-3, "-3"),
        ("no", "no"),
        ("No", "No"),
        (1.5, "1.5"),
        (" 1", "1"),
        ("01", "01"),
        ("-01", "-01"),
        ("00", "00"),
        ("01.0", "01.0"),
        ("0", "0"),
        ("-7.00", "-7"),
        ("1" * 17, "1" * 17),
        ("1" * 17 + ".0", "1" * 17 + ".0"),
        ("a\r\nb", "a\nb"),
        ("\u00a0ill \t", "ill"),
    ],
)
def test_a_class_has_one_spelling(value, canonical):
    assert canonical_class(value) == canonical


@pytest.mark.parametrize("kind", [list, pa.array, lambda v: pa.chunked_array([v[:2], v[2:]])])
def test_labels_outside_the_classes_can_count_as_none(kind):
    for labels, classes, codes in (
        ([0, 1, 7, None], (0, 1), [0, 1, -1, -1]),
        (["0", "TRUE", "x", None], (0, 1), [0, 1, -1, -1]),
        ([1.0, 0.0, 0.5, float("nan")], ("0", "1"), [1, 0, -1, -1]),
    ):
        assert label_codes(kind(labels), classes, outside="none").tolist() == codes


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64, np.uint64])
@pytest.mark.parametrize(
    "classes", [(1, 300), (16777217, 3), (70000, 1), (2**53 - 1, 2**53 - 2), tuple(range(20))]
)
def test_no_label_is_read_otherwise_beside_a_missing_one(kind, classes):
    """Large classes are no floats of 16 or 32 bits, and must not become those beside them."""
    cells = [0, 1, 3, 300, 16777216, 2**53 - 2, 2**53]
    if np.issubdtype(kind, np.floating):
        cells += [-0.0, 0.5, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        column = pa.array(np.array(cells).astype(kind))
    beside = pa.concat_arrays([column, pa.nulls(1, column.type)])
    codes = label_codes(column, classes, outside="none")
    assert codes.tolist() == label_codes(beside, classes, outside="none")[:-1].tolist()
    spelt = [canonical_class(cell) for cell in column.to_pylist()]
    names = [*map(canonical_class, classes)]
    assert codes.tolist() == [names.index(s) if s in names else -1 for s in spelt]


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_a_blank_class_is_refused(blank):
    with pytest.raises(ParameterError, match="must not be blank"):
        check_classes((blank, "ill"))


def test_a_code_with_a_leading_zero_is_no_number():
    assert check_classes(("1", "01")) == ("1", "01")
    assert label_codes(["01", "1", "1.0"], ("1", "01")).tolist() == [1, 0, 0]
    assert label_codes(["01", "1"], (0, 1), outside="none").tolist() == [-1, 1]
