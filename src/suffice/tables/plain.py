"""Columns of any library in the few Arrow types that the rest of the package knows.

Views and packed forms become plain texts and numbers, decimals the nearest float. Which type a
column gets depends on the type that it had, never on a cell.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from suffice.tables.labels import plain_texts, plain_type
from suffice.tables.numbers import numbers_of

__all__ = ["plain_batch", "plain_schema"]


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
        plain_texts(column) if field.name in texts else _convert(column, field.type)
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


def _convert(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that `plain_schema` gives it."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        return _convert(column.storage, kind)
    if pa.types.is_run_end_encoded(column.type):
        return _convert(pc.run_end_decode(column), kind)
    if pa.types.is_dictionary(column.type):
        if not pa.types.is_dictionary(kind):
            column = _convert(column.dictionary, kind).take(column.indices)
        else:
            values = _convert(column.dictionary, kind.value_type)
            column = pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(kind)  # rounded once, as numbers in texts are
    elif pa.types.is_float64(kind) and _is_text(column.type):
        column = numbers_of(column)
    else:
        column = column.cast(kind)
    return column
