"""Bags: which sets each row is in, and the hash of rows together with their sets.

Bags come as the name of a column, as several columns (a tuple of names), as an array with one bag
per row, or as index sets (a mapping from name to row numbers, or a list of them). With the last and
with several columns a row can be in more than one set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError, TableError
from suffice.tables.columns import category_codes, is_integer, resolve_roles
from suffice.tables.sources import row_count
from suffice.tables.table import RowDigest, RowLanes, Table, check_order

BagNames = tuple[Any, ...]
_HASHED_AS = "(bag)"  # one name for all, since an array of bags has none of its own


@dataclass(frozen=True, eq=False)
class Bags:
    """The bags of n rows.

    Parameters
    ----------
    names : tuple
        The names of the bags, texts or integers.
    codes : ndarray
        For each row the positions of its bags in ``names``, shape (n, r). -1 stands for no further
        bag.
    """

    names: BagNames
    codes: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows in each set."""
        inside = self.codes[self.codes >= 0]
        return np.bincount(inside, minlength=len(self.names))

    @property
    def overlap(self) -> int:
        """The largest number of sets that one row is in."""
        return int((self.codes >= 0).sum(axis=1).max(initial=0))


class BagDigest:
    """Computes the order-free hash of rows with their sets: one line per row and set that it is in.

    An accumulator over batches; ``count`` is the number of lines.
    """

    def __init__(self, schema: pa.Schema, features: Sequence[str], names: BagNames) -> None:
        self._lanes = RowLanes(schema, features)
        self._digest = RowDigest([*features, _HASHED_AS])
        self._rows = RowDigest(features)
        spelled = pa.record_batch({_HASHED_AS: [str(name) for name in names]})
        self._sets = RowLanes(spelled.schema, [_HASHED_AS]).of(spelled)

    def update(self, batch: pa.RecordBatch, codes: np.ndarray) -> None:
        """Take in rows and the codes (rows, r) of their sets."""
        lanes = self._lanes.of(batch)
        self._rows.update(lanes)
        for column in codes.T:
            inside = column >= 0
            self._digest.update(lanes[:, inside] + self._sets[:, column[inside]])

    def merge(self, other: "BagDigest") -> None:
        """Take in everything that ``other`` has seen."""
        self._digest.merge(other._digest)
        self._rows.merge(other._rows)

    @property
    def count(self) -> int:
        """The number of lines so far."""
        return self._digest.count

    def unordered(self) -> str:
        """Return the hash of the rows alone, each of them once, in any order."""
        return self._rows.unordered()

    def result(self) -> str:
        """Return ``sha256:...`` of all lines."""
        return self._digest.result()


def check_bag_names(names: Sequence[Any]) -> BagNames:
    """Return the names of sets as plain values: all texts or all integers, and different."""
    values = tuple(n.item() if isinstance(n, np.generic) else n for n in names)
    are_texts = all(isinstance(n, str) and n for n in values)
    are_integers = all(is_integer(n) and not isinstance(n, bool) for n in values)
    if not values or not (are_texts or are_integers):
        raise ParameterError("Names of bags must be all texts (none empty) or all integers.")
    if len(set(values)) < len(values):
        raise ParameterError("Two bags have the same name. Give each bag a name of its own.")
    return values


def bag_columns(bags: Any) -> tuple[str, ...]:
    """Return the columns that ``bags`` names: none for an array or for index sets."""
    if isinstance(bags, str):
        return (bags,)
    texts = isinstance(bags, tuple) and len(bags) > 0 and all(isinstance(b, str) for b in bags)
    return bags if texts else ()


def read_bags(table: Table, bags: Any, names: Sequence[Any] | None = None) -> Bags:
    """Return the sets of the rows of ``table``; every one must have rows.

    ``names`` declares the sets and their order; unless given they are all that occur, sorted (or
    the order of index sets). Sets of several columns are named COLUMN=NAME.
    """
    check_order(table, "bags belong to rows by their order")
    declared = None if names is None else check_bag_names(names)
    columns = bag_columns(bags)
    sequences = (list, tuple, range, np.ndarray)
    are_index_sets = isinstance(bags, Mapping) or (
        isinstance(bags, list)
        and bool(bags)
        and all(isinstance(item, sequences) and np.ndim(item) == 1 for item in bags)
    )
    if columns:
        row_bags = _bags_from_columns(table, columns, declared)
    elif are_index_sets:
        row_bags = _bags_from_index_sets(bags, row_count(table), declared)
    else:
        row_bags = _bags_from_array(_as_arrow(bags), declared)
        if len(row_bags.codes) != (rows := row_count(table)):
            raise TableError(
                f"There are {rows} rows but {len(row_bags.codes)} bags. Give one bag for each row."
            )
    empty = [name for name, size in zip(row_bags.names, row_bags.sizes, strict=True) if not size]
    if empty:
        raise TableError(
            f"{len(empty)} of {len(row_bags.names)} bags have no rows, for example {empty[0]!r}."
            " Leave them out."
        )
    return row_bags


