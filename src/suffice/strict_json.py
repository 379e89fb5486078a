"""JSON from outside: parsed strictly, and read into the dataclasses that declare its members.

A frozen dataclass is the only declaration of what a file or a request holds. `read` makes a value
of it, `plain` writes it, and `schema` describes it for OpenAPI.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import rfc8785

from suffice.errors import CorruptFileError, SufficeError, UsageError

LARGEST_INTEGER = 2**53 - 1  # what RFC 8785 can write
_DIGEST_PATTERN = "^sha256:[0-9a-f]{64}$"
_SHOWN_NAME_LETTERS = 60  # of a member's name in an error; longer names are not from this library

Digest = Annotated[str, ("pattern", _DIGEST_PATTERN)]
T = TypeVar("T")


def canonical(value: Any) -> bytes:
    """Return the canonical encoding of ``value`` (RFC 8785).

    Examples
    --------
    >>> canonical({"b": 1, "a": 2.0})
    b'{"a":2,"b":1}'
    """
    return rfc8785.dumps(value)


def parse(data: bytes) -> Any:
    """Return the value of ``data``, more strictly than Python's json.

    Raises
    ------
    CorruptFileError
        If it is malformed, has a duplicate key, or holds a number that is not finite.

    Examples
    --------
    >>> parse(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer,
        )
    except CorruptFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise CorruptFileError("The file holds malformed JSON.") from error


def parse_canonical(data: bytes) -> Any:
    """Return the value of ``data``, which must be its canonical encoding byte for byte."""
    value = parse(data)
    try:
        same = canonical(value) == data
    except (rfc8785.CanonicalizationError, ValueError, RecursionError):
        same = False
    if not same:
        raise CorruptFileError("The manifest is not in its canonical form.")
    return value


def number(value: object) -> float:
    """Return a JSON number as a float; text, booleans and everything else are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptFileError("The file holds something else where a number belongs.")
    try:
        return float(value)
    except OverflowError:
        return _refuse("")


def text(value: object) -> str:
    """Return a JSON string; everything else is refused."""
    if not isinstance(value, str):
        raise CorruptFileError("The file holds something else where text belongs.")
    return value


def is_digest(value: str) -> bool:
    """Say whether a text is a digest: ``sha256:`` and 64 lowercase hexadecimal digits.

    Examples
    --------
    >>> is_digest("sha256:" + 64 * "0"), is_digest("sha256:0")
    (True, False)
    """
    return re.fullmatch(_DIGEST_PATTERN, value) is not None and not value.endswith("\n")


def read(
    kind: type[T],
    value: object,
    what: str = "file",
    *,
    defaults: bool = False,
    error: type[SufficeError] = CorruptFileError,
) -> T:
    """Return a JSON value as the dataclass that declares its members, after checking all of it.

    Members are read by their annotations: bool, int, float (any JSON number), str, bytes (base64),
    Path, None, Any, Literal, an Enum, ``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, X]``,
    another dataclass, and unions of these. ``Annotated[X, (NAME, LIMIT)]`` adds a limit of JSON
    Schema: pattern, maxLength, minimum or maximum; another, such as format, is not checked. A
    boolean is no number, and a text is no list.

    Parameters
    ----------
    kind
        The dataclass.
    value
        What `parse` returned.
    what
        What the value is, for the error.
    defaults
        Whether a member may be missing if its field has a default.
    error
        The error to raise.

    Raises
    ------
    SufficeError
        ``error``, with the path of the first member that is unknown, missing or not what it must
        be, and never with its value.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> read(Point, {"x": 1, "names": ["a"]})
    Point(x=1.0, names=('a',))
    >>> read(Point, {"x": 1, "names": ["a", 2]})
    Traceback (most recent call last):
    suffice.errors.CorruptFileError: The file is not valid at names[1]: a text belongs here.
    """
    try:
        return _value(kind, value, "", defaults=defaults)  # type: ignore[no-any-return]
    except _MisfitError as misfit:
        at = f" at {misfit.path}" if misfit.path else ""
        raise error(f"The {what} is not valid{at}: {misfit.reason}") from misfit.__cause__


def plain(value: Any) -> Any:
    """Return a value as plain JSON values: what `read` reads, with every member.

    Examples
    --------
    >>> plain({"a": (1, None)})
    {'a': [1, None]}
    """
    match value:
        case Enum():
            return value.value
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            return [plain(item) for item in value]
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in _members(type(value))}  # type: ignore[arg-type]  # a class is hashable
    return value


def schema(kind: Any, *, defaults: bool = False) -> dict[str, Any]:  # noqa: PLR0911  # a line each
    """Return the JSON Schema of what `read` reads, without references.

    Parameters
    ----------
    kind
        A dataclass, or another annotation.
    defaults
        As for `read`.

    Examples
    --------
    >>> schema(tuple[int | None, ...])
    {'type': 'array', 'items': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return {"type": _SCALARS[kind].schema}
    if origin is Annotated:
        return {**schema(parts[0], defaults=defaults), **dict(parts[1:])}
    if choices := _choices(kind):
        return {"enum": list(choices)}
    if origin in (Union, UnionType):
        return {"anyOf": [schema(part, defaults=defaults) for part in parts]}
    if origin is tuple and parts[-1] is Ellipsis:
        return {"type": "array", "items": schema(parts[0], defaults=defaults)}
    if origin is tuple:
        items = [schema(part, defaults=defaults) for part in parts]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin is Mapping:
        members = schema(parts[1], defaults=defaults)
        return {"type": "object", "additionalProperties": members}
    if not is_dataclass(kind):
        return {}
    members = _members(kind)  # type: ignore[arg-type]  # a class is hashable
    return {
        "type": "object",
        "properties": {n: schema(m.kind, defaults=defaults) for n, m in members.items()},
        "required": [n for n, m in members.items() if not (defaults and m.has_default)],
        "additionalProperties": False,
    }


class _Scalar(NamedTuple):
    """What a JSON value of a Python type is called, in an error and in JSON Schema."""

    words: str
    schema: str


_SCALARS: dict[Any, _Scalar] = {
    bool: _Scalar("true or false", "boolean"),
    int: _Scalar("a whole number", "integer"),
    float: _Scalar("a number", "number"),
    str: _Scalar("a text", "string"),
    bytes: _Scalar("a text in base64", "string"),
    Path: _Scalar("a text", "string"),
    NoneType: _Scalar("null", "null"),
}
_WRITTEN_AS: dict[Any, tuple[type, ...]] = {float: (int, float), bytes: (str,), Path: (str,)}
_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "pattern": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "maxLength": lambda value, most: len(value) <= most,
    "minimum": lambda value, least: value >= least,
    "maximum": lambda value, most: value <= most,
}


