"""Exact sums of rows under integer weights: the mean operator before noise and division."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError
from suffice.kernels import mapping, sums
from suffice.tables.pipeline import Pipeline

__all__ = ["MappedSums", "RowReach", "WeightedSums", "label_weights", "lattice_step"]


def lattice_step(bound: float) -> float:
    """Return the power of two that puts numbers up to ``bound`` on at most 2^30 integers."""
    return 2.0 ** (math.ceil(math.log2(bound)) - 30)


def label_weights(codes: np.ndarray, classes: int) -> np.ndarray:
    """Return the weights of rows with these labels: -1, +1 for two classes, else one-hot rows.

    A label of no class, of code -1, weighs nothing.
    """
    if classes == 2:
        signs: np.ndarray = np.array([-1.0, 1.0, 0.0])[codes]  # -1 is the last
        return signs[None, :]
    one_hot: np.ndarray = codes[None, :] == np.arange(classes)[:, None]
    return one_hot.astype(np.float64)


class WeightedSums:
    """Computes sum_i w_ri rint(x_i / step), r weights per row; an accumulator.

    Its state is integers: any split, order or tree of merges gives the same numbers, so that
    nothing leaks through rounding and two engines agree to the last bit.
    """

    def __init__(self, width: int, weights: int, step: float) -> None:
        self._inverse_step = 1.0 / step
        self._totals = np.zeros((weights, width), dtype=np.int64)

    def update(self, batch: tuple[np.ndarray | Sequence[np.ndarray], np.ndarray]) -> None:
        """Take in rows (n, width), or a sequence of columns, and weights (r, n)."""
        rows, weights = batch
        if isinstance(rows, np.ndarray):
            rows = np.ascontiguousarray(rows)
            sums.sums_of_rows(rows, weights, self._inverse_step, self._totals)
            return
        for j, column in enumerate(rows):
            sums.sums_of_column(column, weights, self._inverse_step, self._totals[:, j])

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals

    def result(self) -> np.ndarray:
        """Return the integer sums, one row per weight."""
        return self._totals.copy()


@dataclass(frozen=True)
class RowReach:
    """The largest norms of a row on the rounding grid, in steps, rounded up.

    Parameters
    ----------
    l1 : int
        The largest 1-norm.
    l2 : float
        The largest 2-norm.
    """

    l1: int
    l2: float


class MappedSums(WeightedSums):
    """Computes the weighted sums of rows mapped by a pipeline, and the largest norms of a row.

    An accumulator over pairs (encoded columns, weights); mapping, clipping, the lattice and the
    sums are one pass.
    """

    def __init__(self, pipeline: Pipeline, weights: int) -> None:
        self._pipeline = pipeline
        self._affine = (pipeline.mean, 1.0 / pipeline.scale, pipeline.bound)
        self.step = lattice_step(pipeline.norm_bound)
        self._constant = float(np.rint(pipeline.intercept / self.step))
        self._reach = np.zeros(2)
        super().__init__(len(pipeline.outputs), weights, self.step)

    def update(self, batch: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[override]  # encoded columns only
        """Take in encoded columns (`Pipeline.encoded`) and the weights of their rows."""
        columns, weights = batch
        totals = np.zeros((len(weights), len(columns)), dtype=np.int64)
        bad = mapping.mapped_sums(
            columns,
            weights,
            self._affine,
            self._constant,
            self._inverse_step,
            totals,
            self._reach,
        )
        if bad:
            self._pipeline.explain_holes(columns)
        self._totals[:, : len(columns)] += totals
        if self._constant:
            signs = weights.sum(axis=1).astype(np.int64)
            self._totals[:, -1] += signs * np.int64(self._constant)

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        super().merge(other)
        if isinstance(other, MappedSums):
            self._reach = np.maximum(self._reach, other._reach)

    @property
    def reach(self) -> RowReach:
        """The largest norms of a single row; public whenever the rows are."""
        # l1 adds integers below 2^53: exact. l2 adds squares: at most width roundings of 2^-53.
        slack = 1 + (self._totals.shape[1] + 4) * 2.0**-52
        l2 = math.sqrt(self._reach[1]) * slack
        if l2 > mapping.LARGEST_CODE:
            raise ParameterError(
                "A row lies outside the rounding grid. The pipeline's bound is smaller than this"
                " row: fit a new pipeline."
            )
        return RowReach(int(self._reach[0]), l2)