def _bags_from_columns(table: Table, columns: tuple[str, ...], declared: BagNames | None) -> Bags:
    resolve_roles(table.schema, features=columns)
    chunks_by_column: list[list[pa.Array]] = [[] for _ in columns]
    for batch in table.batches(columns):
        for chunks, column in zip(chunks_by_column, batch.columns, strict=True):
            chunks.append(_as_texts_or_integers(column))
    if not chunks_by_column[0]:
        raise TableError("The table has no rows. Use a table with at least one row.")
    arrays = [pa.concat_arrays(chunks) for chunks in chunks_by_column]
    if len(arrays) == 1:
        return _bags_from_array(arrays[0], declared)
    parts = [_bags_from_array(column, None) for column in arrays]
    shifts = np.cumsum([0, *(len(part.names) for part in parts[:-1])])
    column_bags = zip(columns, parts, strict=True)
    joined = check_bag_names([f"{column}={n}" for column, part in column_bags for n in part.names])
    codes = np.hstack([part.codes + shift for part, shift in zip(parts, shifts, strict=True)])
    codes = codes.astype(np.int32)
    if declared is None:
        return Bags(joined, codes)
    positions = {name: position for position, name in enumerate(declared)}
    strange = sum(name not in positions for name in joined)
    if strange:
        raise TableError(
            f"{strange} bags are not in the list of bag names. List all names; those of several"
            " columns are written COLUMN=NAME."
        )
    moved = np.array([positions[name] for name in joined], dtype=np.int32)
    return Bags(declared, moved[codes])


def _as_texts_or_integers(column: pa.Array) -> pa.Array:
    """Return a column of texts or integers without dictionaries; whole floats are integers."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string())
    try:
        return column.cast(pa.int64())
    except pa.ArrowException:
        raise TableError(
            "Bags must be texts or whole numbers, and no row may lack one. Fill in or convert the"
            " column."
        ) from None


def _as_arrow(bags: Any) -> pa.Array:
    try:
        values = bags if isinstance(bags, pa.Array | pa.ChunkedArray) else np.asarray(bags)
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise TableError("Bags must be one column, with one bag for each row.")
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError("Bags must be all texts or all whole numbers, one for each row.") from None
    return _as_texts_or_integers(array)


def _bags_from_array(column: pa.Array, declared: BagNames | None) -> Bags:
    if column.null_count:
        raise TableError(
            f"{column.null_count} rows are in no bag. Name a bag for them, or remove these rows."
        )
    names = declared
    if names is None:
        names = check_bag_names(sorted(column.unique().to_pylist()))
    codes = category_codes(column, names)
    outside = int(np.count_nonzero(codes < 0))
    if outside:
        raise TableError(
            f"{outside} rows are in bags that are not in the list of bag names. List all names."
        )
    return Bags(names, codes.astype(np.int32)[:, None])


def _bags_from_index_sets(bags: Any, rows: int, declared: BagNames | None) -> Bags:
    has_names = isinstance(bags, Mapping)
    names = declared if declared is not None else tuple(bags if has_names else range(len(bags)))
    if len(names) != len(bags) or (has_names and set(names) != set(bags)):
        raise ParameterError(
            "The list of bag names does not match the bags. Give one name for each bag."
        )
    sets = [_indices(bags[name] if has_names else bags[k], rows) for k, name in enumerate(names)]
    depth = np.zeros(rows, dtype=np.int64)
    for indices in sets:
        depth[indices] += 1
    codes = np.full((rows, max(1, int(depth.max(initial=0)))), -1, dtype=np.int32)
    filled = np.zeros(rows, dtype=np.int64)
    for code, indices in enumerate(sets):
        codes[indices, filled[indices]] = code
        filled[indices] += 1
    return Bags(check_bag_names(names), codes)


def _indices(row_numbers: Any, rows: int) -> np.ndarray:
    indices = np.asarray(row_numbers)
    if indices.size == 0:
        return np.empty(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ParameterError("A bag must be a list of row numbers.")
    if indices.min() < 0 or indices.max() >= rows:
        raise ParameterError(
            f"Row numbers of a bag must lie between 0 and {rows - 1}. Count rows from 0."
        )
    if len(np.unique(indices)) < len(indices):
        raise ParameterError("A bag lists a row twice. List each row once.")
    return indices.astype(np.int64)
