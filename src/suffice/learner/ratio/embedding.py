"""Class ratios by mean embeddings: the mixture of class embeddings nearest to a table's.

With Phi_i the mean embedding of bag i in the kernel's feature space and P the proportions, class
embeddings are Psi = A Phi (`KnownBags.solved`), and the ratios of a table U are

    rho = argmin over the simplex of || sum_k rho_k Psi_k - Phi_U ||                    ("rkhs")

Iyer et al. 2016 minimise || sum_i alpha_i Phi_i - Phi_U || over all alpha (eq. 5) and then move
P^T alpha to the nearest point of the simplex ("euclidean"). For M = K both are the same where the
answer is inside. One more thing is ours, in "rkhs": the sampling noise of Phi_i adds
(1 - sum_k P_ik ||Psi_k||^2) / n_i to ||Phi_i||^2 in mean, which pulls the answer towards the bags'
average; it is taken off.

Rows are read once, into sums by cell in the kernel's feature space, or the Gram of such sums. A
cell is a part of a bag. Everything that is later estimated, cross-validated or resampled needs
inner products of sums over cells only. A ladder of bandwidths costs little more than one
(`suffice.kernels.maps`).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist, pdist

from suffice.errors import ParameterError
from suffice.kernels import maps as kernels
from suffice.learner.ratio.bags import (
    KnownBags,
    balanced_groups,
    removable_part,
    resample_counts,
    resampled_ends,
    zero_sum_basis,
)
from suffice.learner.weak import FOLDS, group_sums
from suffice.models.simplex import least_squares_on_simplex, nearest_proportions

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
        self._sums = np.zeros((len(bandwidths), cells, 2, frequencies.shape[1]))

    def update(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows, each into its cell."""
        self._add(rows, cells, self._bandwidths[0], self._sums)

    def _add(self, rows: np.ndarray, cells: np.ndarray, widest: float, sums: np.ndarray) -> None:
        for first in range(0, len(rows), 4096):  # so many rows at once: a limit of memory
            block = slice(first, first + 4096)
            angles = rows[block] @ self._frequencies / widest
            reach = float(np.abs(angles).max(initial=0.0))
            halvings = max(0, math.ceil(math.log2(reach))) if reach > 0 else 0
            kernels.add_fourier_sums(angles, np.asarray(cells[block], np.int64), halvings, sums)

    def grams(self) -> np.ndarray:
        """Return the inner products of the cells' sums; each row's features have norm one."""
        flat = self._sums.reshape(*self._sums.shape[:2], -1)
        return np.stack([level @ level.T for level in flat]) / self._frequencies.shape[1]

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        sums = np.zeros((1, count, 2, self._frequencies.shape[1]))
        self._add(rows, parts, self._bandwidths[level], sums)
        mine = self._sums[level].reshape(self._sums.shape[1], -1)
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

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        sums = np.zeros((1, count, self._cells))
        self._add(rows, parts, self._bandwidths[level], sums)
        return sums[0]


class LinearSums:
    """Sums of the rows themselves: the kernel <x, y>, which sees class means and nothing else."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._sums = np.zeros((cells, 1))  # as wide as the rows from the first of them on
        self.squares = np.zeros(cells)  # the sum of ||x||^2 over the rows of each cell

    def update(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Take in rows, each into its cell."""
        self._sums = self._sums + group_sums(rows, cells, self._cells)
        squares = (rows**2).sum(axis=1)
        self.squares += np.bincount(cells, weights=squares, minlength=self._cells)

    def grams(self) -> np.ndarray:
        """Return the inner products of the cells' sums."""
        return (self._sums @ self._sums.T)[None]

    def across(self, rows: np.ndarray, parts: np.ndarray, count: int, level: int) -> np.ndarray:
        """Return the inner products of other rows' sums with all cells'."""
        del level  # there is one only
        return group_sums(rows, parts, count) @ self._sums.T


CellSums = FourierSums | KernelSums | LinearSums  # sums over cells, for every bandwidth of a ladder


@dataclass(frozen=True, eq=False)
class CellGram:
    """Inner products of sums over cells: ``groups`` cells for each of M bags, bag after bag."""

    products: np.ndarray  # (C, C)
    counts: np.ndarray  # rows of each cell
    powers: np.ndarray  # the sum of k(x, x) over each cell
    groups: int

    @property
    def _bags(self) -> np.ndarray:
        return np.arange(len(self.counts)) // self.groups

    def draw_cells(self, rng: np.random.Generator) -> np.ndarray:
        """Return how often each cell is drawn when every bag's cells are, with replacement."""
        times = np.zeros(len(self.counts))
        filled = np.flatnonzero(self.counts)
        times[filled] = resample_counts(self._bags[filled], rng)
        return times

    def bag_weights(self, times: np.ndarray) -> np.ndarray:
        """Return W (M, C) with Phi = W sums, every cell counted ``times`` (C,)."""
        bags = self._bags
        totals = np.bincount(bags, weights=times * self.counts)
        weights = np.zeros((len(totals), len(bags)))
        weights[bags, np.arange(len(bags))] = times / totals[bags]
        return weights


