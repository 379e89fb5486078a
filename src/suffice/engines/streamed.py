"""Rows that are not in memory: each sum that a risk needs of them is one pass over their table.

Every pass hashes the rows that it read, owner by owner, so that a table which changes between two
passes is noticed. Sums are of floats: their last bits depend on how rows were shared out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.errors import ForeignRowsError, TableError
from suffice.models.rows import (
    Curves,
    MatrixRows,
    Slopes,
    WeightedRows,
    gram,
    one_blas_thread,
    sample_stride,
)
from suffice.tables.pipeline import Pipeline
from suffice.tables.rowhash import RowDigest, RowLanes
from suffice.tables.table import Piece, Table, narrow_batches, pieces_parts


@dataclass(frozen=True, eq=False)
class RowMapping:
    """How pieces become weighted rows: by a pipeline, then B^T x if there is a basis B.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the table.
    pipeline : Pipeline
        The public pipeline.
    weights : tuple of float
        The weight of each row of an owner, by owner.
    basis : ndarray, optional
        The basis B.
    """

    schema: pa.Schema
    pipeline: Pipeline
    weights: tuple[float, ...]
    basis: np.ndarray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(column.name for column in self.pipeline.columns)

    @property
    def width(self) -> int:
        """The number of coordinates of a row."""
        return len(self.pipeline.outputs) if self.basis is None else self.basis.shape[1]

    def rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the mapped rows (n, width) of a batch."""
        mapped = mapped_rows(batch, self.pipeline)
        return mapped if self.basis is None else mapped @ self.basis


def mapped_rows(batch: pa.RecordBatch, pipeline: Pipeline) -> np.ndarray:
    """Return rows as the pipeline of a release maps them. Rows that it cannot map do not match."""
    try:
        return pipeline.transform(batch)
    except TableError as error:
        raise ForeignRowsError(f"These rows do not match the release. {error}") from None


class MappedPass(ABC):
    """Maps pieces, hashes the rows of each owner, and passes the mapped rows to a subclass.

    ``ordered`` says for each owner whether the order of rows counts. Rows of nobody are counted.
    """

    def __init__(self, mapping: RowMapping, ordered: Sequence[bool] | None = None) -> None:
        self.mapping = mapping
        owners = ordered if ordered is not None else [False] * len(mapping.weights)
        self.digests = [RowDigest(mapping.names, ordered=order) for order in owners]
        self.extra = 0
        self._lanes = RowLanes(mapping.schema, mapping.names)
        self._width = len(mapping.pipeline.outputs)

    def lead(self) -> None:
        """Say that no rows come before these."""
        for digest in self.digests:
            digest.lead()

    def update(self, piece: Piece) -> None:
        """Take in neighbouring rows of one owner."""
        if piece.owner == len(self.digests):
            self.extra += len(piece)
            return
        self.digests[piece.owner].update(self._lanes.of(piece.rows))
        done = 0
        for batch in narrow_batches(piece.rows, self._width):
            part_rows = slice(done, done := done + batch.num_rows)
            values = None if piece.values is None else piece.values[part_rows]
            part = Piece(batch, piece.owner, piece.start + part_rows.start, values)
            self._take(part, self.mapping.rows(batch))

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen, of rows that follow."""
        for digest, other_digest in zip(self.digests, other.digests, strict=True):
            digest.merge(other_digest)
        self.extra += other.extra
        self._join(other)

    @abstractmethod
    def result(self) -> Any:
        """Return the sums."""

    def _weights(self, piece: Piece) -> np.ndarray:
        return np.full(len(piece), self.mapping.weights[piece.owner])

    @abstractmethod
    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        """Take in the mapped rows of a piece."""

    @abstractmethod
    def _join(self, other: Self) -> None:
        """Take in the sums of ``other``."""


class FirstPass(MappedPass):
    """Computes for each owner the sum of the rows and of their squared norms, and a sample of all.

    The sample is every ``stride``-th row of the table, in order.
    """

    def __init__(self, mapping: RowMapping, ordered: Sequence[bool], stride: int) -> None:
        super().__init__(mapping, ordered)
        self._stride = stride
        self._sums = np.zeros((len(ordered), mapping.width))
        self._squares = np.zeros(len(ordered))
        self._sample: list[np.ndarray] = []

    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        self._sums[piece.owner] += rows.sum(axis=0)
        self._squares[piece.owner] += float(np.einsum("ij,ij->", rows, rows))
        chosen = rows[-piece.start % self._stride :: self._stride]
        self._sample.append(np.ascontiguousarray(chosen))

    def _join(self, other: Self) -> None:
        self._sums += other._sums
        self._squares += other._squares
        self._sample += other._sample

    def result(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sums (owners, width), squares (owners,) and the sample (rows, width)."""
        return self._sums, self._squares, np.vstack(self._sample)