class _Member(NamedTuple):
    """A member of a JSON object: its annotation, and whether its field has a default."""

    kind: Any
    has_default: bool


class _MisfitError(Exception):
    """A JSON value that is not what its declaration says; the reason names no value."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path.removeprefix("."), reason


@cache
def _members(kind: Any) -> dict[str, _Member]:
    """Return the members of a dataclass: its fields that its constructor takes, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        f.name: _Member(hints[f.name], f.default is not MISSING or f.default_factory is not MISSING)
        for f in fields(kind)
        if f.init
    }


@cache
def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the values that a Literal or an Enum allows, none for another annotation."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    is_enum = isinstance(kind, type) and issubclass(kind, Enum)
    return tuple(member.value for member in kind) if is_enum else ()


def _value(kind: Any, value: Any, path: str, *, defaults: bool) -> Any:
    """Return a JSON value by its annotation; ``path`` names where it is: ``rows[2].hash``."""
    if kind in _SCALARS:  # most values: nothing else is looked up for them
        wanted = _WRITTEN_AS.get(kind, (kind,))
        try:
            if type(value) not in wanted:
                raise ValueError  # noqa: TRY301
            if kind is bytes:
                return base64.b64decode(value, validate=True)
            return value if kind is NoneType else kind(value)
        except (ValueError, OverflowError, binascii.Error):
            raise _MisfitError(path, f"{_SCALARS[kind].words} belongs here.") from None
    origin, parts = get_origin(kind), get_args(kind)
    below = partial(_value, defaults=defaults)
    if origin is Annotated:
        value = below(parts[0], value, path)
        for name, limit in parts[1:]:
            if name in _LIMITS and not _LIMITS[name](value, limit):
                raise _MisfitError(path, f"its {name} is {limit}.")
        return value
    if choices := _choices(kind):
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise _MisfitError(path, f"it must be one of {', '.join(map(str, choices))}.")
        return value if origin is Literal else kind(value)
    if origin in (Union, UnionType):
        others = [part for part in parts if part is not NoneType]
        if value is None and len(others) < len(parts):
            return None
        for part in others[:-1]:
            try:
                return below(part, value, path)
            except _MisfitError:
                continue
        return below(others[-1], value, path)
    return _several(kind, value, path, below, defaults=defaults)


def _several(
    kind: Any, value: Any, path: str, below: Callable[[Any, Any, str], Any], *, defaults: bool
) -> Any:
    """Return a list, an object of any members, or a dataclass; ``below`` reads what is in it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise _MisfitError(path, "a list belongs here.")
        kinds = len(value) * parts[:1] if parts[-1] is Ellipsis else parts
        if len(kinds) != len(value):
            raise _MisfitError(path, f"a list of {len(kinds)} belongs here.")
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(below(part, item, f"{path}[{i}]") for i, (part, item) in pairs)
    if origin is not Mapping and not is_dataclass(kind):
        return value
    if not isinstance(value, dict):
        raise _MisfitError(path, "an object with members belongs here.")
    if origin is Mapping:
        return {n: below(parts[1], v, f"{path}.{_shown(n)}") for n, v in value.items()}
    members = _members(kind)
    for name in sorted(value.keys() - members.keys()):
        raise _MisfitError(
            f"{path}.{_shown(name)}", f"there is no such member, only {', '.join(members)}."
        )
    for name, member in members.items():
        if name not in value and not (defaults and member.has_default):
            raise _MisfitError(f"{path}.{name}", "this member is missing.")
    read_members = {n: below(members[n].kind, v, f"{path}.{n}") for n, v in value.items()}
    try:
        return kind(**read_members)
    except UsageError as refusal:
        raise _MisfitError(path, str(refusal)) from refusal


def _shown(name: str) -> str:
    """Return a member's name for an error: short, and nothing that steers a terminal."""
    return ascii(name)[1:-1][:_SHOWN_NAME_LETTERS]


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise CorruptFileError("A JSON object in the file names a key twice.")
    return result


def _refuse(_: str) -> NoReturn:
    raise CorruptFileError("The file holds a JSON number that is not finite.")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > LARGEST_INTEGER:
        raise CorruptFileError("The file holds an integer that is too large.")
    return value
