"""A sample of public rows that no order, split or batch changes: those of smallest row hash."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

__all__ = ["RowSample", "Sample"]

_MOST_ROWS = 20_000
_LEAST_ROWS = 1_000
_MOST_CELLS = 1 << 23


@dataclass(frozen=True, eq=False)
class Sample:
    """Different rows in the order of their hashes; ``weights`` say how often each occurs."""

    rows: pa.RecordBatch
    weights: np.ndarray


class RowSample:
    """Keeps the different rows of smallest key, each with its count; an accumulator.

    They are 20,000, or fewer where there are more than 400 columns, to bound the memory.
    A row that is among them in the end was among them at every step, so that its count is whole.
    Keys come from the row hash: whoever crafts rows can decide which are kept, and harms accuracy
    alone (docs/known-holes.md). It keeps rows, and so is for public ones.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._most = max(_LEAST_ROWS, min(_MOST_ROWS, _MOST_CELLS // len(schema.names)))
        self._limit = np.iinfo(np.uint64).max
        self._keys = np.empty(0, dtype=np.uint64)
        self._weights = np.empty(0, dtype=np.int64)
        self._rows: list[pa.RecordBatch] = []

    def update(self, batch: pa.RecordBatch, keys: np.ndarray) -> None:
        """Take in rows and their keys."""
        near = np.flatnonzero(keys <= self._limit)
        if not len(near):
            return
        different, first, weights = np.unique(keys[near], return_index=True, return_counts=True)
        self._add(different, weights, [batch.take(pa.array(near[first]))])

    def merge(self, other: "RowSample") -> None:
        """Take in everything that ``other`` has seen."""
        self._add(other._keys, other._weights, other._rows)

    def _add(self, keys: np.ndarray, weights: np.ndarray, rows: list[pa.RecordBatch]) -> None:
        self._keys = np.concatenate([self._keys, keys])
        self._weights = np.concatenate([self._weights, weights])
        self._rows += rows
        if len(self._keys) > 2 * self._most:
            self._thin()

    def _thin(self) -> None:
        """Join equal rows, put them in order, and let go of all but the first ones."""
        keys, first, place = np.unique(self._keys, return_index=True, return_inverse=True)
        weights = np.zeros(len(keys), dtype=np.int64)
        np.add.at(weights, place, self._weights)
        kept = pa.Table.from_batches(self._rows, schema=self._schema).combine_chunks()
        self._rows = kept.take(pa.array(first[: self._most])).combine_chunks().to_batches()
        self._keys, self._weights = keys[: self._most], weights[: self._most]
        if len(self._keys) == self._most:
            self._limit = self._keys[-1]

    def result(self) -> Sample:
        """Return the sample."""
        self._thin()
        return Sample(self._rows[0], self._weights.copy())
