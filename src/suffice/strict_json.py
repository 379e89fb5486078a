"""JSON from files: no duplicate keys, no NaN or infinities, and limited depth and size."""

import json
import math
import re
from typing import Any, NoReturn

import rfc8785

from suffice.errors import CorruptFileError

__all__ = [
    "LARGEST_INTEGER",
    "canonical",
    "is_digest",
    "number",
    "parse",
    "parse_canonical",
    "text",
]

LARGEST_INTEGER = 2**53 - 1  # what RFC 8785 can write


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
    return re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None


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
