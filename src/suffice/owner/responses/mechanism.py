"""Randomised records: every label and every feature leaves randomised (Barber 2020)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.owner.classes import check_declared
from suffice.owner.fingerprint import CellFingerprint
from suffice.owner.ledger import Ledger
from suffice.owner.publish import of_versions, publish
from suffice.owner.responses.cells import PrivateCells
from suffice.owner.responses.channels import Channel, channel_of, response_of
from suffice.owner.responses.records import DeclaredRecords
from suffice.owner.statistics import check_given_once, labelled_batches
from suffice.privacy.calibrate import check_delta
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.response import Response
from suffice.release.artifact import Release
from suffice.release.spread import Added, Flips, SpreadColumn
from suffice.strict_json import canonical
from suffice.tables.columns import Roles, feature_names, resolve_roles
from suffice.tables.labels import check_classes
from suffice.tables.sources import Table, column_names, open_table

__all__ = ["RandomizedResponse"]

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class RandomizedResponse:
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

    classes: Sequence[Any] = (0, 1)
    label_flip: Any = None
    label_epsilon: float | None = None
    states: Mapping[str, Sequence[Any]] | Sequence[Any] | None = None
    ranges: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None
    feature_flip: float | Mapping[str, Any] | None = None
    feature_noise: float | Mapping[str, float] | None = None
    kernel: str = "gaussian"
    delta: float = 1e-6

    def __post_init__(self) -> None:
        check_delta(self.delta)

    def release(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Ledger | None,
        dataset: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        request: str | None = None,
        data_changed: bool = False,
        found_at: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Release:
        """Return the randomised records, paid for from ``ledger`` (None, said aloud, for none).

        The labels are ``y``, or the column ``label`` of the table ``X``; features are all other
        columns unless they are named. There may be none: then it is a poll. ``data_changed`` says
        that the data under this name are no longer those of earlier releases.
        """
        check_given_once(y, label)
        classes = check_classes(self.classes)
        check_declared(classes, ledger, dataset, label)
        named = open_table(X, text=column_names(X))  # no type is read off a private cell
        roles = _roles(named.schema, label, features)
        declared = self._declared(roles.features)
        discrete = [column.name for column in declared.columns if column.states is not None]
        continuous = [column.name for column in declared.columns if column.states is None]
        table = open_table(X, text=[label, *discrete], numbers=continuous)
        rows = _PrivateRows(table, roles)
        guarantees = tuple(
            of_versions(g, data_changed=data_changed) for g in declared.guarantees(self.delta)
        )
        details = declared.details(classes)
        seen = None if ledger is None else CellFingerprint(table.schema, rows.roles.features)
        cells = PrivateCells(declared.columns, declared.channels, classes, seen)
        cells.read(labelled_batches(rows, y, classes), progress)
        return publish(
            lambda: declared.release(_drawn(cells, declared.label), classes, guarantees, found_at),
            guarantees,
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters={
                "kind": "responses",
                "epsilon": guarantees[0].epsilon,
                "delta": self.delta,
                "channel": declared.label.matrix.tolist(),
                "details": hashlib.sha256(canonical(details)).hexdigest(),
            },
            fingerprint=cells.fingerprint,
            content=b"" if ledger is None else cells.content,
            data_changed=data_changed,
        )

    def columns(self, features: Sequence[str] | None = None) -> tuple[SpreadColumn, ...]:
        """Return the columns ``features`` with their noise; unless given, all declared by name."""
        states, ranges = _by_name(self.states), _by_name(self.ranges)
        if features is None:
            features = [*states, *ranges]
            if _for_all(self.states) is not None or _for_all(self.ranges) is not None:
                raise ParameterError("say which columns there are (features), or declare each.")
        for name in {*states, *ranges, *_by_name(self.feature_flip), *_by_name(self.feature_noise)}:
            if name not in features:
                raise ParameterError(
                    f"{name!r} is declared, but it is no feature; the label's states are the"
                    " classes (classes=..., --classes)."
                )
        twice = [name for name in features if name in states and name in ranges]
        if twice or (_for_all(self.states) is not None and _for_all(self.ranges) is not None):
            raise ParameterError("a column has states or a range; these declarations give it both.")
        return tuple(self._column(name) for name in features)

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
        count = len(check_classes(self.classes))
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
        states, limits = _of(self.states, name), _of(self.ranges, name)
        if name in _by_name(self.ranges):
            states = None
        if states is None and limits is None:
            raise ParameterError(
                f"column {name!r} has no declared states or range. What it can hold is never read"
                " off private records: declare it (states or ranges; --states, --range). If only"
                " labels are private, see the mechanism response of the mean operator."
            )
        noise = _of(self.feature_noise if states is None else self.feature_flip, name)
        if noise is None:
            option = "feature_noise" if states is None else "feature_flip"
            raise ParameterError(f"column {name!r} has no noise; give {option}.")
        if states is None:
            return SpreadColumn(name, None, _about(name, lambda: self._added(limits, noise)))
        plain = tuple(states) if isinstance(states, range) else tuple(map(_plain, states))
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


@dataclass(frozen=True)
class _PrivateRows:
    table: Table
    roles: Roles


def _drawn(cells: PrivateCells, label: Response) -> dict[str, np.ndarray]:
    """Return the arrays of a release, with fresh answers."""
    return {"answers": cells.labels(label), "codes": cells.codes(), "values": cells.values()}


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


def _by_name(declared: Any) -> Mapping[str, Any]:
    return declared if isinstance(declared, Mapping) else {}


def _for_all(declared: Any) -> Any:
    return None if isinstance(declared, Mapping) else declared


def _of(declared: Any, name: str) -> Any:
    """Return what is declared for a column: by its name, or for all."""
    return declared.get(name) if isinstance(declared, Mapping) else declared


def _about(name: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` makes; its errors say which column they are about."""
    try:
        return make()
    except ParameterError as error:
        raise ParameterError(f"column {name!r}: {error}") from None
