"""Columns of any library in the few Arrow types that the rest of the package knows.

Views and packed forms become plain texts and numbers, decimals the nearest float. Which type a
column gets depends on the type that it had, never on a cell.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from suffice.tables.labels import plain_texts, plain_type

__all__ = ["plain_batch", "plain_schema"]


def plain_schema(schema: pa.Schema, texts: Collection[str | None]) -> pa.Schema:
    """Return the schema of a table whose columns ``texts`` are read as texts."""
    kinds = [plain_type(f.type) if f.name in texts else _feature_type(f.type) for f in schema]
    return pa.schema([f.with_type(kind) for f, kind in zip(schema, kinds, strict=True)])


def plain_batch(batch: pa.RecordBatch, texts: Collection[str | None]) -> pa.RecordBatch:
    """Return rows whose columns ``texts`` are texts, or missing where they cannot be."""
    schema = plain_schema(batch.schema, texts)
    if schema.types == batch.schema.types and not any(name in texts for name in schema.names):
        return batch
    columns = [
        plain_texts(column) if field.name in texts else _convert(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


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
    """Return a column in the type that `_feature_type` gives it."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        return _convert(column.storage, kind)
    if pa.types.is_run_end_encoded(column.type):
        return _convert(pc.run_end_decode(column), kind)
    if pa.types.is_dictionary(column.type):
        values = _convert(column.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string()).cast(kind)  # rounded once, as numbers in texts are
    return column.cast(kind)
