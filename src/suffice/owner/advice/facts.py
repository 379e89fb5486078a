"""What advice may see of a private table: the names of its columns, and its number of rows.

Nothing else in `suffice.owner.advice` is given the table itself, unless its rows are public.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from suffice.owner.source import Source
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.sources import Without, column_names, open_declared, row_count

__all__ = ["TableFacts", "column_roles", "table_facts", "without_label"]


@dataclass(frozen=True)
class TableFacts:
    """What is public of a table whatever is private in it.

    Parameters
    ----------
    roles : Roles
        Its label and feature columns.
    rows : int
        The number of its rows.
    """

    roles: Roles
    rows: int


def column_roles(source: Source) -> Roles:
    """Return label and features by name. Of a CSV file nothing but the first line is read."""
    schema = pa.schema([(name, pa.string()) for name in column_names(source.data)])
    return resolve_roles(schema, label=source.label, features=source.features)


def table_facts(source: Source) -> TableFacts:
    """Return names and number of rows. The lines of a CSV file are counted, and not looked at."""
    roles = column_roles(source)
    return TableFacts(roles, _rows_of(source.data, roles.label or roles.features[0]))


def _rows_of(data: Any, column: str) -> int:
    """Return the number of rows: as the object, or the metadata of a file, states it."""
    if isinstance(data, Without):
        return _rows_of(data.data, column)
    if hasattr(data, "__len__") and not isinstance(data, str | Path):
        return len(data)
    return row_count(open_declared(data), column)


def without_label(data: Any, roles: Roles) -> Any:
    """Return the feature columns of a frame in memory, so that no label is even converted.

    Files are read by columns, and a label is not among them.
    """
    features = list(roles.features)
    if isinstance(data, Without):
        inner = without_label(data.data, roles)
        return data if inner is data.data else inner
    if isinstance(data, pa.Table):
        return data.select(features)
    if hasattr(data, "__arrow_c_stream__") and {*features} <= {*getattr(data, "columns", ())}:
        return data[features]
    return data
