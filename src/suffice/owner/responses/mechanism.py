"""Randomised records: every label and every feature leaves randomised (Barber 2020)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.options import (
    ByColumn,
    data_option,
    option,
    pair,
    privacy_option,
    states,
    value_or_by_column,
)
from suffice.owner.mechanism import CLASSES, EPSILON, Mechanism
from suffice.owner.responses.channels import Channel, channel_of, response_of
from suffice.owner.responses.procedures import DeclaredTable, RandomisedRecords
from suffice.owner.responses.records import DeclaredRecords
from suffice.owner.source import Source
from suffice.privacy.calibrate import check_delta
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.response import Response
from suffice.release.spread import Added, Flips, SpreadColumn
from suffice.tables.columns import Roles, feature_names, resolve_roles
from suffice.tables.labels import Classes, check_classes
from suffice.tables.sources import open_declared

__all__ = ["NoiseType", "RandomizedResponse"]

_T = TypeVar("_T")


class NoiseType(StrEnum):
    """The noise on numbers."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Mechanism[DeclaredTable]):
    """Protects each cell: every label and every feature leaves randomised, once.

    A discrete cell in state j becomes i with probability P_ij, a continuous one is held to its
    declared range and gains noise. One label or attribute costs

        epsilon = max_i ln(max_j P_ij / min_j P_ij)

    (symmetric flips: ln((1-p)(K-1)/p)), or what noise of that variance costs over the declared
    range; a record costs all of its cells together. All three are stated, and many columns make the
    last one meaningless: deniability of a cell is not privacy of a person.

    ``label_flip``: the chance that a label becomes another one (evenly), or P, positive and
    invertible; or ``label_epsilon``. ``states``: column -> what it can hold, texts or integers such
    as range(256), or such a list for all other columns. ``ranges``: column -> (low, high), or one
    pair for all other columns. ``feature_flip``: the chance that a state becomes another one, or
    column -> chance or P. ``feature_noise``: the variance of the noise, or column -> variance, of
    ``kernel`` "gaussian" (its epsilon is read at ``delta``) or "laplace" (pure). Assumes that
    classes, states, ranges and noise were declared without looking at the records.
    """

    name = "responses"

    classes: Sequence[Any] = option((0, 1), **CLASSES)
    label_flip: Any = privacy_option(
        None, "Probability that a label becomes another one, for example 0.25.", parse=float
    )
    label_epsilon: float | None = option(
        None,
        **(EPSILON | {"help": "Epsilon of each label, for example 1; instead of --label-flip."}),
        name="--epsilon",
    )
    states: Mapping[str, Sequence[Any]] | Sequence[Any] | ByColumn | None = data_option(
        None,
        "COLUMN=A,B,C or COLUMN=0..255: possible values of a column (repeatable). A,B,C or"
        " 0..255 alone: of all other columns.",
        parse=value_or_by_column(states, "--states"),
        many=True,
        old=("--all-states",),
    )
    ranges: Mapping[str, tuple[float, float]] | tuple[float, float] | ByColumn | None = data_option(
        None,
        "COLUMN=LO,HI: range of a column of numbers (repeatable). LO,HI alone: of all other"
        " columns.",
        name="--range",
        parse=value_or_by_column(pair, "--range"),
        many=True,
    )
    feature_flip: float | Mapping[str, Any] | ByColumn | None = privacy_option(
        None,
        "Probability that a feature takes another of its possible values, for example 0.2;"
        " COLUMN=0.3: of one column (repeatable).",
        parse=value_or_by_column(float, "--feature-flip"),
        many=True,
    )
    feature_noise: float | Mapping[str, float] | ByColumn | None = privacy_option(
        None,
        "Variance of the noise added to numbers, for example 0.5; COLUMN=2: of one column"
        " (repeatable).",
        name="--feature-noise-variance",
        old=("--feature-noise",),
        parse=value_or_by_column(float, "--feature-noise-variance"),
        many=True,
    )
    kernel: str = privacy_option(
        "gaussian",
        "Type of noise on numbers: gaussian (uses --delta) or laplace.",
        name="--noise-type",
        old=("--kernel",),
        choices=NoiseType,
    )
    delta: float = privacy_option(
        1e-6, "Delta at which the epsilon of Gaussian noise is read, for example 1e-6."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: Source) -> DeclaredTable:
        """Return the table, its columns typed as declared: no type is read off a private cell."""
        named = open_declared(source.data)
        roles = _roles(named.schema, source.label, source.features)
        declared = self._declared(roles.features)
        discrete = [column.name for column in declared.columns if column.states is not None]
        continuous = [column.name for column in declared.columns if column.states is None]
        table = open_declared(source.data, text=[source.label, *discrete], numbers=continuous)
        return DeclaredTable(table, roles, declared, self.declared_classes(), source)

    def choose(self, public: DeclaredTable) -> RandomisedRecords:
        """Return the declared noise: nothing is chosen."""
        return RandomisedRecords(public, self.delta)

    def columns(self, features: Sequence[str] | None = None) -> tuple[SpreadColumn, ...]:
        """Return the columns ``features`` with their noise; unless given, all declared by name."""
        held, ranges = ByColumn.of(self.states), ByColumn.of(self.ranges)
        if features is None:
            features = [*held.named, *ranges.named]
            if held.others is not None or ranges.others is not None:
                raise ParameterError("say which columns there are (features), or declare each.")
        noises = (ByColumn.of(self.feature_flip), ByColumn.of(self.feature_noise))
        for name in [name for given in (held, ranges, *noises) for name in given.named]:
            if name not in features:
                raise ParameterError(
                    f"{name!r} is declared, but it is no feature; the label's states are the"
                    " classes (classes=..., --classes)."
                )
        twice = [name for name in features if name in held.named and name in ranges.named]
        if twice or (held.others is not None and ranges.others is not None):
            raise ParameterError("a column has states or a range; these declarations give it both.")
        made = tuple(self._column(name) for name in features)
        self._check_used(made)
        return made

    def _check_used(self, columns: Sequence[SpreadColumn]) -> None:
        """Raise if noise was declared for a sort of column that there is none of."""
        sorts = {column.states is not None for column in columns}
        for given, sort, name, what in (
            (self.feature_flip, True, "--feature-flip", "states (--states)"),
            (self.feature_noise, False, "--feature-noise-variance", "numbers (--range)"),
        ):
            if ByColumn.of(given) and columns and sort not in sorts:
                raise ParameterError(f"{name} means nothing without {what}: leave it out.")

    def guarantees(self, features: Sequence[str] | None = None) -> tuple[Guarantee, ...]:
        """Return what is promised per label, per attribute and per record, before any data."""
        return self._declared(features).guarantees(self.delta)

    def _declared(self, features: Sequence[str] | None) -> DeclaredRecords:
        columns = self.columns(features)
        channels: dict[Flips | Added, Channel] = {}
        for column in columns:
            if column.noise not in channels:
                channels[column.noise] = _about(column.name, partial(channel_of, column.noise))
        return DeclaredRecords(columns, channels, self._label())

    def _label(self) -> Response:
        """Return what randomises labels."""
        count = len(self.declared_classes())
        if (self.label_flip is None) == (self.label_epsilon is None):
            raise ParameterError(
                "give the noise of labels once: label_flip, or label_epsilon (--epsilon)."
            )
        if self.label_epsilon is not None:
            if count > 256:
                raise ParameterError("randomised labels have 256 classes at most.")
            return Response.from_epsilon(count, self.label_epsilon)
        return _about("label", lambda: response_of(_flips(count, self.label_flip)))

    def _column(self, name: str) -> SpreadColumn:
        """Return one column as it was declared."""
        held, limits = ByColumn.of(self.states)[name], ByColumn.of(self.ranges)[name]
        if name in ByColumn.of(self.ranges).named:
            held = None
        if held is None and limits is None:
            raise ParameterError(
                f"column {name!r} has no declared states or range. What it can hold is never read"
                " off private records: declare it (states or ranges; --states, --range). If only"
                " labels are private, see the mechanism response of the mean operator."
            )
        noise = ByColumn.of(self.feature_noise if held is None else self.feature_flip)[name]
        if noise is None:
            field = "feature_noise" if held is None else "feature_flip"
            raise ParameterError(f"column {name!r} has no noise; give {field}.")
        if held is None:
            return SpreadColumn(name, None, _about(name, lambda: self._added(limits, noise)))
        plain = tuple(held) if isinstance(held, range) else tuple(map(_plain, held))
        return SpreadColumn(name, plain, _about(name, lambda: _flips(len(plain), noise)))

    def _added(self, limits: Any, variance: Any) -> Added:
        try:
            low, high = (float(end) for end in limits)
            return Added(low, high, self.kernel, float(variance))
        except (TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError("a range is a pair of numbers, a variance a number.") from None


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
            raise ParameterError("the chance of another state must lie strictly between 0 and 1.")
        return Flips(states, keep=1 - chance)
    if table.ndim != 2:
        raise ParameterError("the noise is the chance of another state, or a square matrix P.")
    return Flips(states, table=tuple(tuple(row) for row in table.tolist()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _about(name: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` makes; its errors say which column they are about."""
    try:
        return make()
    except ParameterError as error:
        raise ParameterError(f"column {name!r}: {error}") from None
