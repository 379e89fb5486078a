"""Scale private records without showing anything about them, and release sums of them.

Nothing about private rows may stand in the clear inside a release that guarantees something. So the
parameters of the pipeline are declared (ranges, a norm bound, categories), come from a public
sample, or, if the owner says so, from the private rows; then every guarantee is data-dependent. A
pipeline that is given says itself where its numbers came from.

Whether rows that were declared public are also private depends on private rows. So only the owner's
own process counts them and prints a warning. Nothing else depends on it: no error, no exit code, no
file and no answer.
"""

import hashlib
import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from suffice.engines.summary import fit_pipeline
from suffice.engines.sums import PersonSums, PersonWeights
from suffice.errors import ParameterError, TableError
from suffice.kernels.sums import LARGEST_NUMBER
from suffice.options import (
    ByColumn,
    Missing,
    option,
    pair,
    preprocessing_option,
    value_or_by_column,
)
from suffice.owner.labelled import (
    CATEGORIES,
    PIPELINE,
    SAME_ID,
    CellFingerprint,
    LabelFingerprint,
    given_features,
    public_summary,
)
from suffice.owner.mechanism import Asked, Procedure, Public, as_scaled
from suffice.owner.source import LabelledBatch, LabelledPart, OwnerReport, Source, labelled_parts
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.releases.release import Covariance, Part, Release, RowSet
from suffice.strict_json import canonical
from suffice.tables.columns import Classes, Roles, is_categorical, resolve_roles
from suffice.tables.pipeline import (
    DECLARED,
    PRIVATE_ROWS,
    Column,
    Pipeline,
    Provenance,
    encode,
    public_rows,
)
from suffice.tables.sources import column_names, open_columns, open_declared, open_table, row_count
from suffice.tables.table import RowLanes, Table, rows_parts

_REMEDY = (
    "If these rows are private, the guarantee does not hold. Use other rows, or declare ranges"
    " with --range (Python: ranges=...). To accept a data-dependent guarantee instead, use"
    " --standardize rows (Python: standardize='rows'). Only you see this line."
)


class SharedRowsWarning(UserWarning):
    """Rows that were declared public are also in the private table. Only the owner sees this."""


def warn_of_same_rows(row_hash: str, public_hashes: Sequence[str]) -> None:
    """Warn the owner if the pipeline was fitted on the rows that are private now."""
    if row_hash in public_hashes:
        _warn_owner(
            "The pipeline was fitted on these rows when they were declared public. They are"
            " private now."
        )


def _warn_owner(text: str) -> None:
    """Warn the owner. If warnings are errors, print the line instead: nothing may depend on it."""
    try:
        warnings.warn(f"{text} {_REMEDY}", SharedRowsWarning, stacklevel=4)
    except SharedRowsWarning as warning:
        sys.stderr.write(f"suffice: warning: {warning}\n")


def shared_rows(public: Table, private: Table, names: Sequence[str]) -> tuple[int, int]:
    """Return how many rows of ``public`` occur in ``private`` as well, and how many it has.

    A row that one table has twice and the other once counts once. Rows are compared by their
    128-bit hashes. Those of the public table are kept, 16 bytes a row; the private one is read
    batch by batch.
    """
    public_keys, copies = np.unique(np.concatenate([*_keys(public, names)]), return_counts=True)
    matches = np.zeros(len(public_keys), dtype=np.int64)
    for keys in _keys(private, names):
        positions = np.minimum(np.searchsorted(public_keys, keys), len(public_keys) - 1)
        matching_positions = positions[public_keys[positions] == keys]
        matches += np.bincount(matching_positions, minlength=len(public_keys))
    return int(np.minimum(matches, copies).sum()), int(copies.sum())


def _keys(table: Table, names: Sequence[str]) -> Iterator[np.ndarray]:
    lanes = RowLanes(table.schema, names)
    for batch in table.batches(names):
        yield np.ascontiguousarray(lanes.of(batch).T).view("V16").ravel()


