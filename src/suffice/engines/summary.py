"""What one pass over public rows yields: moments, categories, a sample, and the rows' name.

All of it is a function of the set of rows: no order, split, batch or file format changes a bit.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.engines.moments import ColumnMoments
from suffice.engines.sample import RowSample, Sample
from suffice.errors import TableError
from suffice.kernels import digests
from suffice.tables.columns import is_categorical, numeric_columns
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["PublicSummary", "Summary"]

_MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Summary:
    """Public facts about public rows; ``mean`` and ``deviation`` belong to the numeric columns.

    ``rows_hash`` names the rows in any order (`RowDigest.unordered`).
    """

    rows: int
    rows_hash: str
    mean: dict[str, float]
    deviation: dict[str, float]
    counts: dict[str, Counter[Any]]
    missing: dict[str, int]
    sample: Sample


class PublicSummary:
    """Computes a `Summary` in one pass; an accumulator over record batches.

    ``declared`` names columns of numbers that are categories all the same.
    """

    def __init__(self, schema: pa.Schema, declared: frozenset[str] = frozenset()) -> None:
        self._declared = declared
        self._coded = [n for n in schema.names if _is_coded(schema, n, declared)]
        self._numeric = [n for n in schema.names if n not in self._coded]
        self._moments = ColumnMoments(len(self._numeric))
        self._values: dict[str, Counter[Any]] = {name: Counter() for name in self._coded}
        self._lanes = RowLanes(schema, schema.names)
        self._digest = RowDigest(schema.names)
        self._sample = RowSample(schema)

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in one batch that has every column of the schema."""
        if not batch.num_rows:
            return
        columns = numeric_columns(batch, self._numeric)
        self._moments.update(columns)
        self._count_categories(batch)
        lanes = self._lanes.of(batch, None if self._coded else columns)
        self._digest.update(lanes)
        keys = np.empty(batch.num_rows, dtype=np.uint64)
        digests.row_keys(lanes, keys)
        self._sample.update(batch, keys)

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

    def merge(self, other: "PublicSummary") -> None:
        """Take in everything that ``other`` has seen."""
        self._moments.merge(other._moments)
        for name, counter in other._values.items():
            self._values[name].update(counter)
        self._digest.merge(other._digest)
        self._sample.merge(other._sample)
        self._check_categories()

    def result(self) -> Summary:
        """Return the summary; an empty table is an error."""
        rows = self._digest.count
        if rows == 0:
            raise TableError("the table has no rows.")
        moments = self._moments.result()
        if moments.wrong.any():
            bad = self._numeric[int(np.flatnonzero(moments.wrong)[0])]
            raise TableError(f"column {bad!r} holds infinite or enormous values; mend or drop it.")
        missing = dict(zip(self._numeric, (rows - moments.count).tolist(), strict=True))
        missing |= {name: values.get(None, 0) for name, values in self._values.items()}
        return Summary(
            rows=rows,
            rows_hash=self._digest.unordered(),
            mean=dict(zip(self._numeric, moments.mean.tolist(), strict=True)),
            deviation=dict(zip(self._numeric, moments.deviation.tolist(), strict=True)),
            counts=self._values,
            missing=missing,
            sample=self._sample.result(),
        )


def _is_coded(schema: pa.Schema, name: str, declared: frozenset[str]) -> bool:
    return name in declared or is_categorical(schema.field(name).type)
