"""Estimate the mean and second moments of examples from rados, and how sure they are."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from suffice.learner.calibration import LabelMeans, LogOdds, expected_share, gaussian_log_odds
from suffice.releases.release import Covariance, Release

# What is taken of S before it is measured, as parts of a row's squared length. The first was the
# best of .02, .2 and 1 on magic, wine-white, abalone, spambase and adult at epsilon .1 to 3.
_UNEXPECTED_SQUARES = 0.02  # of S, that differ from those expected, in all
_SQUARE_ALONG_OPERATOR = 1 / 16  # the mean square of rows along mu: that of the default intercept


@dataclass(frozen=True, eq=False)
class SecondNoise:
    """Holds what a mechanism added to S, and corrects a measured S for it.

    The covariance of n noisy rados is S + N on average, N known. Subtracting N leaves an error of
    about N/sqrt(n) in each entry, which is often far above S: at epsilon 1 and 12,000 records of 10
    columns a hundred times the mean square of a column. So S is S_0 + D (measured - N - S_0) D,
    with D = sqrt(k), k = u/(u + e), u the squares of S - S_0 that are expected and e those of the
    error. S_0 is what public facts and mu say: rows have the declared length, spread over all
    directions, but for mu's, where S is at least mu mu^T / (1 - ybar^2).
    """

    added: np.ndarray  # (d,): the diagonal of N
    expected: np.ndarray  # (d, d): S_0
    trust: np.ndarray  # (d,): the diagonal of D; 1 where there is no noise
    weight: float  # of the intercept, whose square is exact; 0 if there is none

    def corrected(self, measured: np.ndarray) -> np.ndarray:
        """Return S from a measured S + N."""
        apart = measured - np.diag(self.added) - self.expected
        corrected = self.expected + self.trust[:, None] * apart * self.trust
        if self.weight > 0:
            corrected[-1, -1] = self.weight**2
        return np.asarray(corrected)

    def last(self) -> "SecondNoise":
        """Return the noise of the last coordinate alone."""
        return SecondNoise(self.added[-1:], self.expected[-1:, -1:], self.trust[-1:], self.weight)


@dataclass(frozen=True, eq=False)
class RadoMoments:
    """Holds mu = (1/m) sum_i y_i x_i, rows with the second moments of the examples, and m.

    S = (1/m) sum_i x_i x_i^T is the mean of row row^T, once it is corrected for ``second_noise``.
    ``noise`` is the covariance of what the mechanism added to mu; sampling is not in it.
    """

    operator: np.ndarray
    rows: np.ndarray
    noise: Covariance
    examples: int
    second_noise: SecondNoise | None = None

    @cached_property
    def second(self) -> np.ndarray:
        """S, as all rows have it."""
        return self.second_of(self.rows)

    def second_of(self, rows: np.ndarray) -> np.ndarray:
        """Return S, as some of the rows have it."""
        measured = rows.T @ rows / max(len(rows), 1)
        return measured if self.second_noise is None else self.second_noise.corrected(measured)

    def square_of(self, models: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the mean square of the scores <theta, x> of each column theta, by some rows.

        As measured, less the known noise.
        """
        measured = np.mean((rows @ models) ** 2, axis=0)
        if self.second_noise is None:
            return np.asarray(measured)
        return np.asarray(measured - self.second_noise.added @ models**2)

    def square_error(self, parameters: np.ndarray) -> float:
        """Return the standard deviation that noise adds to `square_of`; 0 if none is in S.

        Scores of n rados are about Gaussian: their mean square varies by sqrt(2/n) of it.
        """
        if self.second_noise is None:
            return 0.0
        noisy = float(np.mean((self.rows @ parameters) ** 2))
        without = max(float(self.square_of(parameters, self.rows)), 0.0)
        return float(np.sqrt(2 / len(self.rows) * max(noisy**2 - without**2, 0.0)))

    def with_label_mean(self, weight: float) -> "RadoMoments":
        """Return the same with E[y] as it is expected; ``weight`` is the intercept's, 0 if none.

        The intercept of mu is E[y] times its weight, 2 p - 1 for the proportion p of the second
        class. Noise may throw it out of [-1, 1] (`expected_share`).
        """
        if not weight > 0:
            return self
        measured = float(self.operator[-1] / weight)
        noise = float(np.sqrt(self.noise.diagonal(len(self.operator))[-1])) / weight
        operator = self.operator.copy()
        operator[-1] = weight * (2 * expected_share((1 + measured) / 2, noise / 2) - 1)
        return replace(self, operator=operator)

    def last(self) -> "RadoMoments":
        """Return the moments of the last coordinate alone."""
        noise = None if self.second_noise is None else self.second_noise.last()
        return RadoMoments(
            self.operator[-1:], self.rows[:, -1:], self.noise.last(), self.examples, noise
        )