UNCLIPPED = 2.0**300  # a norm bound that no row reaches
_CODED_VALUES = (0.0, 1.0)  # the two values of a protected column, unless its range declares others
_BOX_MARGIN = 1 + 2.0**-20  # a box inside its norm bound, whatever floats round

Range = tuple[float, float]


@dataclass(frozen=True)
class PrivateRows:
    """A private table, its columns by role, and the pipeline that its rows go through."""

    table: Table
    roles: Roles
    pipeline: Pipeline
    source: str  # where the pipeline came from: given, public, rows or declared
    ranges: Mapping[str, Range] = field(default_factory=dict)  # a number outside counts as an end
    coded: tuple[str, ...] = ()  # columns of their two declared values only, which become -1 and +1
    public: Table | None = None  # that scales come from, where they come from one
    target: Range | None = None  # of the label, where that is a number

    @property
    def named_rows(self) -> tuple[str, ...]:
        """The hashes of the rows that a given pipeline was fitted on, where it names them."""
        return self.pipeline.origin.rows if self.source == "given" else ()

    def size(self, source: Source, people: PersonWeights | None) -> int:
        """Return how many records there are, or people: then nothing tells how many records."""
        if people is not None:
            return len(people.people)
        if source.y is not None:
            return len(source.y)
        return row_count(self.table, self.roles.label or self.roles.features[0])

    def encoded(self, batch: pa.RecordBatch, unknown: Counter[str]) -> np.ndarray:
        """Return the columns of a batch before the affine end; no cell is an error.

        Numbers are held to their ranges; one that is missing or infinite counts as declared, and is
        left to `vectors` where its column has no range. A category that was not declared is none. A
        coded column holds its two values, the lesser one for any other. ``unknown`` counts cells of
        no declared value, by the name of their column.
        """
        pipeline = self.pipeline
        columns = encode(batch, pipeline.columns, unknown=unknown)
        if self.ranges or pipeline.map is not None:
            # A copy, in which an end of a range is that end exactly.
            columns = columns.astype(np.float64)
        declared = pipeline.fill
        if declared is None:  # a given pipeline has no rule
            declared = pipeline.mean if pipeline.map is None else np.zeros(len(columns))
        for column, (low, high) in self.ranges.items():
            j = self.positions(column)[0]
            cells = columns[j]
            if column in self.coded:
                unknown[column] += int(np.count_nonzero((cells != low) & (cells != high)))
                cells[:] = np.where(cells == high, high, low)
                continue
            np.clip(np.where(np.isfinite(cells), cells, declared[j]), low, high, out=cells)
        if pipeline.map is None:
            return columns
        columns = np.where(np.isfinite(columns), columns, declared[:, None])
        with np.errstate(all="ignore"):
            return pipeline.map.apply(columns)

    def vectors(self, batch: pa.RecordBatch, unknown: Counter[str]) -> np.ndarray:
        """Return the vectors of a batch (coordinates, rows); no cell is an error.

        A number that is missing, infinite or too far from the mean counts as declared.
        """
        pipeline, columns = self.pipeline, self.encoded(batch, unknown)
        with np.errstate(all="ignore"):
            scaled = (columns - pipeline.mean[:, None]) * (1.0 / pipeline.scale)[:, None]
        usable = np.abs(scaled) <= LARGEST_NUMBER
        return pipeline.finished(np.where(usable, columns, pipeline.stand_ins[:, None])).T

    def positions(self, name: str) -> range:
        """Return the coordinates of a column."""
        start = 0
        for column in self.pipeline.columns:
            if column.name == name:
                return range(start, start + len(column.outputs))
            start += len(column.outputs)
        raise ParameterError(f"The pipeline has no column {name!r}.")

    def reach(self, name: str) -> float:
        """Return how far one changed value of a column moves a row, at most."""
        corners = self._corners(next(c for c in self.pipeline.columns if c.name == name))
        return max(float(np.linalg.norm(a - b)) for a in corners for b in corners)

    def box_norm(self) -> float:
        """Return the largest norm that a row of declared cells can have, before the intercept."""
        total = 0.0
        for column in self.pipeline.columns:
            total += max(float(corner @ corner) for corner in self._corners(column))
        return math.sqrt(total)

    def _corners(self, column: Column) -> list[np.ndarray]:
        """Return the extreme vectors that the coordinates of one column can hold."""
        pipeline, positions = self.pipeline, self.positions(column.name)
        where = slice(positions.start, positions.stop)
        if column.categories is not None:
            count = len(column.outputs)
            cells = [*np.eye(count), np.zeros(count), pipeline.stand_ins[where]]
        elif column.name in self.ranges:
            cells = [np.array([end]) for end in self.ranges[column.name]]
        else:
            raise ParameterError(
                f"Column {column.name!r} has no declared range. --unit attribute needs one for"
                " every column of numbers (--range; Python: ranges)."
            )
        return [(cell - pipeline.mean[where]) / pipeline.scale[where] for cell in cells]


