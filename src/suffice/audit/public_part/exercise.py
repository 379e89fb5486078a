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

__all__ = [
    "AUXILIARY_DATASET",
    "Exercise",
    "ExercisedMechanism",
    "exercised_mechanisms",
    "exercises_of",
    "register_exercises",
]


@dataclass(frozen=True)
class Exercise:
    """Settings with which a mechanism makes a release.

    A value that can be called gets the data set as it is handed over (`Handed`). Columns that a
    form lacks are left out.

    Parameters
    ----------
    name
        A name for people.
    options
        Fields of the mechanism, besides the classes.
    inputs
        Fields of its source, besides label and features.
    changed
        The unit in which the two data sets differ.
    columns
        The features; empty to name none.
    most_classes
        The largest number of classes.
    without
        The forms in which the data cannot be handed over, each with the reason.
    command
        Whether the command line can make this release.
    refused
        Whether it would show private data, and must be refused as unprotected.
    any_cells
        Whether no cell is an error. Then some pairs have a record of `UGLY_CELLS`.
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
    any_cells: bool = False


@dataclass(frozen=True)
class ExercisedMechanism:
    """A mechanism, and one exercise of it.

    Parameters
    ----------
    mechanism
        The name of the mechanism.
    exercise
        The settings.
    """

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
        raise ParameterError(f"Mechanism {mechanism!r} already has exercises. Choose another name.")
    _REGISTERED[mechanism] = exercises


def exercises_of(mechanism: str) -> Exercises:
    """Return the exercises of a mechanism.

    Raises
    ------
    ParameterError
        If there is no such mechanism, or it has no exercise.
    """
    mechanism_of(mechanism)  # it must be there
    built_in: Mapping[str, Exercises] = import_module(_BUILT_IN).EXERCISES
    exercises = _REGISTERED.get(mechanism) or built_in.get(mechanism)
    if not exercises:
        raise ParameterError(
            f"The public part of {mechanism!r} cannot be checked, because it has no exercise. Add"
            " one with register_exercises."
        )
    return exercises


def exercised_mechanisms(mechanisms: Sequence[str] = ()) -> list[ExercisedMechanism]:
    """Return every exercise of these mechanisms, of all that are registered if none is named."""
    names = mechanisms or mechanism_names()
    return [ExercisedMechanism(name, exercise) for name in names for exercise in exercises_of(name)]
