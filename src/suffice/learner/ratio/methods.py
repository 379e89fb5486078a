"""The two ways to a set's class ratios behind one interface: read its rows once, answer, resample.

A resampled answer is what other rows from the same distributions, in the sets and in U, and another
draw of the noise on the proportions might have given: rows are drawn again with replacement
(Efron 1979), in cells of some rows for mean embeddings, and noise is added of the kind that the
release states. That the classifier of sets itself would differ is left out: its errors cost
accuracy, and calibration, which is done anew, keeps them from costing truth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from suffice.errors import TableError
from suffice.learner.ratio.embeddings import CellSums
from suffice.learner.ratio.mean_embedding import MeanEmbedding
from suffice.learner.ratio.resampling import balanced_groups, drawn_again
from suffice.learner.ratio.set_likelihood import SetLikelihood

__all__ = ["ByEmbedding", "ByLikelihood", "Method", "resampled_ends"]

_PARTS = 64  # of U


class Method(Protocol):
    """A fitted estimator of class ratios."""

    def read(self, batches: Iterable[np.ndarray], rng: np.random.Generator) -> Any:
        """Return what is needed of a set's rows."""

    def ratios(self, seen: Any) -> np.ndarray:
        """Return the ratios (K,) of the set."""

    def redrawn(self, rng: np.random.Generator) -> "Method":
        """Return the method as other rows of the sets, and other noise, might have left it."""

    def resampled(self, seen: Any, rng: np.random.Generator) -> np.ndarray:
        """Return the ratios (K,) of rows of the set drawn again."""


@dataclass(frozen=True, eq=False)
class ByEmbedding:
    """Class ratios by mean embeddings at one bandwidth."""

    fitted: MeanEmbedding
    sums: CellSums
    level: int

    def read(
        self, batches: Iterable[np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the inner products (parts, cells) of the set's parts, and the parts' sizes."""
        across, counts = np.zeros((_PARTS, len(self.fitted.times))), np.zeros(_PARTS)
        for rows in batches:
            parts = balanced_groups(np.zeros(len(rows), dtype=np.int64), _PARTS, rng)
            across += self.sums.across(rows, parts, _PARTS, self.level)
            counts += np.bincount(parts, minlength=_PARTS)
        if not counts.any():
            raise TableError("the set has no rows.")
        return across[counts > 0], counts[counts > 0]

    def ratios(self, seen: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the ratios of the set."""
        across, counts = seen
        return self.fitted.ratios(across.sum(axis=0) / counts.sum())

    def redrawn(self, rng: np.random.Generator) -> "ByEmbedding":
        """Return the method as other rows of the sets, and other noise, might have left it."""
        known = self.fitted.known.redrawn(rng)
        again = replace(self.fitted, known=known, times=self.fitted.cells.drawn(rng))
        return replace(self, fitted=again)

    def resampled(
        self, seen: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return the ratios of parts of the set drawn again."""
        across, counts = seen
        times = drawn_again(np.zeros(len(counts), dtype=np.int64), rng)
        return self.fitted.ratios(times @ across / (times @ counts))


@dataclass(frozen=True, eq=False)
class ByLikelihood:
    """Class ratios by the likelihood of sets."""

    fitted: SetLikelihood

    def read(self, batches: Iterable[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Return the scores of the set's rows."""
        del rng
        scores = [self.fitted.scores_of(rows) for rows in batches]
        if not scores:
            raise TableError("the set has no rows.")
        return np.vstack(scores)

    def ratios(self, seen: np.ndarray) -> np.ndarray:
        """Return the ratios of the set."""
        return self.fitted.ratios(seen)

    def redrawn(self, rng: np.random.Generator) -> "ByLikelihood":
        """Return the method as other rows of the sets, and other noise, might have left it."""
        known = self.fitted.known.redrawn(rng)
        return replace(
            self, fitted=self.fitted.recalibrated(known, drawn_again(self.fitted.codes, rng))
        )

    def resampled(self, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the ratios of rows of the set drawn again."""
        return self.fitted.ratios(seen, drawn_again(np.zeros(len(seen), dtype=np.int64), rng))


def resampled_ends(
    method: Method, seen: Sequence[Any], level: float, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return both ends (n, 2, K) of each ratio's interval: quantiles of resampled answers.

    All sets are asked of the same redrawn methods, which cost more than the answers do.
    """
    drawn = []
    for _ in range(draws):
        again = method.redrawn(rng)
        drawn.append([again.resampled(one, rng) for one in seen])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    found = np.array([method.ratios(one) for one in seen])
    return np.stack([np.minimum(low, found), np.maximum(high, found)], axis=1)
