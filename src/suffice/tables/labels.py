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
    "LONGEST_TEXT",
    "Classes",
    "StrangeLabelsError",
    "canonical_class",
    "check_classes",
    "is_integer",
    "label_array",
    "label_codes",
    "label_texts",
    "missing_labels",
    "plain_texts",
    "plain_type",
    "texts_of",
    "value_codes",
]

Classes = tuple[Any, ...]

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,15}))(?:\.0+)?")  # an integer, as people write one
_FEW_CLASSES = 16  # are looked for one by one, which is faster
_TRUTH = {"true": "1", "false": "0"}
LONGEST_TEXT = 1 << 14  # bytes of a class, or of a category: a batch of them fits into one array


def check_classes(classes: Sequence[Any]) -> Classes:
    """Return the declared classes as plain Python values.

    Parameters
    ----------
    classes : sequence
        Two or more different classes, all texts or all integers.

    Returns
    -------
    tuple
        The classes, in their order.

    Raises
    ------
    ParameterError
        If there are fewer than two classes, two equal ones, or classes of several types.

    Examples
    --------
    >>> from suffice.tables.labels import check_classes
    >>> check_classes(["ill", "well"])
    ('ill', 'well')
    """
    try:
        values = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
        different = len(set(values)) == len(values)
    except TypeError:
        raise ParameterError("classes must be a list of labels, for example (0, 1).") from None
    if len(values) < 2 or not different:
        raise ParameterError("The class list needs at least two classes, all different.")
    if not (all(isinstance(v, str) for v in values) or all(is_integer(v) for v in values)):
        raise ParameterError(
            "Classes must be all texts or all integers (or False, True), and integers must be"
            " below 2^53. Use texts for other classes."
        )
    if any(isinstance(v, str) and not v.strip() for v in values):
        raise ParameterError(
            "A class must not be blank, because a blank cell means a missing label. Give this"
            " class a name."
        )
    if len(set(map(canonical_class, values))) < len(values):
        raise ParameterError(
            "Two classes are the same label: 1, 1.0 and true mean the same. List each class once."
        )
    if any(len(str(v).encode(errors="replace")) > LONGEST_TEXT for v in values):
        raise ParameterError(
            f"A class can have at most {LONGEST_TEXT:,} bytes. Use a shorter name."
        )
    return values


def is_integer(value: object) -> bool:
    """Say whether a name is an integer, or a truth value, that every JSON can hold."""
    return isinstance(value, int) and abs(value) <= LARGEST_INTEGER


def canonical_class(value: object) -> str:
    """Return the one spelling of a label, whatever type its column has.

    The number 1, True and the texts "1", "1.0" and "true" are one label. "01" is another: it is a
    text, such as the code of a disease. Blanks around a text do not count.

    Examples
    --------
    >>> from suffice.tables.labels import canonical_class
    >>> [canonical_class(label) for label in (1, True, "1.0", " true ", "01")]
    ['1', '1', '1', '1', '01']
    """
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    spelled = str(value).strip().replace("\r\n", "\n")  # as lines end in every file that is read
    integer = _WHOLE.fullmatch(spelled)
    return str(int(integer[1])) if integer else _TRUTH.get(spelled.lower(), spelled)


def label_codes(
    labels: Any, classes: Classes, *, outside: Literal["error", "none"] = "error"
) -> np.ndarray:
    """Return the position of each label in ``classes``.

    Parameters
    ----------
    labels : array
        The labels, in any form.
    classes : tuple
        The declared classes.
    outside : {"error", "none"}
        What a label outside the classes is: an error, or the code -1. With "none" no label is an
        error.

    Returns
    -------
    ndarray
        One code for each label.

    Raises
    ------
    StrangeLabelsError
        If labels are missing or not in the class list.
    """
    codes = value_codes(labels if isinstance(labels, pa.Array) else label_array(labels), classes)
    if outside == "none":
        return np.asarray(np.maximum(codes, -1))
    strange = int(np.count_nonzero(codes < 0))
    if strange:
        raise StrangeLabelsError(strange, len(codes), classes)
    return codes


class StrangeLabelsError(TableError):
    """Says how many labels of a table are missing, or of no declared class."""

    def __init__(self, strange: int, rows: int, classes: Classes, advice: str = "") -> None:
        super().__init__(
            f"{strange:,} of {rows:,} labels are missing or not in the class list"
            f" ({_class_list(classes)}). Correct these cells (upper and lower case count), or list"
            f" all classes with --classes (Python: classes=...).{advice}"
        )
        self.strange, self.rows, self.classes = strange, rows, classes

    def __reduce__(self) -> tuple[Any, ...]:  # it comes back from other processes
        return type(self), (self.strange, self.rows, self.classes)


def missing_labels(labels: Any) -> np.ndarray:
    """Return for each label whether it is missing: no value, or only blanks."""
    column = labels if isinstance(labels, pa.Array) else label_array(labels)
    coded = column if pa.types.is_dictionary(column.type) else _encode(column)
    cells = _cells(coded.dictionary)
    gone = [cell is None or cell != cell or not str(cell).strip() for cell in cells]  # noqa: PLR0124
    picked = pc.fill_null(coded.indices.cast(pa.int64()), len(gone))
    missing: np.ndarray = np.array([*gone, True])[picked.to_numpy(zero_copy_only=False)]
    return missing


