"""Neighbouring tables, and how each mechanism is exercised on them.

An exercise is options that make a mechanism releasable, and whose unit changes. Two tables
of one declared domain differ in a label, a record, a party or an auxiliary row. Labels differ in
length, so that files are cut elsewhere; places are random, or where batches and blocks of bytes
end; one column has a mean of exactly zero, whose sign must say nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.owner.mechanism import mechanism_names, mechanism_of

_WIDTH = 6
_LONGEST_LABEL = 60
_AUXILIARY = 30  # rows
NAMES = tuple(f"x{j}" for j in range(_WIDTH))
RANGES = dict.fromkeys(NAMES, (-1e4, 1e4))
WARDS = ("north", "south", "west")
FEATURES = (*NAMES, "ward")
PARTIES = tuple(f"p{k}" for k in range(5))
UGLY_CELLS = (
    "", " ", ".", "-", "+", "abc", "true", "False", "nan", "NaN", "NA", "null", "inf", "-Infinity",
    "1e400", "-1e400", "1_000", "0x10", "1e", "1e+", "--5", "+5", " 5", "5.", ".5", "5%", "1.2.3",
    "1 5", "1,5", "2020-01-01", "\u00e9", "\uff11", "9" * 400, "1e99999999999999999999", '"', "'",
    "\\",
)  # fmt: skip
"""What a private cell of a column of numbers may hold, and must decide nothing by it."""


class Changed(StrEnum):
    """The unit in which two neighbouring data sets differ."""

    LABEL = "label"
    RECORD = "record"
    PARTY = "party"
    AUXILIARY = "auxiliary row"


@dataclass(frozen=True)
class Neighbours:
    """Two data sets that differ in one unit; ``tables`` and ``auxiliary`` are one and two.

    ``classes`` were declared for both, and ``row`` is the row that was changed.
    """

    tables: tuple[pa.Table, pa.Table]
    auxiliary: tuple[pa.Table, pa.Table]
    classes: tuple[str, ...]
    row: int


def neighbours(
    rng: np.random.Generator, changed: Changed, *, rows: int, batch: int, classes: int, lone: bool
) -> Neighbours:
    """Return neighbouring data sets of about ``rows`` rows.

    ``batch`` is where places are sought. ``lone``: the changed row is the only one of its class in
    its ward, so that its neighbour has a class that nobody is of.
    """
    rows += rows % 2
    names = _classes(rng, classes)
    columns, scales = _columns(rng, rows)
    ward, labels = rng.integers(0, len(WARDS), rows), rng.integers(0, classes, rows)
    row = _choose_row(rng, rows, batch)
    if lone:
        alike = (ward == ward[row]) & (labels == labels[row])
        labels[alike] = (labels[row] + 1) % classes
        labels[row] = (labels[row] - 1) % classes
    table = _table(columns, ward, np.array(names)[labels])
    neighbour, auxiliary = table, _auxiliary(rng)
    other = auxiliary
    if changed is Changed.AUXILIARY:
        other = _with_row(auxiliary, rng, int(rng.integers(_AUXILIARY)))
    elif changed is Changed.PARTY:
        neighbour = _other_party(rng, table, names, scales)
    else:
        labels[row] = (labels[row] + 1 + rng.integers(classes - 1)) % classes
        if changed is Changed.RECORD:
            columns[:, row] = rng.uniform(-1, 1, _WIDTH) * scales
            ward[row] = rng.integers(len(WARDS))
        neighbour = _table(columns, ward, np.array(names)[labels])
    return Neighbours((table, neighbour), (auxiliary, other), names, row)


def with_ugly_cells(data: Neighbours, rng: np.random.Generator) -> Neighbours:
    """Return the neighbours with numbers as texts; the changed record of the second is ugly.

    Its numbers are `UGLY_CELLS`, and its ward and its label are of no list.
    """
    first, second = data.tables
    for name in NAMES:
        place = first.column_names.index(name)
        first = first.set_column(place, name, first[name].cast(pa.string()))
        second = _with_cell(second, data.row, name, str(rng.choice(UGLY_CELLS)))
    for name in ("ward", "label"):
        second = _with_cell(second, data.row, name, "nobody's")
    return replace(data, tables=(first, second))


def _with_cell(table: pa.Table, row: int, name: str, cell: str) -> pa.Table:
    """Return a table with a column as texts, and one cell of it replaced."""
    cells = table[name].cast(pa.string()).to_pylist()
    cells[row] = cell
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(cells, pa.string()))


def _classes(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    """Return names of classes whose lengths differ, most often by as much as they can."""
    lengths = rng.integers(1, _LONGEST_LABEL + 1, count)
    if rng.random() < 0.7:
        lengths[:2] = rng.permutation([1, _LONGEST_LABEL])
    return tuple(f"{k}".ljust(int(length), "m") for k, length in enumerate(lengths))


def _columns(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns as tables often have them, and their scales; the last has mean zero."""
    columns = rng.normal(size=(_WIDTH, rows))
    columns -= columns.mean(axis=1)[:, None]
    columns /= columns.std(axis=1)[:, None]
    scales = np.where(rng.random(_WIDTH) < 0.6, 1.0, 10.0 ** rng.integers(-3, 4, _WIDTH))
    columns *= scales[:, None]
    half = columns[-1, : rows // 2]
    columns[-1] = rng.permutation(np.concatenate([half, -half]))
    return columns, scales


def _choose_row(rng: np.random.Generator, rows: int, batch: int) -> int:
    """Return a row: any, the first or last of all, or one where a batch begins or ends."""
    ends = np.arange(batch, rows, batch)
    edges = np.concatenate([[0, rows - 1], ends - 1, ends])
    return int(rng.choice(edges)) if rng.random() < 0.5 else int(rng.integers(rows))


def _table(columns: np.ndarray, ward: np.ndarray, labels: np.ndarray) -> pa.Table:
    party = np.array(PARTIES)[np.arange(len(labels)) % len(PARTIES)]
    numbers = {name: column.copy() for name, column in zip(NAMES, columns, strict=True)}
    return pa.table({**numbers, "ward": np.array(WARDS)[ward], "party": party, "label": labels})


def _other_party(
    rng: np.random.Generator, table: pa.Table, classes: tuple[str, ...], scales: np.ndarray
) -> pa.Table:
    """Return the table in which one party holds other records, and at times fewer."""
    frame = {name: table[name].to_numpy(zero_copy_only=False).copy() for name in table.column_names}
    theirs = np.flatnonzero(frame["party"] == rng.choice(PARTIES))
    for name, scale in zip(NAMES, scales, strict=True):
        frame[name][theirs] = rng.normal(size=len(theirs)) * scale
    frame["label"] = frame["label"].astype(object)
    frame["label"][theirs] = rng.choice(classes, len(theirs))
    selected = np.ones(table.num_rows, dtype=bool)
    selected[theirs[: int(rng.integers(len(theirs)))]] = rng.random() < 0.5
    return pa.table({name: column[selected] for name, column in frame.items()})


def _auxiliary(rng: np.random.Generator) -> pa.Table:
    return pa.table(dict(zip(NAMES, rng.normal(size=(_WIDTH, _AUXILIARY)), strict=True)))


def _with_row(table: pa.Table, rng: np.random.Generator, row: int) -> pa.Table:
    columns = {name: table[name].to_numpy().copy() for name in NAMES}
    for column in columns.values():
        column[row] = rng.normal()
    return pa.table(columns)


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
_BUILT_IN = "suffice.audit.built_in_exercises"
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
