"""Columns by role and type, and how their cells become numbers.

Columns of any library are read in the few Arrow types that the rest of the package knows. Views and
packed forms become plain texts and numbers, decimals the nearest float. Which type a column gets
depends on the type that it had, never on a cell.

Private numbers: every cell becomes one by itself, and a cell that is none is missing. Neither an
error nor the type of a column depends on such a cell, in any form of table.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import TableError
from suffice.kernels.cells import find_numbers
from suffice.tables.labels import plain_texts, plain_type
from suffice.tables.terms import TEMPORAL_UNITS

__all__ = [
    "Roles",
    "category_codes",
    "feature_names",
    "is_categorical",
    "number_column",
    "numbers_of",
    "numeric_column",
    "numeric_columns",
    "plain_batch",
    "plain_schema",
    "position_of",
    "resolve_roles",
    "temporal_unit",
]


def numbers_of(cells: pa.Array, decimal: str = ".") -> pa.Array:
    """Return texts or bytes as float64, each cell by itself: what is no finite number is missing.

    A number is written with digits, a decimal mark, a sign and an exponent, as -1.5e3 is. Blanks
    around it do not count. Words (nan, inf, true), groups of digits and numbers beyond float64 are
    missing.

    Parameters
    ----------
    cells : pyarrow.Array
        Texts or bytes.
    decimal : str
        The decimal mark.

    Returns
    -------
    pyarrow.Array
        As many float64 numbers.
    """
    raw = cells.cast(pa.large_binary())
    if not len(raw):
        return pa.array([], pa.float64())
    _, offsets, data = raw.buffers()
    starts = np.frombuffer(offsets, np.int64)[raw.offset : raw.offset + len(raw) + 1]
    written = np.frombuffer(b"" if data is None else data, np.uint8)
    found = pc.if_else(find_numbers(written, starts, decimal), raw, None).cast(pa.large_string())
    if decimal != ".":
        found = pc.replace_substring(found, decimal, ".")
    return _finite(pc.ascii_trim_whitespace(found).cast(pa.float64()))


def number_column(cells: Iterable[object]) -> pa.Array:
    """Return Python values of any types as float64: what is no finite number is missing.

    Texts are read as `numbers_of` reads them, and truth values are 0 and 1.
    """
    values = list(cells)
    texts = [v.encode(errors="replace") if isinstance(v, str) else None for v in values]
    stored = _finite(pa.array([_stored_number(value) for value in values], pa.float64()))
    return pc.coalesce(stored, numbers_of(pa.array(texts, pa.binary())))


def _stored_number(cell: object) -> float | None:
    if not isinstance(cell, Real | Decimal | np.bool_):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _finite(numbers: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(numbers), numbers, None)


# How pandas names its row numbers in Parquet, and in CSV.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|")
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of a second


@dataclass(frozen=True)
class Roles:
    """The role of each column.

    Parameters
    ----------
    features : tuple of str
        The feature columns: all other columns, unless the owner listed them. The row numbers that
        pandas writes beside a table are not features unless they are listed.
    label : str, optional
        The column of labels.
    """

    features: tuple[str, ...]
    label: str | None = None


def is_categorical(kind: pa.DataType) -> bool:
    """Say whether a column of this Arrow type holds categories.

    It raises if the column holds neither categories nor numbers.
    """
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return False
    if temporal_unit(kind) or pa.types.is_null(kind):  # without any value it is missing numbers
        return False
    raise TableError(
        f"Cells of type {kind} are neither numbers nor categories. Convert the column, or leave it"
        " out with --drop (Python: drop=...)."
    )


def temporal_unit(kind: pa.DataType) -> str:
    """Return the unit of a column of dates, times or durations. It is empty for other columns."""
    since_1970, since_midnight, days = TEMPORAL_UNITS
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return since_1970
    if pa.types.is_time(kind):
        return since_midnight
    return days if pa.types.is_duration(kind) else ""


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
            raise TableError(f"The table {trouble} {name!r}. It has {_describe_names(names)}.")
    if set(special) & set(chosen) or len(set(special)) < len(special):
        both = next((n for n in special if n in chosen), special[0])
        raise TableError(
            f"Column {both!r} has two roles, but label, bag and party cannot be features. Remove"
            " it from --features, or name another column."
        )
    if not chosen or len(set(chosen)) < len(chosen):
        raise TableError(
            "The list of features is empty or names a column twice. List at least one feature, and"
            " each feature once."
        )
    for name in chosen:
        try:
            is_categorical(schema.field(name).type)
        except TableError as error:
            raise TableError(f"Column {name!r}: {error}") from None
    return Roles(tuple(chosen), label)


def _describe_names(names: list[str]) -> str:
    if any(name.strip().lstrip("+-").isdigit() for name in names):  # it may be a row of cells
        return (
            f"{len(names)} columns, and some of their names are numbers. Check that the first line"
            " names the columns"
        )
    first_names = ", ".join(map(repr, names[:8]))
    return first_names + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def position_of(schema: pa.Schema, name: str) -> int:
    """Return the position of a column; one that is not there is an error."""
    position: int = schema.get_field_index(name)  # -1 would be the last column
    if position < 0:
        raise TableError(
            f"The table has no column {name!r}. Check the name; upper and lower case count."
        )
    return position


def numeric_columns(batch: pa.RecordBatch, names: Sequence[str]) -> np.ndarray:
    """Return numeric columns as one C-ordered array (width, rows); missing becomes NaN.

    It is float32 if every column is, else float64: both hold the same values.
    """
    chosen = batch.select(list(names))
    if chosen.num_columns and all(
        pa.types.is_float32(kind) or pa.types.is_float64(kind) for kind in chosen.schema.types
    ):
        matrix: np.ndarray = chosen.to_tensor(null_to_nan=True, row_major=False).to_numpy()
        return matrix.T
    out = np.empty((chosen.num_columns, batch.num_rows))
    for j, column in enumerate(chosen.columns):
        out[j] = numeric_column(column)
    return out


def numeric_column(column: pa.Array) -> np.ndarray:
    """Return a numeric column as numpy numbers, without a copy if it can be; missing is NaN.

    Dates, times and durations are counted in days (`temporal_unit`).
    """
    if temporal_unit(column.type):
        return _days(column)
    if column.null_count:
        column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), float("nan"))
    elif pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    values: np.ndarray = column.to_numpy()
    return values


def _days(column: pa.Array) -> np.ndarray:
    """Return days; the same instant is the same number, whatever unit the column has."""
    if pa.types.is_date32(column.type):
        ticks, a_day = column.cast(pa.int32()).cast(pa.int64()), 1
    else:
        unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
        wide = pa.types.is_time32(column.type)
        ticks = column.cast(pa.int32()).cast(pa.int64()) if wide else column.cast(pa.int64())
        a_day = 86_400 * _TICKS[unit]
    count = pc.fill_null(ticks, 0).to_numpy(zero_copy_only=False)
    # Whole days and the rest apart: nanoseconds since 1970 are more than a float can hold.
    days = count // a_day + (count % a_day) / a_day
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), np.nan, days)


def category_codes(column: pa.Array, categories: Sequence[Any]) -> np.ndarray:
    """Return each cell's position in ``categories``: -1 is missing, -2 is another category."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1)
    known_categories = pa.array(list(categories))
    try:
        known_categories = known_categories.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # Numbers by their looks, where some category is none: compared as what they look like.
        column, known_categories = column.cast(pa.string()), known_categories.cast(pa.string())
    positions = pc.fill_null(pc.index_in(column, value_set=known_categories), -2)
    codes: np.ndarray = positions.to_numpy(zero_copy_only=False)
    if not column.null_count:
        return codes
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), -1, codes)


