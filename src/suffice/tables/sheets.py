"""Sheets of Excel and SPSS as tables, in which no private cell decides about another.

`text_column` is for what is private: each cell becomes what it becomes by itself, and none is an
error. `public_column` looks at all cells of a column to find its type.

Excel (.xlsx): the first worksheet is read, whose first row names the columns. Cells are values: of
a formula, what it was last computed to be. A cell that shows an error, such as #N/A, is missing.

SPSS (.sav): what a column becomes is decided by the file's metadata, never by a cell. Dates and
encodings are read here, cell by cell: the library that reads the file would stop at one date, or at
one text, that it cannot convert. Whatever bytes the cells are, they are read; damaged metadata can
crash that library, so ask strangers for Parquet or CSV instead.
"""

import codecs
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from suffice.errors import StorageError, SufficeError, TableError
from suffice.tables.columns import label_texts, number_column, texts_of

_MIDNIGHT = time(0)
_INT64 = 2**63


def is_blank(cell: object) -> bool:
    """Say whether a cell holds nothing, or blanks alone."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def cell_text(cell: object) -> str | None:
    """Return a cell as the text that any other spelling of it is: 1, 1.0 and True are "1".

    A date is its ISO text, as is a time of day. None stands for what is blank, or no text.
    """
    if is_blank(cell):
        return None
    if isinstance(cell, datetime):
        cell = (cell.date() if cell.time() == _MIDNIGHT else cell).isoformat()
    elif isinstance(cell, date | time):
        cell = cell.isoformat()
    elif isinstance(cell, timedelta):
        cell = str(cell)
    return label_texts([cell])[0]


def text_column(cells: Iterable[object]) -> pa.Array:
    """Return each cell as text, or missing; one that is longer than any class is missing, too."""
    return texts_of(pa.array([cell_text(cell) for cell in cells], pa.large_string()), pa.string())


def public_column(cells: Sequence[Any]) -> pa.Array:
    """Return a public column in the type that all of its cells have, or as text."""
    values = [None if is_blank(cell) else cell for cell in cells]
    kinds = {_kind(cell) for cell in values if cell is not None}
    kind = kinds.pop() if len(kinds) == 1 else None if kinds else pa.null()
    if kind == pa.float64():
        numbers = [cell for cell in values if cell is not None]
        are_integers = all(isinstance(number, int) and abs(number) < _INT64 for number in numbers)
        return pa.array(values, pa.int64()) if are_integers else number_column(values)
    if kind == pa.timestamp("us"):
        days = all(
            not isinstance(cell, datetime) or cell.time() == _MIDNIGHT
            for cell in values
            if cell is not None
        )
        return pa.array(values, pa.date32() if days else kind)
    if kind is None or kind == pa.string():
        return pa.array([cell_text(cell) for cell in values], pa.string())
    return pa.array(values, kind)


def _kind(cell: object) -> pa.DataType:
    if isinstance(cell, bool):
        return pa.bool_()
    if isinstance(cell, int | float):
        return pa.float64()
    return pa.timestamp("us") if isinstance(cell, date) else pa.string()


_OLD_EXCEL_HEAD = bytes.fromhex(
    "d0cf11e0a1b11ae1"
)  # begins files of Excel 2003, and those with a password
_BROKEN_FILE = (
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
            if file.read(len(_OLD_EXCEL_HEAD)) == _OLD_EXCEL_HEAD:
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
    except (*_BROKEN_FILE, InvalidFileException) as error:  # whose words may quote a cell
        raise TableError(
            f"{path} is not a readable workbook ({type(error).__name__}). Open it in Excel and"
            " save it again as .xlsx or as CSV UTF-8."
        ) from None


_FIRST_DAY = datetime(1582, 10, 14)  # noqa: DTZ001  # SPSS counts seconds from it, in no time zone
_DAYS = re.compile(r"(A|E|J|S)?DATE\d|(MO|Q|WK)YR\d")
_MOMENTS = re.compile(r"(DATETIME|YMDHMS)\d")
_BYTES = "ISO-8859-1"  # in which every byte is a character


def spss_names(path: Path) -> list[str]:
    """Return the names of the columns; no row is read."""
    return list(_read_file(path, metadataonly=True)[1].column_names)


def _cell(cell: Any, kind: pa.DataType, encoding: str) -> Any:
    """Return a cell in the type of its column, or None if it cannot have that type."""
    if isinstance(cell, str):
        try:
            return _strip_blanks(cell.encode(_BYTES).decode(encoding)) or None
        except UnicodeError:
            return None
    if cell is None or pa.types.is_float64(kind):
        return cell
    try:
        moment = _FIRST_DAY + timedelta(seconds=cell)
    except (OverflowError, ValueError):
        return None
    return moment.date() if pa.types.is_date(kind) else moment


def _strip_blanks(code: Any) -> Any:
    """Return a text without the blanks that SPSS fills it up with."""
    return code.rstrip() if isinstance(code, str) else code


def _read_file(path: Path, **how: Any) -> tuple[dict[str, list[Any]], Any]:
    try:
        import pyreadstat
    except ImportError:
        raise TableError(
            f"{path} needs one more package. Install it: pip install 'suffice[spss]'."
        ) from None
    try:
        with path.open("rb"):
            pass  # for the reason why it cannot be opened
        cells, about = pyreadstat.read_sav(path, output_format="dict", **how)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}. Check that the file exists and that"
            " you may read it."
        ) from None
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError):
        raise TableError(
            f"{path} is not a readable SPSS file. Save it again as .sav or as CSV UTF-8."
        ) from None
    return cells, about


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
    filled = [
        k for column in public for k, cell in enumerate(column, start=1) if not is_blank(cell)
    ]
    rows = max(filled, default=0) if public else None  # down to the last that is not blank
    columns = {}
    for name, column in cells.items():
        make = text_column if name in texts else number_column if name in numbers else public_column
        columns[name] = make(column[:rows])
    return pa.table(columns)


def _read_spss(path: Path, texts: Collection[str], numbers: Collection[str]) -> pa.Table:
    _, about = _read_file(path, metadataonly=True)
    cells, _ = _read_file(path, encoding=_BYTES, disable_datetime_conversion=True)
    try:
        encoding = codecs.lookup(about.file_encoding or "UTF-8").name
    except LookupError:
        raise TableError(
            f"{path} has an encoding that Python cannot read. Save it as Unicode in SPSS."
        ) from None
    columns = {}
    for name, stored in zip(about.column_names, cells.values(), strict=True):
        shown = about.original_variable_types[name] or ""  # the format that SPSS shows it in
        kind = pa.timestamp("us") if _MOMENTS.match(shown) else pa.float64()
        kind = pa.date32() if _DAYS.match(shown) else kind
        kind = pa.string() if about.readstat_variable_types[name] == "string" else kind
        column = [_cell(cell, kind, encoding) for cell in stored]
        words = about.variable_value_labels.get(name, {})
        words = {_strip_blanks(code): word for code, word in words.items()}
        nominal = about.variable_measure.get(name) in {"nominal", "unknown", None}
        by_words = (nominal and words) or pa.types.is_string(kind)
        if name in texts or (by_words and name not in numbers):
            columns[name] = text_column([words.get(cell, cell) for cell in column])
        else:
            columns[name] = number_column(column) if name in numbers else pa.array(column, kind)
    return pa.table(columns)
