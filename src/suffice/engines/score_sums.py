"""Sums over mapped rows of functions of their scores, as accumulators; each names its rows too.

Every pass hashes the rows that it read, owner by owner, so that a table which changes between two
passes is noticed. Sums are of floats: their last bits depend on how rows were shared out.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from suffice.errors import ForeignRowsError, TableError
from suffice.models.gram import gram
from suffice.models.rows import Curves, Slopes
from suffice.tables.batching import narrow_batches
from suffice.tables.pieces import Piece
from suffice.tables.pipeline import Pipeline
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = [
    "FirstPass", "MappedPass", "RowMapping", "RowScores", "ScoreGrams", "ScoreSums", "ValueSums",
    "mapped_rows",
]  # fmt: skip


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