class ScoreSums(MappedPass):
    """Computes sum_i w_i g(<theta, x_i>) and X^T (w_i g'(<theta, x_i>))."""

    def __init__(self, mapping: RowMapping, theta: np.ndarray, slopes: Slopes) -> None:
        super().__init__(mapping)
        self._theta, self._slopes = theta, slopes
        self._value, self._slope = 0.0, np.zeros(theta.shape)

    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        value, slope = self._slopes(rows @ self._theta, self._weights(piece))
        self._value += value
        self._slope += rows.T @ slope

    def _join(self, other: Self) -> None:
        self._value += other._value
        self._slope += other._slope

    def result(self) -> tuple[float, np.ndarray]:
        """Return the value, and the sum of slopes."""
        return self._value, self._slope


class ScoreGrams(MappedPass):
    """Computes sum_i c_i x_i x_i^T for each c that ``curves`` gives at the scores."""

    def __init__(self, mapping: RowMapping, theta: np.ndarray, curves: Curves) -> None:
        super().__init__(mapping)
        self._theta, self._curves = theta, curves
        self._grams: list[np.ndarray] = []

    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        curves = self._curves(rows @ self._theta, self._weights(piece))
        self._add([gram(rows, curve) for curve in curves])

    def _join(self, other: Self) -> None:
        self._add(other._grams)

    def _add(self, grams: list[np.ndarray]) -> None:
        if not self._grams:
            self._grams = grams
        else:
            self._grams = [a + b for a, b in zip(self._grams, grams, strict=bool(grams))]

    def result(self) -> list[np.ndarray]:
        """Return the matrices."""
        return self._grams


class RowScores(MappedPass):
    """Computes <theta, x_i> of every row, in order."""

    def __init__(self, mapping: RowMapping, theta: np.ndarray) -> None:
        super().__init__(mapping)
        self._theta = theta
        self._scores: list[np.ndarray] = []

    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        del piece
        self._scores.append(rows @ self._theta)

    def _join(self, other: Self) -> None:
        self._scores += other._scores

    def result(self) -> np.ndarray:
        """Return one line for each row."""
        return np.concatenate(self._scores)


class ValueSums(MappedPass):
    """Computes X^T v of values v given beside the rows, or ``squared`` sum_i v_i x_i x_i^T."""

    def __init__(
        self, mapping: RowMapping, columns: tuple[int, ...], *, squared: bool = False
    ) -> None:
        super().__init__(mapping)
        self._squared = squared
        self._total = np.zeros((mapping.width, *((mapping.width,) if squared else columns)))

    def _take(self, piece: Piece, rows: np.ndarray) -> None:
        values = np.asarray(piece.values, dtype=np.float64)
        self._total += gram(rows, values) if self._squared else rows.T @ values

    def _join(self, other: Self) -> None:
        self._total += other._total

    def result(self) -> np.ndarray:
        """Return the sums."""
        return self._total


_P = TypeVar("_P", bound=MappedPass)


