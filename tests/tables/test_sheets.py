"""Sheets of Excel and SPSS: types of public columns, and private cells that decide nothing."""

import math
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from suffice.errors import StorageError, SufficeError, TableError
from suffice.tables.sheets import read_sheet, sheet_names

DAY, MOMENT = datetime(2024, 2, 29), datetime(2024, 2, 29, 13, 30)  # noqa: DTZ001  # sheets know none
STRANGE = (
    None, "", "  ", 0, 1, -7, 1.0, 0.5, 1e300, 10**20, True, False, "yes", "1", "1.0", "true", "01",
    "=1+", "\U0001f600", "x" * 30_000, "_xD800_", DAY, MOMENT, time(1, 2), timedelta(hours=30),
)  # fmt: skip


def workbook(path: Path, *rows: Sequence[Any]) -> Path:
    """Write rows into the first worksheet, and something else into a second one."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(["SECRET"])
    book.save(path)
    return path


def survey(path: Path, frame: pd.DataFrame, **about: Any) -> Path:
    pyreadstat.write_sav(frame, path, **about)
    return path


def test_types_of_public_columns_are_those_of_all_their_cells(tmp_path):
    path = workbook(
        tmp_path / "t.xlsx",
        ["whole", "part", "truth", "day", "moment", "word", "mixed", "large", "nothing", 2020],
        [1, 1, True, DAY, DAY, "a", 1, 2**63, None, "x"],
        [None, 2.5, None, None, MOMENT, None, "b", 1, "  ", None],
        [-3, None, False, DAY, None, "1.0", DAY, None, None, "y"],
    )
    table = read_sheet(path, (), ())
    names = ["whole", "part", "truth", "day", "moment", "word", "mixed", "large", "nothing", "2020"]
    assert table.column_names == sheet_names(path) == names
    types = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us")]
    types += [pa.string(), pa.string(), pa.float64(), pa.null(), pa.string()]
    assert table.schema.types == types
    assert table.to_pydict() == {
        "whole": [1, None, -3],
        "part": [1.0, 2.5, None],
        "truth": [True, None, False],
        "day": [DAY.date(), None, DAY.date()],
        "moment": [DAY, MOMENT, None],
        "word": ["a", None, "1"],
        "mixed": ["1", "b", "2024-02-29"],
        "large": [2.0**63, 1.0, None],
        "nothing": [None] * 3,
        "2020": ["x", None, "y"],
    }


def test_texts_and_numbers_are_what_each_cell_is_by_itself(tmp_path):
    cells = [*STRANGE, "#N/A"]
    rows = [[k, cell, cell] for k, cell in enumerate(cells)]
    path = workbook(tmp_path / "t.xlsx", ["id", "label", "dose"], *rows)
    table = read_sheet(path, ["label", "elsewhere"], ["dose"])
    assert table.schema.types == [pa.int64(), pa.string(), pa.float64()]
    assert table["label"].to_pylist() == [
        None, None, None, "0", "1", "-7", "1", "0.5", str(int(1e300)), str(10**20), "1", "0", "yes",
        "1", "1", "1", "01", None, "\U0001f600", None, "_xD800_", "2024-02-29",
        "2024-02-29T13:30:00",
        "01:02:00", "1 day, 6:00:00", None,
    ]  # fmt: skip
    assert table["dose"].to_pylist() == [
        None, None, None, 0, 1, -7, 1, 0.5, 1e300, 1e20, 1, 0, None, 1, 1, None, 1,
        *[None] * 9,
    ]  # fmt: skip


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_private_cell_changes_itself_alone(tmp_path, position):
    """Whatever stands in it, the other cells, the types and the number of rows are the same."""
    public_parts = set()
    for number, cell in enumerate(STRANGE):
        labels = ["a", "b", "c", "d"]
        labels[position] = cell
        public = [["p", 1], ["q", 2], ["r", 3], [None, None]]  # the last row has no public cell
        rows = [[*row, label, label] for row, label in zip(public, labels, strict=True)]
        path = workbook(tmp_path / f"{number}.xlsx", ["word", "x", "label", "dose"], *rows)
        table = read_sheet(path, ["label"], ["dose"])
        assert table.num_rows == 3
        other_rows = [k for k in range(3) if k != position]
        others = table.select(["word", "x"]).to_pylist(), table.take(other_rows).to_pylist()
        public_parts.add((str(table.schema), str(others)))
    assert len(public_parts) == 1


def test_a_sheet_without_public_columns_has_all_its_rows(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["a", "b"], [1, 2], [None, None], [3, None])
    assert read_sheet(path, ["a"], ["b"]).num_rows == 3
    assert read_sheet(path, (), ()).to_pydict() == {"a": [1, None, 3], "b": [2, None, None]}


def test_no_warning_quotes_a_cell(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["id", "when"], [1, 987654321.5], [2, 1])
    book = openpyxl.load_workbook(path)
    for cell in book.active["B"][1:]:
        cell.number_format = "yyyy-mm-dd"
    book.save(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_sheet(path, ["when"], ())
    assert not caught
    assert table["when"].to_pylist() == [None, "1900-01-01"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "is empty, or the first row"),
        ([[None, None], [1, 2]], "is empty, or the first row"),
        ([["a", None, "c"], [1, 2, 3]], "column 2 has no name"),
        ([["a", " "], [1, "SECRET"]], "right of the last named column"),
        ([["a", "b", "a"], [1, 2, "SECRET"]], "names 'a' more than once"),
    ],
)
def test_a_header_that_names_no_columns_is_explained(tmp_path, rows, reason):
    path = workbook(tmp_path / "t.xlsx", *rows)
    with pytest.raises(TableError, match=reason) as caught:
        read_sheet(path, ["b"], ())
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_merged_header_is_explained(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["a", "b", "c"], [1, 2, 3])
    book = openpyxl.load_workbook(path)
    book.active.merge_cells("A1:B1")
    book.save(path)
    with pytest.raises(TableError, match=r"column 2 has no name.*unmerged"):
        sheet_names(path)


def test_files_that_cannot_be_read_say_what_to_do(tmp_path):
    good = workbook(tmp_path / "good.xlsx", ["a"], ["SECRET"]).read_bytes()
    contents = {
        "locked.xlsx": (bytes.fromhex("d0cf11e0a1b11ae1") + b"SECRET", "without a password"),
        "cut.xlsx": (good[: len(good) // 2], "save it again"),
        "text.xlsx": (b"a,b\n1,SECRET\n", "save it again"),
        "nothing.xlsx": (b"", "save it again"),
        "old.xls": (b"SECRET", "Save it as .xlsx"),
        "text.sav": (b"a,b\n1,SECRET\n", "Save it again as .sav"),
        "nothing.sav": (b"", "Save it again as .sav"),
        "table.ods": (b"", "must end in .xlsx or .sav"),
    }
    for name, (data, reason) in contents.items():
        (tmp_path / name).write_bytes(data)
        for reader in (lambda path: read_sheet(path, (), ()), sheet_names):
            with pytest.raises(TableError, match=reason) as caught:
                reader(tmp_path / name)
            assert "SECRET" not in str(caught.value)
    with pytest.raises(StorageError, match="does not exist"):
        read_sheet(tmp_path / "gone.xlsx", (), ())
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as archive:
        archive.writestr("note.txt", "SECRET")
    with pytest.raises(TableError, match="save it again"):
        sheet_names(tmp_path / "other.xlsx")


def test_damaged_workbooks_are_one_line(tmp_path):
    """The parts of a workbook with bytes changed: each is read, or refused in our own words."""
    rng = np.random.default_rng(5)
    good = workbook(tmp_path / "good.xlsx", ["id", "word"], [1, "SECRET"], [2, "SECRET"])
    with zipfile.ZipFile(good) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    refused = 0
    for number in range(150):
        name = list(parts)[number % len(parts)]
        data = np.frombuffer(parts[name], np.uint8).copy()
        data[rng.integers(len(data), size=3)] = rng.integers(32, 127, size=3)
        path = tmp_path / "bad.xlsx"
        with zipfile.ZipFile(path, "w") as archive:
            for part, content in parts.items():
                archive.writestr(part, data.tobytes() if part == name else content)
        try:
            read_sheet(path, ["word"], ())
        except SufficeError as error:
            refused += 1
            message = str(error)
        else:
            message = ""
        assert "SECRET" not in message
        assert "\n" not in message
    assert refused > 20


FRAME = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 3.0, 9.0],
        "grade": [1.0, 2.0, 2.0, np.nan],
        "age": [30.5, 99.0, 40.0, np.nan],
        "when": [DAY.date(), None, date(1582, 10, 15), DAY.date()],
        "at": [MOMENT, None, DAY, DAY],
        "größe": ["klein", "", "groß ", "1.0"],
    }
)
ABOUT: dict[str, Any] = {
    "variable_value_labels": {
        "sex": {1: "man", 2: "woman", 9: "refused"},
        "grade": {1: "good", 2: "bad"},
        "größe": {"klein": "small"},
    },
    "variable_measure": {"sex": "nominal", "grade": "ordinal", "größe": "nominal"},
    "missing_ranges": {"age": [99], "sex": [9]},
}


def test_the_metadata_of_spss_decide_what_a_column_is(tmp_path):
    path = survey(tmp_path / "t.sav", FRAME, **ABOUT)
    assert sheet_names(path) == list(FRAME.columns)
    table = read_sheet(path, (), ())
    types = [pa.string(), pa.float64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string()]
    assert table.schema.types == types
    assert table.to_pydict() == {
        "sex": ["man", "woman", "3", None],
        "grade": [1.0, 2.0, 2.0, None],
        "age": [30.5, None, 40.0, None],
        "when": [DAY.date(), None, date(1582, 10, 15), DAY.date()],
        "at": [MOMENT, None, DAY, DAY],
        "größe": ["small", None, "groß", "1"],
    }


def test_private_columns_of_spss_are_read_cell_by_cell(tmp_path):
    path = survey(tmp_path / "t.sav", FRAME, **ABOUT)
    table = read_sheet(path, ["grade", "when", "at"], ["age", "größe"])
    assert table["grade"].to_pylist() == ["good", "bad", "bad", None]
    assert table["when"].to_pylist() == ["2024-02-29", None, "1582-10-15", "2024-02-29"]
    assert table["at"].to_pylist() == ["2024-02-29T13:30:00", None, "2024-02-29", "2024-02-29"]
    assert table["age"].to_pylist() == [30.5, None, 40.0, None]
    assert table["größe"].to_pylist() == [None, None, None, 1.0]


def test_types_of_spss_do_not_depend_on_cells(tmp_path):
    """Not even on whether there are any."""
    path = survey(tmp_path / "t.sav", FRAME, **ABOUT)
    blank = FRAME.assign(sex=np.nan, grade=np.nan, age=1.0)
    other = survey(tmp_path / "u.sav", blank, **ABOUT)
    assert read_sheet(path, (), ()).schema == read_sheet(other, (), ()).schema


@pytest.mark.parametrize("seconds", [3e30, -3e30, math.inf, 1e12])
def test_no_date_is_too_late_for_a_private_column(tmp_path, seconds):
    frame = pd.DataFrame({"id": [1.0, 2.0], "when": [13797216000.0, seconds]})
    path = survey(tmp_path / "t.sav", frame, variable_format={"when": "DATE11"})
    table = read_sheet(path, ["when"], ())
    assert table["when"].to_pylist() == ["2020-01-01", None]
    assert read_sheet(path, (), ())["when"].to_pylist() == [date(2020, 1, 1), None]


def test_no_byte_is_an_error_in_a_private_column(tmp_path):
    frame = pd.DataFrame({"id": [1.0, 2.0, 3.0], "word": ["ä", "b", "ö"]})
    path = survey(tmp_path / "t.sav", frame)
    data = path.read_bytes()
    at = data.rindex("ö".encode())
    path.write_bytes(data[:at] + b"\xff\xfe" + data[at + 2 :])
    with pytest.raises(pyreadstat.ReadstatError, match="invalid byte"):  # what it would be else
        pyreadstat.read_sav(path, output_format="dict")
    assert read_sheet(path, ["word"], ())["word"].to_pylist() == ["ä", "b", None]


@pytest.mark.parametrize(("package", "ending"), [("openpyxl", "xlsx"), ("pyreadstat", "sav")])
def test_without_its_package_a_sheet_says_what_to_install(tmp_path, package, ending):
    extra = {"xlsx": "excel", "sav": "spss"}[ending]
    path = tmp_path / f"t.{ending}"
    path.touch()
    script = (
        "import sys\nfrom pathlib import Path\n"
        "import suffice.tables.sheets as sheets\n"
        f"assert {package!r} not in sys.modules\n"
        f"sys.modules[{package!r}] = None\n"
        f"try:\n    sheets.sheet_names(Path({str(path)!r}))\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith(
        f"t.{ending} needs one more package. Install it: pip install 'suffice[{extra}]'.\n"
    )
    assert done.stdout.count("\n") == 1
