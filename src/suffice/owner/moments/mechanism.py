"""Noisy second moments of private records, from which a learner needs no rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from suffice.errors import ParameterError
from suffice.options import REQUIRED, option, preprocessing_option, privacy_option
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism, Public
from suffice.owner.moments.noise import calibrated_moments
from suffice.owner.moments.plan import MomentPlan, plan_private_moments
from suffice.owner.moments.procedures import NoisyMoments
from suffice.owner.plans import planned_epsilons
from suffice.owner.rados.pipeline import UNCLIPPED, PrivateRows, PrivateScaling
from suffice.owner.source import LabelledPart, Source, labelled_parts
from suffice.privacy.calibrate import check_delta, check_promise
from suffice.tables.labels import Classes, check_classes
from suffice.tables.missing_rule import Missing
from suffice.tables.sources import row_count

__all__ = ["CLIP", "FilledWith", "Moments", "MomentsUnit", "plan_moments"]

_MOST_COORDINATES = 4096  # of a row: the square of it has to fit into memory
CLIP = 0.2  # quantile of public row lengths at which longer rows are shortened


class MomentsUnit(StrEnum):
    """What the noise on moments can protect."""

    RECORD = "record"


class FilledWith(StrEnum):
    """What a missing number can count as; an error would depend on a private cell."""

    MEAN = "mean"
    ZERO = "zero"


@dataclass(frozen=True)
class _PrivateTable(Public):
    """A private table with its pipeline, and its number of rows, which is public."""

    rows: PrivateRows
    size: int
    classes: Classes
    source: Source

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private records in parts."""
        return labelled_parts(self.rows.table, self.rows.roles, self.classes, self.source)


@dataclass(frozen=True, kw_only=True)
class _MomentScaling(PrivateScaling):
    """How private rows become vectors: without an intercept, and without errors."""

    clip: float | None = preprocessing_option(
        None,
        "Quantile of the public table's row lengths at which longer rows are shortened, for"
        " example 0.2, the default.",
    )
    intercept: float | None = field(default=0.0, init=False)
    missing: Missing = preprocessing_option(
        "mean",
        "What a missing number counts as: mean (of the public table, or the middle of its range) or"
        " zero.",
        choices=FilledWith,
        planned=False,
    )
    map: str | None = preprocessing_option(
        None,
        "Public feature map, fitted on the table of --standardize: ranks or ranks+polynomial:2,"
        " for example.",
    )