def plain_schema(
    schema: pa.Schema, texts: Collection[str | None], numbers: Collection[str]
) -> pa.Schema:
    """Return the schema of a table; columns ``texts`` are read as texts, ``numbers`` as numbers."""

    def kind_of(column: pa.Field) -> pa.DataType:
        if column.name in texts:
            return plain_type(column.type)
        kind = _feature_type(column.type)
        return _number_type(kind) if column.name in numbers else kind

    return pa.schema([column.with_type(kind_of(column)) for column in schema])


def plain_batch(
    batch: pa.RecordBatch, texts: Collection[str | None], numbers: Collection[str]
) -> pa.RecordBatch:
    """Return rows whose columns ``texts`` are texts, and ``numbers`` are no texts.

    A cell that cannot be what its column is, is missing.
    """
    schema = plain_schema(batch.schema, texts, numbers)
    if schema.types == batch.schema.types and not any(name in texts for name in schema.names):
        return batch
    columns = [
        plain_texts(column) if field.name in texts else _plain_column(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _number_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column of private numbers is read: texts are none."""
    if pa.types.is_dictionary(kind):
        return _number_type(kind.value_type)
    return pa.float64() if _is_text(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in texts)


def _feature_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is read."""
    if isinstance(kind, pa.BaseExtensionType):
        return _feature_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return _feature_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        value = _feature_type(kind.value_type)
        return kind if value == kind.value_type else pa.dictionary(pa.int32(), value)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_decimal(kind):
        return pa.float64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _plain_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that `plain_schema` gives it."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        return _plain_column(column.storage, kind)
    if pa.types.is_run_end_encoded(column.type):
        return _plain_column(pc.run_end_decode(column), kind)
    if pa.types.is_dictionary(column.type):
        if not pa.types.is_dictionary(kind):
            column = _plain_column(column.dictionary, kind).take(column.indices)
        else:
            values = _plain_column(column.dictionary, kind.value_type)
            column = pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(kind)  # rounded once, as numbers in texts are
    elif pa.types.is_float64(kind) and _is_text(column.type):
        column = numbers_of(column)
    else:
        column = column.cast(kind)
    return column
