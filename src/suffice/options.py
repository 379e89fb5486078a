"""Options, declared once: a field of a mechanism says how it is set from outside.

The command line, the documentation and whatever else offers a mechanism read these declarations, so
that they cannot disagree with the library. Here are also the parsers: what people write after an
option becomes the value that the library takes.
"""

import csv
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from suffice.errors import ParameterError

_T = TypeVar("_T")
_LEDGER_DATABASES = ("postgresql://", "postgres://")
Missing = Literal["error", "mean", "zero"]
TEMPORAL_UNITS = ("days since 1970-01-01", "days since midnight", "days")


class MissingRule(StrEnum):
    """What becomes of a missing value."""

    ERROR = "error"
    MEAN = "mean"
    ZERO = "zero"


class Group(StrEnum):
    """The headings under which a command shows its options, in this order."""

    DATA = "Data"
    PRIVACY = "Privacy"
    BUDGET = "Budget"
    PREPROCESSING = "Preprocessing"
    COMPUTING = "Computing"
    OUTPUT = "Output"


@dataclass(frozen=True)
class Option:
    """How one field is set from outside.

    Parameters
    ----------
    name : str
        Name of the option, for example ``--noise-on``.
    help : str
        A noun phrase with the unit and an example.
    group : Group
        The heading under which a command shows it.
    parse : callable, optional
        Turns its text into the field's value. None: a number, a text or a flag, as the field's
        type says.
    many : bool
        It is repeatable, and ``parse`` gets a list of texts.
    flag : bool
        It takes no text, whatever the field's type is.
    choices : iterable of str, optional
        All values that it can have.
    path : callable, optional
        Returns the file that a text names, if it names one: a command must not write over what it
        reads.
    others : tuple of Option
        Further options that set the same field.
    planned : bool
        Commands that plan a release offer it.
    released : bool
        Commands that make a release offer it.
    argument : bool
        It has no name, and is read by its position.
    required : bool
        A command line must have it, whatever the library's default is.
    writes : bool
        It names a file that is made.
    short : str
        A second name, such as ``-o``.
    within : str
        Another option that holds it on a command line, as NAME=VALUE: ``--read`` holds
        ``delimiter=;``.
    """

    name: str
    help: str
    group: Group
    parse: Callable[[Any], Any] | None = None
    many: bool = False
    flag: bool = False
    choices: Iterable[str] | None = None
    path: Callable[[str], Path | None] | None = None
    others: tuple["Option", ...] = ()
    planned: bool = True
    released: bool = True
    argument: bool = False
    required: bool = False
    writes: bool = False
    short: str = ""
    within: str = ""

    def every(self) -> Iterator["Option"]:
        """Yield this option and the others of its field."""
        yield self
        yield from self.others


def option(
    default: Any,
    help: str,  # noqa: A002  # as command lines call it
    *,
    group: Group,
    name: str = "",
    others: Sequence[Option] = (),
    kw_only: Any = MISSING,
    **more: Any,
) -> Any:
    """Return a field of a dataclass that can be set from outside.

    Parameters
    ----------
    default
        The field's default; REQUIRED where there is none.
    help, group, name, **more
        Fields of `Option`.
    others : sequence of Option
        Further options that set the same field.
    kw_only : bool
        As in `dataclasses.field`.
    """
    declared = Option(name, help, group, others=tuple(others), **more)
    return field(default=default, kw_only=kw_only, metadata={"option": declared})