@dataclass(frozen=True, eq=False)
class MeanEmbedding:
    """Bags as points of a feature space, each cell of rows counted ``times``."""

    bags: KnownBags
    cells: CellGram
    times: np.ndarray
    constraint: str = "rkhs"

    @cached_property
    def _weights(self) -> np.ndarray:
        return self.cells.bag_weights(self.times)

    @cached_property
    def bag_gram(self) -> np.ndarray:
        """The inner products (M, M) of the bags' mean embeddings, noise and all."""
        return np.asarray(self._weights @ self.cells.products @ self._weights.T)

    @cached_property
    def class_gram(self) -> np.ndarray:
        """The inner products (K, K) of the class embeddings, without sampling noise.

        The noise is taken off in full where what is left of the differences of classes is at
        least a quarter in every direction, and in part where it is not.
        """
        noisy, noise = self._grams
        basis = zero_sum_basis(len(noisy))
        return noisy - removable_part(*(basis.T @ m @ basis for m in (noisy, noise))) * noise

    def _solved_gram(self, bags: np.ndarray) -> np.ndarray:
        return np.asarray(self.bags.solved @ bags @ self.bags.solved.T)

    @cached_property
    def _grams(self) -> tuple[np.ndarray, np.ndarray]:
        """The class Gram with sampling noise, and what sampling added to it."""
        noisy = self._solved_gram(self.bag_gram)
        squares = self._weights**2
        energies, shares = squares @ self.cells.powers, squares @ self.cells.counts
        noise = np.zeros_like(noisy)
        for _ in range(4):  # it depends on the class norms; each round is n times closer
            norms = np.maximum(np.diag(noisy - noise), 0.0)
            energy = np.maximum(energies - shares * (self.bags.proportions @ norms), 0.0)
            noise = self._solved_gram(np.diag(energy))
        return noisy, noise

    def ratios(self, across: np.ndarray) -> np.ndarray:
        """Return rho of a table from the inner products (C,) of its mean with the cells' sums."""
        near = self._weights @ across
        if self.constraint == "rkhs":
            return least_squares_on_simplex(self.class_gram, self.bags.solved @ near)
        alpha = np.linalg.lstsq(self.bag_gram, near, rcond=1e-10)[0]  # eq. (5)
        return nearest_proportions((self.bags.proportions.T @ alpha)[None])[0]

    def energy(self, direction: np.ndarray) -> float:
        """Return || sum_k v_k Psi_k ||^2 without sampling noise, however little is left of it."""
        return float(direction @ np.subtract(*self._grams) @ direction)

    def least_distinct_direction(self) -> np.ndarray:
        """Return the unit direction of sum zero in which the class embeddings differ least."""
        zero_sum = zero_sum_basis(len(self.bags.classes))
        _, vectors = np.linalg.eigh(zero_sum.T @ np.subtract(*self._grams) @ zero_sum)
        return np.asarray(zero_sum @ vectors[:, 0])


_TABLE_PARTS = 64  # of a table: cells enough to draw them again


