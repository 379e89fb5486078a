"""How a CSV file is written is told by its first line and its public columns, never by a label."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import ParameterError, TableError
from suffice.tables import files
from suffice.tables.databases import Query
from suffice.tables.files import Dialect, TableFile, looks_like_numbers, read_header, types_of_cells
from suffice.tables.sources import Picked, Without, column_names, open_declared, open_table
from suffice.tables.table import is_ordered, order_columns


def header(folder, line, name="t.csv", encoding="utf-8", **given_words):
    path = folder / name
    path.write_bytes(line.encode(encoding))
    return read_header(path, Dialect(**given_words))


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("a,b,c\n", ","),
        ("a;b;c\n", ";"),
        ("a\tb\n", "\t"),
        ("a|b\r\n", "|"),
        ('"a,x";b;c\n', ";"),
        ("a, kg;b;c\n", ";"),
        ("alone\n", ","),
    ],
)
def test_the_sign_between_columns_stands_most_often_in_the_first_line(tmp_path, line, sign):
    assert header(tmp_path, line)[1].delimiter == sign


def test_two_signs_equally_often_are_a_question_unless_one_is_said(tmp_path):
    with pytest.raises(TableError, match=r"commas and semicolons .* --read delimiter="):
        header(tmp_path, "a,b;c\n")
    assert header(tmp_path, "a,b;c\n", delimiter=";")[0] == ["a,b", "c"]


def test_the_ending_tsv_says_tab(tmp_path):
    names, dialect = header(tmp_path, "a,b\tc,d\n", "t.tsv")
    assert (names, dialect.delimiter) == (["a,b", "c,d"], "\t")


@pytest.mark.parametrize(
    ("line", "encoding", "expected"),
    [
        ("a,b\n", "utf-8", None),
        ("größe,b\n", "utf-8", "utf-8"),
        ("größe,b\n", "utf-8-sig", "utf-8"),
        ("größe,b\n", "latin-1", "cp1252"),
        ("größe,b\n", "utf-16", "utf-16"),
        ("a,b\n", "utf-16-le", "utf-16-le"),
        ("a,b\n", "utf-16-be", "utf-16-be"),
    ],
)
def test_the_encoding_is_told_by_the_mark_or_the_names(tmp_path, line, encoding, expected):
    names, dialect = header(tmp_path, line, encoding=encoding)
    assert names == line.strip().split(",")
    assert dialect.encoding == expected


def test_a_name_in_quotes_may_hold_a_line_end(tmp_path):
    assert header(tmp_path, '"a\nb",c\n1,2\n')[0] == ["a\nb", "c"]


@pytest.mark.parametrize(
    "words",
    [
        {"delimiter": ";;"},
        {"delimiter": ""},
        {"delimiter": '"'},
        {"decimal": "x"},
        {"encoding": "no such"},
        {"encoding": "base64"},
    ],
)
def test_what_is_no_dialect_is_refused(words):
    with pytest.raises(ParameterError):
        TableFile("t.csv", **words)


def test_a_dialect_is_said_in_words():
    assert str(Dialect("tab", ",", "latin-1")) == "tabs, decimal commas, latin-1"
    assert str(Dialect("^", None, None)) == "'^' between columns, utf-8"


# --- labels decide nothing

_LABEL = st.binary(max_size=12).filter(lambda cell: not set(cell) & set(b'\n\r";\0'))


@settings(max_examples=60, deadline=None)
@given(st.lists(_LABEL, min_size=3, max_size=3))
def test_no_label_changes_what_is_read_beside_it(tmp_path_factory, labels):
    """Whatever bytes labels are: not the schema, the dialect, nor a cell of another column."""
    path = tmp_path_factory.mktemp("t") / "t.csv"
    rows = [b"1;2,5;x", b"2;;y", b"3;1;x"]
    lines = [b"n;dose;ward;label", *(a + b";" + b for a, b in zip(rows, labels, strict=True))]
    path.write_bytes(b"\n".join(lines) + b"\n")
    table = open_table(path, text=["label"])
    (batch,) = table.batches(["n", "dose", "ward"])
    assert batch.to_pydict() == {"n": [1, 2, 3], "dose": [2.5, None, 1.0], "ward": ["x", "y", "x"]}
    assert str(table.dialect) == "semicolons, decimal commas, utf-8"


def test_columns_that_are_left_out_or_no_features_decide_nothing(tmp_path):
    """A name that is dropped, or private and never released, is not looked at for the dialect."""
    from suffice import MeanOperator

    tables = []
    for cell in ("1.5", "1,5", "Süd"):
        path = tmp_path / "t.csv"
        lines = [f"{k % 7};{k % 3},5;{cell};{k % 2}" for k in range(60)]
        path.write_bytes("\n".join(["a;b;name;sick", *lines]).encode("latin-1"))
        for how in ({"drop": ["name"]}, {"features": ["a", "b"]}):
            release = MeanOperator(epsilon=1.0, map=None).release(
                path, label="sick", ledger=None, **how
            )
            tables.append((release.pipeline, release.parts[0].rows))
    assert all(table == tables[0] for table in tables)


def test_a_label_that_is_no_utf_8_is_read_as_latin_1_it_alone(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,label\n1,gr\xfcn\n2," + "grün".encode() + b"\n")
    (batch,) = open_table(path, text=["label"]).batches(["a", "label"])
    assert batch["label"].to_pylist() == ["grün", "grün"]


def test_private_columns_are_read_as_declared_and_nothing_else_is_tried(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a;b\n1,5;2\n")
    for decimal, first in (".", None), (",", 1.5):
        described = TableFile(path, decimal=decimal)
        (batch,) = open_table(described, numbers=["a", "b"]).batches(["a", "b"])
        assert batch.to_pydict() == {"a": [first], "b": [2.0]}


def test_private_numbers_between_semicolons_need_a_decimal_mark_unless_public_ones_show_it(
    tmp_path,
):
    path = tmp_path / "t.csv"
    for cell in "1.5", "1,5", "x", "2":  # whatever the private cell is
        path.write_text(f"a;b;public\n{cell};2;3,5\n")
        with pytest.raises(TableError, match="--read decimal=, or --read decimal"):
            open_table(path, numbers=["a", "b"], text=["public"])
        (batch,) = open_table(path, numbers=["a"]).batches(["public"])
        assert batch.to_pydict() == {"public": [3.5]}


@pytest.mark.parametrize("cell", ["1.5", "1,5", "Süd", "x"])
def test_a_private_column_that_nobody_declared_decides_nothing(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_bytes(f"a;note;ward\n1.5;{cell};Nord\n".encode("latin-1"))
    table = open_declared(TableFile(path, decimal="."), text=["ward"], numbers=["a"])
    (batch,) = table.batches(["a", "ward"])
    assert batch.to_pydict() == {"a": [1.5], "ward": ["Nord"]}
    assert str(table.dialect) == "semicolons, decimal points, utf-8"


@pytest.mark.parametrize("length", range(1, 6))
def test_no_label_cuts_a_line_end_in_a_public_cell(tmp_path, monkeypatch, length):
    """Arrow loses a CR where a block ends within CR LF, and labels move the ends of blocks."""
    monkeypatch.setattr(files, "BLOCKS", (32, 1 << 20))
    path = tmp_path / "t.csv"
    rows = [f'{k % 3},"p\r\nq",{"x" * length}\r\n' for k in range(60)]
    path.write_bytes(("a,ward,label\r\n" + "".join(rows)).encode())
    table = open_table(path, text=["label"])
    cells = [c for batch in table.batches(["ward"]) for c in batch["ward"].to_pylist()]
    assert cells == ["p\nq"] * 60


def test_lines_may_end_in_cr_alone_and_labels_do_not_tell_the_encoding(tmp_path):
    for label in ("ill", "gr\u00fcn", "\0"):
        names, dialect = header(tmp_path, f"a,label\r1,{label}\r", encoding="latin-1")
        assert (names, dialect.encoding) == (["a", "label"], None)


def test_a_quote_within_a_name_opens_nothing(tmp_path):
    for label in ("ill", ";;;;;;"):
        assert header(tmp_path, f'a,5" size,y\n1,2,{label}\n')[0] == ["a", '5" size', "y"]


def test_a_line_of_spreadsheets_says_the_sign(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sep=;\na;b\n1;2\n")
    (batch,) = open_table(path).batches(["a", "b"])
    assert batch.to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    "name", ["utf-7", "hz", "iso2022_jp", "unicode_escape", "raw_unicode_escape"]
)
def test_encodings_in_which_cells_are_not_apart_are_refused(name):
    with pytest.raises(ParameterError, match="Tables in the encoding"):
        TableFile("t.csv", encoding=name)
    assert TableFile("t.csv", encoding="shift_jis").encoding == "shift_jis"


def test_a_sign_that_letters_can_swallow_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a|b\n")
    with pytest.raises(TableError, match="cannot be used with this delimiter"):
        read_header(path, Dialect(encoding="shift_jis"))


@pytest.mark.parametrize("cell", [b"x", b"1,5", b"\xff"])
def test_skipping_rows_looks_at_features_alone(tmp_path, cell):
    from suffice import MeanOperator

    path = tmp_path / "t.csv"
    lines = [
        f"{k % 7};2.5;".encode() + cell + f";{(k % 2) if k % 9 else ''}".encode() for k in range(90)
    ]
    path.write_bytes(b"\n".join([b"a;b;name;sick", *lines]))
    inputs = {"label": "sick", "ledger": None, "missing_labels": "skip", "features": ["a", "b"]}
    release = MeanOperator(epsilon=1.0, map=None).release(path, **inputs)
    assert (release.parts[0].rows.count, release.pipeline.mean[1]) == (80, 2.5)


def test_numbers_that_may_be_thousands_are_a_question():
    unclear = types_of_cells(cells(a=["1.234", "12"]), None, commas_between=False)
    assert set(unclear.refused) == {"a"}
    for clear in (["1.234", "0.5"], ["0.234"], ["12"], ["1.2345"]):
        assert not types_of_cells(cells(a=clear), None, commas_between=False).refused
    assert not types_of_cells(cells(a=["1.234"]), ".", commas_between=False).refused
    assert not types_of_cells(cells(a=["1.234"]), None, commas_between=True).refused


def test_names_of_a_packed_file_are_read_without_its_rows(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress("größe;b\n1;2\n".encode("latin-1")))
    assert column_names(path) == ["größe", "b"]


# --- types


def cells(**columns):
    return {n: pa.chunked_array([pa.array(c, pa.string())]) for n, c in columns.items()}


def test_the_decimal_mark_is_a_comma_where_it_makes_numbers_and_nothing_has_points():
    types = types_of_cells(cells(a=["1,5", "2"], b=["3", "4"], c=["x", "1,5"]), None)
    assert types.decimal == ","
    assert types.types == {"a": pa.float64(), "b": pa.int64(), "c": pa.string()}
    assert types_of_cells(cells(a=["1.5"]), None).decimal == "."
    assert types_of_cells(cells(a=["1"]), None).decimal is None
    mixed = types_of_cells(cells(a=["1,5"], b=["1.5"]), None)
    assert (mixed.decimal, set(mixed.refused)) == (".", {"a"})


@pytest.mark.parametrize(
    ("dates", "formats"),
    [
        (["03.04.1971", "3.4.1971"], ["%d.%m.%Y"]),
        (["03.04.1971 12:30"], ["%d.%m.%Y %H:%M"]),
        (["31/12/2020", "01/02/2020"], ["%d/%m/%Y"]),
        (["12/31/2020", "01/02/2020"], ["%m/%d/%Y"]),
        (["2020/12/31"], ["%Y/%m/%d"]),
    ],
)
def test_dates_are_known_by_a_form_that_all_cells_have(dates, formats):
    types = types_of_cells(cells(a=[*dates, None]), None)
    assert types.types == {"a": pa.timestamp("s")}
    assert types.formats == formats


def test_dates_of_which_nobody_can_tell_the_month_are_refused():
    assert set(types_of_cells(cells(a=["01/02/2020"]), None).refused) == {"a"}
    both = types_of_cells(cells(a=["13/02/2020"], b=["02/13/2020"]), None)
    assert set(both.refused) == {"a", "b"}
    assert types_of_cells(cells(a=["03.04.71"]), None).types == {"a": pa.string()}


@pytest.mark.parametrize("text", ["1,5", "1.234,56", "1 234", "1,234.5", "12 %", "1'000"])
def test_numbers_in_forms_that_are_not_read_are_known_by_their_looks(text):
    assert looks_like_numbers(text)


@pytest.mark.parametrize("text", ["401.9", "12", "10-19", "a", "03.04.71", "V45,1", ""])
def test_codes_and_words_are_no_numbers(text):
    assert not looks_like_numbers(text)


def test_what_is_left_of_a_query_has_the_order_of_the_query():
    query = Query("sqlite:///t.db", "select * from t", ("id",))
    for part in (Without(query, ("a",)), Picked(query, np.array([True]))):
        assert is_ordered(part)
        assert order_columns(part) == ("id",)
    unordered = Query("sqlite:///t.db", "select * from t")
    assert not is_ordered(Picked(Without(unordered, ("a",)), np.array([True])))
