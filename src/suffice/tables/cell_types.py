"""Types of columns of texts: numbers, truth values, dates, or texts that stay texts.

Each column's type depends on its own cells. The decimal mark is one for the whole table: a comma if
there are columns that are numbers with it and none that is one with a point.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

__all__ = ["CellTypes", "looks_like_numbers", "types_of_cells"]

# A pattern, and what it stands for to strptime. Years have four digits: with two, nobody knows the
# century. Whether 03/04/2020 is in March or in April is told by other cells of the column, or not.
_DAY_FIRST, _MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
_CLOCKS = {"": "", r"[ T]\d{1,2}:\d\d": " %H:%M", r"[ T]\d{1,2}:\d\d:\d\d": " %H:%M:%S"}
_DATES = {
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{1,2}/\d{1,2}/\d{4}": (_DAY_FIRST, _MONTH_FIRST),
}
_AMBIGUOUS = (
    "holds dates in which day and month cannot be told apart. Write them as 2020-12-31, or leave"
    " the column out with --drop"
)
_MIXED = (
    "has decimal commas, but other columns have decimal points. Set the decimal mark with"
    " --decimal, or leave the column out with --drop"
)
_THOUSANDS = (
    "holds numbers such as 1.234, which may be thousands or decimals. Set the decimal mark with"
    " --decimal . or --decimal , or leave the column out with --drop"
)
_NO_TEXT = (
    "is not UTF-8. Save the table as CSV UTF-8, or name its encoding, for example --encoding"
    " latin-1"
)
# Digits, with signs that no number of ours has: 1,5 or 1.234,5 or 1 234 or 12 % or 3 EUR.
_ZEROS = r"^\s*0[0-9]+\s*$"
_GROUPED = r"^\s*[-+]?(?:[0-9]{1,3}|[1-9][0-9]{0,2}(?:\.[0-9]{3})+)\s*$"
_MONEY = r"(?:[$\u20ac\u00a3\u00a5]|EUR|USD|CHF|GBP|PLN|SEK|NOK|DKK|JPY|kr|z\u0142|Fr\.?)"
_LIKE_NUMBER = re.compile(
    rf"\s*{_MONEY}\s*[-+]?[0-9][0-9.,' \u00a0]*|\s*[-+]?[0-9][0-9.,' \u00a0]*{_MONEY}\s*"
    r"|\s*[-+]?[0-9]+(?:[.' \u00a0][0-9]{3})*,[0-9]+\s*%?\s*"
    r"|\s*[-+]?[0-9]{1,3}(?:[' \u00a0,][0-9]{3})+(?:[.,][0-9]+)?\s*%?\s*"
    r"|\s*[-+]?[0-9]+(?:[.,][0-9]+)?\s*%\s*"
)


@dataclass(frozen=True)
class CellTypes:
    """The types of columns of texts, found in their cells.

    Parameters
    ----------
    types : mapping of str to pyarrow.DataType
        The type of each column.
    decimal : str, optional
        The decimal mark. None if no cell has one.
    formats : list of str
        The formats of dates, as strptime knows them.
    refused : mapping of str to str
        Why a column cannot be used as it is.
    zeros : sequence of str
        Columns of numbers with cells that begin with 0.
    """

    types: Mapping[str, pa.DataType]
    decimal: str | None
    formats: list[str] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    zeros: Sequence[str] = ()


def types_of_cells(
    cells: Mapping[str, pa.ChunkedArray], decimal: str | None, *, commas_between: bool = True
) -> CellTypes:
    """Return the types of columns; ``decimal`` is the decimal mark if it is declared.

    Where no ``commas_between`` columns suggest points, numbers that may be thousands are refused.
    """
    point = {name: _type_of(column, decimal or ".") for name, column in cells.items()}
    types, refused = dict(point), dict[str, str]()
    if decimal is None:
        if not commas_between:
            unclear = [n for n, t in point.items() if _may_be_thousands(cells[n], t)]
            refused |= dict.fromkeys(unclear, _THOUSANDS)
        decimal, with_commas = _decimal_mark(cells, point)
        if decimal == ",":
            types |= dict.fromkeys(with_commas, pa.float64())
        else:
            refused |= dict.fromkeys(with_commas, _MIXED)
    formats: dict[str, None] = {}
    for name, kind in types.items():
        if pa.types.is_binary(kind):
            refused[name] = _NO_TEXT
        elif _is_text(kind) and name not in refused:
            date_formats = _date_formats(cells[name])
            if len(date_formats) > 1:
                refused[name] = _AMBIGUOUS
            elif date_formats:
                types[name] = pa.timestamp("s")
                formats |= dict.fromkeys(date_formats)
    if all(any(form.startswith(first) for form in formats) for first in (_DAY_FIRST, _MONTH_FIRST)):
        dated = [n for n, kind in types.items() if kind == pa.timestamp("s")]
        refused |= dict.fromkeys(dated, _AMBIGUOUS)
    integer_columns = [name for name, kind in types.items() if pa.types.is_integer(kind)]
    zeros = [name for name in integer_columns if _some_match(cells[name], _ZEROS)]
    return CellTypes(types, decimal, list(formats), refused, zeros)


def _decimal_mark(
    cells: Mapping[str, pa.ChunkedArray], point: Mapping[str, pa.DataType]
) -> tuple[str | None, list[str]]:
    """Return the decimal mark, given types ``point`` if it is a point, and who has commas."""
    texts = [name for name, kind in point.items() if _is_text(kind) and _holds(cells[name], ",")]
    with_commas = [name for name in texts if pa.types.is_floating(_type_of(cells[name], ","))]
    numbers = [name for name, kind in point.items() if pa.types.is_floating(kind)]
    if any(_holds(cells[name], ".") for name in numbers):
        return ".", with_commas
    return ("," if with_commas else None), with_commas


def _may_be_thousands(cells: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Say whether every number is whole, or has three digits behind each point, no zero first."""
    if not pa.types.is_floating(kind):
        return False
    words = pc.unique(cells.drop_null())
    return bool(pc.all(pc.match_substring_regex(words, _GROUPED)).as_py())


