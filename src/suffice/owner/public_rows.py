"""The public side of an owner's table: rows that everybody may see, and their pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary
from suffice.errors import ParameterError
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.pipeline import Missing, Pipeline
from suffice.tables.sources import Table, open_table

__all__ = ["PublicRows", "read_public_rows"]


@dataclass(frozen=True)
class PublicRows:
    """A table whose features are public, and the pipeline for them."""

    table: Table
    roles: Roles
    pipeline: Pipeline


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
    map_spec: str | None,
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
    if pipeline is not None:
        return PublicRows(table, roles, pipeline)
    schema = pa.schema([table.schema.field(name) for name in roles.features])
    declared = dict(categories or {})
    strange = sorted(set(declared) - set(roles.features))
    if strange:
        raise ParameterError(f"categories are declared for {strange[0]!r}, which is no feature.")
    summary = fold(
        table.batches(roles.features), PublicSummary(schema, frozenset(declared)), progress
    ).result()
    fitted = fit_pipeline(
        summary,
        roles.features,
        categories=declared,
        missing=missing,
        clip=clip,
        intercept=intercept,
        map_spec=map_spec,
    )
    return PublicRows(table, roles, fitted)
