"""The settings that both sides of Flower read from their configurations, checked."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError

__all__ = ["QUESTION", "RECORD", "audience", "choice", "text"]

QUESTION = "contribute"  # the action that the server asks of a node
RECORD = "part"  # where a reply holds the bytes of a contribution


def text(config: Mapping[str, Any], name: str) -> str:
    """Return a setting that must be text.

    Raises
    ------
    ParameterError
        If it is missing, empty or anything else.
    """
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise ParameterError(f"The configuration lacks {name!r}, which must be text. Add it.")
    return value


def choice(config: Mapping[str, Any], name: str, choices: Iterable[str]) -> str:
    """Return a setting that is one of ``choices``; the first of them if it is missing.

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    names = list(choices)
    value = config.get(name, names[0])
    if value not in names:
        raise ParameterError(
            f"The setting {name} in the configuration must be one of {', '.join(names)}."
        )
    return str(value)


def audience(path: str, run: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the auxiliary rows at ``path``, and the classes from the configuration of the run."""
    from suffice.owner.parties.auxiliary import AuxiliaryRows
    from suffice.tables.labels import check_classes

    names = [item.strip() for item in text(run, "classes").split(",")]
    are_integers = all(item.lstrip("-").isdecimal() for item in names)
    classes = check_classes([int(item) for item in names] if are_integers else names)
    return AuxiliaryRows.read(Path(path)), classes
