"""Fit a pipeline in one pass over public rows: moments, categories, a sample, the rows' hash.

All of it is a function of the set of rows: no order, split, batch or file format changes a bit.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import ParameterError, TableError
from suffice.kernels import sums as kernel
from suffice.kernels.maps import row_norms
from suffice.options import Missing, MissingRule
from suffice.tables.columns import (
    category_codes,
    is_categorical,
    numeric_columns,
    temporal_unit,
)
from suffice.tables.pipeline import MAPS, Column, Pipeline, fit_map, most_outputs, weighted_moments
from suffice.tables.table import RowDigest, RowLanes

MOST_CATEGORIES = 1000
_MOST_TEXTS = 1 << 18  # of a column whose rare texts are joined
_MOST_SAMPLE_ROWS = 20_000  # of the sample that clips, maps and quantiles are chosen on
_LEAST_SAMPLE_ROWS = 1_000
_MOST_SAMPLE_CELLS = 1 << 23  # 64 MB of float64
_HIGHEST_KEY = int(np.iinfo(np.uint64).max)
_SPARE = 2  # a guessed limit lets through so many times the rows that a sample needs


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of each column: ``mean`` and ``deviation`` of the values that are there.

    ``runs`` says of a column whether its spread is just that of the numbers 1, 2, ... in any order,
    from any start, none of them twice.
    """

    count: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    wrong: np.ndarray
    runs: np.ndarray


