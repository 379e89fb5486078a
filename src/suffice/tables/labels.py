"""Labels as codes of a declared list of classes, which is never read off the labels."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import ParameterError, TableError
from suffice.strict_json import LARGEST_INTEGER

__all__ = [
    "Classes",
    "canonical_class",
    "check_classes",
    "is_integer",
    "label_codes",
    "label_texts",
    "value_codes",
]

Classes = tuple[Any, ...]

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,15}))(?:\.0+)?")  # an integer, as people write one
_TRUTH = {"true": "1", "false": "0"}


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
    if len(set(map(canonical_class, values))) < len(values):
        raise ParameterError(
            "two of the classes are one: 1, 1.0 and true are the same label. List it once."
        )
    return values


def is_integer(value: object) -> bool:
    """Say whether a name is an integer, or a truth value, that every JSON can hold."""
    return isinstance(value, int) and abs(value) <= LARGEST_INTEGER


def canonical_class(value: object) -> str:
    """Return the one spelling of a label, whatever type its column has.

    The number 1, True and the texts "1", "1.0" and "true" are one label. "01" is another: it is a
    text, such as the code of a disease.
    """
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    spelled = str(value)
    whole = _WHOLE.fullmatch(spelled)
    return str(int(whole[1])) if whole else _TRUTH.get(spelled.lower(), spelled)


def label_codes(
    labels: Any, classes: Classes, *, outside: Literal["error", "none"] = "error"
) -> np.ndarray:
    """Return the position of each label in ``classes``; a label outside them is an error.

    With ``outside`` "none" it has the code -1 instead, and nothing that a label is is an error.
    """
    codes = value_codes(labels if isinstance(labels, pa.Array) else _as_arrow(labels), classes)
    if outside == "none":
        return np.maximum(codes, -1)
    strange = int(np.count_nonzero(codes < 0))
    if strange:
        raise TableError(
            f"{strange} of {len(codes)} labels are missing or not in the class list"
            f" ({_shown(classes)}). Correct these cells, or list all classes with --classes"
            " (Python: classes=...)."
        )
    return codes


def label_texts(labels: Iterable[Any]) -> list[str | None]:
    """Return labels of any types side by side as canonical texts, None for what is no label."""
    return [_text(label) for label in labels]


def _text(label: object) -> str | None:
    if not isinstance(label, str | bool | int | float | np.generic):
        return None
    spelled = canonical_class(label)
    try:
        spelled.encode()
    except UnicodeEncodeError:  # half of a character
        return None
    return spelled


def value_codes(column: pa.Array, values: Sequence[Any]) -> np.ndarray:
    """Return the position of each cell in ``values``; -1 is missing, -2 is none of them.

    Cells and values are compared by their canonical spelling, so that nothing depends on the type
    that a reader gave the column.
    """
    spell: Callable[[object], str] = canonical_class
    if len(set(map(spell, values))) < len(values):  # such as the texts "1" and "1.0"
        spell = str
    places = {spell(value): code for code, value in enumerate(values)}
    whole = spell is canonical_class and all(_WHOLE.fullmatch(name) for name in places)
    if _is_number(column.type) and whole and not column.null_count:
        return _number_codes(column.to_numpy(), [int(name) for name in places])
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    cells = coded.dictionary.to_pylist()
    known = [-1 if cell is None else places.get(spell(cell), -2) for cell in cells]
    picked = pc.fill_null(coded.indices.cast(pa.int64()), len(known))
    return np.array([*known, -1], dtype=np.int64)[picked.to_numpy(zero_copy_only=False)]


def _shown(classes: Classes) -> str:
    return ", ".join(map(str, classes))


def _one_dimensional(labels: Any) -> np.ndarray:
    values = np.asarray(labels)
    if values.ndim != 1:
        raise TableError("labels must be one column, a label for each row.")
    return values


def _number_codes(values: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Return the position of each value in ``numbers``, -2 for none; 1, 1.0 and True are equal."""
    order = np.argsort(np.array(numbers, dtype=np.int64))
    ranked = np.array(numbers, dtype=np.int64)[order]
    nearest = np.minimum(np.searchsorted(ranked, values), len(ranked) - 1)
    return np.where(ranked[nearest] == values, order[nearest], -2)


def _as_arrow(labels: Any) -> pa.Array:
    if isinstance(labels, pa.ChunkedArray):
        return labels.combine_chunks()
    given = labels if isinstance(labels, list | tuple) else _one_dimensional(labels)
    try:
        column = pa.array(given)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        column = pa.nulls(0)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_number(kind) or pa.types.is_boolean(kind) or _is_text(kind)):
        return pa.array(label_texts(given), pa.string())
    return column


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in texts)