@dataclass(eq=False)
class OwnersTable:
    """A table with the rows of several owners, and where passes over it run.

    Parameters
    ----------
    table : Table
        The rows, one owner's after the other's.
    pipeline : Pipeline
        The public pipeline.
    counts : tuple of int
        The number of rows of each owner.
    computing : Computing
        Where passes run.
    hashes : tuple of str
        The hashes of the owners' rows in any order, from the first pass on. Every later pass must
        read the same rows.
    """

    table: Table
    pipeline: Pipeline
    counts: tuple[int, ...]
    computing: Computing
    hashes: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[int, ...]:
        """The row behind each owner's last row."""
        return tuple(int(end) for end in np.cumsum(self.counts))

    def mapping(self, weights: Sequence[float] | np.ndarray) -> RowMapping:
        """Return how rows are mapped, under one weight for the rows of each owner."""
        return RowMapping(self.table.schema, self.pipeline, tuple(map(float, weights)))

    def first(self, ordered: Sequence[bool]) -> FirstPass:
        """Return the first pass over all rows; its digests are still to be checked."""
        stride = sample_stride((sum(self.counts), len(self.pipeline.outputs)))
        mapping = self.mapping([0.0] * len(self.counts))
        return self._fold(partial(FirstPass, mapping, ordered, stride), self._every)

    @property
    def _every(self) -> range:
        """All owners, and rows of nobody."""
        return range(len(self.counts) + 1)

    def fold(self, make: Callable[[], _P], owners: range, values: np.ndarray | None = None) -> _P:
        """Return a pass over the rows of some owners, or raise if they are no longer the same.

        ``values`` has one line for each row of these owners.
        """
        all_owners = owners == range(len(self.counts))
        done = self._fold(make, self._every if all_owners else owners, values)
        same = all(done.digests[k].unordered() == self.hashes[k] for k in owners)
        if not same or done.extra:
            raise TableError(
                "The table changed while it was read. Use a copy that nobody writes to."
            )
        return done

    def _fold(self, make: Callable[[], _P], owners: range, values: np.ndarray | None = None) -> _P:
        columns = [column.name for column in self.pipeline.columns]
        parts = pieces_parts(self.table, columns, self.ends, owners, values)
        with one_blas_thread():  # each worker is one already
            return self.computing.fold(parts, make)