class ColumnMoments:
    """Computes mean and standard deviation of columns; an accumulator.

    The mean is rounded once, the deviation as a variance and as its root. Sums of values and of
    squares are exact, so that n S2 - S1^2 does not cancel and nothing depends on the order of rows.
    A value that is not finite, or too large to be squared, counts as ``wrong``.
    """

    def __init__(self, width: int) -> None:
        self._counts = np.zeros(width, dtype=np.int64)
        self._wrong = np.zeros(width, dtype=np.int64)
        self._sums = np.zeros((width, kernel.SUM_WORDS), dtype=np.int64)
        self._squares = np.zeros((width, kernel.SQUARE_WORDS), dtype=np.int64)

    def update(self, columns: np.ndarray) -> None:
        """Take in columns (width, rows); NaN is missing."""
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)

    def merge(self, other: "ColumnMoments") -> None:
        """Take in everything that ``other`` has seen."""
        self._counts += other._counts
        self._wrong += other._wrong
        self._sums += other._sums
        self._squares += other._squares

    def result(self) -> Moments:
        """Return the moments; of a column without values they are zero."""
        width = len(self._counts)
        mean, deviation, runs = np.zeros(width), np.zeros(width), np.zeros(width, dtype=bool)
        for j, count in enumerate(self._counts.tolist()):
            total, squares, size = (
                _integer(self._sums[j]),
                _integer(self._squares[j]),
                max(count, 1),
            )
            # In units of 2^-1074, and of its square: var = (n S2 - S1^2) / n^2.
            spread = count * squares - total * total
            mean[j] = float(Fraction(total, size << 1074))
            # Numbers in a row: n^2 var = n^2 (n^2 - 1) / 12.
            runs[j] = count > 1 and 12 * spread == (count * count * (count * count - 1)) << 2148
            if spread:
                variance = Fraction(spread, size * size << 2148)
                bits = variance.numerator.bit_length() - variance.denominator.bit_length()
                near = variance / Fraction(2) ** (2 * (bits // 2))  # a float holds its size well
                deviation[j] = math.ldexp(math.sqrt(float(near)), bits // 2)
        return Moments(self._counts.copy(), mean, deviation, self._wrong.copy(), runs)


def _integer(words: np.ndarray) -> int:
    """Return the integer of words of 32 bits, carries and all; the last word has the sign."""
    return sum(int(word) << (32 * k) for k, word in enumerate(words.tolist()))


@dataclass(frozen=True, eq=False)
class Sample:
    """Different rows in the order of their hashes; ``weights`` say how often each occurs."""

    rows: pa.RecordBatch
    weights: np.ndarray


@dataclass
class SampleLimit:
    """A key that no row of the final sample exceeds; parts that are read at a time share it.

    Each part lowers it to the last key of a full sample of its own rows. More rows only lower the
    last key of a sample, so that a row above the limit can be let go of anywhere: the limit saves
    work, and decides nothing. Two threads may lower it at once; the higher value is a limit too.
    """

    key: int = _HIGHEST_KEY

    @classmethod
    def guessed(cls, schema: pa.Schema, rows: int | None) -> "SampleLimit":
        """Return a limit under which a table of so many rows probably has enough different ones.

        Keys are even over 64 bits, so that a table of n different rows has p n of them under
        p 2^64. Workers of a cluster share no limit: without a guess each part would hold, and send
        to the driver, a sample of its own. Rows that repeat can prove the guess wrong
        (`RowSample.is_short`), so none is made where no column is of fractions.
        """
        fractions = any(pa.types.is_floating(kind) for kind in schema.types)
        if rows is None or not fractions:
            return cls()
        return cls(min(_HIGHEST_KEY, (_SPARE * _sample_size(schema) << 64) // max(rows, 1)))

    def lower(self, key: int) -> None:
        """Lower the limit, if this is lower."""
        self.key = min(self.key, key)


class RowSample:
    """Keeps the different rows of smallest key, each with its count; an accumulator.

    They are 20,000, or fewer where there are more than 400 columns, to bound the memory.
    A row that is among them in the end was among them at every step, so that its count is whole.
    Keys come from the row hash: whoever crafts rows can decide which are kept, and harms accuracy
    alone (docs/known-holes.md). It keeps rows, and so is for public ones.
    """

    def __init__(self, schema: pa.Schema, limit: SampleLimit | None = None) -> None:
        self._schema = schema
        self._limit = SampleLimit() if limit is None else limit
        self._most = _sample_size(schema)
        self._keys = np.empty(0, dtype=np.uint64)
        self._weights = np.empty(0, dtype=np.int64)
        self._rows: list[pa.RecordBatch] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return what crosses to another process: rows as one stream, with their dictionaries."""
        if self._rows:
            self._thin()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as stream:
            for batch in self._rows:
                stream.write_batch(batch)
        return self.__dict__ | {"_rows": sink.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read the rows of that stream."""
        self.__dict__.update(state, _rows=[*pa.ipc.open_stream(state["_rows"])])

    def update(self, batch: pa.RecordBatch, keys: np.ndarray) -> None:
        """Take in rows and their keys."""
        near = np.flatnonzero(keys <= np.uint64(self._limit.key))
        if not len(near):
            return
        different, first, weights = np.unique(keys[near], return_index=True, return_counts=True)
        few = slice(self._most)  # of one batch no more can be among them in the end
        if len(different) >= self._most:
            self._limit.lower(int(different[self._most - 1]))
        self._add(different[few], weights[few], [batch.take(pa.array(near[first[few]]))])

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
            self._limit.lower(int(self._keys[-1]))

    def is_short(self) -> bool:
        """Say whether a guessed limit was too low: a pass without one is needed then."""
        self._thin()
        return len(self._keys) < self._most and self._limit.key < _HIGHEST_KEY

    def result(self) -> Sample:
        """Return the sample."""
        self._thin()
        return Sample(self._rows[0], self._weights.copy())


def _sample_size(schema: pa.Schema) -> int:
    return max(_LEAST_SAMPLE_ROWS, min(_MOST_SAMPLE_ROWS, _MOST_SAMPLE_CELLS // len(schema.names)))


@dataclass(frozen=True)
class Summary:
    """Public facts about public rows; ``mean`` and ``deviation`` belong to the numeric columns.

    ``rows_hash`` names the rows in any order (`RowDigest.unordered`). ``runs`` are columns of
    numbers in a row, in any order: row numbers, most likely.
    """

    rows: int
    rows_hash: str
    mean: dict[str, float]
    deviation: dict[str, float]
    counts: dict[str, Counter[Any]]
    missing: dict[str, int]
    sample: Sample
    runs: frozenset[str] = frozenset()


class PublicSummary:
    """Computes a `Summary` in one pass; an accumulator over record batches.

    ``declared`` names columns of numbers that are categories all the same; ``limit`` is shared by
    parts that are read at a time. Where rare categories will be ``joined``, there may be many.
    """

    def __init__(
        self,
        schema: pa.Schema,
        declared: frozenset[str] = frozenset(),
        limit: SampleLimit | None = None,
        *,
        joined: bool = False,
    ) -> None:
        self._declared = declared
        self._most = _MOST_TEXTS if joined else MOST_CATEGORIES
        self._coded = [
            n for n in schema.names if n in declared or is_categorical(schema.field(n).type)
        ]
        self._numeric = [n for n in schema.names if n not in self._coded]
        self._moments = ColumnMoments(len(self._numeric))
        self._values: dict[str, Counter[Any]] = {name: Counter() for name in self._coded}
        self._lanes = RowLanes(schema, schema.names)
        self._digest = RowDigest(schema.names)
        self.sample = RowSample(schema, limit)

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in one batch that has every column of the schema."""
        if not batch.num_rows:
            return
        columns = numeric_columns(batch, self._numeric)
        self._moments.update(columns)
        for name in self._coded:
            try:
                items = pc.value_counts(batch.column(name)).to_pylist()
            except UnicodeDecodeError:
                raise TableError(f"column {name!r} holds texts that are not UTF-8.") from None
            for item in items:
                self._values[name][item["values"]] += item["counts"]
        self._check_categories()
        lanes = self._lanes.of(batch, None if self._coded else columns)
        self._digest.update(lanes)
        keys = np.empty(batch.num_rows, dtype=np.uint64)
        kernel.row_keys(lanes, keys)
        self.sample.update(batch, keys)

    def _check_categories(self) -> None:
        for name in set(self._coded) - self._declared:
            if len(self._values[name]) > self._most:
                raise TableError(
                    f"column {name!r} has more than {self._most:,} different texts and looks like a"
                    " name, not a category; leave it out (--drop), declare its categories"
                    " (--categories) or join rare ones (--min-count)."
                )

    def merge(self, other: "PublicSummary") -> None:
        """Take in everything that ``other`` has seen."""
        self._moments.merge(other._moments)
        for name, counter in other._values.items():
            self._values[name].update(counter)
        self._digest.merge(other._digest)
        self.sample.merge(other.sample)
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
            sample=self.sample.result(),
            runs=frozenset(np.array(self._numeric, dtype=object)[moments.runs]),
        )


# A rare category would otherwise become a number of the size 1/sqrt(frequency).
_LEAST_CATEGORY_SCALE = 0.1
# Of a mapped sample: beyond so many cells only its first rows are taken, which are as random.
_MOST_MAPPED_CELLS = 1 << 24
_LEAST_MAPPED_ROWS = 1_000


def fit_pipeline(
    summary: Summary,
    names: Sequence[str],
    *,
    categories: Mapping[str, Sequence[Any]],
    missing: Missing,
    clip: float | None = None,
    intercept: float | None = None,
    map_spec: str | None = None,
    min_count: int = 1,
    undeclared: Literal["error", "none"] = "error",
) -> Pipeline:
    """Return the pipeline of these public rows.

    Columns are centred and divided by their standard deviation; rows are clipped at the ``clip``
    quantile of their norms (of the summary's sample), `default_clip` unless given; the
    intercept weighs a quarter of that bound unless given. Categories are the declared ones, or all
    that ``min_count`` rows have, sorted; rarer ones become one other category. An ``undeclared``
    one is an error, or none where an owner's own rows are read. ``map_spec`` names a feature map,
    fitted on the same sample.
    """
    if missing not in {*MissingRule}:
        raise ParameterError(f"missing must be one of {', '.join(MissingRule)}. It is {missing!r}.")
    if clip is not None and not 0 < clip <= 1:
        raise ParameterError(f"clip must be a quantile above 0 and at most 1. It is {clip!r}.")
    gaps = [name for name in names if summary.missing[name]] if missing == "error" else []
    if gaps:
        raise TableError(
            f"Column {gaps[0]!r} has {summary.missing[gaps[0]]} missing values. Choose a"
            " replacement with --missing mean or --missing zero (Python: missing=...), or leave"
            " the column out with --drop (Python: drop=...)."
        )
    if min_count < 1:
        raise ParameterError(f"min_count must be at least 1. It is {min_count!r}.")
    fitted = [_column(name, summary, categories, min_count, undeclared) for name in names]
    columns = tuple(column for column, _, _ in fitted)
    mean = np.array([value for _, means, _ in fitted for value in means])
    scale = np.array([value for _, _, scales in fitted for value in scales])
    fill = {"error": None, "mean": mean, "zero": np.zeros_like(mean)}[missing]
    wide = Pipeline(columns, missing, mean, scale, 2.0**300, 0.0, fill)
    weights = summary.sample.weights
    # Rows that differ in the sign of a zero are equal: which of them was kept must not show.
    sample = wide.encoded(summary.sample.rows, unknown=Counter()).astype(np.float64) + 0.0
    if map_spec is not None:
        most = max(_LEAST_MAPPED_ROWS, _MOST_MAPPED_CELLS // most_outputs(map_spec, len(sample)))
        sample, weights = np.ascontiguousarray(sample[:, :most]), weights[:most]
        feature_map = fit_map(map_spec, sample, weights)
        sample = feature_map.apply(sample)
        mean, scale = weighted_moments(sample, weights)
        if MAPS[feature_map.kind].keeps_lengths:
            scale = np.ones_like(scale)
        wide = replace(wide, mean=mean, scale=scale, map=feature_map)
    clip = default_clip(len(wide.outputs)) if clip is None else clip
    norms = row_norms(wide.finished(sample).T)
    quantile = np.quantile(norms, clip, weights=weights, method="inverted_cdf")
    bound = float(np.float32(quantile or norms.max())) or 1.0
    # A row that is as long as the bound, but for rounding, is not clipped.
    longer = float(weights @ (norms > bound * (1 + 1e-6))) / float(weights.sum())
    return replace(
        wide,
        bound=bound,
        intercept=bound / 4 if intercept is None else intercept,
        clipped=round(longer, 3),
    )


def default_clip(width: int) -> float:
    """Return the quantile of the norms at which rows of this many coordinates are clipped.

    Long rows decide how much noise all rows need. With many coordinates a row's length says little
    about its class, and clipping nine of ten costs no accuracy (lab/bench/clipping.py); with few
    it says much.
    """
    return min(0.95, max(0.1, 5 / width))


def _column(
    name: str,
    summary: Summary,
    declared: Mapping[str, Sequence[Any]],
    min_count: int,
    undeclared: str,
) -> tuple[Column, list[float], list[float]]:
    """Return a column, with mean and scale of each number that it turns into."""
    if name not in summary.counts:
        mean, deviation = summary.mean[name], summary.deviation[name]
        varies = deviation > abs(mean) * 1e-9  # a constant column becomes zero
        unit = temporal_unit(summary.sample.rows.schema.field(name).type)
        return Column(name, unit=unit), [mean], [deviation if varies else 1.0]
    counts = {text: count for text, count in summary.counts[name].items() if text is not None}
    if name in declared:
        values = tuple(declared[name])
        if not values or len(set(values)) < len(values):
            raise ParameterError(
                f"The categories of column {name!r} must be a list without repetitions. List each"
                " category once."
            )
        column, codes = Column(name, values), category_codes(pa.array(list(counts)), values)
        strange = sum(n for n, code in zip(counts.values(), codes, strict=True) if code == -2)
        if strange and undeclared == "error":
            raise TableError(
                f"Column {name!r}: {strange} cells hold a category that was not declared. List all"
                " categories with --categories (Python: categories=...)."
            )
    else:
        frequent = sorted(text for text, count in counts.items() if count >= min_count)
        column = Column(name, tuple(frequent), other=len(frequent) < len(counts))
    total = sum(counts.values())
    spelled = {str(value): count for value, count in counts.items()}
    listed = [spelled.get(str(category), 0) for category in column.categories or ()]
    others = [total - sum(listed)] if column.other else []
    shares = [count / max(total, 1) for count in [*listed, *others]]
    return column, shares, [max(math.sqrt(p * (1 - p)), _LEAST_CATEGORY_SCALE) for p in shares]