@dataclass(frozen=True, eq=False)
class ByEmbedding:
    """Class ratios by mean embeddings at one bandwidth."""

    fitted: MeanEmbedding
    sums: CellSums
    level: int

    ends = resampled_ends

    def summarise(
        self, batches: Iterable[np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the inner products (parts, cells) of the table's parts, and the parts' sizes."""
        across, counts = np.zeros((_TABLE_PARTS, len(self.fitted.times))), np.zeros(_TABLE_PARTS)
        for rows in batches:
            parts = balanced_groups(np.zeros(len(rows), dtype=np.int64), _TABLE_PARTS, rng)
            across += self.sums.across(rows, parts, _TABLE_PARTS, self.level)
            counts += np.bincount(parts, minlength=_TABLE_PARTS)
        return across[counts > 0], counts[counts > 0]

    def ratios(self, summary: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the ratios of the table."""
        across, counts = summary
        return self.fitted.ratios(across.sum(axis=0) / counts.sum())

    def redraw(self, rng: np.random.Generator) -> "ByEmbedding":
        """Return the method as other rows of the bags, and other noise, might have left it."""
        bags = self.fitted.bags.redraw(rng)
        again = replace(self.fitted, bags=bags, times=self.fitted.cells.draw_cells(rng))
        return replace(self, fitted=again)

    def resample(
        self, summary: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return the ratios of parts of the table drawn again."""
        across, counts = summary
        times = resample_counts(np.zeros(len(counts), dtype=np.int64), rng)
        return self.fitted.ratios(times @ across / (times @ counts))


def held_back_errors(bags: KnownBags, cells: CellGram, constraint: str) -> np.ndarray:
    """Return squared errors (folds, M + 1) of the ratios of rows that were held back.

    In each fold a part of every bag's rows is held back; its ratios are estimated bag by bag, and
    of all parts together, from the rest. Bags of fewer rows than folds have fewer folds.
    """
    errors = []
    bag_sizes = cells.counts.reshape(-1, cells.groups).sum(axis=1)
    folds = np.arange(len(cells.counts)) % cells.groups % FOLDS  # of each cell
    for fold in range(min(FOLDS, int(bag_sizes.min()))):
        held_back = folds == fold
        fitted = MeanEmbedding(bags, cells, np.where(held_back, 0.0, 1.0), constraint)
        parts = cells.bag_weights(np.where(held_back, 1.0, 0.0))
        sizes = bags.sizes / bags.sizes.sum()
        parts = np.vstack([parts, sizes @ parts])
        errors.append(bags.squared_errors([fitted.ratios(cells.products @ p) for p in parts]))
    return np.array(errors)


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Computes a proved bound on the error of these ratios: Iyer et al. 2016, Theorem 1, corrected.

    With probability 1 - delta, for as many bags of sizes n_i as classes, M = K, and a table U of
    n_u rows,

        ||rho^ - rho|| <= e / (s - e) (1 + Q) + Q C(n_u),   e^2 = sum_i C(n_i)^2,
        C(n) = 2 / sqrt(n) + sqrt(ln(2 (2M + 1) / delta) / (2n)),   Q = maxsing(P) / s

    with s the smallest singular value of the bags' empirical mean embeddings. The theorem has that
    of the true ones, which nobody knows and which is at least s - e (docs/errata.md). True for
    every kernel of norm one and every data set; there is no bound where e reaches s. Q is stated
    for more bags than classes too, with s their K-th singular value.
    """

    smallest: float  # s
    largest_proportion: float  # maxsing(P)
    sizes: np.ndarray
    variances: np.ndarray  # (M, K), of the proportions' entries
    applies: bool = True  # M = K, the kernel has norm one, and the proportions' noise is stated

    @classmethod
    def of(cls, bag_gram: np.ndarray, bags: KnownBags, *, normed: bool = True) -> "ErrorBound":
        """Return the bound of bags with this Gram matrix of mean embeddings."""
        many, classes = bags.proportions.shape
        values = np.maximum(np.linalg.eigvalsh(bag_gram)[::-1], 0.0)
        variances = bags.variances if bags.variances is not None else np.zeros(many)
        return cls(
            float(np.sqrt(values[classes - 1])),
            float(np.linalg.norm(bags.proportions, 2)),
            bags.sizes,
            np.repeat(variances[:, None], classes, axis=1),
            normed and bags.variances is not None and many == classes,
        )

    @property
    def condition(self) -> float:
        """Q(D), the condition number of the bags."""
        return self.largest_proportion / max(self.smallest, 1e-300)

    def __call__(self, size: float, delta: float = 0.05) -> float:
        """Return the bound for a table of ``size`` rows; infinite if the bags are too small.

        The noise of private proportions adds ||P~ - P^||_F / (s - e) (Section 3.1), at half of
        delta.
        """
        if not self.applies:
            raise ParameterError(
                "This bound needs as many bags as classes, kernel='rbf' or 'laplace', and a release"
                " that states its noise. Use interval instead."
            )
        if not (size >= 1 and 0 < delta < 1):
            raise ParameterError(
                "size must be at least 1, and delta must lie between 0 and 1. Change them."
            )
        private = bool(self.variances.any())
        rest = delta / 2 if private else delta
        many = len(self.sizes)

        def confidence(n: np.ndarray | float) -> np.ndarray:
            return 2 / np.sqrt(n) + np.sqrt(np.log(2 * (2 * many + 1) / rest) / (2 * np.asarray(n)))

        error = math.hypot(*confidence(self.sizes))
        if error >= self.smallest:
            return math.inf
        noise = proportion_noise(self.variances, delta / 2) if private else 0.0
        learnt = (error * (1 + self.condition) + noise) / (self.smallest - error)
        return float(learnt + self.condition * confidence(size))


def proportion_noise(variances: np.ndarray, zeta: float) -> float:
    """Return what ||P~ - P^||_F stays below with probability 1 - zeta (Chebyshev on its square).

    ``variances`` (M, K) are those of the entries. The projection onto the simplex, which is
    convex, can only bring P~ nearer to P^.
    """
    return float(np.sqrt(variances.sum() / zeta))


_LADDER = 2.0 ** np.arange(5, -6, -1)  # Section 4.2: bandwidths 2^-5 to 2^5, times the median
# The defaults that the docstring of `ClassRatio` states: rows of all bags up to which the kernel
# itself costs less than its features, and the number of features beyond.
_EXACT, _FEATURES = 2048, 1024
_MOST_BYTES = 1 << 28  # of the sums of Fourier features: 256 MB
_MOST_ROWS = 32_768  # of all bags together, for the classifier: a limit of its time and memory
# Cells of a bag: 32 are enough to resample, and each has 4 rows or more where the bag has them.
_CELLS, _CELL_ROWS = 32, 4


class RowKeeper:
    """Keeps all rows of a bag, or an even sample once they are more than ``most``."""

    def __init__(self, bags: int, most: int, rng: np.random.Generator) -> None:
        self._bags, self._most, self._rng = bags, most, rng
        self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._row_count = 0

    def update(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Take in rows of some bags; those with the smallest random keys stay."""
        self._blocks.append((rows, codes, self._rng.random(len(rows))))
        self._row_count += len(rows)
        if self._row_count > 3 * self._most * self._bags:
            self._prune()

    def _prune(self) -> tuple[np.ndarray, np.ndarray]:
        rows, codes, keys = (np.concatenate(part) for part in zip(*self._blocks, strict=True))
        order = np.lexsort((keys, codes))
        starts = np.searchsorted(codes[order], np.arange(self._bags))
        ranks = np.arange(len(order)) - starts[codes[order]]
        stay = np.sort(order[ranks < self._most])
        self._blocks = [(rows[stay], codes[stay], keys[stay])]
        self._row_count = len(stay)
        return self._blocks[0][0], self._blocks[0][1]

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that were kept and the codes of their bags."""
        rows, codes = self._prune()
        return np.ascontiguousarray(rows), codes.astype(np.int64)


class Collector:
    """An accumulator over rows and codes of their bags.

    ``kernel``, ``bandwidth`` and ``features`` are those of `ClassRatio`. The unit of bandwidths is
    the median distance of rows of the first batch.
    """

    def __init__(
        self,
        bags: KnownBags,
        kernel: str,
        bandwidth: float | str,
        features: int | str,
        rng: np.random.Generator,
    ) -> None:
        self._bags, self._rng = bags, rng
        self._kernel, self._bandwidth, self._features = kernel, bandwidth, features
        many = len(bags.names)
        self.groups = int(np.clip(bags.sizes.min() // _CELL_ROWS, FOLDS, _CELLS))
        self._counts = np.zeros(many * self.groups)
        self.keeper = RowKeeper(many, max(_MOST_ROWS // many, FOLDS), rng)
        self.bandwidths: np.ndarray = np.ones(1)
        self.sums: CellSums = LinearSums(many * self.groups)
        self._started = False

    def update(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Take in rows of some bags."""
        if not self._started:
            self.sums, self._started = self._empty_sums(rows), True
        self.keeper.update(rows, codes)
        cells = codes * self.groups + balanced_groups(codes, self.groups, self._rng)
        self._counts += np.bincount(cells, minlength=len(self._counts))
        self.sums.update(rows, cells)

    def _empty_sums(self, rows: np.ndarray) -> CellSums:
        """Return the accumulator for rows like these."""
        cells = len(self._counts)
        if self._kernel == "linear":
            return LinearSums(cells)
        kernel = KERNELS[self._kernel]
        if self._bandwidth == "cv":
            some = rows[:: -(-len(rows) // 300)]  # the median needs no more
            self.bandwidths = kernel.distance(some) * _LADDER
        else:
            self.bandwidths = np.array([float(self._bandwidth)])
        few = self._bags.sizes.sum() <= _EXACT
        if self._features == "exact" or (self._features == "auto" and few):
            return KernelSums(kernel, self.bandwidths, cells)
        room = _MOST_BYTES // (8 * cells * len(self.bandwidths))
        count = min(_FEATURES, room) if self._features == "auto" else int(self._features)
        half = max(1, count // 2)
        frequencies = kernel.draw(self._rng, (rows.shape[1], half))
        return FourierSums(frequencies, self.bandwidths, cells)

    def cell_grams(self) -> list[CellGram]:
        """Return the Gram of the cells for each bandwidth."""
        # Other kernels than the linear one are 1 on the diagonal.
        powers = self.sums.squares if isinstance(self.sums, LinearSums) else self._counts
        return [CellGram(gram, self._counts, powers, self.groups) for gram in self.sums.grams()]
