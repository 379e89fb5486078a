"""The data sheet: read strictly, and nothing in it says what private cells would."""

import json

import pytest

from suffice import strict_json
from suffice.errors import ParameterError, StorageError
from suffice.tables.data_sheet import DataSheet, SheetColumn

KNOWN = "known beforehand"
AGE = {"name": "age", "minimum": 0, "maximum": 120, "source": KNOWN}
WARD = {"name": "ward", "datatype": "string", "categories": ["n", "s"], "source": KNOWN}
SICK = {"name": "sick", "datatype": "integer", "categories": [0, 1], "source": KNOWN}
SHEET = {"columns": [AGE, WARD, SICK], "label": "sick", "rows": 70_000, "rows_source": KNOWN}


def test_a_sheet_is_read_and_written_as_it_is(tmp_path):
    (tmp_path / "columns.json").write_text(json.dumps(SHEET))
    sheet = DataSheet.load(tmp_path / "columns.json")
    assert sheet == DataSheet.from_json(sheet.to_json())
    assert (sheet.features, sheet.public, sheet.classes) == (("age", "ward"), (), (0, 1))
    assert sheet.ranges(sheet.features) == {"age": (0.0, 120.0)}
    assert sheet.categories(sheet.features) == {"ward": ("n", "s")}
    assert sheet.width(sheet.features) == 3
    assert strict_json.schema(DataSheet, defaults=True)["required"] == ["columns"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"path": "table.csv"}, "no such member"),
        ({"columns": []}, "at least one column"),
        ({"columns": [AGE, AGE]}, "each of them once"),
        ({"label": "nobody"}, "one of its columns"),
        ({"columns": [AGE, {**SICK, "public": True}]}, "label of a data sheet is private"),
        ({"rows": 0}, "positive number"),
        ({"rows_source": None}, "rows_source"),
        ({"rows_source": "private cells"}, "rows_source"),
        ({"columns": [{**AGE, "source": None}, SICK]}, "where its numbers come from"),
        ({"columns": [{**AGE, "maximum": 0}, SICK]}, "larger maximum"),
        ({"columns": [{**AGE, "maximum": None}, SICK]}, "larger maximum"),
        ({"columns": [{**AGE, "categories": ["a"]}, SICK]}, "both categories and a range"),
        ({"columns": [{**WARD, "categories": ["n", "n"]}, SICK]}, "different categories"),
        ({"columns": [{**WARD, "categories": []}, SICK]}, "different categories"),
        ({"columns": [{**AGE, "name": "a\x1b[31m"}, SICK]}, "can be printed"),
        ({"columns": [{**AGE, "source": "a guess"}, SICK]}, "must be one of"),
    ],
)
def test_a_sheet_that_says_too_little_or_too_much_is_an_error(change, says):
    with pytest.raises(ParameterError, match=says):
        DataSheet.from_json({**SHEET, **change})


def test_numbers_from_private_cells_cannot_be_declared():
    private = {**AGE, "source": "private cells"}
    sheet = DataSheet.from_json({**SHEET, "columns": [private, WARD, SICK]})
    with pytest.raises(ParameterError, match="private cells"):
        sheet.ranges(["age"])
    assert sheet.categories(["ward"])
    labels = {**SICK, "source": "private cells"}
    with pytest.raises(ParameterError, match="private cells"):
        _ = DataSheet.from_json({**SHEET, "columns": [AGE, labels]}).classes


def test_what_is_open_is_named():
    sheet = DataSheet((SheetColumn("age"), SheetColumn("ward", "string")))
    assert sheet.open_columns(sheet.features) == ["age", "ward"]
    with pytest.raises(ParameterError, match="how many rows"):
        sheet.blank(["age"])
    with pytest.raises(ParameterError, match="no column 'size'"):
        sheet.width(["size"])


def test_a_blank_table_has_the_rows_and_columns_and_no_cell():
    table = DataSheet.from_json(SHEET).blank(["ward", "age"])
    assert (table.num_rows, table.column_names) == (70_000, ["ward", "age", "sick"])
    assert [str(kind) for kind in table.schema.types] == ["string", "double", "string"]
    assert all(column.null_count == 70_000 for column in table.columns)


def test_a_file_that_is_missing_or_too_large_is_an_error(tmp_path):
    with pytest.raises(StorageError, match="cannot be read"):
        DataSheet.load(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ParameterError, match="mebibyte"):
        DataSheet.load(tmp_path / "large.json")
