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

    classes: Sequence[Any] = option((0, 1), **CLASSES)
    label_flip: Any = privacy_option(
        None, "Probability that a label is replaced by another one, for example 0.25.", parse=float
    )
    label_epsilon: float | None = option(
        None,
        **(EPSILON | {"help": "Epsilon of each label, for example 1, instead of --label-flip."}),
        name="--epsilon",
    )
    states: Mapping[str, Sequence[Any]] | Sequence[Any] | ByColumn | None = data_option(
        None,
        "Possible values of a column as COLUMN=A,B,C or COLUMN=0..255 (repeatable). A,B,C or"
        " 0..255 alone: of all other columns.",
        parse=value_or_by_column(states, "--states"),
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
        "Probability that a feature is replaced by another of its possible values, for example"
        " 0.2. COLUMN=0.3: of one column (repeatable).",
        parse=value_or_by_column(float, "--feature-flip"),
        many=True,
    )
    feature_noise: float | Mapping[str, float] | ByColumn | None = privacy_option(
        None,
        "Variance of the noise added to numbers, for example 0.5. COLUMN=2: of one column"
        " (repeatable).",
        name="--feature-noise-variance",
        parse=value_or_by_column(float, "--feature-noise-variance"),
        many=True,
    )
    kernel: str = privacy_option(
        "gaussian",
        "Type of noise on numbers: gaussian (uses --delta) or laplace.",
        name="--noise-type",
        choices=NoiseType,
    )
    delta: float = privacy_option(
        1e-6, "Delta for which the epsilon of Gaussian noise is stated, for example 1e-6."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: Source) -> DeclaredTable:
        """Return the table, its columns typed as declared: no type is read off a private cell."""
        untyped = open_declared(source.data)
        roles = _roles(untyped.schema, source.label, source.features)
        declared = self._declared(roles.features)
        discrete = [column.name for column in declared.columns if column.states is not None]
        continuous = [column.name for column in declared.columns if column.states is None]
        table = open_declared(source.data, text=[source.label, *discrete], numbers=continuous)
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
        for name in [
            name for declaration in (values, ranges, *noises) for name in declaration.named
        ]:
            if name not in features:
                raise ParameterError(
                    f"{name!r} is declared, but it is not a feature. Remove it. The possible"
                    " values of the label are the classes: --classes (Python: classes=...)."
                )
        twice = [name for name in features if name in values.named and name in ranges.named]
        if twice or (values.others is not None and ranges.others is not None):
            raise ParameterError(
                "A column has both possible values and a range. Declare one of the two: --states"
                " or --range (Python: states or ranges)."
            )
        columns = tuple(self._column(name) for name in features)
        self._check_used(columns)
        return columns

    def _check_used(self, columns: Sequence[SpreadColumn]) -> None:
        """Raise if noise was declared for a sort of column that there is none of."""
        has_discrete = {column.states is not None for column in columns}
        for declared_noise, discrete, name, columns_needed in (
            (self.feature_flip, True, "--feature-flip", "possible values (--states)"),
            (self.feature_noise, False, "--feature-noise-variance", "numbers (--range)"),
        ):
            if ByColumn.of(declared_noise) and columns and discrete not in has_discrete:
                raise ParameterError(
                    f"{name} cannot be used without {columns_needed}. Remove {name}."
                )

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
                "Declare the noise of labels once: --label-flip or --epsilon (Python: label_flip"
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
                " them from private records. Declare them with --states or --range (Python:"
                " states or ranges). If only labels are private, use release mean-operator"
                " --mechanism response."
            )
        noise = ByColumn.of(self.feature_noise if values is None else self.feature_flip)[name]
        if noise is None:
            field = "feature_noise" if values is None else "feature_flip"
            flag = "--feature-noise-variance" if values is None else "--feature-flip"
            raise ParameterError(
                f"Column {name!r} has no noise. Declare it with {flag} (Python: {field})."
            )
        if values is None:
            return SpreadColumn(name, None, _for_column(name, lambda: self._added(limits, noise)))
        possible_values = (
            tuple(values) if isinstance(values, range) else tuple(map(_python_value, values))
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


def _python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _for_column(name: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` makes; its errors say which column they are about."""
    try:
        return make()
    except ParameterError as error:
        raise ParameterError(f"Column {name!r}: {error}") from None
