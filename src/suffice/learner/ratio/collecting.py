"""One pass over the rows of bags: sums by cell for mean embeddings, and rows for a classifier."""

import numpy as np

from suffice.errors import TableError
from suffice.learner.ratio.bags import KnownBags
from suffice.learner.ratio.embeddings import (
    KERNELS,
    CellSums,
    FourierSums,
    KernelSums,
    LinearSums,
)
from suffice.learner.ratio.mean_embedding import FOLDS, CellGram
from suffice.learner.ratio.resampling import balanced_groups

__all__ = ["Collector", "RowKeeper"]

_EXACT = 2048  # rows of all bags up to which the kernel itself costs less than its features
_FEATURES = 1024
_LADDER = 2.0 ** np.arange(5, -6, -1)  # Section 4.2: bandwidths 2^-5 to 2^5, times the median
_GROUPS = 32  # cells of a bag: enough to resample
_GROUP_ROWS = 4
_MOST_BYTES = 1 << 28  # of the sums of Fourier features
_MEDIAN_ROWS = 300
_MOST_ROWS = 32_768  # of all bags together, for the classifier


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
        self.groups = int(np.clip(bags.sizes.min() // _GROUP_ROWS, FOLDS, _GROUPS))
        self._counts = np.zeros(many * self.groups)
        self.keeper = RowKeeper(many, max(_MOST_ROWS // many, FOLDS), rng)
        self.bandwidths: np.ndarray = np.ones(1)
        self.exact = features == "exact" or (features == "auto" and bags.sizes.sum() <= _EXACT)
        self.sums: CellSums | None = None

    def update(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Take in rows of some bags."""
        if self.sums is None:
            self.sums = self._empty_sums(rows)
        self.keeper.update(rows, codes)
        cells = codes * self.groups + balanced_groups(codes, self.groups, self._rng)
        self._counts += np.bincount(cells, minlength=len(self._counts))
        self.sums.update(rows, cells)

    def _empty_sums(self, rows: np.ndarray) -> CellSums:
        """Return the accumulator for rows like these."""
        cells = len(self._counts)
        if self._kernel == "linear":
            self.exact = True
            return LinearSums(cells)
        kernel = KERNELS[self._kernel]
        if self._bandwidth == "cv":
            some = rows[:: -(-len(rows) // _MEDIAN_ROWS)]
            self.bandwidths = kernel.distance(some) * _LADDER
        else:
            self.bandwidths = np.array([float(self._bandwidth)])
        if self.exact:
            return KernelSums(kernel, self.bandwidths, cells)
        wanted = _FEATURES if self._features == "auto" else int(self._features)
        room = _MOST_BYTES // (8 * cells * len(self.bandwidths))
        half = max(1, (wanted if self._features != "auto" else min(wanted, room)) // 2)
        frequencies = kernel.draw(self._rng, (rows.shape[1], half))
        return FourierSums(frequencies, self.bandwidths, cells)

    @property
    def filled_sums(self) -> CellSums:
        """The sums of the rows that were taken in."""
        if self.sums is None:
            raise TableError("The table has no rows. Use a table with at least one row.")
        return self.sums

    def cell_grams(self) -> list[CellGram]:
        """Return the Gram of the cells for each bandwidth."""
        powers = self.filled_sums.powers()
        grams = self.filled_sums.grams()
        return [CellGram(gram, self._counts, powers, self.groups) for gram in grams]
