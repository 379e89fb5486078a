"""How each mechanism is exercised: options that make it releasable, and whose unit changes.

`register_exercises` adds those of a mechanism while a program runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from suffice.audit.public_part.neighbours import FEATURES, Changed
from suffice.errors import ParameterError
from suffice.owner.mechanism import mechanism_names, mechanism_of

__all__ = ["AUXILIARY_DATASET", "Exercise", "Way", "exercises_of", "register_exercises", "ways"]


@dataclass(frozen=True)
class Exercise:
    """One way to make a mechanism release.

    ``options`` are fields of the mechanism and ``inputs`` of its source, beside the classes, the
    label and the features, which the neighbours have; a value that can be called is given the data
    set as it is handed over (`Handed`). ``columns`` are the features, none to leave them out; they,
    and what is declared by column, are held to the columns of a form. ``changed`` is the unit that
    differs, ``most_classes`` bounds the number of classes. ``without`` says in which forms it
    cannot be handed over, and why; ``command`` whether the command line can ask for it.
    ``refused``: it would show what is private, and must be refused as unprotected.
    """

    name: str
    options: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    changed: Changed = Changed.LABEL
    columns: Sequence[str] = FEATURES
    most_classes: int = 3
    without: Mapping[str, str] = field(default_factory=dict)
    command: bool = True
    refused: bool = False


@dataclass(frozen=True)
class Way:
    """A mechanism, and one exercise of it."""

    mechanism: str
    exercise: Exercise

    def __str__(self) -> str:
        return f"{self.mechanism} ({self.exercise.name})"


AUXILIARY_DATASET = "auxiliary"  # the ledger's name for protected auxiliary rows
Exercises = Sequence[Exercise]
_BUILT_IN = "suffice.audit.public_part.built_in"
_REGISTERED: dict[str, Exercises] = {}


def register_exercises(mechanism: str, exercises: Exercises) -> None:
    """Add the exercises of a mechanism: its public part is checked by them from now on."""
    if mechanism in _REGISTERED or mechanism in import_module(_BUILT_IN).EXERCISES:
        raise ParameterError(f"there are exercises of {mechanism!r} already.")
    _REGISTERED[mechanism] = exercises


def exercises_of(mechanism: str) -> Exercises:
    """Return the exercises of a mechanism; that it has none is an error."""
    mechanism_of(mechanism)  # it must be there
    built_in: Mapping[str, Exercises] = import_module(_BUILT_IN).EXERCISES
    found = _REGISTERED.get(mechanism) or built_in.get(mechanism)
    if not found:
        raise ParameterError(
            f"nothing says how {mechanism!r} is exercised, so that its public part is not checked;"
            " register an exercise of it (register_exercises)."
        )
    return found


def ways(mechanisms: Sequence[str] = ()) -> list[Way]:
    """Return every exercise of these mechanisms, of all that are registered if none is named."""
    names = mechanisms or mechanism_names()
    return [Way(name, exercise) for name in names for exercise in exercises_of(name)]
