"""Cells of sheets, of any type side by side, as texts and in the type of a column.

`text_column` is for what is private: each cell becomes what it becomes by itself, and none is an
error. `public_column` looks at all cells of a column to find its type.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from suffice.tables.labels import label_texts, texts_of
from suffice.tables.numbers import number_column

__all__ = ["cell_text", "is_blank", "public_column", "text_column"]

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
        days = all(_is_day(cell) for cell in values if cell is not None)
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


def _is_day(cell: date) -> bool:
    return not isinstance(cell, datetime) or cell.time() == _MIDNIGHT