class FilledWith(StrEnum):
    """What a missing number can count as; an error would depend on a private cell."""

    MEAN = "mean"
    ZERO = "zero"


@dataclass(frozen=True, kw_only=True)
class PrivateScaling:
    """How private rows become vectors, without showing anything about them.

    Parameters
    ----------
    standardize : table, "none" or "rows", optional
        A public table that numbers are scaled by, or no scaling. "rows" scales by the private rows
        themselves, which makes a guarantee data-dependent.
    ranges : mapping or pair, optional
        Column to (low, high), or one pair for all columns: known beforehand, scaled to [-1, 1].
    bound : float, optional
        Length at which longer rows are shortened, known beforehand.
    clip : float, optional
        Quantile of the public table's row lengths at which longer rows are shortened.
    intercept : float, optional
        Weight of the constant coordinate; 0 for none.
    missing : {"mean", "zero"}
        What a missing number counts as: the middle of its declared range or the mean of the public
        table, or zero.
    categories : mapping, optional
        Column to the list of its categories.
    pipeline : Pipeline, optional
        The scaling of another release. A guarantee is data-dependent where that scaling came from
        private rows, or where its origin is unknown.
    map : str, optional
        A public feature map, fitted on the public table; for mechanisms that offer one.
    """

    standardize: Any = preprocessing_option(
        None,
        "Public table (a file) that numbers are scaled by; none for no scaling; rows for the"
        " private rows themselves, which is not differentially private. Default: --range, or rows"
        " without --epsilon.",
        path=lambda text: None if text in ("rows", "none") else Path(text),
    )
    ranges: Mapping[str, Range] | Range | ByColumn | None = preprocessing_option(
        None,
        "Range of a column of numbers as COLUMN=LO,HI, for example age=0,100 (repeatable). LO,HI"
        " holds for all other columns. Ranges must be known beforehand.",
        name="--range",
        parse=value_or_by_column(pair, "--range"),
        many=True,
    )
    bound: float | None = preprocessing_option(
        None, "Length at which longer rows are shortened, for example 2; known beforehand."
    )
    clip: float | None = preprocessing_option(
        None,
        "Quantile of the public table's row lengths at which longer rows are shortened, for example"
        " 0.95.",
        planned=False,
    )
    intercept: float | None = preprocessing_option(
        None, "Weight of the intercept, for example 1; 0 for none.", planned=False
    )
    missing: Missing = preprocessing_option(
        "mean",
        "What a missing number counts as: mean (of the public table, or the middle of its range) or"
        " zero.",
        choices=FilledWith,
        planned=False,
    )
    categories: Mapping[str, Sequence[Any]] | None = option(None, **CATEGORIES)
    pipeline: Pipeline | None = option(None, **PIPELINE, planned=False)
    map: str | None = field(default=None, init=False)

    def read_private(
        self, source: Source, *, promised: bool, protect: Sequence[str], boxed: bool
    ) -> PrivateRows:
        """Return the private table with its pipeline; reads its rows only where they scale it.

        ``promised``: a guarantee is asked for. ``protect``: columns that must become -1 and +1, in
        rows that are never clipped. ``boxed``: rows must not be clipped, since one value would then
        move all coordinates; the norm bound is that of the declared ranges.
        """
        if self.clip is not None and self.bound is not None:
            raise ParameterError("Rows are clipped twice. Use --bound or --clip, not both.")
        scaled_by = self.scaled_by(promised=promised)
        public = None
        label, features = source.label, source.features
        if scaled_by == "public":  # whose own cells tell the types of features
            every = {*column_names(source.data)} - {label, source.person}
            used = every if features is None else {*features}
            # It may be the table itself, if rows are public: its other columns are not looked at.
            unseen = [name for name in column_names(self.standardize) if name not in used]
            public = open_table(self.standardize, text=[*(self.categories or ()), *unseen])
        if self.pipeline is not None:
            features = given_features(self.pipeline, features)
        table = self._private_table(source, features, scaled_by, public)
        roles = resolve_roles(table.schema, label=label, features=features, person=source.person)
        if self.pipeline is not None:
            texts = {c.name for c in self.pipeline.columns if c.categories is not None}
        else:
            schema, coded = table.schema, self.categories or {}
            texts = {
                n for n in roles.features if n in coded or is_categorical(schema.field(n).type)
            }
        target = [] if source.target is None else [source.target]
        ranges = self._ranges([*(n for n in roles.features if n not in texts), *target], protect)
        limits = ranges.pop(source.target, None) if source.target is not None else None
        pipeline = self.pipeline
        if pipeline is None and scaled_by == "declared":
            pipeline = self._declared(roles, texts, ranges)
        elif pipeline is None:
            # Of public columns, or else of private ones; no label is read.
            fitted_on = table if public is None else public
            resolve_roles(fitted_on.schema, features=roles.features)
            declared = dict(self.categories or {})
            summary = public_summary(fitted_on, roles.features, frozenset(declared), source)
            origin = PRIVATE_ROWS if public is None else public_rows(summary.rows_hash)
            fitted = fit_pipeline(
                summary,
                roles.features,
                categories=declared,
                missing=self.missing,
                clip=self.clip,
                map_spec=self.map,
                undeclared="none" if public is None else "error",
            )
            # How many private rows are long is nobody's business.
            clipped = None if public is None else fitted.clipped
            pipeline = replace(fitted, origin=origin, clipped=clipped)
        coding = tuple(protect)
        rows = PrivateRows(table, roles, pipeline, scaled_by, ranges, coding, public, limits)
        if protect:
            with_codes = _with_codes(rows, self.intercept)
            if self.pipeline is not None and with_codes != self.pipeline:
                raise ParameterError("The given pipeline does not code these columns as -1 and +1.")
            return replace(rows, pipeline=with_codes)
        bound = self._bound(rows, promised=promised, boxed=boxed)
        if self.pipeline is not None:
            return rows
        intercept = self.intercept
        if intercept is None:
            intercept = 1.0 if bound == UNCLIPPED else bound / 4
        clipped = pipeline.clipped if bound == pipeline.bound else None
        return replace(
            rows,
            pipeline=replace(pipeline, bound=bound, intercept=intercept, clipped=clipped),
        )

    def scaled_by(self, *, promised: bool) -> str:
        """Return where scales come from: a given pipeline, public or private rows, declarations."""
        if self.map is not None and self.pipeline is not None:
            raise ParameterError("The pipeline already fixes the map. Remove --map.")
        if self.pipeline is not None:
            return "given"
        if self.standardize is not None and (
            not isinstance(self.standardize, str) or self.standardize not in {"rows", "none"}
        ):
            return "public"
        if self.map is not None:
            raise ParameterError(
                "A feature map is fitted on public rows. Name them with --standardize FILE, or"
                " remove --map."
            )
        if self.standardize is not None:
            return "rows" if self.standardize == "rows" else "declared"
        declared = promised or self.ranges is not None or self.bound is not None
        return "declared" if declared else "rows"

    def _private_table(
        self,
        source: Source,
        features: Sequence[str] | None,
        scaled_by: str,
        public: Table | None,
    ) -> Table:
        """Return the private table; a CSV file's columns have the types that are declared.

        Columns with categories, and those that are texts in the public table, are texts, all others
        numbers: no type is read off a private cell, unless scales are as well.
        """
        coded, data = list(self.categories or {}), source.data
        target = [] if source.target is None else [source.target]
        label = None if target else source.label
        if self.pipeline is not None:
            coded = [c.name for c in self.pipeline.columns if c.categories is not None]
        elif scaled_by == "rows":
            if features is None:
                return open_table(data, text=[label, source.person, *coded], numbers=target)
            uncoded = [name for name in (*features, *target) if name not in coded]
            return open_table(open_columns(data, uncoded, label=label), text=coded)
        elif public is not None:
            schema = public.schema
            coded += [n for n in schema.names if is_categorical(schema.field(n).type)]
        coded = [name for name in coded if name not in target]
        names = column_names(data) if features is None else [*features, *target]
        texts = [label, source.person, *coded]
        return open_declared(data, text=texts, numbers=[n for n in names if n not in texts])

    def _ranges(self, numbers: Sequence[str], protect: Sequence[str]) -> dict[str, Range]:
        """Return the declared ranges of the columns of numbers, coded ones among them."""
        declared = ByColumn.of(self.ranges)
        strange = sorted({*declared.named, *protect} - set(numbers))
        if strange:
            raise ParameterError(
                f"{strange[0]!r} is declared, but it is no feature column of numbers."
            )
        coded = ByColumn(
            dict.fromkeys(protect, _CODED_VALUES) | dict(declared.named), declared.others
        )
        ranges: dict[str, Range] = {}
        for name, limits in ((name, coded[name]) for name in numbers):
            if limits is None:
                continue
            try:
                low, high = (float(end) for end in limits)
            except (TypeError, ValueError):
                raise ParameterError(
                    f"Column {name!r}: a range is two numbers, for example 0,1."
                ) from None
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ParameterError(
                    f"Column {name!r}: a range is two finite numbers, the lesser first."
                )
            ranges[name] = low, high
        return ranges

    def _declared(
        self, roles: Roles, texts: Collection[str], ranges: Mapping[str, Range]
    ) -> Pipeline:
        """Return the pipeline of what was declared: ranges become [-1, 1], or nothing is scaled."""
        scaled = self.standardize is None  # and not "none"
        columns, mean, scale = [], [], []
        for name in roles.features:
            if name in texts:
                values = tuple((self.categories or {}).get(name, ()))
                if not values:
                    raise ParameterError(
                        f"Column {name!r} has no declared categories. They are never read from"
                        " private rows. Declare them (--categories; Python: categories=...)."
                    )
                proportion = 1 / len(values)
                columns.append(Column(name, values))
                mean += [proportion] * len(values)
                scale += [max(math.sqrt(proportion * (1 - proportion)), 0.1)] * len(values)
                continue
            columns.append(Column(name))
            if scaled and name not in ranges:
                raise ParameterError(
                    f"Column {name!r} has no declared range, and it is never read from private"
                    " rows. Declare it (--range; Python: ranges), or give a public table"
                    " (--standardize FILE). If it holds texts, declare them (--categories; Python:"
                    " categories). --standardize none leaves numbers as they are; --standardize"
                    " rows is not differentially private."
                )
            low, high = ranges[name] if scaled else (-1.0, 1.0)
            mean.append((low + high) / 2)
            scale.append((high - low) / 2)
        if not scaled:
            mean, scale = [0.0] * len(mean), [1.0] * len(scale)
        middle = np.array(mean)
        fill = middle if self.missing == "mean" else np.zeros_like(middle)
        return Pipeline(
            tuple(columns),
            self.missing,
            middle,
            np.array(scale),
            UNCLIPPED,
            0.0,
            fill,
            origin=DECLARED,
        )

    def _bound(self, rows: PrivateRows, *, promised: bool, boxed: bool) -> float:
        """Return the norm that rows are clipped at."""
        of_pipeline = rows.pipeline.bound
        if boxed:
            box = rows.box_norm() * _BOX_MARGIN
            if (self.pipeline is not None and of_pipeline < box) or self.bound is not None:
                raise ParameterError(
                    "--unit attribute works only if rows are not clipped. Remove --bound; it is"
                    " computed from --range."
                )
            return box
        if self.pipeline is not None:
            if promised and of_pipeline >= UNCLIPPED:
                raise ParameterError(
                    "The given pipeline clips no rows, and a guarantee needs a bound on their"
                    " length. Use the pipeline of a release that clips."
                )
            return of_pipeline
        if self.bound is not None:
            return float(self.bound)
        if not promised:
            return UNCLIPPED if self.clip is None else of_pipeline
        if rows.source != "declared":
            return of_pipeline
        if self.clip is not None:
            raise ParameterError(
                "--clip needs a public table (--standardize FILE). Without one, declare a --bound."
            )
        numbers = [c.name for c in rows.pipeline.columns if c.categories is None]
        if set(numbers) <= set(rows.ranges):
            return rows.box_norm() * _BOX_MARGIN
        raise ParameterError(
            "A guarantee needs a bound on the length of rows, known beforehand. Declare --bound or"
            " --range, or give a public table with --standardize FILE (Python: bound, ranges,"
            " standardize)."
        )