class StreamedRows(WeightedRows):
    """Rows of some owners of a table, mapped anew in every pass; only sums of them are held.

    ``facts`` are the results of the first pass, and ``each`` is the weight of one row of each of
    the owners. The last answer of each kind is kept, since solvers ask twice.
    """

    def __init__(
        self,
        source: OwnersTable,
        facts: tuple[np.ndarray, np.ndarray, np.ndarray],
        owners: range,
        each: Sequence[float] | np.ndarray,
        basis: np.ndarray | None = None,
    ) -> None:
        self._source, self._facts, self._owners = source, facts, owners
        self._owner_slice = slice(owners.start, owners.stop)
        self._counts = np.array(source.counts[self._owner_slice])
        self._each, self._basis = np.asarray(each, dtype=np.float64), basis
        weights = np.zeros(len(source.counts))
        weights[self._owner_slice] = self._each
        self._mapping = replace(source.mapping(weights), basis=basis)
        self.shape = (int(self._counts.sum()), self._mapping.width)
        self._answers: dict[type, tuple[np.ndarray, Any, Any]] = {}

    def with_others(
        self, others: Sequence["StreamedRows"], each: Sequence[float]
    ) -> "StreamedRows":
        """Return these rows and those of the next owners, under one weight for each block."""
        blocks = [self, *others]
        owners = range(self._owners.start, blocks[-1]._owners.stop)
        weights = np.repeat(each, [len(block._owners) for block in blocks])
        return StreamedRows(self._source, self._facts, owners, weights)

    def run_on(self, computing: Computing) -> None:
        """Let later passes run elsewhere, for example once an engine is closed."""
        self._source.computing = computing

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights w_i (m,)."""
        return np.repeat(self._each, self._counts)

    @cached_property
    def labels(self) -> float:
        """1 / sum_i w_i^2."""
        return 1 / float(self._counts @ self._each**2)

    @cached_property
    def mean(self) -> np.ndarray:
        """sum_i w_i x_i (d,), from the first pass."""
        mean: np.ndarray = self._each @ self._facts[0][self._owner_slice]
        return mean if self._basis is None else np.asarray(mean @ self._basis)

    @cached_property
    def mean_square(self) -> float:
        """sum_i w_i ||x_i||^2, from the first pass; in other coordinates from S."""
        if self._basis is not None:
            return float(np.trace(self.moment))
        return float(self._each @ self._facts[1][self._owner_slice])

    @cached_property
    def moment(self) -> np.ndarray:
        """S = sum_i w_i x_i x_i^T, in one pass."""
        return self.grams(np.zeros(self.shape[1]), _own_weights)[0]

    @cached_property
    def sample(self) -> MatrixRows:
        """Every so many-th row, from the first pass."""
        total = sum(self._source.counts)
        stride = sample_stride((total, self._facts[2].shape[1]))
        at = np.searchsorted(self._source.ends, np.arange(0, total, stride), side="right")
        inside = (at >= self._owners.start) & (at < self._owners.stop)
        rows = self._facts[2] if inside.all() else self._facts[2][inside]
        rows = rows if self._basis is None else np.ascontiguousarray(rows @ self._basis)
        weights = self._each[at[inside] - self._owners.start]
        alike = (weights == weights[0]).all()
        return MatrixRows(rows, None if alike else weights / weights.sum(), stride=1)

    def sums(self, theta: np.ndarray, slopes: Slopes) -> tuple[float, np.ndarray]:
        """Return the sum of g and X^T slopes, in one pass."""
        value, slope = self._at(ScoreSums, theta, slopes)
        return value, slope.copy()

    def grams(self, theta: np.ndarray, curves: Curves) -> list[np.ndarray]:
        """Return sum_i c_i x_i x_i^T for each c, all in one pass."""
        matrices: list[np.ndarray] = self._at(ScoreGrams, theta, curves)
        return matrices

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Return X theta, in one pass."""
        return self._fold(partial(RowScores, self._mapping, theta)).result()

    def combined(self, values: np.ndarray) -> np.ndarray:
        """Return X^T values, in one pass."""
        return self._value_sums(values, squared=False)

    def gram(self, values: np.ndarray) -> np.ndarray:
        """Return sum_i v_i x_i x_i^T, in one pass."""
        return self._value_sums(values, squared=True)

    def in_basis(self, basis: np.ndarray) -> "StreamedRows":
        """Return the rows B^T x_i, which are turned anew in every pass."""
        combined_basis = basis if self._basis is None else self._basis @ basis
        return StreamedRows(self._source, self._facts, self._owners, self._each, combined_basis)

    def _value_sums(self, values: np.ndarray, *, squared: bool) -> np.ndarray:
        make = partial(ValueSums, self._mapping, values.shape[1:], squared=squared)
        return self._fold(make, values).result()

    def _at(self, kind: type[ScoreSums | ScoreGrams], theta: np.ndarray, function: Any) -> Any:
        """Return the result of a pass of this kind at theta. The last result is kept."""
        at, used, answer = self._answers.get(kind, (None, None, None))
        if at is None or used != function or not np.array_equal(at, theta):
            answer = self._fold(partial(kind, self._mapping, theta, function)).result()
            self._answers[kind] = (theta.copy(), function, answer)
        return answer

    def _fold(self, make: Callable[[], _P], values: np.ndarray | None = None) -> _P:
        return self._source.fold(make, self._owners, values)


def _own_weights(scores: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Return the weights themselves, for S."""
    del scores
    return [weights]