def _some_match(cells: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _holds(cells: pa.ChunkedArray, sign: str) -> bool:
    return bool(pc.any(pc.match_substring(cells, sign)).as_py())


def looks_like_numbers(text: str) -> bool:
    """Say whether a text is a number in a form that is not read as one."""
    return _LIKE_NUMBER.fullmatch(text) is not None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))


def _type_of(cells: pa.ChunkedArray, decimal: str) -> pa.DataType:
    """Return the type of cells; whatever they are, they have one: bytes, if they are no text."""
    if not _is_text(cells.type):
        return pa.binary()
    written = io.BytesIO()
    table = pa.table({"cells": cells})
    pa.csv.write_csv(table, written, pa.csv.WriteOptions(include_header=False))
    if not written.tell():
        return pa.null()
    parsed = pa.csv.read_csv(
        pa.BufferReader(written.getvalue()),
        pa.csv.ReadOptions(column_names=["cells"], block_size=max(written.tell(), 1)),
        pa.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
        pa.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, decimal_point=decimal
        ),
    )
    return parsed.schema.field(0).type


def _date_formats(cells: pa.ChunkedArray) -> list[str]:
    """Return the formats in which all cells of a column are dates; none if they are no dates."""
    words = pc.unique(cells.drop_null())
    for pattern, formats in _DATES.items():
        for clock, suffix in _CLOCKS.items():
            full_pattern = rf"^\s*{pattern}{clock}\s*$"
            if len(words) and pc.all(pc.match_substring_regex(words, full_pattern)).as_py():
                return [form + suffix for form in formats if _all_parse(words, form + suffix)]
    return []


def _all_parse(words: pa.Array, form: str) -> bool:
    days = pc.strptime(pc.utf8_trim_whitespace(words), form, unit="s", error_is_null=True)
    return bool(days.null_count == 0)
