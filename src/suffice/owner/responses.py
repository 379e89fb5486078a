"""Randomised records: every label and every feature leaves randomised (Barber 2020).

The noise of each column is known, with its cost, before any private cell is seen. An owner's table
and the answers of a survey (`suffice.owner.survey`) become the same kind of release, with the same
guarantees: `DeclaredRecords` is the one place that makes them.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from suffice import participant
from suffice.errors import ParameterError, TableError
from suffice.options import (
    ByColumn,
    data_option,
    option,
    pair,
    privacy_option,
    states,
    value_or_by_column,
)
from suffice.owner.mechanism import CLASSES, EPSILON, Asked, Mechanism, Procedure, Public
from suffice.owner.scaling import RecordPass, sheet_scaling
from suffice.owner.source import (
    LabelledBatch,
    LabelledPart,
    OwnerReport,
    Source,
    labelled_parts,
)
from suffice.privacy.accounting import Composed
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure, check_delta
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Sensitivity
from suffice.privacy.response import Response
from suffice.releases.columns import Added, Flips, SpreadColumn, declared_pipeline
from suffice.releases.release import Covariance, Part, Release, RowSet
from suffice.strict_json import canonical
from suffice.tables.columns import (
    Classes,
    Roles,
    feature_names,
    is_categorical,
    numeric_column,
    resolve_roles,
    value_codes,
)
from suffice.tables.sources import open_declared
from suffice.tables.table import Table

_LARGEST_STEPS = 2.0**52  # a step more or less is still a float of its own


@dataclass(frozen=True)
class Lattice:
    """Protects one number: held to its declared range, put on a public rounding grid, then noise.

    A value x becomes the integer round(min(max(x, low), high) / step). Another value moves it by at
    most the declared range, and noise is added to the integer. A result outside ``limits``, which
    has a probability below 2^-64, is held to them.
    """

    step: float  # the rounding step, a power of two
    low: float  # the lower end of the declared range
    high: float  # the upper end of the declared range
    noise: GaussianNoise | LaplaceNoise  # the noise on the integer
    limits: tuple[float, float]  # the least and the largest number that is released

    @classmethod
    def of(cls, added: Added) -> "Lattice":
        """Return the lattice of a declared range and noise."""
        deviation, width = math.sqrt(added.variance), added.high - added.low
        if not 2.0**-12 <= deviation / width <= 2.0**16:
            raise ParameterError(
                "The noise does not suit the declared range. Its standard deviation must be at"
                " least 1/4096 of the range, to protect anything, and at most 65,536 times the"
                " range."
            )
        step = participant.grid_step(deviation)
        if not max(abs(added.low), abs(added.high)) / step < _LARGEST_STEPS:
            raise ParameterError(
                "The range lies too far from zero for its noise. Shift the values, for example by"
                " subtracting the lower end."
            )
        reach = max(1, round(added.high / step) - round(added.low / step))
        sensitivity = Sensitivity(l1=reach, l2=float(reach), dimension=1)
        noise = (
            GaussianNoise.of_scale(sensitivity, deviation / step)
            if added.kernel == "gaussian"
            else LaplaceNoise.of_scale(sensitivity, deviation / step / math.sqrt(2))
        )
        return cls(step, added.low, added.high, noise, added.limits)

    @property
    def event(self) -> Event:
        """What one cell costs."""
        return self.noise.event

    def exact(self, values: np.ndarray) -> np.ndarray:
        """Return the integers of clean values; those outside the range count as its ends.

        What is no number counts as the middle of the range.
        """
        numbers = values.astype(np.float64, copy=False)
        numbers = np.where(np.isnan(numbers), self.low + (self.high - self.low) / 2, numbers)
        clipped = np.clip(numbers, self.low, self.high)
        return np.rint(clipped / self.step).astype(np.int64)

    def randomise(self, exact: np.ndarray) -> np.ndarray:
        """Return the value of each integer with fresh noise: a multiple of ``step``."""
        least, most = (end / self.step for end in self.limits)
        moved = self.noise.per_cell(exact.size).add(exact)
        return np.clip(moved, math.ceil(least), math.floor(most)) * self.step


Channel = Response | Lattice


def channel_of(noise: Flips | Added) -> Channel:
    """Return what randomises the cells of a column."""
    return response_of(noise) if isinstance(noise, Flips) else Lattice.of(noise)


def response_of(flips: Flips) -> Response:
    """Return the response of discrete noise, with integer probabilities."""
    if flips.keep is not None:
        return Response.keep_else_uniform(flips.states, flips.keep)
    return Response.from_matrix(flips.matrix)


_MOST_DECLARED = 2**23  # bytes of declared columns: half of what a manifest may hold


@dataclass(frozen=True)
class DeclaredRecords:
    """Everything about a release of records that is known before one of them is read."""

    # The columns with their possible values or ranges, and their noise.
    columns: tuple[SpreadColumn, ...]
    channels: Mapping[Flips | Added, Channel]  # what randomises the cells of a column, by its noise
    label: Response  # what randomises labels

    def details(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return the public details of the release."""
        described = [column.to_json() for column in self.columns]
        if len(canonical(described)) > _MOST_DECLARED:
            raise ParameterError(
                "The matrices of noise are too large for a file. Use --flip with one"
                " probability (Python: feature_flip)."
            )
        return {"classes": list(classes), "columns": described, "mechanism": "response"}

    def guarantees(self, delta: float) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, attribute and record."""
        cost = {noise: channel.event for noise, channel in self.channels.items()}
        return cell_guarantees(self.label.event, [cost[c.noise] for c in self.columns], delta)

    def release(
        self,
        randomised: Mapping[str, np.ndarray],
        classes: Sequence[Any],
        guarantees: tuple[Guarantee, ...],
    ) -> Release:
        """Return the release of cells that went through the noise: answers, codes and values."""
        details = self.details(classes)
        content = hashlib.sha256(b"randomised rows in order\0" + canonical(details))
        for name in ("answers", "codes", "values"):
            content.update(randomised[name].tobytes())
        count = len(randomised["answers"])
        rows = RowSet(count, "sha256:" + content.hexdigest())
        return Release(
            kind="responses",
            arrays={**randomised, "channel": self.label.matrix},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=declared_pipeline(self.columns),
            noise=Covariance("none"),
        )


def cell_guarantees(
    label: Event, attributes: Sequence[Event], delta: float
) -> tuple[Guarantee, ...]:
    """Return the guarantees per label, per attribute (the largest epsilon) and per record.

    The label is an attribute too: a budget per attribute is about every column. A change of one
    cell leaves the law of all others as it was; a change of a record changes all of its
    cells. What is not pure is read at ``delta``.
    """
    if not delta > 0 and any(isinstance(event, Gaussian) for event in attributes):
        raise ParameterError(
            "Gaussian noise needs a delta above 0. Set --delta (Python: delta=...), or use"
            " --noise laplace."
        )
    dearest = [_largest([label, *attributes], delta)] if attributes else []
    return (
        _guarantee(Unit.LABEL, label, delta),
        *(_guarantee(Unit.ATTRIBUTE, event, delta) for event in dearest),
        _guarantee(Unit.RECORD, _together([label, *attributes]), delta),
    )


def _guarantee(unit: Unit, event: Event, delta: float) -> Guarantee:
    return Guarantee(
        unit=unit,
        event=event,
        delta=0.0 if isinstance(event, Pure) else delta,
        public=("the number of rows", "the class list", "the columns and what each can hold"),
        assumptions=(
            Assumption(
                "classes, states, ranges and noise were not chosen by looking at the records",
                "declared by the owner",
            ),
        ),
    )


def _largest(events: Iterable[Event], delta: float) -> Event:
    """Return one event that dominates each of ``events`` taken alone."""
    kinds = list(dict.fromkeys(events))
    pure = [event for event in kinds if isinstance(event, Pure)]
    normal = [event for event in kinds if isinstance(event, Gaussian)]
    if not normal:
        alike = Laplace if all(isinstance(event, Laplace) for event in pure) else Pure
        return alike(max(event.bound for event in pure))
    joined = Gaussian(
        min(event.multiplier for event in normal),
        max(event.slack for event in normal),
        max(event.tail for event in normal),
    )
    if not pure:
        return joined
    bound = max(joined.epsilon(delta), *(event.bound for event in pure))
    return Approximate(bound, delta)


def _together(events: Sequence[Event]) -> Event:
    """Return one event for all cells of a record: pure losses add, Gaussians join exactly."""
    total = math.fsum(event.bound for event in events if isinstance(event, Pure))
    pure = Pure(math.nextafter(total, math.inf))
    normal = [event for event in events if isinstance(event, Gaussian)]
    if not normal:
        return pure
    precision = math.fsum(event.multiplier**-2 for event in normal)
    joined = Gaussian(
        precision**-0.5 * (1 - 1e-12),
        math.fsum(event.slack for event in normal),
        math.fsum(event.tail for event in normal),
    )
    return Composed((pure, joined))


Cells = tuple[np.ndarray, np.ndarray, np.ndarray]


class PrivateCells(RecordPass):
    """The exact cells of all records, in memory; no cell is an error.

    A label or a cell that is missing, or none of its possible values, has the code -1. A missing
    number counts as the middle of its range.
    """

    def __init__(self, public: "DeclaredTable", *, identified: bool) -> None:
        features, declared = public.roles.features, public.declared
        super().__init__(public.table, features, public.classes, identified=identified)
        self._discrete = [c for c in declared.columns if c.states is not None]
        self._continuous = [c for c in declared.columns if c.states is None]
        self._channels = declared.channels
        self._parts: list[Cells] = []

    def update(self, batch: LabelledBatch) -> None:
        """Take in records with their labels."""
        records = batch.rows
        codes = np.empty((len(self._discrete), records.num_rows), dtype=np.int16)
        for j, column in enumerate(self._discrete):
            codes[j] = _state_codes(records.column(column.name), column)
            self.unknown[column.name] += int(np.count_nonzero(codes[j] < 0))
        exact = np.empty((len(self._continuous), records.num_rows), dtype=np.int64)
        for j, column in enumerate(self._continuous):
            numbers = _numbers(records.column(column.name), column)
            self.unknown[column.name] += int(np.count_nonzero(np.isnan(numbers)))
            exact[j] = self._lattice(column).exact(numbers)
        super().update(batch)
        labels = batch.codes.astype(np.int16)
        self._parts.append((labels, np.ascontiguousarray(codes.T), exact.T))

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the records that follow."""
        super().merge(other)
        self._parts += other._parts

    def result(self) -> Cells:
        """Return labels, codes and lattice integers of all records: private."""
        if len(self._parts) > 1:  # joined once
            joined = [np.concatenate(cells) for cells in zip(*self._parts, strict=True)]
            self._parts = [(joined[0], joined[1], joined[2])]
        labels, codes, exact = self._parts[0]
        return labels, codes, exact

    def _lattice(self, column: SpreadColumn) -> Lattice:
        lattice = self._channels[column.noise]
        assert isinstance(lattice, Lattice)  # noqa: S101  # for the type checker
        return lattice

    def randomised(self, label: Response) -> dict[str, np.ndarray]:
        """Return the arrays of a release: one fresh answer, code or number per cell."""
        labels, codes, exact = self.result()
        answers, noisy_codes = _answers(label, labels), self._randomised_codes(codes)
        numbers = np.empty(exact.shape)
        for j, column in enumerate(self._continuous):
            numbers[:, j] = self._lattice(column).randomise(exact[:, j])
        return {
            "answers": answers,
            "codes": noisy_codes,
            "values": numbers,
        }

    def _randomised_codes(self, clean: np.ndarray) -> np.ndarray:
        """Return one randomised code per discrete cell, (records, columns)."""
        codes = np.empty(clean.shape, dtype=np.uint8)
        columns_by_noise: dict[Flips | Added, list[int]] = {}
        for position, column in enumerate(self._discrete):
            columns_by_noise.setdefault(column.noise, []).append(position)
        for noise, positions in columns_by_noise.items():
            response = self._channels[noise]
            assert isinstance(response, Response)  # noqa: S101  # for the type checker
            if len(positions) == clean.shape[1]:
                return _answers(response, clean)
            codes[:, positions] = _answers(response, clean[:, positions])
        return codes