def sheet_scaling(asked: Asked) -> dict[str, Any]:
    """Return the fields of `PrivateScaling` for a proposal: all numbers are from the data sheet."""
    if asked.sheet is None:
        raise ParameterError("Private records can be proposed only where they have a data sheet.")
    fields: dict[str, Any] = {
        "ranges": asked.sheet.ranges(asked.features),
        "categories": asked.sheet.categories(asked.features),
        "missing": asked.missing,
    }
    return {**fields, **asked.options}


def _with_codes(rows: PrivateRows, intercept: float | None) -> Pipeline:
    """Return the pipeline with coded columns at -1 and +1, and rows as long as they are."""
    uncoded = rows.pipeline
    mean, scale = uncoded.mean.copy(), uncoded.scale.copy()
    fill = None if uncoded.fill is None else uncoded.fill.copy()
    for name in rows.coded:
        (j,) = rows.positions(name)
        low, high = rows.ranges[name]
        mean[j], scale[j] = (low + high) / 2, (high - low) / 2
        # As the kernel computes it. Unequal sizes would tell the two values' counts apart.
        if [(end - mean[j]) * (1.0 / scale[j]) for end in (low, high)] != [-1.0, 1.0]:
            raise ParameterError(f"Column {name!r}: code its two values as 0 and 1.")
        if fill is not None:  # a missing value counts as the lesser one
            fill[j] = low
    weight = uncoded.intercept if rows.source == "given" else intercept
    weight = 1.0 if weight is None else weight
    return replace(
        uncoded,
        mean=mean,
        scale=scale,
        fill=fill,
        bound=UNCLIPPED,
        intercept=weight,
        clipped=None,
    )


