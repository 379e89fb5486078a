"""What people write after an option, as values: names, lists, runs and ranges."""

import csv
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from suffice.errors import ParameterError

__all__ = ["by_column", "lists_by_column", "names", "one_or_named", "pair", "states", "values"]

_T = TypeVar("_T")


def names(given: str | Sequence[str] | None) -> list[str] | None:
    """Return comma-separated names, of an option that may be repeated; None if there are none."""
    texts = [given] if isinstance(given, str) else given or []
    return [name for text in texts if text for name in _items(text)] or None


def _items(text: str) -> list[str]:
    """Return what stands between commas; an item with a comma of its own is put in quotes."""
    return [item.strip() for item in next(csv.reader([text], skipinitialspace=True))]


def values(text: str) -> tuple[Any, ...]:
    """Return comma-separated values, as integers where all of them are."""
    items = _items(text)
    try:
        return tuple(int(item) for item in items)
    except ValueError:
        return tuple(items)


def states(text: str) -> Sequence[Any]:
    """Return what a column can hold: A,B,C or the integers 0..255."""
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last) + 1) if dots else values(text)
    except ValueError:
        return values(text)


def pair(text: str) -> tuple[float, float]:
    """Return LO,HI as two numbers."""
    try:
        low, high = (float(end) for end in text.split(","))
    except ValueError:
        raise ParameterError(f"a range is two numbers, LO,HI; got {text!r}.") from None
    return low, high


def by_column(declared: list[str] | None, parse: Callable[[str], _T], option: str) -> dict[str, _T]:
    """Return what is declared as COLUMN=VALUE, column by column."""
    parts = [item.partition("=") for item in declared or ()]
    if any(not (name and sign and value) for name, sign, value in parts):
        raise ParameterError(f"{option} takes COLUMN=VALUE.")
    if len({name for name, _, _ in parts}) < len(parts):
        raise ParameterError(f"{option} names a column twice.")
    return {name: parse(value) for name, _, value in parts}


def one_or_named(
    given: list[str] | None, parse: Callable[[str], _T], option: str
) -> tuple[_T | None, dict[str, _T]]:
    """Return what VALUE alone says of all others, None if nothing does, and NAME=VALUE by name."""
    alone = [item for item in given or () if "=" not in item]
    if len(alone) > 1:
        raise ParameterError(f"say once what holds for all others: {option} is given twice.")
    named = by_column([item for item in given or () if "=" in item], parse, option)
    return (parse(alone[0]) if alone else None), named


def lists_by_column(declared: list[str] | None, option: str) -> dict[str, tuple[Any, ...]] | None:
    """Return COLUMN=A,B,C as lists, or None if nothing is declared."""
    return by_column(declared, values, option) or None