REQUIRED = MISSING
data_option = partial(option, group=Group.DATA)
privacy_option = partial(option, group=Group.PRIVACY)
preprocessing_option = partial(option, group=Group.PREPROCESSING)
computing_option = partial(option, group=Group.COMPUTING)
budget_option = partial(option, group=Group.BUDGET)
output_option = partial(option, group=Group.OUTPUT)
FILE: Mapping[str, Any] = {"parse": Path, "path": Path}  # of an option that names a file to read
NEW_FILE: Mapping[str, Any] = {**FILE, "writes": True}  # of one that names a file to make


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a dataclass by field; one without a name is named as its field."""
    options = {}
    for item in dataclasses.fields(kind):
        declared = item.metadata.get("option")
        if declared is not None:
            word = item.name.replace("_", "-")
            usual = f"{declared.within} {word}" if declared.within else f"--{word}"
            options[item.name] = replace(declared, name=declared.name or usual)
    return options


def check_choices(value: Any) -> None:
    """Raise unless every field that has choices holds one of them."""
    for name, declared in options_of(type(value)).items():
        choice = getattr(value, name)
        if declared.choices is None or choice is None:
            continue
        if not isinstance(choice, str) or choice not in {*declared.choices}:
            raise ParameterError(f"{name} must be one of {', '.join(declared.choices)}.")


@dataclass(frozen=True)
class ByColumn:
    """A value for each named column, and one for all others.

    Parameters
    ----------
    named : mapping
        Column to its value.
    others
        The value of every other column; None if they have none.

    Examples
    --------
    >>> ranges = ByColumn({"age": (0, 100)}, others=(0, 1))
    >>> ranges["age"], ranges["dose"]
    ((0, 100), (0, 1))
    """

    named: Mapping[str, Any]
    others: Any = None

    @classmethod
    def of(cls, values: Any) -> "ByColumn":
        """Return values as one: column -> value, one value for all columns, or both."""
        if isinstance(values, ByColumn):
            return values
        return cls(values) if isinstance(values, Mapping) else cls({}, values)

    def __getitem__(self, name: str) -> Any:
        return self.named.get(name, self.others)

    def __bool__(self) -> bool:
        return bool(self.named) or self.others is not None


def ledger_file(place: str | Path) -> Path | None:
    """Return the file of a ledger; None if it is in a database.

    Examples
    --------
    >>> ledger_file("postgresql://db.example/clinic") is None
    True
    """
    return None if str(place).startswith(_LEDGER_DATABASES) else Path(place)


def names(texts: str | Sequence[str] | None) -> list[str] | None:
    """Return comma-separated names, of an option that may be repeated; None if there are none.

    Examples
    --------
    >>> names(["age,dose", '"weight, kg"'])
    ['age', 'dose', 'weight, kg']
    """
    texts = [texts] if isinstance(texts, str) else texts or []
    return [name for text in texts if text for name in _items(text)] or None


def _items(text: str) -> list[str]:
    """Return what stands between commas; an item with a comma of its own is put in quotes."""
    return [item.strip() for item in next(csv.reader([text], skipinitialspace=True))]


def values(text: str) -> tuple[Any, ...]:
    """Return comma-separated values, as integers where all of them are written as such.

    02139 is none: it is the code of a place.

    Examples
    --------
    >>> values("0,1"), values("no,yes"), values("02139")
    ((0, 1), ('no', 'yes'), ('02139',))
    """
    items = _items(text)
    integers = all(item.removeprefix("-").isascii() and _is_integer(item) for item in items)
    return tuple(map(int, items)) if integers else tuple(items)


def _is_integer(item: str) -> bool:
    try:
        return str(int(item)) == item
    except ValueError:
        return False


def states(text: str) -> Sequence[Any]:
    """Return the possible values of a column: A,B,C, the integers 0..255 or the letters A..Z.

    Examples
    --------
    >>> states("no,yes"), states("0..255"), states("A..D")
    (('no', 'yes'), range(0, 256), ('A', 'B', 'C', 'D'))
    """
    first, dots, last = text.partition("..")
    if re.fullmatch(r"[A-Z]\.\.[A-Z]|[a-z]\.\.[a-z]", text) and first < last:
        return tuple(map(chr, range(ord(first), ord(last) + 1)))
    try:
        return range(int(first), int(last) + 1) if dots else values(text)
    except ValueError:
        return values(text)


def pair(text: str) -> tuple[float, float]:
    """Return LO,HI as two numbers."""
    try:
        low, high = (float(end) for end in text.split(","))
    except ValueError:
        raise ParameterError(
            f"A range is two numbers, LO,HI, for example 0,100; got {text!r}."
        ) from None
    return low, high


def numbers(text: str | Sequence[str]) -> list[float]:
    """Return comma-separated numbers, of an option that may be repeated."""
    items = names(text) or []
    try:
        return [float(item) for item in items]
    except ValueError:
        raise ParameterError(
            f"Expected numbers with commas, for example 0.1,1; got {text!r}."
        ) from None


def by_column(declared: list[str] | None, parse: Callable[[str], _T], option: str) -> dict[str, _T]:
    """Return what is declared as COLUMN=VALUE, column by column."""
    parts = [item.partition("=") for item in declared or ()]
    if any(not (name and sign and value) for name, sign, value in parts):
        raise ParameterError(f"{option} takes COLUMN=VALUE, once for each column.")
    if len({name for name, _, _ in parts}) < len(parts):
        raise ParameterError(f"{option} names a column twice. Name each column once.")
    return {name: parse(value) for name, _, value in parts}


def value_or_by_column(
    parse: Callable[[str], _T], option: str
) -> Callable[[list[str] | None], ByColumn | None]:
    """Return a parser of VALUE, which holds for all other columns, and of COLUMN=VALUE."""

    def parse_items(items: list[str] | None) -> ByColumn | None:
        for_others = [item for item in items or () if "=" not in item]
        if len(for_others) > 1:
            raise ParameterError(
                f"{option} has two values for all other columns. Use {option} without a column only"
                " once."
            )
        columns = by_column([item for item in items or () if "=" in item], parse, option)
        return ByColumn(columns, parse(for_others[0]) if for_others else None) or None

    return parse_items


def lists_by_column(
    option: str,
) -> Callable[[list[str] | None], dict[str, tuple[Any, ...]] | None]:
    """Return a parser of COLUMN=A,B,C; nothing declared is None."""
    return lambda items: by_column(items, values, option) or None