def counted_people(table: Table, source: Source) -> PersonWeights | None:
    """Return how much each person's rows weigh, by one pass over the ids; None without ids."""
    person = source.person
    if person is None:
        return None
    counts = source.fold(rows_parts(table, [person]), partial(PersonSums, person))
    people, (rows,) = counts.result()
    if not len(people):
        raise TableError(f"No row has an id in column {person!r}. Check the name in --person.")
    return PersonWeights(person, people, rows)


PUBLIC_FACTS = ("the number of rows", "the class list", "the columns and how they are scaled")
_DECLARED = Assumption(
    "classes, ranges, bounds, categories and scales were not chosen by looking at the records",
    "declared by the owner",
)
_FROMPUBLIC_FACTS = Assumption(
    "classes, bounds and categories were not chosen by looking at the records, and the rows that"
    " scales come from are public",
    "declared by the owner",
)


def noise_guarantee(
    unit: Unit,
    event: Event,
    delta: float,
    *,
    origin: Provenance,
    of: Sequence[str] = (),
    target: bool = False,
) -> Guarantee:
    """Return the statement of noise on sums of records, about one ``unit`` of them.

    ``origin``: where the scales came from. ``target``: a number takes the place of classes.
    """
    open_to_all = {
        Unit.LABEL: ("the feature columns: nothing is promised about them",),
        Unit.ATTRIBUTE: ("labels and all other columns: nothing is promised about them",),
    }
    rows, classes, columns = PUBLIC_FACTS
    assumptions = declared_assumptions(origin)
    if unit is Unit.PERSON:
        rows = "the number of people"
        assumptions += (SAME_ID,)
    guarantee = Guarantee(
        unit=unit,
        event=event,
        delta=0.0 if event.pure else delta,
        public=(
            rows,
            "the range of the target" if target else classes,
            columns,
            *open_to_all.get(unit, ()),
        ),
        assumptions=assumptions,
        columns=tuple(of),
    )
    return as_scaled(guarantee, origin)


