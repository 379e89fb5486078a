"""The methods for a table's class ratios behind one interface, and the choice between them.

All read the rows of a table U once, answer, and state intervals. The choice is made on rows held
back, and rows that do not tell the classes apart are refused.

Intervals of moments are those of `moment_interval`. Those of the others are quantiles of resampled
answers. A resampled answer is what other rows from the same distributions, in the bags and in U,
and another draw of the noise on the proportions might have given: rows are drawn again with
replacement (Efron 1979), in cells of some rows for mean embeddings, and noise is added of the kind
that the release states. That the classifier of bags itself would differ is left out: its errors
cost accuracy, and calibration, which is done anew, keeps them from costing truth.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from suffice.errors import TableError
from suffice.learner.ratio.bag_likelihood import BagLikelihood, fit_bag_likelihood
from suffice.learner.ratio.bags import KnownBags, mixed_class_names
from suffice.learner.ratio.collecting import RowKeeper
from suffice.learner.ratio.embeddings import CellSums
from suffice.learner.ratio.mean_embedding import CellGram, MeanEmbedding, held_back_errors
from suffice.learner.ratio.moment_interval import TableMoments, accepted_ends
from suffice.learner.ratio.moment_inversion import ClassMeans, ScoreMoments, mean_and_covariance
from suffice.learner.ratio.resampling import balanced_groups, resample_counts

__all__ = [
    "ByEmbedding",
    "ByLikelihood",
    "ByMoments",
    "ChosenMethod",
    "Method",
    "Resampled",
    "choose_level",
    "choose_method",
    "resampled_ends",
]

_PARTS = 64  # of U
_DRAWS = 50
_BETTER_ERRORS = 2.0  # standard errors by which mean embeddings must be better
_DISTINCT_ERRORS = 1.0  # standard errors by which classes must differ: one in six by chance


class Method(ABC):
    """A fitted estimator of class ratios."""

    @abstractmethod
    def summarise(self, batches: Iterable[np.ndarray], rng: Generator) -> Any:
        """Return what is needed of a table's rows."""

    @abstractmethod
    def ratios(self, summary: Any) -> np.ndarray:
        """Return the ratios (K,) of the table."""

    @abstractmethod
    def ends(
        self, summaries: Sequence[Any], level: float, draws: int, rng: Generator, *, excess: float
    ) -> np.ndarray:
        """Return both ends (n, 2, K) of each ratio's interval.

        All variances are ``excess`` times as large as those of rows and noise.
        """


class Resampled(Method):
    """A method whose intervals come from answers to resampled rows and noise."""

    @abstractmethod
    def redraw(self, rng: Generator) -> "Resampled":
        """Return the method as other rows of the bags, and other noise, might have left it."""

    @abstractmethod
    def resample(self, summary: Any, rng: Generator) -> np.ndarray:
        """Return the ratios (K,) of rows of the table drawn again."""

    def ends(
        self, summaries: Sequence[Any], level: float, draws: int, rng: Generator, *, excess: float
    ) -> np.ndarray:
        """Return both ends (n, 2, K) of each interval: quantiles of resampled answers."""
        return resampled_ends(self, summaries, level, draws, rng, excess=excess)


