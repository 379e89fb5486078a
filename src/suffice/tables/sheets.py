"""Sheets of Excel and SPSS as tables, in which no private cell decides about another."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from suffice.errors import StorageError, TableError
from suffice.tables.cells import is_blank, public_column, text_column
from suffice.tables.excel import excel_columns, excel_names
from suffice.tables.numbers import number_column
from suffice.tables.spss import spss_columns, spss_names

__all__ = ["read_sheet", "sheet_names"]


def read_sheet(path: Path, texts: Collection[str], numbers: Collection[str]) -> pa.Table:
    """Return a sheet; private columns are read cell by cell, and none of their cells is an error.

    Columns ``texts`` (private labels, declared categories) become texts: 1, 1.0 and True are "1",
    a date is its ISO text. Columns ``numbers`` (private numbers) become finite numbers. What a cell
    cannot be is missing, as is a blank one, and nothing else depends on it.

    All other columns are public. In a workbook of Excel (.xlsx: the first worksheet, whose first
    row names the columns) the type of such a column is that of all its cells: numbers, truth
    values, dates, and otherwise texts. A row counts if it, or one below it, has a cell that is not
    blank in a public column; if no column is public, all rows count.

    In a file of SPSS (.sav) the metadata alone decide, never a cell. A column with value labels
    becomes texts by these unless its measure is ordinal or scale; one of ``texts`` does whatever
    its measure; a code without a label is the text of its number. Dates are read by the format of
    their column. Values that are declared as missing are missing.

    Parameters
    ----------
    path
        A file that ends in .xlsx or .sav.
    texts, numbers
        Names of columns that must not be looked at; those that the sheet does not have mean
        nothing.

    Returns
    -------
    pyarrow.Table
        The columns of the sheet, in their order.
    """
    return _reader(path, {".xlsx": _read_excel, ".sav": _read_spss})(path, texts, numbers)


def sheet_names(path: Path) -> list[str]:
    """Return the names of a sheet's columns; nothing but the header is read."""
    names: list[str] = _reader(path, {".xlsx": excel_names, ".sav": spss_names})(path)
    return names


def _reader(path: Path, readers: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function that reads files with this ending."""
    ending = path.suffix.lower()
    if ending == ".xls":
        raise TableError(f"{path} was saved by Excel 2003 or older. Save it as .xlsx.")
    if ending not in readers:
        raise TableError(f"{path} must end in {' or '.join(readers)}.")
    if not path.is_file():
        raise StorageError(f"{path} does not exist, or is a folder. Check the path.")
    return readers[ending]


def _read_excel(path: Path, texts: Collection[str], numbers: Collection[str]) -> pa.Table:
    cells = excel_columns(path)
    public = [column for name, column in cells.items() if name not in {*texts, *numbers}]
    rows = max((_length(column) for column in public), default=None)
    columns = {}
    for name, column in cells.items():
        make = text_column if name in texts else number_column if name in numbers else public_column
        columns[name] = make(column[:rows])
    return pa.table(columns)


def _length(column: list[object]) -> int:
    """Return the number of cells down to the last that is not blank."""
    return max((k for k, cell in enumerate(column, start=1) if not is_blank(cell)), default=0)


def _read_spss(path: Path, texts: Collection[str], numbers: Collection[str]) -> pa.Table:
    columns = {}
    for name, column in spss_columns(path).items():
        if name in texts:
            columns[name] = column.texts()
        else:
            columns[name] = number_column(column.cells) if name in numbers else column.public()
    return pa.table(columns)