@dataclass(frozen=True)
class Moments(_MomentScaling, Mechanism[_PrivateTable]):
    """Protects each record: noisy second moments leave, rows and labels stay.

    The release holds, as means over all records and with Gaussian noise: the products of every two
    coordinates, the coordinates themselves, the coordinates by class, and the class proportions. A
    learner trains a linear classifier from them without any row (`MomentClassifier`).

    Rows are private; `PrivateScaling` says how they become vectors. They have no intercept: class
    proportions and means take its place. No record is dropped and none is an error. A cell that is
    missing or not finite counts as declared (``missing``), a label outside ``classes`` as none. The
    owner alone is told how many there were.

    Parameters
    ----------
    epsilon : float
        How much the release may cost each record.
    delta : float
        The delta of the guarantee, for example 1e-6; above 0.
    unit : {"record"}
        What is protected: whole records. For labels alone, use `MeanOperator`.
    classes : sequence
        The labels that can occur; of two, the last is positive.
    missing : {"mean", "zero"}
        What a missing number counts as: the middle of its declared range or the mean of the public
        table, or zero.
    standardize, ranges, bound, clip, categories, pipeline
        As of `PrivateScaling`. ``clip`` is 0.2 unless it is given.
    map : str, optional
        A public feature map, fitted on the public table ``standardize``: "ranks" or
        "ranks+polynomial:2", for example.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(-1, 1, (500, 3)), rng.integers(0, 2, 500)
    >>> moments = Moments(epsilon=1.0, delta=1e-6, ranges=(-1, 1))
    >>> release = moments.release(X, y, ledger=None)
    >>> sorted(release.arrays)
    ['mean', 'operator', 'proportions', 'second_moments']
    """

    name = "moments"

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(REQUIRED, **DELTA)
    unit: str = privacy_option(
        "record",
        "What epsilon protects: record, that is all cells of a row and its label.",
        choices=MomentsUnit,
        planned=False,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_delta(self.delta, positive=True)

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: Source) -> _PrivateTable:
        """Return the table, its pipeline and its number of rows; tells the owner of shared rows."""
        rows = self.private_rows(source)
        rows.tell_overlap()
        size = _size(rows, source)
        return _PrivateTable(rows, size, self.declared_classes(), replace(source, outside="none"))

    def choose(self, public: _PrivateTable) -> NoisyMoments:
        """Return the noise that was asked for, calibrated by what was declared."""
        width = len(public.rows.pipeline.outputs)
        noise = calibrated_moments(
            width, len(public.classes), public.size, self.epsilon, self.delta
        )
        return NoisyMoments(
            public.rows, public.size, public.classes, noise, self.epsilon, self.delta
        )

    def plan(self, source: Source, epsilons: Sequence[float] = ()) -> MomentPlan:
        """Return how much noise a release would have, from public information alone."""
        if isinstance(self.standardize, str) and self.standardize == "rows":
            raise ParameterError(
                "A plan reads no private row. Declare ranges or a bound, or name a public table."
            )
        rows = self.private_rows(source)
        return plan_private_moments(
            rows,
            _size(rows, source),
            len(self.declared_classes()),
            planned_epsilons(epsilons or self.epsilon),
            self.delta,
        )

    def private_rows(self, source: Source) -> PrivateRows:
        """Return the private table with its pipeline, which has no intercept."""
        clipped = self
        from_rows = self.standardize is not None and not (
            isinstance(self.standardize, str) and self.standardize == "none"
        )
        if self.clip is None and self.bound is None and self.pipeline is None and from_rows:
            clipped = replace(self, clip=CLIP)
        rows = PrivateScaling.read_private(clipped, source, promised=True, protect=(), boxed=False)
        pipeline = replace(rows.pipeline, intercept=0.0)
        if pipeline.fill is None:
            pipeline = pipeline.with_missing("zero" if pipeline.map is not None else self.missing)
        if pipeline.bound >= UNCLIPPED:
            raise ParameterError("rows need a norm bound: give --range, --bound or a public table.")
        if len(pipeline.outputs) > _MOST_COORDINATES:
            raise ParameterError(
                f"rows have {len(pipeline.outputs):,} coordinates; moments are for at most"
                f" {_MOST_COORDINATES:,}. Leave columns out (--drop)."
            )
        return replace(rows, pipeline=pipeline)


def plan_moments(
    X: Any,
    epsilon: float | Sequence[float],
    delta: float,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> MomentPlan:
    """Return how much noise moments of the table ``X`` would have, from public information alone.

    Parameters
    ----------
    X : table
        The private table; its columns and its number of rows are read, no cell.
    epsilon : float or sequence of float
        What a release may cost each record; one is shown with smaller and larger ones around it.
    delta : float
        The delta of the guarantee.
    label : str, optional
        The column of labels, which is left out.
    features : sequence of str, optional
        The feature columns; all but the label unless given.
    **settings
        Those of `Moments`.

    Returns
    -------
    MomentPlan
        A table of noise, and what it means.
    """
    several = tuple(epsilon) if isinstance(epsilon, Sequence) else ()
    first = several[0] if several else epsilon
    mechanism = Moments(first, delta, **settings)  # type: ignore[arg-type]  # one number
    return mechanism.plan(Source(X, label=label, features=features), several)


def _size(rows: PrivateRows, source: Source) -> int:
    """Return how many rows there are: a number that every guarantee takes as public."""
    if source.y is not None:
        return len(source.y)
    return row_count(rows.table, rows.roles.label or rows.roles.features[0])
