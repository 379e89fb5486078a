"""Rows that are not in memory: each sum that a risk needs of them is one pass over their table.

Every pass hashes the rows that it read, owner by owner, so that a table which changes between two
passes is noticed. Sums are of floats: their last bits depend on how rows were shared out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.errors import ForeignRowsError, TableError
from suffice.models.problem import (
    Curves,
    MatrixRows,
    Slopes,
    WeightedRows,
    gram,
    one_blas_thread,
    sample_stride,
)
from suffice.tables.pipeline import Pipeline
from suffice.tables.table import Piece, RowDigest, RowLanes, Table, narrow_batches, pieces_parts


@dataclass(frozen=True, eq=False)
class RowMapping:
    """How pieces become weighted rows: by a pipeline, then B^T x if there is a ``basis`` B.

    ``weights`` has the weight of one row of each owner.
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
        return self.pipeline.width if self.basis is None else self.basis.shape[1]

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


# Of a piece, its mapped rows and their weights: what is added up, and lines that are kept in order.
Take = Callable[
    [Piece, np.ndarray, np.ndarray], tuple[Sequence[float | np.ndarray], np.ndarray | None]
]


class MappedPass:
    """Maps pieces, hashes the rows of each owner, and adds up what ``take`` makes of them.

    An accumulator. ``ordered`` says for each owner whether the order of rows counts. Rows of nobody
    are counted.
    """

    def __init__(
        self, mapping: RowMapping, take: Take, ordered: Sequence[bool] | None = None
    ) -> None:
        self._mapping, self._take = mapping, take
        owners = ordered if ordered is not None else [False] * len(mapping.weights)
        self.digests = [RowDigest(mapping.names, ordered=order) for order in owners]
        self.extra = 0
        self._lanes = RowLanes(mapping.schema, mapping.names)
        self._sums: list[Any] = []
        self._lines: list[np.ndarray] = []

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
        for batch in narrow_batches(piece.rows, self._mapping.pipeline.width):
            part_rows = slice(done, done := done + batch.num_rows)
            values = None if piece.values is None else piece.values[part_rows]
            part = Piece(batch, piece.owner, piece.start + part_rows.start, values)
            weights = np.full(len(part), self._mapping.weights[piece.owner])
            sums, lines = self._take(part, self._mapping.rows(batch), weights)
            self._add(sums, [] if lines is None else [lines])

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen, of rows that follow."""
        for digest, other_digest in zip(self.digests, other.digests, strict=True):
            digest.merge(other_digest)
        self.extra += other.extra
        self._add(other._sums, other._lines)

    def _add(self, sums: Sequence[Any], lines: list[np.ndarray]) -> None:
        pairs = zip(self._sums, sums, strict=bool(sums))
        self._sums = [a + b for a, b in pairs] if self._sums and sums else self._sums or list(sums)
        self._lines += lines

    def result(self) -> list[Any]:
        """Return the sums, and then the lines if there are any."""
        return [*self._sums, np.concatenate(self._lines)] if self._lines else self._sums


def take_first(
    owners: int, stride: int, piece: Piece, rows: np.ndarray, _weights: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return each owner's sum of rows and of their squared norms, and every ``stride``-th row."""
    sums, squares = np.zeros((owners, rows.shape[1])), np.zeros(owners)
    sums[piece.owner] = rows.sum(axis=0)
    squares[piece.owner] = np.einsum("ij,ij->", rows, rows)
    return [sums, squares], np.ascontiguousarray(rows[-piece.start % stride :: stride])


def take_sums(
    theta: np.ndarray, slopes: Slopes, _piece: Piece, rows: np.ndarray, weights: np.ndarray
) -> tuple[list[Any], None]:
    """Return sum_i w_i g(<theta, x_i>) and X^T (w_i g'(<theta, x_i>))."""
    value, slope = slopes(rows @ theta, weights)
    return [value, rows.T @ slope], None


def take_grams(
    theta: np.ndarray, curves: Curves, _piece: Piece, rows: np.ndarray, weights: np.ndarray
) -> tuple[list[np.ndarray], None]:
    """Return sum_i c_i x_i x_i^T for each c that ``curves`` gives at the scores."""
    return [gram(rows, curve) for curve in curves(rows @ theta, weights)], None


