"""Mechanisms of private labels beside public rows: the public pass, the exact pass, the release.

A mechanism of labels has a `LabelledPass` that keeps its statistic, and a `LabelProcedure` that
knows its noise.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.engines.summary import PublicSummary, SampleLimit, Summary, fit_pipeline
from suffice.errors import ParameterError, TableError
from suffice.options import (
    Group,
    Missing,
    MissingRule,
    lists_by_column,
    option,
    preprocessing_option,
)
from suffice.owner.mechanism import Mechanism, Procedure, Public, as_scaled
from suffice.owner.source import (
    LabelledBatch,
    LabelledPart,
    OwnerReport,
    PublicSource,
    labelled_parts,
    note_oddities,
    refuse_unfit,
)
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.releases.codec import load
from suffice.releases.release import Covariance, Part, Release, RowSet
from suffice.strict_json import canonical, plain
from suffice.tables.columns import Classes, Roles, canonical_class, resolve_roles
from suffice.tables.pipeline import Pipeline, evenly_spaced, public_rows
from suffice.tables.sources import open_columns, open_table
from suffice.tables.table import RowDigest, RowLanes, Table, narrow_batches, rows_parts


class LabelFingerprint:
    """Computes a digest of the labels in their order, whatever features or class order are used.

    Canonical values are hashed, so that it does not matter how classes are spelt. The digest is
    stored only under the ledger's key. Unless data are to be ``identified``, labels of no class are
    counted, and nothing is hashed.
    """

    def __init__(self, classes: Classes, *, identified: bool = True) -> None:
        spelled = [*map(canonical_class, classes), "\0none"]  # code -1 is the last
        digests = [hashlib.sha256(text.encode()).digest()[:8] for text in spelled]
        self._words = np.frombuffer(b"".join(digests), dtype="<u8")
        self._identified = identified
        self._digest: Any = None  # of rows that come first alone
        self._waiting_codes: list[np.ndarray] = []
        self._code_type = np.min_scalar_type(-len(classes))  # a byte a row crosses a cluster
        self.outside = 0  # labels of no class: for the owner alone

    def lead(self) -> None:
        """Say that no rows come before these: from now on no code is held."""
        self._digest = hashlib.sha256()
        for codes in self._waiting_codes:
            self._digest.update(self._words[codes])
        self._waiting_codes = []

    def update(self, codes: np.ndarray) -> None:
        """Take in the class codes of the next rows; -1 is a label of no class."""
        self.outside += int(np.count_nonzero(codes < 0))
        if not self._identified:
            return
        if self._digest is None:
            self._waiting_codes.append(codes.astype(self._code_type))
        else:
            self._digest.update(self._words[codes])

    def merge(self, other: "LabelFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        if other._digest is not None:
            raise TableError(
                "These rows come first and cannot follow others. Merge parts in the order of the"
                " table."
            )
        if other._waiting_codes:
            self.update(np.concatenate(other._waiting_codes))
        self.outside += 0 if self._identified else other.outside

    def result(self) -> bytes:
        """Return the digest of all labels so far."""
        if self._digest is not None:
            return bytes(self._digest.digest())
        return hashlib.sha256(b"".join(self._words[c] for c in self._waiting_codes)).digest()


class CellFingerprint:
    """Computes a digest of private feature cells in the order of their rows."""

    def __init__(self, schema: pa.Schema, features: Sequence[str]) -> None:
        self._lanes = RowLanes(schema, features) if features else None
        self._rows = RowDigest(features, ordered=True)

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._rows.lead()

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows."""
        if self._lanes is not None:
            self._rows.update(self._lanes.of(batch))

    def merge(self, other: "CellFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        self._rows.merge(other._rows)

    def unordered(self) -> str:
        """Return the hash that the same rows have in any order."""
        return self._rows.unordered()

    def result(self) -> bytes:
        """Return the digest of all cells; none without features."""
        return b"" if self._lanes is None else self._rows.result().encode()


_SAMPLE = 5000  # rows enough for second moments

# Declared once for all mechanisms that map rows; each makes its own field of them.
MISSING: dict[str, Any] = {
    "help": "What replaces a missing value: error (refuse), mean (of its column) or zero.",
    "group": Group.PREPROCESSING,
    "choices": MissingRule,
}
CATEGORIES: dict[str, Any] = {
    "help": (
        "Categories of a column as COLUMN=A,B,C (repeatable). Put a category with a comma in"
        " quotes."
    ),
    "group": Group.PREPROCESSING,
    "parse": lists_by_column("--categories"),
    "many": True,
}
PIPELINE: dict[str, Any] = {
    "name": "--pipeline-from",
    "help": "Earlier release whose scaling is used again, so that both releases can be merged.",
    "group": Group.PREPROCESSING,
    "parse": lambda path: load(path).pipeline,
    "path": Path,
}


@dataclass(frozen=True)
class PublicRows:
    """A table whose features are public, and their pipeline."""

    table: Table
    roles: Roles
    pipeline: Pipeline
    summary: Summary | None = None  # what one pass over the rows yielded; None if it was given
    computing: Computing = field(default_factory=Computing)  # where its rows are read

    def sample(self) -> tuple[np.ndarray, int]:
        """Return at most 5,000 mapped rows and how many rows there are.

        Which rows, and in which order, no order or split of the table changes.
        """
        summary = self.summary
        if summary is None:
            columns = self.pipeline.columns
            declared = frozenset(c.name for c in columns if c.categories is not None)
            summary = public_summary(self.table, self.roles.features, declared, self.computing)
        sample = summary.sample
        picked = evenly_spaced(sample.weights, min(_SAMPLE, summary.rows))
        return self.pipeline.transform(sample.rows.take(pa.array(picked))), summary.rows


@dataclass(frozen=True)
class PublicTable(Public):
    """The public side of a table with public rows and private labels."""

    rows: PublicRows
    classes: Classes
    source: PublicSource  # what the owner handed in

    @property
    def shown(self) -> Iterable[str]:
        """The feature columns, and that of ids: all of them are public."""
        person = self.source.person
        return (*self.rows.roles.features, *([] if person is None else [person]))

    def parts(self) -> Sequence[LabelledPart]:
        """Return the rows with their private labels, in parts."""
        rows = self.rows
        return labelled_parts(rows.table, rows.roles, self.classes, self.source)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How public rows become coordinates: fitted on them, or as a given pipeline has it.

    Parameters
    ----------
    clip : float, optional
        Quantile of the row norms at which longer rows are shortened. Default: the lower, the more
        coordinates there are.
    intercept : float, optional
        Weight of the constant coordinate, 0 for none. Default: a quarter of the norm bound.
    missing : {"error", "mean", "zero"}
        What replaces a missing value.
    categories : mapping of str to sequence, optional
        Declared categories by column. Default: those that occur in the public rows.
    map : str, optional
        A public feature map: "ranks+kernel:100", "ranks", "ranks+polynomial:2", "components:50",
        "ranks+components:50", "rff:512", "nystroem:200", "polynomial:2", "pca:50" or "whiten:50".
    min_count : int
        Categories of fewer public rows are joined into one.
    pipeline : Pipeline, optional
        A pipeline that fixes all of this. If its numbers come from private rows, or their origin is
        unknown, the guarantee is data-dependent.
    """

    clip: float | None = preprocessing_option(
        None,
        "Quantile of row lengths at which longer rows are shortened, for example 0.5. Default:"
        " depends on the number of features.",
    )
    intercept: float | None = preprocessing_option(
        None, "Weight of the intercept, or 0 for none. Default: a quarter of the longest row."
    )
    missing: Missing = option("error", **MISSING)
    categories: Mapping[str, Sequence[Any]] | None = option(None, **CATEGORIES)
    map: str | None = preprocessing_option(
        None,
        "Public feature map: ranks+kernel:100, ranks, ranks+polynomial:2, components:50,"
        " ranks+components:50, rff:512, nystroem:200, polynomial:2, pca:50 or whiten:50.",
    )
    min_count: int = preprocessing_option(
        1,
        (
            "Least number of public rows of a category, for example 10. Rarer categories are"
            " joined into one."
        ),
    )
    pipeline: Pipeline | None = option(None, **PIPELINE)

    def read_public(
        self,
        table: Table,
        label: str | None,
        features: Sequence[str] | None,
        computing: Computing,
        *,
        features_listed: bool,
        person: str | None = None,
    ) -> PublicRows:
        """Read the feature columns once, never the label, and fit the pipeline unless given.

        ``features_listed``: the owner listed the features. ``person`` is the column of ids.
        """
        if self.pipeline is not None:
            settled = ("categories", "clip", "intercept", "map")
            repeated = [name for name in settled if getattr(self, name) not in (None, {})]
            repeated += ["min_count"] * (self.min_count != 1)
            repeated += ["missing"] * (self.missing not in ("error", self.pipeline.missing))
            if repeated:
                raise ParameterError(
                    f"The pipeline already fixes {', '.join(repeated)}. Remove these options, or"
                    " remove --pipeline-from (Python: pipeline)."
                )
            features = given_features(self.pipeline, features)
        roles = resolve_roles(table.schema, label=label, features=features, person=person)
        if self.pipeline is not None:
            return PublicRows(table, roles, self.pipeline, computing=computing)
        declared = dict(self.categories or {})
        strange = sorted(set(declared) - set(roles.features))
        if strange:
            raise ParameterError(
                f"Categories are declared for {strange[0]!r}, which is not a feature. Remove them,"
                " or add the column to --features."
            )
        joined = self.min_count > 1
        summary = public_summary(
            table, roles.features, frozenset(declared), computing, joined=joined
        )
        refuse_unfit(summary, declared, features_listed=features_listed, min_count=self.min_count)
        note_oddities(summary, roles.features)
        return PublicRows(table, roles, self.fitted(summary, roles), summary, computing)

    def fitted(self, summary: Summary, roles: Roles) -> Pipeline:
        """Return the pipeline of public rows that were read."""
        pipeline = fit_pipeline(
            summary,
            roles.features,
            categories=dict(self.categories or {}),
            missing=self.missing,
            clip=self.clip,
            intercept=self.intercept,
            map_spec=self.map,
            min_count=self.min_count,
        )
        return replace(pipeline, origin=public_rows(summary.rows_hash))


def given_features(pipeline: Pipeline, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the features of a given pipeline; others that were asked for are an error."""
    pipeline_features = tuple(column.name for column in pipeline.columns)
    if features is not None and tuple(features) != pipeline_features:
        raise ParameterError(
            "The pipeline was made for other features. Remove --features, or list the features of"
            " the pipeline."
        )
    return pipeline_features


def public_summary(
    table: Table,
    features: Sequence[str],
    declared: frozenset[str],
    computing: Computing,
    *,
    joined: bool = False,
) -> Summary:
    """Return what one pass over these columns yields; ``declared`` ones are categories.

    Where rare categories will be ``joined``, there may be many.
    """
    schema = pa.schema([table.schema.field(name) for name in features])
    parts = rows_parts(table, features)
    sizes = [part.rows for part in parts if part.rows is not None]
    rows = sum(sizes) if len(sizes) == len(parts) else None

    make = partial(PublicSummary, schema, declared, joined=joined)
    summary = computing.fold(parts, partial(make, SampleLimit.guessed(schema, rows)))
    if summary.sample.is_short():  # most rows are repeated: rare where there are fractions
        summary = computing.fold(parts, partial(make, SampleLimit()))
    return summary.result()


def open_public(source: PublicSource, pipeline: Pipeline | None, bags: Sequence[str] = ()) -> Table:
    """Return the table of a source; what is neither a feature nor a bag is not looked at.

    The label is private, and so may be columns that are no features: how a file is written is told
    by features alone.
    """
    features = source.features
    if pipeline is not None:
        features = [column.name for column in pipeline.columns]
    if features is None:
        return open_table(source.data, text=[source.label, source.person])
    return open_columns(source.data, [*features, *bags], label=source.label)


Contents = tuple[dict[str, np.ndarray], dict[str, Any], Covariance]
"""Arrays and details of a release, and the covariance of its noise."""

_UNSEEN = Assumption(
    "rows, their order, features and classes were not chosen by looking at labels",
    "declared by the owner",
)
_PUBLIC = ("the feature columns of every row", "the number of rows", "the class list")
SAME_ID = Assumption("all rows of a person have the same id", "declared by the owner")


L = TypeVar("L", bound="LabelledPass")


class LabelledPass(ABC):
    """Takes in public rows with their labels; names both, and lets a subclass keep what it needs.

    An accumulator. Merged passes must be about rows that follow each other. It knows the layout of
    the table, and not the table: on a cluster it travels to the rows. Labels are fingerprinted if
    data are to be ``identified``, for a ledger.

    Attributes
    ----------
    rows : RowDigest or BagDigest
        Counts and names the public rows.
    labels : LabelFingerprint
        What identifies the private labels.
    """

    ordered = False

    def __init__(self, public: PublicRows, classes: Classes, *, identified: bool = True) -> None:
        self.pipeline, self.classes = public.pipeline, classes
        features = public.roles.features
        self._lanes = RowLanes(public.table.schema, features)
        self.rows: Any = RowDigest(features, ordered=self.ordered)
        self.labels = LabelFingerprint(classes, identified=identified)
        pipeline = public.pipeline
        # The numbers that are hashed are those that are summed, unless something replaced them.
        self._unchanged = (
            all(column.categories is None for column in pipeline.columns)
            and pipeline.fill is None
            and pipeline.map is None
        )

    def lead(self) -> None:
        """Say that no rows come before these."""
        if self.ordered:
            self.rows.lead()
        self.labels.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in rows under their labels, and fingerprint both."""
        pipeline, start = self.pipeline, 0
        for part in narrow_batches(batch.rows, len(pipeline.outputs)):
            columns = pipeline.encoded(part)
            self._take(columns, batch.codes[start : start + part.num_rows])
            self.rows.update(self._lanes.of(part, columns if self._unchanged else None))
            start += part.num_rows
        self.labels.update(batch.codes)

    @abstractmethod
    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        """Keep what the statistic needs of one batch of encoded columns and label codes."""

    @abstractmethod  # a subclass merges its own statistic too
    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""
        self.rows.merge(other.rows)
        self.labels.merge(other.labels)

    @abstractmethod
    def result(self) -> np.ndarray:
        """Return the exact numbers that noise is added to: private."""

    @property
    def count(self) -> int:
        """The number of rows that were read."""
        return int(self.rows.count)

    @property
    def fingerprint(self) -> bytes:
        """What identifies the private labels; leaves under the ledger's key only."""
        return self.labels.result()


@dataclass(frozen=True, eq=False)
class LabelProcedure(Procedure[L], Generic[L]):
    """Protects each label: what is released of labels, under the names of public rows.

    ``request`` are the fields that the owner asked with, ``delta`` among them where there is one.
    """

    public: PublicTable
    request: Mapping[str, Any]

    @abstractmethod
    def event(self, exact: L) -> Event:
        """Return what one label costs, by public facts of the rows."""

    @abstractmethod
    def contents(self, exact: L) -> Contents:
        """Return what leaves, with fresh noise."""

    def check(self, exact: L) -> None:
        """Raise if there are no rows, or others than those that the pipeline was fitted on."""
        super().check(exact)
        summary = self.public.rows.summary
        if summary is not None and exact.rows.unordered() != summary.rows_hash:
            raise TableError(
                "The table changed while it was read. Nothing was charged. Release from a copy"
                " that nobody writes to."
            )

    def report(self, exact: L) -> OwnerReport | None:
        """Return how many labels are of no class, where that is no error."""
        outside = exact.labels.outside
        if not outside:
            return None
        line = (
            f"{outside} of {exact.count} labels are missing or not in the class list. They count"
            " for no class."
        )
        return OwnerReport((line,))

    def guarantee(self, exact: L) -> Guarantee:
        """Return the guarantee per label of rows whose scaling is public."""
        event = self.event(exact)
        source = self.public.source
        some = [] if source.labelled is None else ["which rows have labels"]
        person = source.person is not None
        return Guarantee(
            unit=Unit.PERSON_LABELS if person else Unit.LABEL,
            event=event,
            delta=0.0 if event.pure else self.request["delta"],
            public=(*_PUBLIC, *some, *(["which rows are of one person"] if person else [])),
            assumptions=(_UNSEEN, SAME_ID) if person else (_UNSEEN,),
        )

    def guarantees(self, exact: L) -> tuple[Guarantee, ...]:
        """Return the one guarantee, per label."""
        return (as_scaled(self.guarantee(exact), self.public.rows.pipeline.origin),)

    def parameters(self, exact: L) -> Mapping[str, Any]:
        """Return the public description of the request."""
        labelled = self.public.source.labelled
        some = {}
        if labelled is not None:
            some["labelled"] = hashlib.sha256(canonical(plain(labelled))).hexdigest()
        if self.public.source.person is not None:
            some["person"] = self.public.source.person
        return {
            "kind": self.kind,
            **self.request,
            "classes": list(self.public.classes),
            "rows": exact.rows.result(),
            **some,
            "pipeline": self.public.rows.pipeline.digest(),
        }

    def draw(self, exact: L, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""
        arrays, details, noise = self.contents(exact)
        source = self.public.source
        rows = RowSet(exact.rows.count, exact.rows.result(), source.found_at, source.labelled)
        return Release(
            kind=self.kind,
            arrays=arrays,
            details={"classes": list(self.public.classes), **details},
            parts=(Part(rows, guarantees),),
            pipeline=self.public.rows.pipeline,
            noise=noise,
        )


class LabelMechanism(Preprocessing, Mechanism[PublicTable]):
    """A mechanism whose rows are public: `Preprocessing` says how they become coordinates.

    A subclass has a field ``classes``, the labels that can occur.
    """

    source = PublicSource
    has_public_rows = True

    def public(self, source: PublicSource) -> PublicTable:
        """Return the rows, all of whose columns but the label are public, and their pipeline."""
        listed = source.features is not None
        table = open_public(source, self.pipeline)
        rows = self.read_public(
            table,
            source.label,
            source.features,
            source,
            features_listed=listed,
            person=source.person,
        )
        return PublicTable(rows, self.declared_classes(), source)