@dataclass(frozen=True, eq=False)
class ByEmbedding(Resampled):
    """Class ratios by mean embeddings at one bandwidth."""

    fitted: MeanEmbedding
    sums: CellSums
    level: int

    def summarise(
        self, batches: Iterable[np.ndarray], rng: Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the inner products (parts, cells) of the table's parts, and the parts' sizes."""
        across, counts = np.zeros((_PARTS, len(self.fitted.times))), np.zeros(_PARTS)
        for rows in batches:
            parts = balanced_groups(np.zeros(len(rows), dtype=np.int64), _PARTS, rng)
            across += self.sums.across(rows, parts, _PARTS, self.level)
            counts += np.bincount(parts, minlength=_PARTS)
        if not counts.any():
            raise TableError("The table has no rows. Use a table with at least one row.")
        return across[counts > 0], counts[counts > 0]

    def ratios(self, summary: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the ratios of the table."""
        across, counts = summary
        return self.fitted.ratios(across.sum(axis=0) / counts.sum())

    def redraw(self, rng: Generator) -> "ByEmbedding":
        """Return the method as other rows of the bags, and other noise, might have left it."""
        bags = self.fitted.bags.redraw(rng)
        again = replace(self.fitted, bags=bags, times=self.fitted.cells.draw_cells(rng))
        return replace(self, fitted=again)

    def resample(self, summary: tuple[np.ndarray, np.ndarray], rng: Generator) -> np.ndarray:
        """Return the ratios of parts of the table drawn again."""
        across, counts = summary
        times = resample_counts(np.zeros(len(counts), dtype=np.int64), rng)
        return self.fitted.ratios(times @ across / (times @ counts))


@dataclass(frozen=True, eq=False)
class ByLikelihood(Resampled):
    """Class ratios by the likelihood of bags."""

    fitted: BagLikelihood

    def summarise(self, batches: Iterable[np.ndarray], rng: Generator) -> np.ndarray:
        """Return the scores of the table's rows."""
        del rng
        scores = [self.fitted.scores_of(rows) for rows in batches]
        if not scores:
            raise TableError("The table has no rows. Use a table with at least one row.")
        return np.vstack(scores)

    def ratios(self, summary: np.ndarray) -> np.ndarray:
        """Return the ratios of the table."""
        return self.fitted.ratios(summary)

    def redraw(self, rng: Generator) -> "ByLikelihood":
        """Return the method as other rows of the bags, and other noise, might have left it."""
        bags = self.fitted.bags.redraw(rng)
        return replace(
            self, fitted=self.fitted.recalibrate(bags, resample_counts(self.fitted.codes, rng))
        )

    def resample(self, summary: np.ndarray, rng: Generator) -> np.ndarray:
        """Return the ratios of rows of the table drawn again."""
        return self.fitted.ratios(
            summary, resample_counts(np.zeros(len(summary), dtype=np.int64), rng)
        )


@dataclass(frozen=True, eq=False)
class ByMoments(Method):
    """Class ratios by class means of the posteriors that the likelihood of bags gives."""

    fitted: BagLikelihood
    means: ClassMeans

    @classmethod
    def of(cls, fitted: BagLikelihood, *, complete: bool) -> "ByMoments":
        """Return the method of a classifier, fitted to all rows of the bags if ``complete``."""
        moments = ScoreMoments.of(
            fitted.bags, fitted.held_out_posteriors, fitted.codes, complete=complete
        )
        return cls(fitted, moments.class_means())

    def summarise(self, batches: Iterable[np.ndarray], rng: Generator) -> TableMoments:
        """Return the mean posterior of the table's rows, with its covariance."""
        del rng
        posteriors = [self.fitted.mean_posteriors(rows) for rows in batches]
        if not posteriors:
            raise TableError("The table has no rows. Use a table with at least one row.")
        stacked = np.vstack(posteriors)
        return TableMoments(*mean_and_covariance(stacked), len(stacked))

    def ratios(self, summary: TableMoments) -> np.ndarray:
        """Return the ratios of the table."""
        return self.means.ratios(summary.mean)

    def ends(
        self,
        summaries: Sequence[TableMoments],
        level: float,
        draws: int,
        rng: Generator,
        *,
        excess: float,
    ) -> np.ndarray:
        """Return both ends (n, 2, K) of each interval, those of `moment_interval`."""
        del draws, rng
        return np.array([accepted_ends(self.means, table, level, excess) for table in summaries])

    def held_back_errors(self) -> np.ndarray:
        """Return squared errors (folds, M + 1), as `BagLikelihood.held_back_errors` does."""
        fitted, bags = self.fitted, self.fitted.bags
        posteriors, codes = fitted.held_out_posteriors, fitted.codes
        truth = np.vstack([bags.proportions, bags.prior])
        errors = []
        for held_back in fitted.held_back_parts():
            rest = ~held_back
            means = ScoreMoments.of(bags, posteriors[rest], codes[rest]).class_means()
            parts = [held_back & (codes == i) for i in range(len(bags.names))]
            estimates = [means.ratios(posteriors[p].mean(axis=0)) for p in [*parts, held_back]]
            errors.append(((np.array(estimates) - truth) ** 2).sum(axis=1))
        return np.array(errors)


def resampled_ends(
    method: Resampled,
    summaries: Sequence[Any],
    level: float,
    draws: int,
    rng: Generator,
    *,
    excess: float = 1.0,
) -> np.ndarray:
    """Return both ends (n, 2, K) of each ratio's interval: quantiles of resampled answers.

    All tables are asked of the same redrawn methods, which cost more than the answers do. All
    variances are ``excess`` times as large as the resampled ones. The quantiles are those that a
    further draw lies beyond as often as the level says, however few the draws (Weibull 1939).
    """
    resampled_ratios = []
    for _ in range(draws):
        again = method.redraw(rng)
        resampled_ratios.append([again.resample(summary, rng) for summary in summaries])
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(resampled_ratios, tails, axis=0, method="weibull")
    ratios = np.array([method.ratios(summary) for summary in summaries])
    ends = np.stack([np.minimum(low, ratios), np.maximum(high, ratios)], axis=1)
    middle = ratios[:, None]
    return np.clip(middle + np.sqrt(excess) * (ends - middle), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class ChosenMethod:
    """The method that was taken, and the root mean squared error of each on rows held back.

    ``mixed`` says which classes the rows do not tell apart, None if they do.
    """

    name: str
    method: Method
    errors: dict[str, float]
    mixed: str | None


@dataclass(frozen=True, eq=False)
class _Candidate:
    method: Method
    errors: np.ndarray
    distinct: bool


def choose_level(bags: KnownBags, grams: list[CellGram], constraint: str) -> tuple[int, np.ndarray]:
    """Return the bandwidth's place in the ladder, and its errors on rows held back.

    The widest whose mean error is within one standard error of the least: on few bags the errors
    say little, and narrow kernels are the noisier ones.
    """
    errors = np.array([held_back_errors(bags, gram, constraint).ravel() for gram in grams])
    behind = errors - errors[errors.mean(axis=1).argmin()]
    doubt = behind.std(axis=1) / np.sqrt(behind.shape[1])
    level = int(np.flatnonzero(behind.mean(axis=1) <= doubt)[0])
    return level, errors[level]


def choose_method(
    name: str, embedding: ByEmbedding, errors: np.ndarray, keeper: RowKeeper, rng: Generator
) -> ChosenMethod:
    """Return the method of this name, or of "auto" the better one on rows held back.

    "auto" compares the embedding with a classifier of the bags, of which `_best_classifier` says
    how it is used. ``errors`` are those of the embedding there. It is taken where it is nearer by
    more than two standard errors: on few bags the errors say little, and a classifier is the more
    efficient. A method whose rows do not tell the classes apart is left out if the other's do.
    Where bags hardly differ only intervals of moments cover, and these are taken.
    """
    bags = embedding.fitted.bags
    candidates: dict[str, _Candidate] = {}
    if name != "mmd":
        scored = _best_classifier(bags) if name == "auto" else name
        candidates[scored] = _by_classifier(scored, bags, keeper, rng)
    if name in ("auto", "mmd"):
        candidates["mmd"] = _Candidate(embedding, errors, _classes_differ(embedding.fitted, rng))
    distinct = {key: candidate for key, candidate in candidates.items() if candidate.distinct}
    mixed = None
    if not distinct:
        direction = embedding.fitted.least_distinct_direction()
        mixed = mixed_class_names(embedding.fitted.bags.classes, direction)
    best = _best(distinct or candidates)
    if bags.doubt is not None and "moments" in (distinct or candidates):
        best = "moments"
    measured = {
        key: float(np.sqrt(candidate.errors.mean())) for key, candidate in candidates.items()
    }
    return ChosenMethod(best, candidates[best].method, measured, mixed)


def _best_classifier(bags: KnownBags) -> str:
    """Return how the classifier of bags is used unless the caller says.

    By moments: they are as near as the likelihood, and their intervals cover also where posteriors
    are wrong, and where bags hardly differ. By the likelihood for exact labels, where it is nearer,
    and where the noise is not known.
    """
    many, classes = bags.proportions.shape
    labels = many == classes and np.array_equal(bags.proportions, np.eye(classes))
    return "likelihood" if bags.variances is None or labels else "moments"


def _best(candidates: dict[str, _Candidate]) -> str:
    if len(candidates) == 1:
        return next(iter(candidates))
    other = next(key for key in candidates if key != "mmd")
    near, far = candidates["mmd"].errors, candidates[other].errors
    doubt = np.sqrt(near.var() / len(near) + far.var() / len(far))
    return "mmd" if near.mean() + _BETTER_ERRORS * doubt < far.mean() else other


def _by_classifier(name: str, bags: KnownBags, keeper: RowKeeper, rng: Generator) -> _Candidate:
    rows, codes = keeper.result()
    sampled_bags = replace(bags, sizes=np.bincount(codes).astype(np.float64))
    complete = np.array_equal(sampled_bags.sizes, bags.sizes)
    fitted = fit_bag_likelihood(sampled_bags, rows, codes, rng, complete=complete)
    distinct = fitted.gain[0] > _DISTINCT_ERRORS * fitted.gain[1]
    if name == "moments":
        moments = ByMoments.of(fitted, complete=complete)
        return _Candidate(moments, moments.held_back_errors().ravel(), distinct)
    return _Candidate(ByLikelihood(fitted), fitted.held_back_errors().ravel(), distinct)


def _classes_differ(fitted: MeanEmbedding, rng: Generator) -> bool:
    """Say whether class embeddings differ in every direction beyond their standard error."""
    direction = fitted.least_distinct_direction()
    again = [replace(fitted, times=fitted.cells.draw_cells(rng)) for _ in range(_DRAWS)]
    doubt = np.std([other.energy(direction) for other in again])
    return fitted.energy(direction) > _DISTINCT_ERRORS * float(doubt)
