"""Neighbouring tables, and how each mechanism is exercised on them.

An exercise is options that make a mechanism releasable, and whose unit changes. Two tables
of one declared domain differ in a label, a record, a person, a party or an auxiliary row. A person
has more rows or fewer in one of them, or other labels. Labels differ in
length, so that files are cut elsewhere; places are random, or where batches and blocks of bytes
end; one column has a mean of exactly zero, whose sign must say nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.owner.labelled import Preprocessing
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import mechanism_names, mechanism_of
from suffice.owner.rados import Rados
from suffice.tables.pipeline import Pipeline

_WIDTH = 6
_LONGEST_LABEL = 60
_AUXILIARY = 30  # rows
NAMES = tuple(f"x{j}" for j in range(_WIDTH))
RANGES = dict.fromkeys(NAMES, (-1e4, 1e4))
WARDS = ("north", "south", "west")
FEATURES = (*NAMES, "ward")
PARTIES = tuple(f"p{k}" for k in range(5))
PERSON = "person"  # the column of ids
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
    TARGET = "target"
    RECORD = "record"
    PERSON_LABELS = "person-labels"
    PERSON = "person"
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
    # Names of classes differ in length, most often by as much as they can.
    lengths = rng.integers(1, _LONGEST_LABEL + 1, classes)
    if rng.random() < 0.7:
        lengths[:2] = rng.permutation([1, _LONGEST_LABEL])
    names = tuple(f"{k}".ljust(int(length), "m") for k, length in enumerate(lengths))
    # Columns are as tables often have them; the last has mean zero.
    columns = rng.normal(size=(_WIDTH, rows))
    columns -= columns.mean(axis=1)[:, None]
    columns /= columns.std(axis=1)[:, None]
    scales = np.where(rng.random(_WIDTH) < 0.6, 1.0, 10.0 ** rng.integers(-3, 4, _WIDTH))
    columns *= scales[:, None]
    half = columns[-1, : rows // 2]
    columns[-1] = rng.permutation(np.concatenate([half, -half]))
    ward, labels = rng.integers(0, len(WARDS), rows), rng.integers(0, classes, rows)
    # The row is any, the first or last of all, or one where a batch begins or ends.
    ends = np.arange(batch, rows, batch)
    edges = np.concatenate([[0, rows - 1], ends - 1, ends])
    row = int(rng.choice(edges) if rng.random() < 0.5 else rng.integers(rows))
    if lone:
        alike = (ward == ward[row]) & (labels == labels[row])
        labels[alike] = (labels[row] + 1) % classes
        labels[row] = (labels[row] - 1) % classes
    table = _table(columns, ward, np.array(names)[labels])
    neighbour = table
    auxiliary = other = rng.normal(size=(_WIDTH, _AUXILIARY))
    if changed is Changed.AUXILIARY:
        place, other = int(rng.integers(_AUXILIARY)), auxiliary.copy()
        other[:, place] = rng.normal(size=_WIDTH)
    elif changed is Changed.PARTY:
        neighbour = _other_party(rng, table, names, scales)
    elif changed in {Changed.PERSON, Changed.PERSON_LABELS}:
        table, neighbour, row = other_person(rng, table, names, changed)
    elif changed is Changed.TARGET:
        columns[-1, row] = rng.uniform(-1, 1) * scales[-1]
        neighbour = _table(columns, ward, np.array(names)[labels])
    else:
        labels[row] = (labels[row] + 1 + rng.integers(classes - 1)) % classes
        if changed is Changed.RECORD:
            columns[:, row] = rng.uniform(-1, 1, _WIDTH) * scales
            ward[row] = rng.integers(len(WARDS))
        neighbour = _table(columns, ward, np.array(names)[labels])
    first, second = (pa.table(dict(zip(NAMES, rows, strict=True))) for rows in (auxiliary, other))
    return Neighbours((table, neighbour), (first, second), names, row)


def with_ugly_cells(data: Neighbours, rng: np.random.Generator, changed: Changed) -> Neighbours:
    """Return the neighbours with ugly cells in the changed label, or record, of the second.

    Numbers are `UGLY_CELLS`, and all numbers are texts then. A ward and a label are of no list.
    """
    first, second = data.tables
    whole = changed in {Changed.RECORD, Changed.PERSON}
    target = changed is Changed.TARGET
    for name in NAMES if whole else NAMES[-1:] if target else ():
        place = first.column_names.index(name)
        first = first.set_column(place, name, first[name].cast(pa.string()))
        second = _with_cell(second, data.row, name, str(rng.choice(UGLY_CELLS)))
    for name in ("ward", "label") if whole else () if target else ("label",):
        strange = str(rng.choice(["nobody's", *UGLY_CELLS]))
        second = _with_cell(second, data.row, name, strange)
    if changed is Changed.PERSON:  # a row of the person more, which has no id
        nobodys = _with_cell(second.slice(data.row, 1), 0, PERSON, "")
        second = pa.concat_tables([second, nobodys])
    return replace(data, tables=(first, second))


def _with_cell(table: pa.Table, row: int, name: str, cell: str) -> pa.Table:
    """Return a table with a column as texts, and one cell of it replaced."""
    cells = table[name].cast(pa.string()).to_pylist()
    cells[row] = cell
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(cells, pa.string()))


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


def other_person(
    rng: np.random.Generator, table: pa.Table, classes: tuple[str, ...], changed: Changed
) -> tuple[pa.Table, pa.Table, int]:
    """Return a table with ids, one in which a person has other labels or rows, and one such row.

    A person has from one row to about 20. Ids are spelt in two ways.
    """
    rows = table.num_rows
    people = np.concatenate([np.arange(3), (rng.random(rows - 3) ** 2 * rows / 5).astype(int)])
    person = int(rng.integers(3) if rng.random() < 0.5 else rng.choice(people))
    theirs = np.flatnonzero(people == person)
    table = table.append_column(PERSON, pa.array(people.astype(str)))
    if changed is Changed.PERSON_LABELS:
        labels = np.array(table["label"].to_pylist(), dtype=object)
        labels[theirs] = rng.choice(classes, len(theirs))
        place = table.column_names.index("label")
        return table, table.set_column(place, "label", pa.array(labels.tolist())), int(theirs[0])
    # Rows of others take their places, under the person's id; these are as many as may be.
    copies = rng.integers(rows, size=int(rng.integers(1, 25)))
    others = np.setdiff1d(np.arange(rows), theirs)
    order = rng.permutation(len(others) + len(copies))
    ids = [*people[others].astype(str), *(f"{person}{'.0' * (k % 2)}" for k in range(len(copies)))]
    place = table.column_names.index(PERSON)
    other = table.take(pa.array(np.concatenate([others, copies])))
    other = other.set_column(place, PERSON, pa.array(ids)).take(pa.array(order))
    return table, other, int(np.flatnonzero(order == len(others))[0])


@dataclass(frozen=True)
class Exercise:
    """Settings with which a mechanism makes a release.

    ``options`` are fields of the mechanism, besides the classes. ``inputs`` are fields of its
    source, besides label and features. A value that can be called gets the data set as it is handed
    over (`Handed`). Columns that a form lacks are left out.
    """

    name: str
    options: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    changed: Changed = Changed.LABEL  # the unit in which the two data sets differ
    columns: Sequence[str] = FEATURES  # empty to name none
    most_classes: int = 3
    without: Mapping[str, str] = field(default_factory=dict)  # forms that it lacks, each with why
    command: bool = True  # whether the command line can make this release
    refused: bool = False  # whether it would show private data, and must be refused as unprotected
    any_cells: bool = False  # whether no private cell is an error: some pairs have `UGLY_CELLS`
    mechanism: str = ""  # under which it is registered

    def __str__(self) -> str:
        return f"{self.mechanism} ({self.name})"


def register_exercises(mechanism: str, exercises: Sequence[Exercise]) -> None:
    """Add the exercises of a mechanism: its public part is checked by them from now on."""
    if mechanism in _REGISTERED:
        raise ParameterError(f"Mechanism {mechanism!r} already has exercises. Choose another name.")
    _REGISTERED[mechanism] = exercises


def exercises_of(*mechanisms: str) -> list[Exercise]:
    """Return every exercise of these mechanisms, of all that are registered if none is named.

    Raises
    ------
    ParameterError
        If there is no such mechanism, or it has no exercise.
    """
    found = []
    for name in mechanisms or mechanism_names():
        mechanism_of(name)  # it must be there
        if not _REGISTERED.get(name):
            raise ParameterError(
                f"The public part of {name!r} cannot be checked, because it has no exercise. Add"
                " one with register_exercises."
            )
        found += [replace(exercise, mechanism=name) for exercise in _REGISTERED[name]]
    return found


AUXILIARY_DATASET = "auxiliary"  # the ledger's name for protected auxiliary rows
_ENROLLED = {
    "party": "party",
    "enrolled": PARTIES,
    "auxiliary": lambda handed: handed.auxiliary,
}
_SPENT = {"epsilon": 1.0, "delta": 1e-6}
_DECLARED = {"ranges": RANGES, "categories": {"ward": WARDS}}


@cache
def _agreed() -> Pipeline:
    """Return the pipeline of other public rows, agreed on before anybody saw protected ones."""
    rows = np.random.default_rng(0).normal(size=(len(NAMES), 50))
    table = pa.table(dict(zip(NAMES, rows, strict=True)))
    return MeanOperator(1.0, map=None).public_rows(table).pipeline


def _own_scales(handed: Any) -> Pipeline:
    """Return the pipeline of a release that shows the scales of these private rows."""
    columns = [name for name in FEATURES if handed.has(name)]
    labels = {"label": "label"} if handed.form.named else {"y": handed.column("label")}
    unprotected_rados = Rados(count=8, standardize="rows", clip=0.9, classes=handed.classes)
    inputs = {"features": columns, "ledger": None, "unprotected": True, **labels}
    return unprotected_rados.release(handed.data, **inputs).pipeline


def _operator(name: str, **options: Any) -> Exercise:
    return Exercise(name, {"epsilon": 0.5, "delta": 1e-6, **options})


def _rados(name: str, unit: str, **options: Any) -> Exercise:
    asked = {"count": 8, **_SPENT, "unit": unit, **_DECLARED, **options}
    return Exercise(name, asked, changed=Changed(unit), most_classes=2, any_cells=True)


def _moments(name: str, classes: int, **options: Any) -> Exercise:
    asked = {**_SPENT, **_DECLARED, **options}
    return Exercise(name, asked, changed=Changed.RECORD, most_classes=classes, any_cells=True)


def _of_people(exercise: Exercise, changed: Changed) -> Exercise:
    return replace(
        exercise, name=f"{exercise.name}, people", changed=changed,
        inputs={**exercise.inputs, "person": PERSON},
        without={"numpy": "ids are a column with a name"},
    )  # fmt: skip


def _proportions(name: str, **options: Any) -> Exercise:
    bags = {"bags": lambda handed: handed.column("ward")}
    return Exercise(name, {**_SPENT, **options}, bags, columns=NAMES)


def _parties(method: str, classes: int = 3, **options: Any) -> Exercise:
    return Exercise(
        method, {**_SPENT, "method": method, "lam": 1e-2, **options}, _ENROLLED,
        changed=Changed.PARTY, columns=(), most_classes=classes,
        without={"numpy": "whose record it is, and its label, are columns with names"},
    )  # fmt: skip


_NUMBER = replace(
    _moments("a number to predict", 2),
    inputs={"target": NAMES[-1]},
    columns=(*NAMES[:-1], "ward"),
    without={"numpy": "the target is a column with a name"},
)


_REGISTERED: dict[str, Sequence[Exercise]] = {
    "mean-operator": (
        *(_operator(name, mechanism=name) for name in ("laplace", "gaussian", "knorm", "response")),
        _operator("chosen", mechanism="auto"),
        _operator("random features", mechanism="gaussian", map="rff:16"),
        _operator("landmarks", mechanism="laplace", map="nystroem:12"),
        _operator("declared categories", mechanism="laplace", categories={"ward": WARDS}),
        _of_people(_operator("chosen", mechanism="auto"), Changed.PERSON_LABELS),
        _of_people(_operator("response", mechanism="response"), Changed.PERSON_LABELS),
    ),
    "responses": (
        Exercise(
            "every cell",
            {
                "label_flip": 0.25,
                "states": {"ward": WARDS},
                "ranges": RANGES,
                "feature_flip": {"ward": 0.3},
                "feature_noise": 1e8,
            },
            changed=Changed.RECORD, any_cells=True,
        ),
    ),
    "rados": (
        _rados("per label", "label"),
        _rados("per record", "record"),
        _rados("per record, noise on records", "record", noise_on="records"),
        Exercise(
            "scaled by private rows",
            {"count": 8, **_SPENT, "unit": "record", "pipeline": _own_scales},
            changed=Changed.RECORD, most_classes=2, command=False, refused=True,
        ),
    ),
    "moments": (
        _moments("declared ranges", 3),
        _moments("missing as zero", 2, missing="zero"),
        _NUMBER,
        _of_people(_moments("declared ranges", 3), Changed.PERSON),
        _of_people(_NUMBER, Changed.PERSON),
        replace(
            _NUMBER,
            name="a number beside public rows",
            options={**_NUMBER.options, "unit": "label"},
            changed=Changed.TARGET,
        ),
    ),
    "proportions": (
        _proportions("chosen"),
        _proportions("laplace", mechanism="laplace"),
        _proportions("gaussian", mechanism="gaussian"),
        _proportions("laplace prior", mechanism="laplace-prior"),
        _of_people(_proportions("chosen", epsilon=20.0), Changed.PERSON_LABELS),
    ),
    "bags": (Exercise("by skew", {"skew": 0.7}), Exercise("by epsilon", {"epsilon": 0.5})),
    "parties": (
        _parties("operator"),
        _parties("class-sums", samples=4),
        _parties("vote-table"),
        _parties("soft", 2),
        _parties("average", 2),
        replace(
            _parties("soft", 2, private_auxiliary=True),
            name="soft, protected auxiliary rows",
            inputs={
                **_ENROLLED,
                "preprocessing": lambda _: Preprocessing(pipeline=_agreed()),
                "auxiliary_dataset": AUXILIARY_DATASET,
            },
            changed=Changed.AUXILIARY,
            command=False,
        ),
    ),
}  # fmt: skip
