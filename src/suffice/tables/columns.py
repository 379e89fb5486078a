"""Columns by role and type, and how their cells become numbers, texts and codes of classes.

Labels are codes of a declared list of classes, which is never read off the labels.

Columns of any library are read in the few Arrow types that the rest of the package knows. Views and
packed forms become plain texts and numbers, decimals the nearest float. Which type a column gets
depends on the type that it had, never on a cell.

Private numbers: every cell becomes one by itself, and a cell that is none is missing. Neither an
error nor the type of a column depends on such a cell, in any form of table.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import ParameterError, TableError
from suffice.kernels.sums import find_numbers
from suffice.options import TEMPORAL_UNITS
from suffice.strict_json import LARGEST_INTEGER

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
    >>> from suffice.tables.columns import check_classes
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
    >>> from suffice.tables.columns import canonical_class
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
        listed = ", ".join(map(str, classes))
        super().__init__(
            f"{strange:,} of {rows:,} labels are missing or not in the class list ({listed})."
            " Correct these cells (upper and lower case count), or list all classes with --classes"
            f" (Python: classes=...).{advice}"
        )
        self.strange, self.rows, self.classes = strange, rows, classes

    def __reduce__(self) -> tuple[Any, ...]:  # it comes back from other processes
        return type(self), (self.strange, self.rows, self.classes)


def missing_labels(labels: Any) -> np.ndarray:
    """Return for each label whether it is missing: no value, or only blanks."""
    column = labels if isinstance(labels, pa.Array) else label_array(labels)
    cells, positions = _distinct(column)
    gone = [cell is None or cell != cell or not str(cell).strip() for cell in cells]  # noqa: PLR0124
    missing: np.ndarray = np.array(gone)[positions]
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
    cells, positions = _distinct(column)
    cell_codes = [-1 if cell is None else code_of.get(spell(cell), -2) for cell in cells]
    codes: np.ndarray = np.array(cell_codes, dtype=np.int64)[positions]
    return codes


def person_codes(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit code for the id in each cell, and which cells hold an id.

    Ids are compared by their one spelling (`canonical_class`): 1, 1.0, "1" and "001" are one
    person. A whole number is its own code. Other texts that share a code, by chance, would count
    as one person: that protects them no less (proofs/person.md).
    """
    if pa.types.is_integer(column.type):
        held = pc.is_valid(column).to_numpy(zero_copy_only=False)
        return pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64), held
    cells, positions = _distinct(column)
    codes, held = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=bool)
    for place, cell in enumerate(cells):
        name = "" if cell is None else canonical_class(cell)
        held[place] = name not in {"", "nan"}  # NaN is no id, and no name of a person
        whole, _, zeros = name.partition(".")
        if whole.isdecimal() and not zeros.strip("0"):  # also of more digits than a class has
            name = whole
        word = hashlib.sha256(name.encode(errors="replace")).digest()[:8]
        short = name.isdecimal() and len(name) < 19  # 10^18 has 60 bits
        codes[place] = int(name) if short else int.from_bytes(word, "little", signed=True)
    return codes[positions], held[positions]


def _distinct(column: pa.Array) -> tuple[list[Any], np.ndarray]:
    """Return the different cells as Python values, and for each cell the position of its value.

    None is the value of a missing cell, and of what is none in Python: no UTF-8, a far date.
    """
    try:
        coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    except pa.ArrowNotImplementedError:  # a matter of the type alone
        raise TableError(
            f"A column of type {column.type} cannot hold labels or categories. Convert it to texts"
            " or numbers."
        ) from None
    try:
        cells: list[Any] = coded.dictionary.to_pylist()
    except (ValueError, OverflowError):
        cells = [_cell(scalar) for scalar in coded.dictionary]
    positions = pc.fill_null(coded.indices.cast(pa.int64()), len(cells))
    return [*cells, None], positions.to_numpy(zero_copy_only=False)


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None


def _number_codes(values: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Return the position of each value in ``numbers``, -2 for none; 1, 1.0 and True are equal."""
    if len(numbers) <= _FEW_CLASSES:
        codes = np.full(len(values), -2, dtype=np.int8)
        for code, number in enumerate(numbers):  # no value is two numbers: one term is not zero
            # As float64 or int64: in float32 labels, a large number would be the one beside it.
            codes += (values == np.int64(number)).view(np.int8) * np.int8(code + 2)
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
    values = labels if isinstance(labels, list | tuple) else np.asarray(labels)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise TableError("Labels must be one column, with one label for each row.")
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
    person: str | None = None,
) -> Roles:
    """Return the roles of a table's columns; every name must exist once and have one role."""
    names = list(schema.names)
    special = [name for name in (label, bag, party, person) if name is not None]
    chosen = list(features) if features is not None else feature_names(schema, special)
    for name in [*special, *chosen]:
        if names.count(name) != 1:
            trouble = "has no column" if name not in names else "has more than one column"
            found = ", ".join(map(repr, names[:8]))
            found += f" and {len(names) - 8} more" if len(names) > 8 else ""
            if any(other.strip().lstrip("+-").isdigit() for other in names):  # cells of a row?
                found = (
                    f"{len(names)} columns, and some of their names are numbers. Check that the"
                    " first line names the columns"
                )
            raise TableError(f"The table {trouble} {name!r}. It has {found}.")
    if set(special) & set(chosen) or len(set(special)) < len(special):
        both = next((n for n in special if n in chosen), special[0])
        raise TableError(
            f"Column {both!r} has two roles, but label, bag, party and person cannot be features."
            " Remove it from --features, or name another column."
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

    Dates, times and durations are counted in days (`temporal_unit`): the same instant is the same
    number, whatever unit the column has.
    """
    kind = column.type
    if temporal_unit(kind):
        unit = "ms" if pa.types.is_date64(kind) else getattr(kind, "unit", "")
        narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        ticks = (column.cast(pa.int32()) if narrow else column).cast(pa.int64())
        count = pc.fill_null(ticks, 0).to_numpy(zero_copy_only=False)
        # Whole days and the rest apart: nanoseconds since 1970 are more than a float can hold.
        a_day = 1 if pa.types.is_date32(kind) else 86_400 * _TICKS[unit]
        days = count // a_day + (count % a_day) / a_day
        return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), np.nan, days)
    if column.null_count:
        column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), float("nan"))
    elif pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    values: np.ndarray = column.to_numpy()
    return values


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


def check_one_type(stored: pa.Schema, schema: pa.Schema, private: Collection[str]) -> None:
    """Raise if a file stores a private column in another type than the first file of its table.

    Arrow would convert the cells, and a private cell could make that fail. Types are public.
    """
    for name in sorted({*stored.names} & {*private}):
        kind, first = stored.field(name).type, schema.field(name).type
        are_texts = _is_text(plain_type(kind)) and _is_text(plain_type(first))
        if kind != first and not are_texts and not pa.types.is_null(kind):
            raise TableError(
                f"The files store column {name!r} in two types, {first} and {kind}. Store a private"
                " column in one type."
            )


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
