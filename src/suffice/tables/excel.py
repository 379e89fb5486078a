"""Workbooks of Excel (.xlsx): the first worksheet, whose first row names the columns.

Cells are values: of a formula, what it was last computed to be. A cell that shows an error, such as
#N/A, is missing.
"""

import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suffice.errors import StorageError, SufficeError, TableError
from suffice.tables.cells import cell_text, is_blank

__all__ = ["excel_columns", "excel_names"]

_OLD = bytes.fromhex("d0cf11e0a1b11ae1")  # begins files of Excel 2003, and those with a password
_BROKEN = (
    ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, SyntaxError, TypeError,
    ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def excel_names(path: Path) -> list[str]:
    """Return the names in the first row; no other row is read."""
    with _rows(path) as rows:
        return _header(path, next(rows, ()))


def excel_columns(path: Path) -> dict[str, list[Any]]:
    """Return the cells of every column by its name, blank ones as None, down to the last row."""
    with _rows(path) as rows:
        names = _header(path, next(rows, ()))
        columns: list[list[Any]] = [[] for _ in names]
        for row in rows:
            cells = [_value(cell) for cell in row]
            if not all(map(is_blank, cells[len(names) :])):
                raise TableError(
                    f"{path}: there are cells to the right of the last named column. Name every"
                    " column in the first row, delete a title above the names, or empty these"
                    " cells."
                )
            cells += [None] * (len(names) - len(cells))
            for column, cell in zip(columns, cells, strict=False):
                column.append(cell)
    return dict(zip(names, columns, strict=True))


def _header(path: Path, row: Sequence[Any]) -> list[str]:
    """Return the names of columns; blank cells right of the last name are no columns."""
    cells = [_value(cell) for cell in row]
    names = [cell if isinstance(cell, str) else cell_text(cell) for cell in cells]
    while names and is_blank(names[-1]):
        names.pop()
    if not names:
        raise TableError(
            f"{path} is empty, or the first row of its first worksheet is. Put the names of the"
            " columns in the first row."
        )
    for position, name in enumerate(names, start=1):
        if name is None or is_blank(name):
            raise TableError(
                f"{path}: column {position} has no name. Name every column in the first row of the"
                " first worksheet, each in its own unmerged cell."
            )
        if name in names[: position - 1]:
            raise TableError(
                f"{path}: the first row names {name!r} more than once. Rename one of the columns."
            )
    return [str(name) for name in names]


def _value(cell: Any) -> Any:
    return None if cell.data_type == "e" or is_blank(cell.value) else cell.value


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[Sequence[Any]]]:
    """Yield the rows of the first worksheet; whatever is wrong with the file is one line."""
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise TableError(
            f"{path} needs one more package. Install it: pip install 'suffice[excel]'."
        ) from None
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they quote cells
            if file.read(len(_OLD)) == _OLD:
                raise TableError(
                    f"{path} has a password, or was saved by Excel 2003 or older. Save it as .xlsx"
                    " without a password."
                )
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            if not book.worksheets:
                raise TableError(f"{path} has no worksheet. Save the table as a worksheet.")
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what the file says of them need not be so
            yield iter(sheet.iter_rows())
    except SufficeError:
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}. Check that the file exists and that"
            " you may read it."
        ) from None
    except (*_BROKEN, InvalidFileException) as error:  # whose words may quote a cell
        raise TableError(
            f"{path} is not a readable workbook ({type(error).__name__}). Open it in Excel and"
            " save it again as .xlsx or as CSV UTF-8."
        ) from None
