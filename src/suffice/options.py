"""What people may set, declared once: a field of a mechanism says how it is set from outside.

The command line, the documentation and whatever else offers a mechanism read these declarations, so
that they cannot disagree with the library. Here are also the parsers: what people write after an
option becomes the value that the library takes.
"""

import csv
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from suffice.errors import ParameterError

__all__ = [
    "REQUIRED",
    "ByColumn",
    "Group",
    "Option",
    "budget_option",
    "by_column",
    "check_choices",
    "computing_option",
    "data_option",
    "lists_by_column",
    "names",
    "numbers",
    "option",
    "options_of",
    "output_option",
    "pair",
    "preprocessing_option",
    "privacy_option",
    "states",
    "value_or_by_column",
    "values",
]

_T = TypeVar("_T")


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

    ``name`` is the option's name (``--noise-on``), ``parse`` turns its text into the field's value
    (None: a number, a text or a flag, as the field's type says; a ``many`` option is repeatable and
    hands a list of texts over). ``choices`` enumerates the values. ``path`` returns the file that a
    text names, if it names one: what a command reads must not be written over. ``others`` are
    further options that set the same field; ``hidden`` ones are old names. Commands that plan a
    release offer what is ``planned``. An ``argument`` has no name: it is given by its place.
    ``former`` maps choices of an earlier version to those of this one. A ``required`` one must be
    given on a command line, whatever the library's default is; one that ``writes`` names a file
    that is made. ``short`` is a second name, such as ``-o``.
    """

    name: str
    help: str
    group: Group
    parse: Callable[[Any], Any] | None = None
    many: bool = False
    choices: type[StrEnum] | None = None
    path: Callable[[str], Path | None] | None = None
    others: tuple["Option", ...] = ()
    hidden: bool = False
    planned: bool = True
    argument: bool = False
    former: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    writes: bool = False
    short: str = ""

    def old(self, name: str) -> "Option":
        """Return the same under a name of an earlier version, which help no longer shows."""
        return replace(self, name=name, hidden=True, others=())

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
    old: Sequence[str] = (),
    others: Sequence[Option] = (),
    kw_only: Any = MISSING,
    **more: Any,
) -> Any:
    """Return a field of a dataclass that can be set from outside; ``old`` are its former names.

    ``default`` is REQUIRED where there is none; ``more`` are further fields of `Option`.
    """
    declared = Option(name, help, group, **more)
    formerly = tuple(declared.old(word) for word in old)
    declared = replace(declared, others=(*others, *formerly))
    return field(default=default, kw_only=kw_only, metadata={"option": declared})


REQUIRED = MISSING
data_option = partial(option, group=Group.DATA)
privacy_option = partial(option, group=Group.PRIVACY)
preprocessing_option = partial(option, group=Group.PREPROCESSING)
computing_option = partial(option, group=Group.COMPUTING)
budget_option = partial(option, group=Group.BUDGET)
output_option = partial(option, group=Group.OUTPUT)


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a dataclass by field; one without a name is named as its field."""
    found = {}
    for item in dataclasses.fields(kind):
        declared = item.metadata.get("option")
        if declared is not None:
            found[item.name] = replace(declared, name=declared.name or _dashed(item.name))
    return found


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


def check_choices(value: Any) -> None:
    """Raise unless every field of a frozen value that has choices holds one of them.

    A choice of an earlier version becomes that of this one.
    """
    for name, declared in options_of(type(value)).items():
        given = getattr(value, name)
        if declared.choices is None or given is None:
            continue
        if isinstance(given, str) and given in declared.former:
            given = declared.former[given]
            object.__setattr__(value, name, given)
        if not isinstance(given, str) or given not in {*declared.choices}:
            raise ParameterError(f"{name} must be one of {', '.join(declared.choices)}.")


@dataclass(frozen=True)
class ByColumn:
    """A value for each named column, and one for all others (None: nothing is said of them)."""

    named: Mapping[str, Any]
    others: Any = None

    @classmethod
    def of(cls, given: Any) -> "ByColumn":
        """Return what was given: column -> value, one value for all columns, or both."""
        if isinstance(given, ByColumn):
            return given
        return cls(given) if isinstance(given, Mapping) else cls({}, given)

    def __getitem__(self, name: str) -> Any:
        return self.named.get(name, self.others)

    def __bool__(self) -> bool:
        return bool(self.named) or self.others is not None


def names(given: str | Sequence[str] | None) -> list[str] | None:
    """Return comma-separated names, of an option that may be repeated; None if there are none."""
    texts = [given] if isinstance(given, str) else given or []
    return [name for text in texts if text for name in _items(text)] or None


def _items(text: str) -> list[str]:
    """Return what stands between commas; an item with a comma of its own is put in quotes."""
    return [item.strip() for item in next(csv.reader([text], skipinitialspace=True))]


def values(text: str) -> tuple[Any, ...]:
    """Return comma-separated values, as integers where all of them are written as such.

    02139 is none: it is the code of a place.
    """
    items = _items(text)
    whole = all(item.removeprefix("-").isascii() and _is_whole(item) for item in items)
    return tuple(map(int, items)) if whole else tuple(items)


def _is_whole(item: str) -> bool:
    try:
        return str(int(item)) == item
    except ValueError:
        return False


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


def numbers(text: str | Sequence[str]) -> list[float]:
    """Return comma-separated numbers, of an option that may be repeated."""
    items = names(text) or []
    try:
        return [float(item) for item in items]
    except ValueError:
        raise ParameterError(f"these must be numbers, with commas; got {text!r}.") from None


def by_column(declared: list[str] | None, parse: Callable[[str], _T], option: str) -> dict[str, _T]:
    """Return what is declared as COLUMN=VALUE, column by column."""
    parts = [item.partition("=") for item in declared or ()]
    if any(not (name and sign and value) for name, sign, value in parts):
        raise ParameterError(f"{option} takes COLUMN=VALUE.")
    if len({name for name, _, _ in parts}) < len(parts):
        raise ParameterError(f"{option} names a column twice.")
    return {name: parse(value) for name, _, value in parts}


def value_or_by_column(
    parse: Callable[[str], _T], option: str
) -> Callable[[list[str] | None], ByColumn | None]:
    """Return a parser of VALUE, which holds for all other columns, and of COLUMN=VALUE."""

    def parsed(given: list[str] | None) -> ByColumn | None:
        alone = [item for item in given or () if "=" not in item]
        if len(alone) > 1:
            raise ParameterError(f"say once what holds for all others: {option} is given twice.")
        named = by_column([item for item in given or () if "=" in item], parse, option)
        return ByColumn(named, parse(alone[0]) if alone else None) or None

    return parsed


def lists_by_column(
    option: str,
) -> Callable[[list[str] | None], dict[str, tuple[Any, ...]] | None]:
    """Return a parser of COLUMN=A,B,C; nothing declared is None."""
    return lambda given: by_column(given, values, option) or None
