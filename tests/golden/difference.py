"""What changed between two records, member by member."""

import math
from collections.abc import Iterator
from typing import Any

__all__ = ["ABSENT", "differences", "flat", "told"]

ABSENT = "(absent)"
RELATIVE = 1e-6  # by how much numbers may differ that another machine computes a little otherwise
LEAST = 1e-9  # the same, in units of the largest number beside it: zero may be 1e-17 elsewhere
LEAST_OF_LIST = 1e-12  # the same, of lists that are all zero, such as the means of centred columns
MOST_SHOWN = 60  # characters of a value


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return the members of JSON values by their paths: ``manifest.parts[0].rows``."""
    if isinstance(value, dict) and value:
        inner = [flat(item, f"{path}.{key}" if path else key) for key, item in value.items()]
    elif isinstance(value, list) and value:
        inner = [flat(item, f"{path}[{place}]") for place, item in enumerate(value)]
    else:
        return {path: value}
    return {name: item for members in inner for name, item in members.items()}


def differences(old: Any, new: Any, *, exact: bool = True) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, old value, new value) of each member that differs."""
    before, after = flat(old), flat(new)
    largest = {} if exact else _largest(before)
    least = {path: max(LEAST * value, LEAST_OF_LIST) for path, value in largest.items()}
    for path in [*before, *(path for path in after if path not in before)]:
        one, other = before.get(path, ABSENT), after.get(path, ABSENT)
        if not _alike(one, other, least.get(_list_of(path), 0.0), exact=exact):
            yield path, one, other


def told(case: str, path: str, old: Any, new: Any) -> str:
    """Return one line about a member that differs."""
    return f"{case}: {path} {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = value if value is ABSENT else repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _list_of(path: str) -> str:
    """Return the path without its places in lists: numbers beside each other share it."""
    return "[".join(piece.split("]")[-1] for piece in path.split("["))


def _largest(members: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for path, value in members.items():
        if isinstance(value, float) and path.endswith("]"):
            found[_list_of(path)] = max(found.get(_list_of(path), 0.0), abs(value))
    return found


def _alike(one: Any, other: Any, least: float, *, exact: bool) -> bool:
    numbers = type(one) in (int, float) and type(other) in (int, float)
    if exact or not numbers or float not in (type(one), type(other)):
        return type(one) is type(other) and one == other
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=least)
