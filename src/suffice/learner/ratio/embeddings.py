"""Mean embeddings of cells of rows: sums in a kernel's feature space, or the Gram of such sums.

A cell is a part of a bag. Everything that is later estimated, cross-validated or resampled needs
inner products of sums over cells only. A ladder of bandwidths costs little more than one
(`suffice.kernels.embeddings`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist, pdist

from suffice.errors import ParameterError
from suffice.kernels import embeddings as kernels
from suffice.learner.weak.moments import group_sums

__all__ = ["KERNELS", "CellSums", "FourierSums", "Kernel", "KernelSums", "LinearSums"]

_ROWS_AT_ONCE = 4096
_ENTRIES_AT_ONCE = 1 << 22  # of a block of kernel values: 32 MB


@dataclass(frozen=True)
class Kernel:
    """A kernel k(x, y) = exp(-(d(x, y) / h)^power / power), 1 on the diagonal.

    ``metric`` names d as scipy does; ``draw`` gives frequencies (d, F) of its Fourier features
    (Rahimi & Recht 2007) for h = 1.
    """

    metric: str
    power: int
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

    def distance(self, rows: np.ndarray) -> float:
        """Return the median distance of some rows: the unit of bandwidths."""
        if len(rows) < 2:
            return 1.0
        return float(np.median(pdist(rows, self.metric))) or 1.0

    def values(self, rows: np.ndarray, others: np.ndarray, bandwidth: float) -> np.ndarray:
        """Return k of every pair of rows."""
        if self.metric == "euclidean":  # a matrix product is many times faster than cdist
            squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
            squares -= 2 * rows @ others.T
            return np.exp(np.maximum(squares, 0.0, out=squares) / (-2 * bandwidth**2))
        return np.exp(cdist(rows, others, self.metric) / -bandwidth)


KERNELS: Mapping[str, Kernel] = {
    "rbf": Kernel("euclidean", 2, lambda rng, shape: rng.standard_normal(shape)),
    "laplace": Kernel("cityblock", 1, lambda rng, shape: rng.standard_cauchy(shape)),
}


class FourierSums:
    """Sums of random Fourier features: memory does not grow with the rows."""

    def __init__(self, frequencies: np.ndarray, bandwidths: np.ndarray, cells: int) -> None:
        self._frequencies = frequencies
        self._bandwidths = bandwidths
        self._counts = np.zeros(cells)
        self._sums = np.zeros((len(bandwidths), cells, 2, frequencies.shape[1]))

    def update(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows, each into its cell."""
        self._counts += np.bincount(cells, minlength=len(self._counts))
        self._add(rows, cells, self._bandwidths[0], self._sums)

    def _add(self, rows: np.ndarray, cells: np.ndarray, widest: float, sums: np.ndarray) -> None:
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            angles = rows[block] @ self._frequencies / widest
            reach = float(np.abs(angles).max(initial=0.0))
            halvings = max(0, math.ceil(math.log2(reach))) if reach > 0 else 0
            kernels.add_fourier_sums(angles, np.asarray(cells[block], np.int64), halvings, sums)

    def grams(self) -> np.ndarray:
        """Return the inner products of the cells' sums; each row's features have norm one."""
        flat = self._sums.reshape(*self._sums.shape[:2], -1)
        return np.stack([level @ level.T for level in flat]) / self._frequencies.shape[1]

    def powers(self) -> np.ndarray:
        """Return the number of rows in each cell."""
        return self._counts

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        sums = np.zeros((1, count, 2, self._frequencies.shape[1]))
        self._add(rows, parts, self._bandwidths[level], sums)
        mine = self._sums[level].reshape(len(self._counts), -1)
        return sums.reshape(count, -1) @ mine.T / self._frequencies.shape[1]


class KernelSums:
    """Sums of kernel values, block by block: it keeps the rows, never a matrix of all pairs."""

    def __init__(self, kernel: Kernel, bandwidths: np.ndarray, cells: int) -> None:
        self._kernel, self._bandwidths, self._cells = kernel, bandwidths, cells
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None

    def update(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows, each into its cell."""
        self._blocks.append((rows, cells))
        self._sorted = None

    def _in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows in order of their cells, and where each cell begins."""
        if self._sorted is None:
            rows, cells = (np.concatenate(part) for part in zip(*self._blocks, strict=True))
            order = np.argsort(cells, kind="stable")
            starts = np.searchsorted(cells[order], np.arange(self._cells + 1))
            self._sorted = np.ascontiguousarray(rows[order]), starts
            self._blocks = [(self._sorted[0], cells[order])]
        return self._sorted

    def grams(self) -> np.ndarray:
        """Return the inner products of the cells' sums."""
        rows, starts = self._in_order()
        sums = np.zeros((len(self._bandwidths), self._cells, self._cells))
        cells = np.repeat(np.arange(self._cells), np.diff(starts))
        self._add(rows, cells, self._bandwidths[0], sums)
        return sums

    def _add(self, queries: np.ndarray, cells: np.ndarray, widest: float, sums: np.ndarray) -> None:
        rows, starts = self._in_order()
        step = max(1, _ENTRIES_AT_ONCE // len(rows))
        for first in range(0, len(queries), step):
            block = slice(first, first + step)
            values = self._kernel.values(queries[block], rows, widest)
            codes = np.asarray(cells[block], np.int64)
            kernels.add_kernel_sums(values, codes, starts, self._kernel.power, sums)

    def powers(self) -> np.ndarray:
        """Return the number of rows in each cell."""
        return np.diff(self._in_order()[1]).astype(np.float64)

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        sums = np.zeros((1, count, self._cells))
        self._add(rows, parts, self._bandwidths[level], sums)
        return sums[0]


class LinearSums:
    """Sums of the rows themselves: the kernel <x, y>, which sees class means and nothing else."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._sums: np.ndarray | None = None
        self._squares = np.zeros(cells)

    def update(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows, each into its cell."""
        added = group_sums(rows, cells, self._cells)
        self._sums = added if self._sums is None else self._sums + added
        squares = (rows**2).sum(axis=1)
        self._squares += np.bincount(cells, weights=squares, minlength=self._cells)

    def _filled_sums(self) -> np.ndarray:
        if self._sums is None:
            raise ParameterError("The table has no rows. Use a table with at least one row.")
        return self._sums

    def grams(self) -> np.ndarray:
        """Return the inner products of the cells' sums."""
        return (self._filled_sums() @ self._filled_sums().T)[None]

    def powers(self) -> np.ndarray:
        """Return the sum of ||x||^2 over the rows of each cell."""
        return self._squares

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        del level  # there is one only
        return group_sums(rows, parts, count) @ self._filled_sums().T


CellSums = FourierSums | KernelSums | LinearSums  # sums over cells, for every bandwidth of a ladder
