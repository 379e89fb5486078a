"""Bags of rows as Iyer, Nath & Sarawagi 2016 draw them: skewed ones to learn from, and test sets.

They are drawn by label, which an owner who promises privacy must not do (docs/errata.md).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from suffice.errors import TableError

__all__ = ["SkewedBags", "draw_bags", "l1_errors", "rare_but_last"]


@dataclass(frozen=True, eq=False)
class SkewedBags:
    """Holds one bag per class, rich in it, under private labels 0 to K - 1, and test sets.

    ``bags`` says which bag a row is in, ``truth`` (tests, K) the class ratios of the test sets.
    """

    rows: pa.Table
    labels: np.ndarray
    bags: np.ndarray
    tests: tuple[pa.Table, ...]
    truth: np.ndarray

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes, 0 to K - 1."""
        return tuple(range(self.truth.shape[1]))

    @property
    def proportions(self) -> np.ndarray:
        """The exact proportions (bags, K)."""
        counts = [np.bincount(self.labels[self.bags == i]) for i in self.classes]
        return np.array(counts) / len(self.labels) * len(counts)


def draw_bags(
    rows: pa.Table,
    labels: np.ndarray,
    *,
    size: int,
    rare: float,
    shares: np.ndarray,
    rng: np.random.Generator,
) -> SkewedBags:
    """Return K bags in which all classes but one have the proportion ``rare`` (Section 4.2).

    Bags share no row with each other nor with the test sets; these, whose class ratios are the
    lines of ``shares``, are drawn from the same remaining rows, each without replacement.
    """
    classes = shares.shape[1]
    skewed = np.full((classes, classes), rare)
    np.fill_diagonal(skewed, 1 - (classes - 1) * rare)
    learnt = np.array([_counts(line, size) for line in skewed])
    tested = np.array([_counts(line, size) for line in shares])
    pools = [rng.permutation(np.flatnonzero(labels == k)) for k in range(classes)]
    ends = np.vstack([np.zeros(classes, dtype=int), np.cumsum(learnt, axis=0)])
    if (ends[-1] + tested.max(axis=0) > list(map(len, pools))).any():
        raise TableError(f"there are too few rows of some class for bags of {size}.")
    inside = [
        np.concatenate([pool[ends[i, k] : ends[i + 1, k]] for k, pool in enumerate(pools)])
        for i in range(classes)
    ]
    remaining = [pool[end:] for pool, end in zip(pools, ends[-1], strict=True)]
    tests = [
        np.concatenate([rng.permutation(pool)[:n] for pool, n in zip(remaining, line, strict=True)])
        for line in tested
    ]
    picked = np.concatenate(inside)
    return SkewedBags(
        rows.take(picked),
        labels[picked],
        np.repeat(np.arange(classes), size),
        tuple(rows.take(indices) for indices in tests),
        tested / size,
    )


def _counts(shares: np.ndarray, size: int) -> np.ndarray:
    """Return whole numbers near ``size`` times the shares; the largest takes up the rest."""
    counts = np.rint(shares * size).astype(int)
    counts[np.argmax(shares)] += size - counts.sum()
    return np.asarray(counts)


def rare_but_last(classes: int, rare: np.ndarray) -> np.ndarray:
    """Return class ratios in which every class but the last has that line's proportion ``rare``.

    (Section 4.1: (rho_1, ..., rho_1, 1 - (c - 1) rho_1).)
    """
    shares = np.repeat(rare[:, None], classes, axis=1)
    shares[:, -1] = 1 - (classes - 1) * rare
    return shares


def l1_errors(estimates: np.ndarray, sample: SkewedBags) -> list[float]:
    """Return the L1 distance of estimated ratios from the true ones, test set by test set."""
    return [float(error) for error in np.abs(estimates - sample.truth).sum(axis=1)]
