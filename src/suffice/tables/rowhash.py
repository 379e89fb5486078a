"""The hash that names a set of rows: over values of named columns, never over file bytes.

The same values give the same hash whether they came as float32 or float64, from CSV or Parquet, in
this order or another. Integers beyond 2^53 count as the float that they are summed as. It notices
accidents: other rows, other columns, a changed cell, a row too many. It is no defence against
somebody who crafts rows on purpose (see docs/known-holes.md).
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import TableError
from suffice.kernels import cells
from suffice.tables.columns import is_categorical, numeric_columns
from suffice.tables.table import Table, check_order

_MISSING_TEXT = 0x6D697373696E6721


class RowLanes:
    """Computes two 64-bit lanes per row from the values of named columns; it keeps no row."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._texts = [name for name in names if is_categorical(schema.field(name).type)]
        self._numbers = [name for name in names if name not in self._texts]
        self._keys = {}
        for name in names:  # four public 32-bit constants that depend on the column's name alone
            stream = hashlib.shake_256(b"suffice row hash 1\0" + name.encode()).digest(16)
            self._keys[name] = np.frombuffer(stream, dtype="<u4").astype(np.uint64)
        self._number_keys = np.array([self._keys[n] for n in self._numbers], dtype=np.uint64)

    def of(self, batch: pa.RecordBatch, numbers: np.ndarray | None = None) -> np.ndarray:
        """Return the lanes (2, rows) of a batch.

        ``numbers`` are its numeric columns in the order of the names, if the caller has them
        already.
        """
        lanes = np.zeros((2, batch.num_rows), dtype=np.uint64)
        if self._numbers:
            columns = numeric_columns(batch, self._numbers) if numbers is None else numbers
            cells.add_numbers(columns, self._number_keys, lanes)
        for name in self._texts:
            column = batch.column(name)
            coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            words = [  # the first 8 bytes of each text's SHA-256, every distinct text once
                int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:8], "little")
                if value is not None
                else _MISSING_TEXT
                for value in [*coded.dictionary.to_pylist(), None]
            ]
            codes = pc.fill_null(coded.indices.cast(pa.int64()), len(words) - 1)
            picked = np.array(words, dtype=np.uint64)[codes.to_numpy(zero_copy_only=False)]
            cells.add_words(picked, self._keys[name], lanes)
        return lanes


class RowDigest:
    """Computes the hash of rows, order-free or ``ordered``; an accumulator over lanes.

    A statistic that sums rows has no order; one that says something about each row has. Of rows in
    order the bytes are held until they are merged into those before, or `lead` says that they come
    first: a state of SHA-256 cannot be appended.
    """

    def __init__(self, names: Sequence[str], *, ordered: bool = False) -> None:
        self._names = sorted(names)
        self._sums = np.zeros(2, dtype=np.uint64)
        self._ordered = ordered
        self._waiting: list[bytes] = []
        self._leading: Any = None  # SHA-256 of the rows that come first
        self.count = 0

    def lead(self) -> None:
        """Say that no rows come before these: from now on none of their bytes is held."""
        if self._ordered:
            self._leading, self._waiting = self._hash_state(), []

    def update(self, lanes: np.ndarray) -> None:
        """Take in the lanes of a batch of rows."""
        cells.fold_lanes(lanes, self._sums)
        if self._ordered:
            self._append(np.ascontiguousarray(lanes.T).tobytes())
        self.count += lanes.shape[1]

    def merge(self, other: "RowDigest") -> None:
        """Take in everything that ``other`` has seen; of rows in order, those that follow."""
        if other._leading is not None:
            raise TableError(
                "These rows come first and cannot follow others. Merge parts in the order of the"
                " table."
            )
        for data in other._waiting:
            self._append(data)
        self._sums += other._sums
        self.count += other.count

    def _append(self, data: bytes) -> None:
        if self._leading is None:
            self._waiting.append(data)
        else:
            self._leading.update(data)

    def _hash_state(self) -> Any:
        """Return the state of SHA-256 after all rows so far."""
        if self._leading is not None:
            return self._leading.copy()
        state = hashlib.sha256(b"rows in order\0")
        for data in self._waiting:
            state.update(data)
        return state

    def result(self) -> str:
        """Return ``sha256:...`` over the sorted column names, the row count and the rows."""
        if not self._ordered:
            return self.unordered()
        return self._hash_with_names(self._hash_state().digest())

    def unordered(self) -> str:
        """Return the hash that the same rows have in any order."""
        return self._hash_with_names(self._sums.tobytes())

    def _hash_with_names(self, body: bytes) -> str:
        head = json.dumps([self._names, self.count], ensure_ascii=True).encode()
        return "sha256:" + hashlib.sha256(head + b"\0" + body).hexdigest()


def hash_rows(table: Table, names: Sequence[str], *, ordered: bool = False) -> RowDigest:
    """Return the hash of these columns of a table, read in one pass."""
    if ordered:
        check_order(table, "their hash depends on it")
    lanes, digest = RowLanes(table.schema, names), RowDigest(names, ordered=ordered)
    for batch in table.batches(names):
        digest.update(lanes.of(batch))
    return digest