def label_texts(labels: Iterable[Any]) -> list[str | None]:
    """Return labels of any types as canonical texts, and None for what cannot be a label."""
    return [_label_text(label) for label in labels]


def _label_text(label: object) -> str | None:
    if not isinstance(label, str | bool | int | float | np.generic) or label != label:  # noqa: PLR0124
        return None  # nor is what is no number
    spelled = canonical_class(label)
    try:
        spelled.encode()
    except UnicodeEncodeError:  # half of a character
        return None
    return spelled


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `plain_texts` gives to a column of this type."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return kind


def plain_texts(column: pa.Array) -> pa.Array:
    """Return labels or categories of which batches can be put together, whatever the cells are.

    No dictionary runs out of numbers, no array out of bytes: texts are no dictionaries, and one
    that is longer than any class is missing.
    """
    kind = plain_type(column.type)
    if pa.types.is_dictionary(column.type):
        return plain_texts(column.dictionary).take(column.indices)
    return texts_of(column.cast(kind), kind) if _is_text(kind) else column


def texts_of(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return bytes as texts of type ``kind``. Bytes that are not UTF-8 are read as Latin-1.

    Texts that are longer than any class are missing. Each cell is decoded by itself: no cell
    decides how another one is read.
    """
    raw = column.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    raw = pc.if_else(pc.greater(pc.binary_length(raw), LONGEST_TEXT), None, raw)
    try:
        return raw.cast(kind)
    except pa.ArrowInvalid:
        coded = raw.dictionary_encode()
        texts = pa.array([_decode(cell) for cell in coded.dictionary.to_pylist()], kind)
        return texts.take(coded.indices)


def _decode(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell.decode("cp1252", errors="replace")


def value_codes(column: pa.Array, values: Sequence[Any]) -> np.ndarray:
    """Return the position of each cell in ``values``: -1 for a missing cell, -2 for another value.

    Cells and values are compared by their canonical spelling, so that nothing depends on the type
    that a reader gave the column.
    """
    spell: Callable[[object], str] = canonical_class
    if len(set(map(spell, values))) < len(values):  # such as the texts "1" and "1.0"
        spell = str
    code_of = {spell(value): code for code, value in enumerate(values)}
    are_integers = spell is canonical_class and all(_WHOLE.fullmatch(name) for name in code_of)
    if _is_number(column.type) and are_integers and not column.null_count:
        return _number_codes(column.to_numpy(), [int(name) for name in code_of])
    coded = column if pa.types.is_dictionary(column.type) else _encode(column)
    cells = _cells(coded.dictionary)
    cell_codes = [-1 if cell is None else code_of.get(spell(cell), -2) for cell in cells]
    picked = pc.fill_null(coded.indices.cast(pa.int64()), len(cell_codes))
    table: np.ndarray = np.array([*cell_codes, -1], dtype=np.int64)
    codes: np.ndarray = table[picked.to_numpy(zero_copy_only=False)]
    return codes


def _encode(column: pa.Array) -> pa.DictionaryArray:
    try:
        return pc.dictionary_encode(column)
    except pa.ArrowNotImplementedError:  # a matter of the type alone
        raise TableError(
            f"A column of type {column.type} cannot hold labels or categories. Convert it to texts"
            " or numbers."
        ) from None


def _cells(column: pa.Array) -> list[Any]:
    """Return the cells as Python values, None for those that are none: no UTF-8, a far date."""
    try:
        cells: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_cell(scalar) for scalar in column]
    return cells


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None


def _class_list(classes: Classes) -> str:
    return ", ".join(map(str, classes))


def _one_dimensional(labels: Any) -> np.ndarray:
    values = np.asarray(labels)
    if values.ndim != 1:
        raise TableError("Labels must be one column, with one label for each row.")
    return values


def _number_codes(values: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Return the position of each value in ``numbers``, -2 for none; 1, 1.0 and True are equal."""
    if len(numbers) <= _FEW_CLASSES:
        codes = np.full(len(values), -2, dtype=np.int8)
        for code, number in enumerate(numbers):  # no value is two numbers: one term is not zero
            codes += (values == number).view(np.int8) * np.int8(code + 2)
        return codes.astype(np.int64)
    order = np.argsort(np.array(numbers, dtype=np.int64))
    ranked = np.array(numbers, dtype=np.int64)[order]
    nearest = np.minimum(np.searchsorted(ranked, values), len(ranked) - 1)
    return np.where(ranked[nearest] == values, order[nearest], -2)


def label_array(labels: Any) -> pa.Array:
    """Return labels that were given apart, in any form, as one Arrow column."""
    if isinstance(labels, pa.ChunkedArray):
        chunks = [plain_texts(chunk) for chunk in labels.chunks]
        return pa.chunked_array(chunks, plain_type(labels.type)).combine_chunks()
    values = labels if isinstance(labels, list | tuple) else _one_dimensional(labels)
    try:
        column = pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        column = pa.nulls(0)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_number(kind) or pa.types.is_boolean(kind) or _is_text(kind)):
        return pa.array(label_texts(values), pa.string())
    return column


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in texts)