def moments_of(release: Release) -> RadoMoments:
    """Return the moments of the examples behind a release of rados.

    Over uniform signs a rado has mean (m/2) mu and covariance (m/4) S. With support m_* it is a sum
    drawn without replacement: mean m_* mu and covariance m_* (m - m_*)/(m - 1) (S - mu mu^T).
    """
    rados, m = release.array("rados", "rados"), release.rows
    n, support = len(rados), release.details["support"]
    mean = rados.mean(axis=0)
    share = m / 2 if support is None else support
    spread = m / 4 if support is None else support * max(m - support, 1) / max(m - 1, 1)
    rows = (rados - mean) * np.sqrt(n / (max(n - 1, 1) * spread))
    if support is not None:
        rows += mean / share  # the rows have mean zero: this adds mu mu^T and nothing else
    # Of a rado's noise the mean rado has: all where one vector is shared; the n-th part where each
    # rado has its own; where edges have theirs, so much as there are edges in one rado.
    mechanism = release.details["mechanism"]
    noise_share = {"matrix": 1 / n, "edges": share / m}.get(mechanism, 1.0)
    noise = release.noise.scaled(noise_share / share**2)
    # The covariance of rados has: nothing of a shared vector; all of their own noise; of noisy
    # edges so much as of the edges themselves.
    kept = {"matrix": 1 / spread, "edges": 1 / share}.get(mechanism, 0.0)
    added = kept * release.noise.diagonal(rados.shape[1])
    moments = RadoMoments(mean / share, rows, noise, m)
    if not added.any():
        return moments
    return replace(moments, second_noise=_second_noise(moments, added, release))


def _second_noise(moments: RadoMoments, added: np.ndarray, release: Release) -> SecondNoise:
    """Return how to correct S; ``moments`` have it as the noisy rados show it."""
    weight = release.pipeline.intercept
    features = np.arange(len(added) - (weight > 0))
    count = len(moments.rows)
    # The largest square of a row's length, without its intercept, and the mean of it. The mean is
    # as measured, as far as it can be. Before that it is taken to be uniform over what is possible,
    # and at its end: owners clip most rows to the bound. Where the bound is far above what rados
    # show, they bound the mean, by three deviations of what they say.
    shown = moments.second[np.ix_(features, features)]
    measured = float(np.trace(shown) - added[features].sum())
    error = 2 * float(np.sum(shown**2)) / count
    length = min(release.pipeline.bound**2, max(measured, 0.0) + 3 * np.sqrt(error))
    trusted = length**2 / 12 / (length**2 / 12 + error)
    size = float(np.clip(length + trusted * (measured - length), length / 100, length))
    expected = np.zeros_like(moments.second)
    expected[features, features] = size / max(len(features), 1)
    if weight > 0:
        expected[-1, -1] = weight**2
    mean_label = moments.operator[-1] / weight if weight > 0 else 0.0
    along = moments.operator[features]
    square = float(along @ along)
    signal = max(square - float(moments.noise.diagonal(len(added))[features].sum()), 0.0)
    # S is at least mu mu^T, since E[(y <x, v>)]^2 <= E[<x, v>^2]; less the part of the intercept.
    least = signal / (1 - LabelMeans(0.0, 0.0, mean_label).balance ** 2)
    more = max(length * _SQUARE_ALONG_OPERATOR, least) - size / max(len(features), 1)
    if more > 0 and square > 0:
        expected[np.ix_(features, features)] += more * np.outer(along, along) / square
    # The error of a covariance B that n rados show has squares of (tr(B)^2 + tr(B^2))/n in all
    # (Wishart). That of S alone is there without noise as well, and S is measured as S + N.
    noisy = np.flatnonzero(added)
    second = moments.second[np.ix_(noisy, noisy)]
    without = second - np.diag(added[noisy])
    traces = np.trace(second) ** 2 - max(np.trace(without), 0.0) ** 2
    by_noise = max(float(traces + np.sum(second**2) - np.sum(without**2)), 0.0) / count
    unexpected = _UNEXPECTED_SQUARES * length**2
    trust = np.ones(len(added))
    trust[noisy] = np.sqrt(unexpected / max(unexpected + by_noise, 1e-300))
    return SecondNoise(added, expected, trust, weight if added[-1] > 0 else 0.0)


# Of the variance of scores, of their mean over their deviation, and of <theta, mu> at worst: with
# more noise there are no probabilities.
LARGEST_ERROR = 0.25


def log_odds_of_moments(
    parameters: np.ndarray, moments: RadoMoments, labels: LabelMeans, weight: float
) -> LogOdds | None:
    """Return Gaussian log odds of scores without any row; None if noise hides their variance.

    ``weight`` is that of the intercept, by which rados say how large scores are on average; 0 if
    there is none.
    """
    scores = moments.rows @ parameters
    square = float(moments.square_of(parameters, moments.rows))
    if moments.square_error(parameters) > LARGEST_ERROR * square:
        return None
    if not weight > 0 or labels.mean is None:
        return gaussian_log_odds(square, None, labels)
    added = 0.0 if moments.second_noise is None else moments.second_noise.added[-1]
    mean_score = (float(np.mean(scores * moments.rows[:, -1])) - added * parameters[-1]) / weight
    if moments.second_noise is not None:
        noisy = float(np.mean(scores**2) * np.mean(moments.rows[:, -1] ** 2)) / len(scores)
        if np.sqrt(noisy) / weight > LARGEST_ERROR * np.sqrt(square):
            return None
    return gaussian_log_odds(square, mean_score, labels)
