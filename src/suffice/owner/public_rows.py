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
from suffice.owner.mechanism import Public
from suffice.owner.source import LabelledPart, PublicSource, labelled_parts
from suffice.owner.unfit_columns import note_oddities, refuse_unfit
from suffice.release.codec import load
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.labels import Classes
from suffice.tables.missing_rule import Missing, MissingRule
from suffice.tables.pipeline import Pipeline
from suffice.tables.provenance import public_rows
from suffice.tables.sources import open_columns, open_table
from suffice.tables.spacing import evenly_spaced
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
    """A table whose features are public, and their pipeline.

    Parameters
    ----------
    table : Table
        The table.
    roles : Roles
        Its label and its features.
    pipeline : Pipeline
        The public pipeline.
    summary : Summary, optional
        What one pass over the rows yielded.
    computing : Computing
        Where its rows are read.
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
class PublicTable(Public):
    """The public side of a table with public rows and private labels.

    Parameters
    ----------
    rows : PublicRows
        The rows and their pipeline.
    classes : tuple
        The declared classes.
    source : PublicSource
        What the owner handed in.
    """

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
        A public feature map: "ranks", "ranks+polynomial:2", "components:50",
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
        "Public feature map: ranks, ranks+polynomial:2, components:50, ranks+components:50,"
        " rff:512, nystroem:200, polynomial:2, pca:50 or whiten:50.",
    )
    min_count: int = preprocessing_option(
        1,
        (
            "Least number of public rows of a category, for example 10. Rarer categories are"
            " joined into one."
        ),
    )
    pipeline: Pipeline | None = option(None, **PIPELINE)

    def public_table(self, source: PublicSource, classes: Classes) -> PublicTable:
        """Return what may be seen of a table with public rows and private labels."""
        table = open_public(source, self.pipeline)
        listed = source.features is not None
        rows = self.read_public(
            table, source.label, source.features, source, features_listed=listed
        )
        return PublicTable(rows, classes, source)

    def read_public(
        self,
        table: Table,
        label: str | None,
        features: Sequence[str] | None,
        computing: Computing,
        *,
        features_listed: bool,
    ) -> PublicRows:
        """Read the feature columns once, never the label, and fit the pipeline unless given.

        ``features_listed``: the owner listed the features.
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
                f"Categories are declared for {strange[0]!r}, which is not a feature. Remove them,"
                " or add the column to --features."
            )
        joined = self.min_count > 1
        summary = public_summary(
            table, roles.features, frozenset(declared), computing, joined=joined
        )
        refuse_unfit(summary, declared, features_listed=features_listed, min_count=self.min_count)
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
        fixed_fields = ("categories", "clip", "intercept", "map")
        repeated = [name for name in fixed_fields if getattr(self, name) not in (None, {})]
        repeated += ["min_count"] * (self.min_count != 1)
        repeated += ["missing"] * (self.missing not in ("error", pipeline.missing))
        if repeated:
            raise ParameterError(
                f"The pipeline already fixes {', '.join(repeated)}. Remove these options, or remove"
                " --pipeline-from (Python: pipeline)."
            )


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
