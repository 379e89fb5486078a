"""The public side of an owner's table: rows that everybody may see, and their pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary, Summary
from suffice.errors import ParameterError
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.maps import evenly_spaced
from suffice.tables.pipeline import Missing, Pipeline
from suffice.tables.provenance import public_rows
from suffice.tables.sources import Table, open_table

__all__ = ["PublicRows", "read_public_rows"]


_SAMPLE = 5000  # rows enough for second moments


@dataclass(frozen=True)
class PublicRows:
    """A table whose features are public, the pipeline for them, and a summary if there is one."""

    table: Table
    roles: Roles
    pipeline: Pipeline
    summary: Summary | None = None

    @property
    def _declared(self) -> frozenset[str]:
        """The columns of categories."""
        return frozenset(c.name for c in self.pipeline.columns if c.categories is not None)

    def sample(self) -> tuple[np.ndarray, int]:
        """Return at most 5,000 mapped rows and how many rows there are.

        Which rows, and in which order, no order or split of the table changes.
        """
        summary = self.summary or _summary(self.table, self.roles, self._declared, None)
        sample = summary.sample
        picked = evenly_spaced(sample.weights, min(_SAMPLE, summary.rows))
        return self.pipeline.transform(sample.rows.take(pa.array(picked))), summary.rows


def read_public_rows(
    data: Any,
    *,
    label: str | None,
    features: Sequence[str] | None,
    categories: Mapping[str, Sequence[Any]] | None,
    missing: Missing,
    clip: float | None,
    intercept: float | None,
    pipeline: Pipeline | None,
    map_spec: str | None,
    progress: Callable[[int], None] | None = None,
) -> PublicRows:
    """Read the feature columns once, never the label, and fit the pipeline unless it is given."""
    table = open_table(data, text=[label])
    if pipeline is not None:
        asked = {
            "categories": categories or None,
            "clip": clip,
            "intercept": intercept,
            "map": map_spec,
        }
        settled = [name for name, value in asked.items() if value is not None]
        settled += ["missing"] * (missing not in ("error", pipeline.missing))
        if settled:
            raise ParameterError(
                f"the given pipeline (pipeline=..., --like) settles {', '.join(settled)}; leave"
                " that out."
            )
        given = tuple(column.name for column in pipeline.columns)
        if features is not None and tuple(features) != given:
            raise ParameterError("the given pipeline has other features than those asked for.")
        features = given
    roles = resolve_roles(table.schema, label=label, features=features)
    if pipeline is not None:
        return PublicRows(table, roles, pipeline)
    declared = dict(categories or {})
    strange = sorted(set(declared) - set(roles.features))
    if strange:
        raise ParameterError(f"categories are declared for {strange[0]!r}, which is no feature.")
    summary = _summary(table, roles, frozenset(declared), progress)
    fitted = fit_pipeline(
        summary,
        roles.features,
        categories=declared,
        missing=missing,
        clip=clip,
        intercept=intercept,
        map_spec=map_spec,
    )
    stated = replace(fitted, origin=public_rows(summary.rows_hash))
    return PublicRows(table, roles, stated, summary)


def _summary(
    table: Table,
    roles: Roles,
    declared: frozenset[str],
    progress: Callable[[int], None] | None,
) -> Summary:
    schema = pa.schema([table.schema.field(name) for name in roles.features])
    return fold(table.batches(roles.features), PublicSummary(schema, declared), progress).result()
