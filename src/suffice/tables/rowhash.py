"""The name of a set of rows: a hash over the values of named columns, never over file bytes.

The same values give the same hash whether they came as float32 or float64, from CSV or Parquet, in
this order or another. It notices accidents: other rows, other columns, a changed cell, a row too
many. It is no defence against somebody who crafts rows on purpose (see docs/known-holes.md).
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.kernels import digests
from suffice.tables.columns import is_categorical, numbers
from suffice.tables.sources import Table

__all__ = ["RowDigest", "hash_rows", "number_words", "row_words"]

_MISSING_TEXT = 0x6D697373696E6721
_NAN = np.float64("nan").view(np.uint64)


class RowDigest:
    """Computes the order-free hash of rows; an accumulator over blocks of 64-bit words."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted(names)
        self._keys = np.array([_column_key(name) for name in names], dtype=np.uint64)
        self._sums = np.zeros(2, dtype=np.uint64)
        self.count = 0

    def update(self, words: np.ndarray) -> None:
        """Take in a block of words with one column per name, in the order they were given."""
        lanes = np.zeros((2, len(words)), dtype=np.uint64)
        digests.add_to_lanes(words, self._keys, lanes)
        digests.fold_lanes(lanes, self._sums)
        self.count += len(words)

    def merge(self, other: "RowDigest") -> None:
        """Take in everything that ``other`` has seen."""
        self._sums += other._sums
        self.count += other.count

    def result(self) -> str:
        """Return ``sha256:...`` over the sorted column names, the row count and the sums."""
        head = json.dumps([self._names, self.count], ensure_ascii=True).encode()
        return "sha256:" + hashlib.sha256(head + b"\0" + self._sums.tobytes()).hexdigest()


def _column_key(name: str) -> list[int]:
    """Return four public 32-bit constants that depend on the column's name alone."""
    stream = hashlib.shake_256(b"suffice row hash 1\0" + name.encode()).digest(16)
    return [int.from_bytes(stream[i : i + 4], "little") for i in range(0, 16, 4)]


def hash_rows(table: Table, names: Sequence[str]) -> str:
    """Return the hash of all rows of ``table``, over the columns ``names``."""
    digest = RowDigest(names)
    for batch in table.batches(names):
        digest.update(row_words(batch, names))
    return digest.result()


def row_words(batch: pa.RecordBatch, names: Sequence[str]) -> np.ndarray:
    """Return one 64-bit word per cell: the bits of a number, or a digest of a text."""
    words = np.empty((batch.num_rows, len(names)), dtype=np.uint64, order="F")
    for j, name in enumerate(names):
        column = batch.column(name)
        if is_categorical(column.type):
            words[:, j] = _text_words(column)
        else:
            numbers(column, words[:, j].view(np.float64))
            words[:, j] = number_words(words[:, j].view(np.float64))
    return words


def number_words(block: np.ndarray) -> np.ndarray:
    """Return the bits of float64 numbers, every NaN as the same word."""
    words = block.view(np.uint64)
    missing = np.isnan(block)
    return np.where(missing, _NAN, words) if missing.any() else words


def _text_words(column: pa.Array) -> np.ndarray:
    """Return the first 8 bytes of each text's SHA-256, hashing every distinct text once."""
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    table = [
        int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:8], "little")
        for value in coded.dictionary.to_pylist()
    ]
    codes = pc.fill_null(coded.indices.cast(pa.int64()), len(table))
    words = np.array([*table, _MISSING_TEXT], dtype=np.uint64)
    return words[codes.to_numpy(zero_copy_only=False)]
