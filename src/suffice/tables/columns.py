"""Columns by role and type, and how their cells become numbers."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import TableError

__all__ = [
    "Roles",
    "category_codes",
    "feature_names",
    "is_categorical",
    "numeric_column",
    "numeric_columns",
    "resolve_roles",
]


_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas names its row numbers in Parquet


@dataclass(frozen=True)
class Roles:
    """Which column is what; ``features`` are all the others unless they were named.

    The row numbers that pandas writes beside a table are no feature unless they are named.
    """

    features: tuple[str, ...]
    label: str | None = None


def is_categorical(kind: pa.DataType) -> bool:
    """Say whether a column of this Arrow type holds categories; refuse what is neither."""
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return False
    if pa.types.is_null(kind):
        raise TableError(
            "it has no values, or the table no rows; leave it out by naming the features"
            " (features=..., --features)."
        )
    raise TableError(
        f"a column of type {kind} is neither numbers nor categories; convert it, or leave it out"
        " by naming the features (features=..., --features)."
    )


def feature_names(schema: pa.Schema, without: Collection[str | None] = ()) -> list[str]:
    """Return the columns that are features unless others are named: all but ``without``."""
    return [n for n in schema.names if n not in without and not _PANDAS_INDEX.fullmatch(n)]


def resolve_roles(
    schema: pa.Schema,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    bag: str | None = None,
    party: str | None = None,
) -> Roles:
    """Return the roles of a table's columns; every name must exist once and have one role."""
    names = list(schema.names)
    special = [name for name in (label, bag, party) if name is not None]
    chosen = list(features) if features is not None else feature_names(schema, special)
    for name in [*special, *chosen]:
        if names.count(name) != 1:
            trouble = "has no column" if name not in names else "has more than one column"
            raise TableError(f"the table {trouble} {name!r}; it has {_some(names)}.")
    if set(special) & set(chosen) or len(set(special)) < len(special):
        both = next((n for n in special if n in chosen), special[0])
        raise TableError(f"{both!r} cannot have two roles: label, bag and party are no features.")
    if not chosen or len(set(chosen)) < len(chosen):
        raise TableError("there must be at least one feature column, and none twice.")
    for name in chosen:
        try:
            is_categorical(schema.field(name).type)
        except TableError as error:
            raise TableError(f"column {name!r}: {error}") from None
    return Roles(tuple(chosen), label)


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def numeric_columns(batch: pa.RecordBatch, names: Sequence[str]) -> np.ndarray:
    """Return numeric columns as one C-ordered array (width, rows); missing becomes NaN.

    It is float32 if every column is, else float64: both hold the same values.
    """
    chosen = batch.select(list(names))
    if chosen.num_columns and all(
        pa.types.is_float32(kind) or pa.types.is_float64(kind) for kind in chosen.schema.types
    ):
        return chosen.to_tensor(null_to_nan=True, row_major=False).to_numpy().T
    out = np.empty((chosen.num_columns, batch.num_rows))
    for j, column in enumerate(chosen.columns):
        out[j] = numeric_column(column)
    return out


def numeric_column(column: pa.Array) -> np.ndarray:
    """Return a numeric column as numpy numbers, without a copy if it can be; missing is NaN."""
    if column.null_count:
        column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), float("nan"))
    elif pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    return column.to_numpy()


def category_codes(column: pa.Array, categories: Sequence[Any]) -> np.ndarray:
    """Return each cell's position in ``categories``; -1 is missing, -2 is none of them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    known = pa.array(list(categories))
    try:
        known = known.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # Numbers by their looks, where some category is none: compared as what they look like.
        column, known = column.cast(pa.string()), known.cast(pa.string())
    codes = pc.fill_null(pc.index_in(column, value_set=known), -2).to_numpy(zero_copy_only=False)
    if not column.null_count:
        return codes
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), -1, codes)
