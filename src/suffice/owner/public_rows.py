"""The public side of an owner's table: rows that everybody may see, and their pipeline."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.fitting import fit_pipeline
from suffice.engines.opening import Computing
from suffice.engines.summary import PublicSummary, SampleLimit, Summary
from suffice.errors import ParameterError
from suffice.options import Group, lists_by_column, option, preprocessing_option
from suffice.owner.source import LabelledPart, PublicSource, labelled_parts
from suffice.owner.unfit_columns import note_oddities, refuse_unfit
from suffice.release.codec import load
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.labels import Classes
from suffice.tables.maps import evenly_spaced
from suffice.tables.missing_rule import Missing, MissingRule
from suffice.tables.pipeline import Pipeline
from suffice.tables.provenance import public_rows
from suffice.tables.sources import open_columns, open_table
from suffice.tables.table import Table, rows_parts

__all__ = [
    "CATEGORIES",
    "MISSING",
    "PIPELINE",
    "Preprocessing",
    "PublicRows",
    "PublicTable",
    "given_features",
    "open_public",
    "public_summary",
]


_SAMPLE = 5000  # rows enough for second moments

# Declared once for all mechanisms that map rows; each makes its own field of them.
MISSING: dict[str, Any] = {
    "help": "What a missing value becomes: an error, the mean of its column, or zero.",
    "group": Group.PREPROCESSING,
    "choices": MissingRule,
}
CATEGORIES: dict[str, Any] = {
    "help": "COLUMN=A,B,C: the categories of a column (repeatable); quote one that has a comma.",
    "group": Group.PREPROCESSING,
    "parse": lists_by_column("--categories"),
    "many": True,
}
PIPELINE: dict[str, Any] = {
    "name": "--pipeline-from",
    "old": ("--like",),
    "help": "Scale rows as this earlier release does, so that both can be merged.",
    "group": Group.PREPROCESSING,
    "parse": lambda path: load(path).pipeline,
    "path": Path,
}


@dataclass(frozen=True)
class PublicRows:
    """A table whose features are public, the pipeline for them, and a summary if there is one.

    ``computing`` says where its rows are read.
    """

    table: Table
    roles: Roles
    pipeline: Pipeline
    summary: Summary | None = None
    computing: Computing = field(default_factory=Computing)

    @property
    def _declared(self) -> frozenset[str]:
        """The columns of categories."""
        return frozenset(c.name for c in self.pipeline.columns if c.categories is not None)

    def sample(self) -> tuple[np.ndarray, int]:
        """Return at most 5,000 mapped rows and how many rows there are.

        Which rows, and in which order, no order or split of the table changes.
        """
        features, declared = self.roles.features, self._declared
        summary = self.summary or public_summary(self.table, features, declared, self.computing)
        sample = summary.sample
        picked = evenly_spaced(sample.weights, min(_SAMPLE, summary.rows))
        return self.pipeline.transform(sample.rows.take(pa.array(picked))), summary.rows


@dataclass(frozen=True)
class PublicTable:
    """What may be seen of a table with public rows and private labels."""

    rows: PublicRows
    classes: Classes
    source: PublicSource

    @property
    def shown(self) -> Iterable[str]:
        """The feature columns: all of them are public."""
        return self.rows.roles.features

    @property
    def found_at(self) -> str | None:
        """Where others find the rows."""
        return self.source.found_at

    def parts(self, bags: np.ndarray | None = None) -> Sequence[LabelledPart]:
        """Return the rows with their private labels, and with ``bags`` if given, in parts."""
        rows = self.rows
        return labelled_parts(rows.table, rows.roles, self.classes, self.source, bags)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How public rows become coordinates: fitted on them, or as a given ``pipeline`` has it.

    Rows are mapped (``map``: "rff:512", "nystroem:200", "polynomial:2", "pca:50", "whiten:50"),
    standardised and clipped at the ``clip`` quantile of their norms (the lower the more coordinates
    there are, unless given), all from the public rows. A ``pipeline`` whose numbers come from
    private rows, or nobody knows from where, makes the guarantee data-dependent. ``intercept`` is
    the weight of the constant coordinate: a quarter of the norm bound unless given, zero for none.
    """

    clip: float | None = preprocessing_option(
        None,
        "Quantile of the row lengths at which longer rows are shortened, for example 0.5."
        " Default: chosen by the number of features.",
    )
    intercept: float | None = preprocessing_option(
        None, "Weight of the intercept; 0 for none. Default: a quarter of the longest row."
    )
    missing: Missing = option("error", **MISSING)
    categories: Mapping[str, Sequence[Any]] | None = option(None, **CATEGORIES)
    map: str | None = preprocessing_option(
        None, "Public feature map: rff:512, nystroem:200, polynomial:2, pca:50 or whiten:50."
    )
    min_count: int = preprocessing_option(
        1, "Categories that fewer public rows have are joined into one, for example 10."
    )
    pipeline: Pipeline | None = option(None, **PIPELINE)

    def public_table(self, source: PublicSource, classes: Classes) -> PublicTable:
        """Return what may be seen of a table with public rows and private labels."""
        named = source.features is not None
        table = open_public(source, self.pipeline)
        rows = self.read_public(table, source.label, source.features, source, named=named)
        return PublicTable(rows, classes, source)

    def read_public(
        self,
        table: Table,
        label: str | None,
        features: Sequence[str] | None,
        computing: Computing,
        *,
        named: bool,
    ) -> PublicRows:
        """Read the feature columns once, never the label, and fit the pipeline unless given.

        ``named``: the owner named the features.
        """
        if self.pipeline is not None:
            self._check_settled(self.pipeline)
            features = given_features(self.pipeline, features)
        roles = resolve_roles(table.schema, label=label, features=features)
        if self.pipeline is not None:
            return PublicRows(table, roles, self.pipeline, computing=computing)
        declared = dict(self.categories or {})
        strange = sorted(set(declared) - set(roles.features))
        if strange:
            raise ParameterError(
                f"categories are declared for {strange[0]!r}, which is no feature."
            )
        joined = self.min_count > 1
        summary = public_summary(
            table, roles.features, frozenset(declared), computing, joined=joined
        )
        refuse_unfit(summary, declared, named=named, min_count=self.min_count)
        note_oddities(summary, roles.features)
        fitted = fit_pipeline(
            summary,
            roles.features,
            categories=declared,
            missing=self.missing,
            clip=self.clip,
            intercept=self.intercept,
            map_spec=self.map,
            min_count=self.min_count,
        )
        stated = replace(fitted, origin=public_rows(summary.rows_hash))
        return PublicRows(table, roles, stated, summary, computing)

    def _check_settled(self, pipeline: Pipeline) -> None:
        """Raise if something was asked for that the given pipeline decides already."""
        asked = ("categories", "clip", "intercept", "map")
        settled = [name for name in asked if getattr(self, name) not in (None, {})]
        settled += ["min_count"] * (self.min_count != 1)
        settled += ["missing"] * (self.missing not in ("error", pipeline.missing))
        if settled:
            raise ParameterError(
                f"the given pipeline (pipeline=..., --pipeline-from) settles {', '.join(settled)};"
                " leave that out."
            )


def given_features(pipeline: Pipeline, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the features of a given pipeline; others that were asked for are an error."""
    given = tuple(column.name for column in pipeline.columns)
    if features is not None and tuple(features) != given:
        raise ParameterError("the given pipeline has other features than those asked for.")
    return given


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

    def summary_within(limit: SampleLimit) -> PublicSummary:
        make = partial(PublicSummary, schema, declared, limit, joined=joined)
        return computing.fold(parts, make)

    summary = summary_within(SampleLimit.guessed(schema, rows))
    if summary.is_short():  # most rows are repeated: rare where there are fractions
        summary = summary_within(SampleLimit())
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
        return open_table(source.data, text=[source.label])
    return open_columns(source.data, [*features, *bags], label=source.label)
