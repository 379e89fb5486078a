"""Files of SPSS (.sav): what a column becomes is decided by the file's metadata, never by a cell.

Dates and encodings are read here, cell by cell: the library that reads the file would stop at one
date, or at one text, that it cannot convert. Whatever bytes the cells are, they are read; damaged
metadata can crash that library, so ask strangers for Parquet or CSV instead.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from suffice.errors import StorageError, TableError
from suffice.tables.cells import text_column

__all__ = ["SpssColumn", "spss_columns", "spss_names"]

_FIRST_DAY = datetime(1582, 10, 14)  # noqa: DTZ001  # SPSS counts seconds from it, in no time zone
_DAYS = re.compile(r"(A|E|J|S)?DATE\d|(MO|Q|WK)YR\d")
_MOMENTS = re.compile(r"(DATETIME|YMDHMS)\d")
_BYTES = "ISO-8859-1"  # in which every byte is a character


@dataclass(frozen=True)
class SpssColumn:
    """A column of an SPSS file.

    Parameters
    ----------
    cells : list
        The cells.
    words : mapping
        The value labels by code.
    nominal : bool
        Whether the measure of the column is nominal or not stated.
    kind : pyarrow.DataType
        The type that the metadata state.
    """

    cells: list[Any]
    words: Mapping[Any, str]
    nominal: bool
    kind: pa.DataType

    def texts(self) -> pa.Array:
        """Return each cell as its value label, or as text if it has none."""
        return text_column([self.words.get(cell, cell) for cell in self.cells])

    def public(self) -> pa.Array:
        """Return a public column in the type that the metadata state."""
        if (self.nominal and self.words) or pa.types.is_string(self.kind):
            return self.texts()
        return pa.array(self.cells, self.kind)


def spss_names(path: Path) -> list[str]:
    """Return the names of the columns; no row is read."""
    return list(_read_file(path, metadataonly=True)[1].column_names)


def spss_columns(path: Path) -> dict[str, SpssColumn]:
    """Return every column by its name; values that are declared as missing are missing."""
    _, about = _read_file(path, metadataonly=True)
    cells, _ = _read_file(path, encoding=_BYTES, disable_datetime_conversion=True)
    try:
        encoding = codecs.lookup(about.file_encoding or "UTF-8").name
    except LookupError:
        raise TableError(
            f"{path} has an encoding that Python cannot read. Save it as Unicode in SPSS."
        ) from None
    columns = {}
    for name, column in zip(about.column_names, cells.values(), strict=True):
        kind = _kind(about.original_variable_types[name] or "", about.readstat_variable_types[name])
        columns[name] = SpssColumn(
            [_cell(cell, kind, encoding) for cell in column],
            {_strip_blanks(code): word for code, word in _words(about, name).items()},
            about.variable_measure.get(name) in {"nominal", "unknown", None},
            kind,
        )
    return columns


def _words(about: Any, name: str) -> dict[Any, str]:
    """Return the value labels of a column, by code."""
    words: dict[Any, str] = about.variable_value_labels.get(name, {})
    return words


def _kind(written: str, stored: str) -> pa.DataType:
    """Return the type of a column, from the format that SPSS shows it in and how it is stored."""
    if stored == "string":
        return pa.string()
    if _DAYS.match(written):
        return pa.date32()
    return pa.timestamp("us") if _MOMENTS.match(written) else pa.float64()


def _cell(cell: Any, kind: pa.DataType, encoding: str) -> Any:
    """Return a cell in the type of its column, or None if it cannot have that type."""
    if isinstance(cell, str):
        try:
            return _strip_blanks(cell.encode(_BYTES).decode(encoding)) or None
        except UnicodeError:
            return None
    if cell is None or pa.types.is_float64(kind):
        return cell
    return _moment(cell, day=pa.types.is_date(kind))


def _moment(seconds: float, *, day: bool) -> date | None:
    try:
        moment = _FIRST_DAY + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None
    return moment.date() if day else moment


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