def _take_scores(
    theta: np.ndarray, _piece: Piece, rows: np.ndarray, _weights: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return <theta, x_i> of every row."""
    return [], rows @ theta


def _take_values(
    piece: Piece, rows: np.ndarray, _weights: np.ndarray
) -> tuple[list[np.ndarray], None]:
    """Return X^T v of values v given beside the rows."""
    return [rows.T @ np.asarray(piece.values, dtype=np.float64)], None


def _take_gram(
    piece: Piece, rows: np.ndarray, _weights: np.ndarray
) -> tuple[list[np.ndarray], None]:
    """Return sum_i v_i x_i x_i^T of values v given beside the rows."""
    return [gram(rows, np.asarray(piece.values, dtype=np.float64))], None


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

    def first(self, ordered: Sequence[bool]) -> MappedPass:
        """Return the first pass over all rows; its digests are still to be checked.

        Its results are sums (owners, width), squares (owners,) and a sample (rows, width).
        """
        stride = sample_stride((sum(self.counts), self.pipeline.width))
        mapping = self.mapping([0.0] * len(self.counts))
        take = partial(take_first, len(self.counts), stride)
        return self._fold(partial(MappedPass, mapping, take, ordered), self._every)

    @property
    def _every(self) -> range:
        """All owners, and rows of nobody."""
        return range(len(self.counts) + 1)

    def fold(
        self, mapping: RowMapping, take: Take, owners: range, values: np.ndarray | None = None
    ) -> list[Any]:
        """Return the results of a pass over some owners, or raise if their rows have changed.

        ``values`` has one line for each row of these owners.
        """
        all_owners = owners == range(len(self.counts))
        make = partial(MappedPass, mapping, take)
        done = self._fold(make, self._every if all_owners else owners, values)
        same = all(done.digests[k].unordered() == self.hashes[k] for k in owners)
        if not same or done.extra:
            raise TableError(
                "The table changed while it was read. Use a copy that nobody writes to."
            )
        return done.result()

    def _fold(
        self, make: Callable[[], MappedPass], owners: range, values: np.ndarray | None = None
    ) -> MappedPass:
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
        facts: Sequence[np.ndarray],
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
        self.labels = 1 / float(self._counts @ self._each**2)
        self._answers: dict[Any, tuple[np.ndarray, Any, list[Any]]] = {}

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
        value, slope = self._at(take_sums, theta, slopes)
        return value, slope.copy()

    def grams(self, theta: np.ndarray, curves: Curves) -> list[np.ndarray]:
        """Return sum_i c_i x_i x_i^T for each c, all in one pass."""
        return self._at(take_grams, theta, curves)

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Return X theta, in one pass."""
        return self._in_one_pass(partial(_take_scores, theta))[0]

    def combined(self, values: np.ndarray) -> np.ndarray:
        """Return X^T values, in one pass."""
        return self._in_one_pass(_take_values, values)[0]

    def gram(self, values: np.ndarray) -> np.ndarray:
        """Return sum_i v_i x_i x_i^T, in one pass."""
        return self._in_one_pass(_take_gram, values)[0]

    def in_basis(self, basis: np.ndarray) -> "StreamedRows":
        """Return the rows B^T x_i, which are turned anew in every pass."""
        combined_basis = basis if self._basis is None else self._basis @ basis
        return StreamedRows(self._source, self._facts, self._owners, self._each, combined_basis)

    def _at(self, take: Callable[..., Any], theta: np.ndarray, function: Any) -> list[Any]:
        """Return the results of a pass at theta. The last ones are kept."""
        at, used, answer = self._answers.get(take, (None, None, []))
        if at is None or used != function or not np.array_equal(at, theta):
            answer = self._in_one_pass(partial(take, theta, function))
            self._answers[take] = (theta.copy(), function, answer)
        return answer

    def _in_one_pass(self, take: Take, values: np.ndarray | None = None) -> list[Any]:
        return self._source.fold(self._mapping, take, self._owners, values)


def _own_weights(scores: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Return the weights themselves, for S."""
    del scores
    return [weights]
