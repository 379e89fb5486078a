"""Labels as codes of a declared list of classes, which is never read off the labels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import ParameterError, TableError
from suffice.strict_json import LARGEST_INTEGER
from suffice.tables.columns import category_codes

__all__ = [
    "Classes",
    "canonical_class",
    "check_classes",
    "is_integer",
    "label_codes",
    "value_codes",
]

Classes = tuple[Any, ...]


def check_classes(classes: Sequence[Any]) -> Classes:
    """Return the declared classes as plain Python values: two or more, all different, one type."""
    try:
        values = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
        different = len(set(values)) == len(values)
    except TypeError:
        raise ParameterError("classes must be a list of labels.") from None
    if len(values) < 2 or not different:
        raise ParameterError("classes must list two or more different labels.")
    if not (all(isinstance(v, str) for v in values) or all(is_integer(v) for v in values)):
        raise ParameterError(
            "classes must be all text or all integers (or False, True), below 2^53 in size."
        )
    return values


def canonical_class(value: object) -> str:
    """Return the one spelling of a class: 1, 1.0, True and "1" are one, "TRUE" and "true" too."""
    if isinstance(value, str):
        return {"true": "1", "false": "0"}.get(value.lower(), value)
    number = int(value)  # type: ignore[call-overload]
    return str(number if number == value else value)


def is_integer(value: object) -> bool:
    """Say whether a name is an integer, or a truth value, that every JSON can hold."""
    return isinstance(value, int) and abs(value) <= LARGEST_INTEGER


def label_codes(
    labels: Any, classes: Classes, *, outside: Literal["error", "none"] = "error"
) -> np.ndarray:
    """Return the position of each label in ``classes``; a label outside them is an error.

    With ``outside`` "none" it has the code -1 instead, and nothing that a label is is an error.
    """
    if outside == "none":
        return _codes_or_none(labels, classes)
    column = labels if isinstance(labels, pa.Array) else _as_arrow(labels)
    try:
        codes = value_codes(column, classes)
    except TableError:
        raise TableError(
            f"the declared classes ({_shown(classes)}) are not of the label column's type,"
            f" {column.type}; declare the right ones with classes=... or --classes."
        ) from None
    strange = int(np.count_nonzero(codes < 0))
    if strange:
        raise TableError(
            f"{strange} of {len(codes)} labels are missing or none of the declared classes"
            f" ({_shown(classes)}); declare the classes with classes=... or --classes."
        )
    return codes.astype(np.int64, copy=False)


def _codes_or_none(labels: Any, classes: Classes) -> np.ndarray:
    """Return the position of each label in ``classes`` by its canonical spelling, -1 for none."""
    place = {canonical_class(c): code for code, c in enumerate(classes)}
    if not isinstance(labels, pa.Array | pa.ChunkedArray):
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        return np.array([_place(value, place) for value in values], dtype=np.int64)
    coded = pc.dictionary_encode(labels)
    whole = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    codes = [_place(value, place) for value in [*whole.dictionary.to_pylist(), None]]
    found = pc.fill_null(whole.indices.cast(pa.int64()), len(codes) - 1)
    return np.array(codes, dtype=np.int64)[found.to_numpy(zero_copy_only=False)]


def _place(value: object, place: Mapping[str, int]) -> int:
    try:
        return place.get(canonical_class(value), -1)
    except (TypeError, ValueError, OverflowError):  # missing, infinite, or no label at all
        return -1


def value_codes(column: pa.Array, values: Sequence[Any]) -> np.ndarray:
    """Return the position of each cell in ``values``, all text or all integers; below 0 for none.

    Equal numbers are equal whatever their type: 1, 1.0 and True. The words true and false, as
    people write them on a command line, stand for what they say in a column of truth values.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
        words = [str(value).lower() for value in values]
        if set(words) <= {"true", "false"}:
            values = [int(word == "true") for word in words]
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and not column.null_count and is_integer(values[0]):
        return _number_codes(column.to_numpy(), tuple(values))
    return category_codes(column, values)


def _shown(classes: Classes) -> str:
    return ", ".join(map(str, classes))


def _one_dimensional(labels: Any) -> np.ndarray:
    values = np.asarray(labels)
    return values if values.ndim == 1 else values.reshape(-1, 1)  # which Arrow refuses


def _number_codes(values: np.ndarray, classes: Classes) -> np.ndarray:
    """Return the position of each number in ``classes``, -2 for none; 1, 1.0 and True are equal."""
    order = np.argsort(np.array(classes, dtype=np.int64))
    ranked = np.array(classes, dtype=np.int64)[order]
    nearest = np.minimum(np.searchsorted(ranked, values), len(ranked) - 1)
    return np.where(ranked[nearest] == values, order[nearest], -2)


def _as_arrow(labels: Any) -> pa.Array:
    if isinstance(labels, pa.ChunkedArray):
        return labels.combine_chunks()
    try:
        return pa.array(_one_dimensional(labels))
    except (pa.ArrowException, OverflowError, ValueError):
        raise TableError("labels must be all text, all numbers or all booleans.") from None