def declared_assumptions(origin: Provenance) -> tuple[Assumption, ...]:
    """Return what is taken for granted of parameters that are declared, or from public rows."""
    return (_FROMPUBLIC_FACTS,) if origin.rows else (_DECLARED,) if origin.is_public else ()


@dataclass(frozen=True)
class PrivateTable(Public):
    """What may be seen of private records before they are read."""

    rows: PrivateRows
    size: int  # the number of records, or of people, which every guarantee takes as public
    classes: Classes
    source: Source
    people: PersonWeights | None = None  # who weighs how much, where people are protected
    shown: Collection[str] = ()  # the features, where nothing is promised about them

    @classmethod
    def of(
        cls, rows: PrivateRows, classes: Classes, source: Source, unit: str | None
    ) -> "PrivateTable":
        """Return the table with its number of rows; tells the owner of rows that are public too.

        Where ``unit`` is a label, features are shown as they are.
        """
        if rows.public is not None:
            shared, of = shared_rows(rows.public, rows.table, rows.roles.features)
            if shared:
                _warn_owner(
                    f"{shared:,} of the {of:,} rows that were used for scaling are also in the"
                    " private table."
                )
        people = counted_people(rows.table, source)
        size = rows.size(source, people)
        shown = rows.roles.features if unit == Unit.LABEL else ()
        return cls(rows, size, classes, replace(source, outside="none"), people, shown)

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private records with their labels, and ids where there are any, in parts."""
        roles = self.rows.roles
        if self.people is not None:
            roles = replace(roles, features=(*roles.features, self.people.person))
        return labelled_parts(self.rows.table, roles, self.classes, self.source)


class RecordPass(ABC):
    """Takes in private records: counts and identifies them. What is summed is a subclass's.

    Labels and cells are hashed where data are to be ``identified``: for a ledger, or because the
    given pipeline names the rows that it was fitted on.
    """

    people: PersonWeights | None = None
    target: str | None = None  # the column of a number in place of a label

    def __init__(
        self, table: Table, features: Sequence[str], classes: Classes, *, identified: bool
    ) -> None:
        self.seen = np.zeros(2, dtype=np.int64)  # whose rows, as `PersonWeights.seen`
        self.labels = LabelFingerprint(classes, identified=identified)
        self.cells = CellFingerprint(table.schema, features) if identified else None
        self.count = 0
        self.unknown = Counter[str]()  # cells of no declared value, by column: for the owner alone

    def lead(self) -> None:
        """Say that no records come before these."""
        self.labels.lead()
        if self.cells is not None:
            self.cells.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in private records."""
        self.labels.update(batch.codes)
        if self.cells is not None:
            self.cells.update(batch.rows)
        self.count += len(batch)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the records that follow."""
        self.labels.merge(other.labels)
        if self.cells is not None and other.cells is not None:
            self.cells.merge(other.cells)
        self.count += other.count
        self.seen += other.seen
        self.unknown.update(other.unknown)

    @abstractmethod
    def result(self) -> Any:
        """Return the exact sums: private."""

    def report(self) -> OwnerReport | None:
        """Return which labels and cells counted as none, for the owner alone."""
        lines = [
            f"column {name!r}: {cells:,} cells hold no declared value; they count as none."
            if name != self.target
            else f"column {name!r}: {cells:,} of {self.count:,} cells are no finite numbers; they"
            " count as the middle of its range."
            for name, cells in sorted(self.unknown.items())
            if cells
        ]
        outside = self.labels.outside
        if outside:
            lines.append(
                f"{outside:,} of {self.count:,} labels are missing or not in the class list;"
                " they count as none. List all classes with --classes (Python: classes=...)."
            )
        nobody = self.count - int(self.seen[0])
        if self.people is not None and nobody:
            lines.append(f"{nobody:,} of {self.count:,} rows have no id; they count as none.")
        return OwnerReport(tuple(lines)) if lines else None

    @property
    def fingerprint(self) -> bytes:
        """What identifies the people, and their cells; leaves under the ledger's key only."""
        people = self.people
        whose = b"" if people is None else people.people.tobytes() + people.rows.tobytes()
        return self.labels.result() + (b"" if self.cells is None else self.cells.result()) + whose