def _answers(response: Response, codes: np.ndarray) -> np.ndarray:
    """Return one randomised answer per code, a byte each; for -1, a state is drawn first."""
    return response.randomise(response.with_drawn(codes.astype(np.uint8), codes < 0))


def _state_codes(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the position of each cell among the declared states; -1 is none of them."""
    states = column.states or ()
    are_integers = pa.types.is_integer(cells.type) and not cells.null_count
    if are_integers and column.run is not None:
        values: np.ndarray = cells.to_numpy()
        if values.min() >= column.run[0] and values.max() <= column.run[-1]:
            return values if column.run[0] == 0 else values.astype(np.int64) - column.run[0]
    return np.maximum(value_codes(cells, states), -1)


def _numbers(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the cells of a continuous column as floats; NaN is missing."""
    if is_categorical(cells.type):
        raise TableError(
            f"Column {column.name!r} has a range but holds {cells.type}, not numbers. Declare"
            " possible values with --categories instead."
        )
    return numeric_column(cells).astype(np.float64, copy=False)


@dataclass(frozen=True)
class DeclaredTable(Public):
    """A table all of whose columns are private, and what was declared about them."""

    table: Table  # the table, typed as declared
    roles: Roles  # its label and its features
    declared: DeclaredRecords  # the declared columns
    classes: Classes  # the declared classes
    source: Source  # what the owner handed in

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private records with their labels, in parts."""
        return labelled_parts(self.table, self.roles, self.classes, self.source)


@dataclass(frozen=True, eq=False)
class RandomisedRecords(Procedure[PrivateCells]):
    """Whole records, every cell through the noise that was declared for it."""

    kind = "responses"
    stays = (
        "A release of randomised records holds every cell, so all cells would have to travel to"
        " the owner's machine."
    )
    public: DeclaredTable
    delta: float

    def accumulator(self, *, identified: bool) -> PrivateCells:
        """Return an empty set of cells."""
        return PrivateCells(self.public, identified=identified)

    def report(self, exact: PrivateCells) -> OwnerReport | None:
        """Tell the owner alone which labels and cells counted as none."""
        return exact.report()

    def guarantees(self, exact: PrivateCells) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, attribute and record."""
        del exact
        return self.public.declared.guarantees(self.delta)

    def parameters(self, exact: PrivateCells) -> Mapping[str, Any]:
        """Return the public description of the request."""
        declared, details = self.public.declared, self.public.declared.details(self.public.classes)
        return {
            "kind": self.kind,
            "epsilon": self.guarantees(exact)[0].epsilon,
            "delta": self.delta,
            "records": exact.count,
            "channel": declared.label.matrix.tolist(),
            "details": hashlib.sha256(canonical(details)).hexdigest(),
        }

    def draw(self, exact: PrivateCells, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh answers."""
        declared = self.public.declared
        return declared.release(exact.randomised(declared.label), self.public.classes, guarantees)


_T = TypeVar("_T")


class NoiseType(StrEnum):
    """The noise on numbers."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Mechanism[DeclaredTable]):
    """Protects each cell: every label and every feature is randomised once before it is published.

    A cell with possible value j becomes i with probability P_ij. A number is held to its declared
    range and gains noise. The guarantee of one label or one attribute has

        epsilon = max_i ln(max_j P_ij / min_j P_ij)

    (for even flips ln((1-p)(K-1)/p)), or the epsilon of noise of that variance over the declared
    range. The guarantee of a record covers all of its cells together. A release states all three.
    With many columns the epsilon per record is too large to protect anything: each value stays
    deniable, the whole record does not. Classes, possible values, ranges and noise must be declared
    without looking at the records.

    Parameters
    ----------
    classes : sequence
        The possible labels, all texts or all integers.
    label_flip : float or matrix, optional
        Probability that a label is replaced by another one (each equally likely), or the matrix P
        of probabilities, positive and invertible. Give this or ``label_epsilon``.
    label_epsilon : float, optional
        Epsilon of each label, instead of ``label_flip``.
    states : mapping or sequence, optional
        Possible values of a column by its name: texts or integers, for example ``range(256)``. A
        sequence instead of a mapping holds for all other columns.
    ranges : mapping or pair, optional
        Range (low, high) of a column of numbers by its name. A pair holds for all other columns.
    feature_flip : float or mapping, optional
        Probability that a feature is replaced by another of its possible values, or by column a
        probability or a matrix P.
    feature_noise : float or mapping, optional
        Variance of the noise added to numbers, or a variance by column.
    kernel : {"gaussian", "laplace"}
        Type of noise on numbers. Gaussian noise uses ``delta``; Laplace noise has delta = 0.
    delta : float
        Delta for which the epsilon of Gaussian noise is stated.

    Raises
    ------
    ParameterError
        If the noise of labels, or of a feature, is missing, declared twice or too weak.

    Examples
    --------
    >>> from suffice import RandomizedResponse
    >>> wards = {"ward": ["north", "south"]}
    >>> response = RandomizedResponse(label_flip=0.25, states=wards, feature_flip=0.25)
    >>> [f"{g.unit}: {g.epsilon:.2f}" for g in response.guarantees()]
    ['label: 1.10', 'attribute: 1.10', 'record: 2.20']
    """

    name = "responses"
    release_help = (
        "Publish records whose values are changed at random.\n\n"
        "The release holds every record, with its label and its features changed at random. It"
        " protects each label and each value; a whole record less, and the file says how much. The"
        " number of records, the columns and their possible values are public."
    )
    plan_help = "Show how strongly randomised records would be protected."
    noises: ClassVar[Mapping[str, bool]] = {"response": False}

    classes: Sequence[Any] = option((0, 1), **CLASSES)
    label_flip: Any = None
    label_epsilon: float | None = option(
        None,
        **(EPSILON | {"help": "Epsilon of each label, for example 1, instead of --flip."}),
        name="--epsilon",
    )
    states: Mapping[str, Sequence[Any]] | Sequence[Any] | ByColumn | None = data_option(
        None,
        "Possible values of a column as COLUMN=A,B,C or COLUMN=0..255 (repeatable). A,B,C or"
        " 0..255 alone: of all other columns.",
        name="--categories",
        parse=value_or_by_column(states, "--categories"),
        many=True,
    )
    ranges: Mapping[str, tuple[float, float]] | tuple[float, float] | ByColumn | None = data_option(
        None,
        "Range of a column of numbers as COLUMN=LO,HI (repeatable). LO,HI alone: of all other"
        " columns.",
        name="--range",
        parse=value_or_by_column(pair, "--range"),
        many=True,
    )
    feature_flip: float | Mapping[str, Any] | ByColumn | None = privacy_option(
        None,
        "Probability that a label or feature is replaced by another of its possible values, for"
        " example 0.25. COLUMN=0.3: of one column (repeatable).",
        name="--flip",
        parse=value_or_by_column(float, "--flip"),
        many=True,
    )
    feature_noise: float | Mapping[str, float] | ByColumn | None = privacy_option(
        None,
        "Variance of the noise added to numbers, for example 0.5. COLUMN=2: of one column"
        " (repeatable).",
        name="--noise-variance",
        parse=value_or_by_column(float, "--noise-variance"),
        many=True,
    )
    kernel: str = privacy_option(
        "gaussian",
        "Type of noise on numbers: gaussian (uses --delta) or laplace.",
        name="--noise",
        choices=NoiseType,
    )
    delta: float = privacy_option(
        1e-6, "Delta for which the epsilon of Gaussian noise is stated, for example 1e-6."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for: epsilon of a record, shared evenly by its cells.

        A cell of K possible values is changed with probability (K - 1) / (e^s + K - 1), where s is
        its share; a number over a range of r gains Laplace noise of variance 2 (r / s)^2.
        """
        scaling = sheet_scaling(asked)
        states, ranges = scaling["categories"], scaling["ranges"]
        share = asked.epsilon / (1 + len(asked.features))
        for _ in range(20):  # noise on a lattice costs a little more than its formula
            odds = math.exp(share)
            flips = {n: (len(v) - 1) / (odds + len(v) - 1) for n, v in states.items()}
            noise = {n: 2 * ((high - low) / share) ** 2 for n, (low, high) in ranges.items()}
            cells: dict[str, Any] = {"states": states, "ranges": ranges, "feature_flip": flips}
            declared: dict[str, Any] = {name: value or None for name, value in cells.items()}
            noises: dict[str, Any] = {"feature_noise": noise or None, "delta": 0.0}
            wanted = cls(asked.classes, label_epsilon=share, kernel="laplace", **declared, **noises)
            cost = wanted.guarantees(asked.features)[-1].epsilon
            if cost is not None and cost <= asked.epsilon:
                return wanted
            share *= asked.epsilon / (cost or math.inf) * (1 - 1e-9)
        raise ParameterError("No noise of randomised records costs so little. Propose more.")

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many numbers are drawn, and how many bytes the records have."""
        return rows * (width + 1), 8 * rows * (width + 1)

    def public(self, source: Source) -> DeclaredTable:
        """Return the table, its columns typed as declared: no type is read off a private cell."""
        untyped = open_declared(source.data)
        roles = _roles(untyped.schema, source.label, source.features)
        declared = self._declared(roles.features)
        discrete = [column.name for column in declared.columns if column.states is not None]
        continuous = [column.name for column in declared.columns if column.states is None]
        table = open_declared(source.data, text=[source.label, *discrete], numbers=continuous)
        source = replace(source, outside="none")
        return DeclaredTable(table, roles, declared, self.declared_classes(), source)

    def choose(self, public: DeclaredTable) -> RandomisedRecords:
        """Return the declared noise: nothing is chosen."""
        return RandomisedRecords(public, self.delta)

    def columns(self, features: Sequence[str] | None = None) -> tuple[SpreadColumn, ...]:
        """Return the columns with their noise.

        Parameters
        ----------
        features : sequence of str, optional
            The names of the columns. Default: all that were declared by name.

        Returns
        -------
        tuple of SpreadColumn
            Each column with its possible values or its range, and its noise.

        Raises
        ------
        ParameterError
            If a column has no declaration, two of them, or no noise.
        """
        values, ranges = ByColumn.of(self.states), ByColumn.of(self.ranges)
        if features is None:
            features = [*values.named, *ranges.named]
            if values.others is not None or ranges.others is not None:
                raise ParameterError(
                    "The columns are not known. List them (features=[...]), or declare each column"
                    " by name."
                )
        noises = (ByColumn.of(self.feature_flip), ByColumn.of(self.feature_noise))
        for name in chain(*(declaration.named for declaration in (values, ranges, *noises))):
            if name not in features:
                raise ParameterError(
                    f"{name!r} is declared, but it is not a feature. Remove it. The possible"
                    " values of the label are the classes: --classes (Python: classes=...)."
                )
        twice = [name for name in features if name in values.named and name in ranges.named]
        if twice or (values.others is not None and ranges.others is not None):
            raise ParameterError(
                "A column has both possible values and a range. Declare one of the two:"
                " --categories or --range (Python: states or ranges)."
            )
        columns = tuple(self._column(name) for name in features)
        has_discrete = {column.states is not None for column in columns}
        for declared_noise, discrete, name, columns_needed in (
            (noises[0], True, "--flip", "possible values (--categories)"),
            (noises[1], False, "--noise-variance", "numbers (--range)"),
        ):
            if declared_noise and columns and discrete not in has_discrete:
                raise ParameterError(
                    f"{name} cannot be used without {columns_needed}. Remove {name}."
                )
        return columns

    def guarantees(self, features: Sequence[str] | None = None) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, per attribute and per record. No data are read.

        Parameters
        ----------
        features : sequence of str, optional
            The names of the columns. Default: all that were declared by name.

        Returns
        -------
        tuple of Guarantee
            In this order: label, attribute (if there are features), record.
        """
        return self._declared(features).guarantees(self.delta)

    def _declared(self, features: Sequence[str] | None) -> DeclaredRecords:
        columns = self.columns(features)
        channels: dict[Flips | Added, Channel] = {}
        for column in columns:
            if column.noise not in channels:
                channels[column.noise] = _for_column(column.name, partial(channel_of, column.noise))
        return DeclaredRecords(columns, channels, self._label())

    def _label(self) -> Response:
        """Return what randomises labels."""
        count = len(self.declared_classes())
        if (self.label_flip is None) == (self.label_epsilon is None):
            raise ParameterError(
                "Declare the noise of labels once: --flip or --epsilon (Python: label_flip"
                " or label_epsilon)."
            )
        if self.label_epsilon is not None:
            if count > 256:
                raise ParameterError(
                    "Randomised labels can have at most 256 classes. Join rare classes."
                )
            return Response.from_epsilon(count, self.label_epsilon)
        return _for_column("label", lambda: response_of(_flips(count, self.label_flip)))

    def _column(self, name: str) -> SpreadColumn:
        """Return one column as it was declared."""
        values, limits = ByColumn.of(self.states)[name], ByColumn.of(self.ranges)[name]
        if name in ByColumn.of(self.ranges).named:
            values = None
        if values is None and limits is None:
            raise ParameterError(
                f"Column {name!r} has no declared possible values or range. suffice never reads"
                " them from private records. Declare them with --categories or --range (Python:"
                " states or ranges). If only labels are private, use release mean-operator"
                " --noise response."
            )
        noise = ByColumn.of(self.feature_noise if values is None else self.feature_flip)[name]
        if noise is None:
            field = "feature_noise" if values is None else "feature_flip"
            flag = "--noise-variance" if values is None else "--flip"
            raise ParameterError(
                f"Column {name!r} has no noise. Declare it with {flag} (Python: {field})."
            )
        if values is None:
            return SpreadColumn(name, None, _for_column(name, lambda: self._added(limits, noise)))
        possible_values = (
            tuple(values)
            if isinstance(values, range)
            else tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        )
        return SpreadColumn(
            name,
            possible_values,
            _for_column(name, lambda: _flips(len(possible_values), noise)),
        )

    def _added(self, limits: Any, variance: Any) -> Added:
        try:
            low, high = (float(end) for end in limits)
            return Added(low, high, self.kernel, float(variance))
        except (TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(
                "A range must be two numbers, and a variance one number."
            ) from None


def _roles(schema: pa.Schema, label: str | None, features: Sequence[str] | None) -> Roles:
    """Return label and features; with a label there need be no features."""
    others = feature_names(schema, [label]) if features is None else features
    if label is None or others:
        return resolve_roles(schema, label=label, features=features)
    resolve_roles(schema, features=[label])  # it must be there, once
    return Roles((), label)


def _flips(states: int, flip: Any) -> Flips:
    """Return discrete noise from the chance of another state, or from P."""
    try:
        table = np.asarray(flip, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim == 0:
        chance = float(table)
        if not 0 < chance < 1:
            raise ParameterError("The probability of another value must be above 0 and below 1.")
        return Flips(states, keep=1 - chance)
    if table.ndim != 2:
        raise ParameterError(
            "The noise must be a probability, or a square matrix of probabilities."
        )
    return Flips(states, table=tuple(tuple(row) for row in table.tolist()))


def _for_column(name: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` makes; its errors say which column they are about."""
    try:
        return make()
    except ParameterError as error:
        raise ParameterError(f"Column {name!r}: {error}") from None
