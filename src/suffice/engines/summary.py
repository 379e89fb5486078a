"""What one pass over public rows yields: moments, categories and a sample."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import TableError
from suffice.kernels import mapping as kernel
from suffice.tables.columns import is_categorical, numeric_columns
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["PublicSummary", "Summary"]

_SAMPLE_ROWS = 20_000
_MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Summary:
    """Public facts about public rows; ``mean`` and ``deviation`` belong to the numeric columns.

    ``rows_hash`` names the rows, in any order.
    """

    rows: int
    mean: dict[str, float]
    deviation: dict[str, float]
    counts: dict[str, Counter[Any]]
    missing: dict[str, int]
    sample: pa.Table
    rows_hash: str


class PublicSummary:
    """Computes a `Summary` in one pass; an accumulator over record batches.

    The sample is every 2^k-th row of what was seen, k as small as the sample's size allows.
    """

    def __init__(self, schema: pa.Schema, categorical: frozenset[str] = frozenset()) -> None:
        self._declared = categorical
        self._coded = [n for n in schema.names if _is_coded(schema, n, categorical)]
        self._numeric = [n for n in schema.names if n not in self._coded]
        width = len(self._numeric)
        self._shift = np.zeros(width)
        self._counts = np.zeros(width, dtype=np.int64)
        self._sums = np.zeros(width)
        self._squares = np.zeros(width)
        self._values: dict[str, Counter[Any]] = {name: Counter() for name in self._coded}
        self._rows = 0
        self._lanes, self._digest = RowLanes(schema, schema.names), RowDigest(schema.names)
        self._sample: list[pa.RecordBatch] = []
        self._stride = 1

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in one batch that has every column of the schema."""
        if not batch.num_rows:
            return
        columns = numeric_columns(batch, self._numeric)
        self._choose_shift(columns)
        kernel.add_moments(columns, self._shift, self._counts, self._sums, self._squares)
        self._count_categories(batch)
        self._keep_sample(batch)
        self._digest.update(self._lanes.of(batch))
        self._rows += batch.num_rows

    def _choose_shift(self, columns: np.ndarray) -> None:
        """Take the first number of a column as its origin, as soon as there is one."""
        for j in np.flatnonzero(self._counts == 0):
            seen = columns[j][np.isfinite(columns[j])]
            self._shift[j] = seen[0] if len(seen) else 0.0

    def _count_categories(self, batch: pa.RecordBatch) -> None:
        for name in self._coded:
            for item in pc.value_counts(batch.column(name)).to_pylist():
                self._values[name][item["values"]] += item["counts"]
        self._check_categories()

    def _check_categories(self) -> None:
        for name in set(self._coded) - self._declared:
            if len(self._values[name]) > _MOST_CATEGORIES:
                raise TableError(
                    f"column {name!r} has more than {_MOST_CATEGORIES} different values and looks"
                    " like a name, not a category; drop it or declare its categories."
                )

    def _keep_sample(self, batch: pa.RecordBatch) -> None:
        start = -self._rows % self._stride
        if start < batch.num_rows:
            self._sample.append(
                batch.take(pa.array(np.arange(start, batch.num_rows, self._stride)))
            )
        self._thin_sample()

    def _thin_sample(self) -> None:
        while sum(part.num_rows for part in self._sample) > _SAMPLE_ROWS:
            self._sample, self._stride = self._every(2, self._sample), 2 * self._stride

    @staticmethod
    def _every(step: int, parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if step == 1 or not parts:
            return parts
        kept = pa.Table.from_batches(parts).combine_chunks()
        return kept.take(pa.array(np.arange(0, kept.num_rows, step))).to_batches()

    def merge(self, other: "PublicSummary") -> None:
        """Take in everything that ``other`` has seen; moments move to this one's origin first."""
        self._shift = np.where(self._counts == 0, other._shift, self._shift)
        move = np.where(other._counts == 0, 0.0, other._shift - self._shift)
        self._squares += other._squares + move * (2 * other._sums + other._counts * move)
        self._sums += other._sums + other._counts * move
        self._counts += other._counts
        for name, counter in other._values.items():
            self._values[name].update(counter)
        self._rows += other._rows
        self._digest.merge(other._digest)
        stride = max(self._stride, other._stride)
        thinned = [self._every(stride // s._stride, s._sample) for s in (self, other)]
        self._sample, self._stride = thinned[0] + thinned[1], stride
        self._thin_sample()
        self._check_categories()

    def result(self) -> Summary:
        """Return the summary; an empty table is an error."""
        rows = self._rows
        if rows == 0:
            raise TableError("the table has no rows.")
        if not (np.isfinite(self._sums).all() and np.isfinite(self._squares).all()):
            bad = self._numeric[int(np.argmin(np.isfinite(self._squares)))]
            raise TableError(f"column {bad!r} holds infinite or enormous values; mend or drop it.")
        seen = np.maximum(self._counts, 1)
        centred = self._sums / seen
        spread = np.sqrt(np.maximum(self._squares / seen - centred**2, 0.0))
        missing = dict(zip(self._numeric, (rows - self._counts).tolist(), strict=True))
        missing |= {name: values.get(None, 0) for name, values in self._values.items()}
        return Summary(
            rows=rows,
            mean=dict(zip(self._numeric, (centred + self._shift).tolist(), strict=True)),
            deviation=dict(zip(self._numeric, spread.tolist(), strict=True)),
            counts=self._values,
            missing=missing,
            sample=pa.Table.from_batches(self._sample, schema=self._sample[0].schema),
            rows_hash=self._digest.unordered(),
        )


def _is_coded(schema: pa.Schema, name: str, declared: frozenset[str]) -> bool:
    return name in declared or is_categorical(schema.field(name).type)