R = TypeVar("R", bound=RecordPass)


class RecordProcedure(Procedure[R]):
    """A release of sums of private records: what it promises is known before one is read."""

    rows: PrivateRows
    size: int
    classes: Classes
    unit: Unit | None
    epsilon: float | None
    delta: float

    def check(self, exact: R) -> None:
        """Raise if there are no records, or others than were counted: nothing is charged."""
        super().check(exact)
        people = exact.people
        same = exact.count == self.size if people is None else (exact.seen == people.seen).all()
        if not same:
            raise TableError(
                "The table changed while it was read. Nothing was charged. Release from a copy that"
                " nobody writes to."
            )

    def report(self, exact: R) -> OwnerReport | None:
        """Tell the owner alone what counted as none, and if the pipeline is of these very rows."""
        if exact.cells is not None and self.rows.named_rows:
            warn_of_same_rows(exact.cells.unordered(), self.rows.named_rows)
        return exact.report()

    def parameters(self, exact: R) -> Mapping[str, Any]:
        """Return the public description of the request."""
        return {
            "kind": self.kind,
            "unit": None if self.unit is None else str(self.unit),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "people" if self.unit is Unit.PERSON else "records": self.size,
            **({} if exact.people is None else {"person": exact.people.person}),
            "classes": list(self.classes),
            "ranges": {name: list(limits) for name, limits in self.rows.ranges.items()},
            "pipeline": self.rows.pipeline.digest(),
        }

    def released(
        self,
        arrays: Mapping[str, np.ndarray],
        details: Mapping[str, Any],
        noise: Covariance,
        guarantees: tuple[Guarantee, ...],
    ) -> Release:
        """Return the release; rows are named by what leaves, not by what stays."""
        classes = {"classes": list(self.classes)} if self.classes else {}
        details = {**classes, **details}
        content = hashlib.sha256(f"{self.kind}\0".encode() + canonical(details))
        for name in sorted(arrays):
            content.update(arrays[name].tobytes())
        rows = RowSet(self.size, "sha256:" + content.hexdigest())
        return Release(
            kind=self.kind,
            arrays=dict(arrays),
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=self.rows.pipeline,
            noise=noise,
        )
