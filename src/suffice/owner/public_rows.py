"""The public side of an owner's table: rows that everybody may see, and their pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary
from suffice.errors import ParameterError
from suffice.release.artifact import RowSet
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.pipeline import Missing, Pipeline
from suffice.tables.sources import Table, open_table

__all__ = ["PublicRows", "read_public_rows"]


@dataclass(frozen=True)
class PublicRows:
    """A table whose features are public, the pipeline for them, and their name."""

    table: Table
    roles: Roles
    pipeline: Pipeline
    rows: RowSet


def read_public_rows(
    data: Any,
    *,
    label: str | None,
    features: Sequence[str] | None,
    categories: Mapping[str, Sequence[Any]] | None,
    missing: Missing,
    clip: float,
    intercept: float,
    pipeline: Pipeline | None,
    found_at: str | None,
    progress: Callable[[int], None] | None = None,
) -> PublicRows:
    """Read the feature columns once, never the label, and fit the pipeline unless it is given."""
    import pyarrow as pa

    table = open_table(data)
    if pipeline is not None:
        given = tuple(column.name for column in pipeline.columns)
        if features is not None and tuple(features) != given:
            raise ParameterError("the given pipeline has other features than those asked for.")
        features = given
    roles = resolve_roles(table.schema, label=label, features=features)
    schema = pa.schema([table.schema.field(name) for name in roles.features])
    declared = dict(categories or {})
    strange = sorted(set(declared) - set(roles.features))
    if strange:
        raise ParameterError(f"categories are declared for {strange[0]!r}, which is no feature.")
    summary = fold(
        table.batches(roles.features), PublicSummary(schema, frozenset(declared)), progress
    ).result()
    if pipeline is None:
        pipeline = fit_pipeline(
            summary,
            roles.features,
            categories=declared,
            missing=missing,
            clip=clip,
            intercept=intercept,
        )
    return PublicRows(table, roles, pipeline, RowSet(summary.rows, summary.row_hash, found_at))
