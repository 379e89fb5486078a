"""What both ends of Flower read from their configurations, checked."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError

__all__ = ["QUESTION", "RECORD", "audience", "choice", "text"]

QUESTION = "contribute"  # the action that the server asks of a node
RECORD = "part"  # where a reply holds the bytes of a contribution


def text(config: Mapping[str, Any], name: str) -> str:
    """Return a setting that must be there and be text."""
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise ParameterError(f"the configuration must hold text under {name!r}.")
    return value


def choice(config: Mapping[str, Any], name: str, known: Iterable[str]) -> str:
    """Return a setting that is one of ``known``; the first of them unless it is there."""
    names = list(known)
    value = config.get(name, names[0])
    if value not in names:
        raise ParameterError(f"the configuration's {name} must be one of {', '.join(names)}.")
    return str(value)


def audience(path: str, run: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the auxiliary rows at ``path`` and the classes, as the run's configuration says."""
    from suffice.owner.parties.auxiliary import AuxiliaryRows
    from suffice.tables.labels import check_classes

    listed = [item.strip() for item in text(run, "classes").split(",")]
    whole = all(item.lstrip("-").isdecimal() for item in listed)
    classes = check_classes([int(item) for item in listed] if whole else listed)
    return AuxiliaryRows.read(Path(path)), classes
