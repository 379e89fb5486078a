"""What rados say about the mean and the second moments of examples, and how sure that is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, logit, ndtri

from suffice.learner.calibration import calibrate_by_product, expected_share
from suffice.release.release import Covariance, Release

__all__ = [
    "SCORES_ONLY",
    "LabelMeans",
    "LogOdds",
    "RadoMoments",
    "SecondNoise",
    "class_probabilities",
    "gaussian_log_odds",
    "log_odds_of_moments",
    "log_odds_of_scores",
    "moments_of",
    "rados_of",
]


# What is taken of S before it is measured, as parts of a row's squared length. The first was the
# best of .02, .2 and 1 on magic, wine-white, abalone, spambase and adult at epsilon .1 to 3.
_UNKNOWN = 0.02  # squares of S that differ from those expected, in all
_ALONG_OPERATOR = 1 / 16  # the mean square of rows along mu: that of the default intercept
_MOST_DEVIATIONS = 3.0  # of what rados say about lengths, that they may be wrong by
_LEAST_LENGTH = 0.01  # the mean square of rows
_LARGEST_MEAN = 0.98  # of labels: one class may be rare


@dataclass(frozen=True, eq=False)
class SecondNoise:
    """Holds what a mechanism added to S, and corrects a measured S for it.

    The covariance of n noisy rados is S + N on average, N known. Subtracting N leaves an error of
    about N/sqrt(n) in each entry, which is often far above S: at epsilon 1 and 12,000 records of 10
    columns a hundred times the mean square of a column. So S is S_0 + D (measured - N - S_0) D,
    with D = sqrt(k), k = u/(u + e), u the squares of S - S_0 that are expected and e those of the
    error. S_0 is what public facts and mu say: rows have the declared length, spread over all
    directions, but for mu's, where S is at least mu mu^T / (1 - ybar^2).

    Attributes
    ----------
    added : ndarray of shape (d,)
        The diagonal of N.
    expected : ndarray of shape (d, d)
        S_0.
    trust : ndarray of shape (d,)
        The diagonal of D; 1 where there is no noise.
    weight : float
        The weight of the intercept, whose square is exact; 0 if there is none.
    """

    added: np.ndarray
    expected: np.ndarray
    trust: np.ndarray
    weight: float

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


def rados_of(release: Release) -> np.ndarray:
    """Return the rados of a release, or say that it holds none."""
    return release.array("rados", "rados")


def moments_of(release: Release) -> RadoMoments:
    """Return the moments of the examples behind a release of rados.

    Over uniform signs a rado has mean (m/2) mu and covariance (m/4) S. With support m_* it is a sum
    drawn without replacement: mean m_* mu and covariance m_* (m - m_*)/(m - 1) (S - mu mu^T).
    """
    rados, m = rados_of(release), release.rows
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
    return RadoMoments(mean / share, rows, noise, m, _second_noise(moments, added, release))


def _second_noise(moments: RadoMoments, added: np.ndarray, release: Release) -> SecondNoise:
    """Return how to correct S; ``moments`` have it as the noisy rados show it."""
    weight = release.pipeline.intercept
    features = np.arange(len(added) - (weight > 0))
    noisy = np.flatnonzero(added)
    length, size = _lengths(moments, added, features, release.pipeline.bound**2)
    expected = np.zeros_like(moments.second)
    expected[features, features] = size / max(len(features), 1)
    if weight > 0:
        expected[-1, -1] = weight**2
    mean_label = moments.operator[-1] / weight if weight > 0 else 0.0
    along = moments.operator[features]
    square = float(along @ along)
    signal = max(square - float(moments.noise.diagonal(len(added))[features].sum()), 0.0)
    # S is at least mu mu^T, since E[(y <x, v>)]^2 <= E[<x, v>^2]; less the part of the intercept.
    least = signal / (1 - min(abs(mean_label), _LARGEST_MEAN) ** 2)
    more = max(length * _ALONG_OPERATOR, least) - size / max(len(features), 1)
    if more > 0 and square > 0:
        expected[np.ix_(features, features)] += more * np.outer(along, along) / square
    second = moments.second[np.ix_(noisy, noisy)]
    error = _error_by_noise(second, added[noisy], len(moments.rows))
    trust = np.ones(len(added))
    trust[noisy] = np.sqrt(_UNKNOWN * length**2 / max(_UNKNOWN * length**2 + error, 1e-300))
    return SecondNoise(added, expected, trust, weight if added[-1] > 0 else 0.0)


def _lengths(
    moments: RadoMoments, added: np.ndarray, features: np.ndarray, bound: float
) -> tuple[float, float]:
    """Return the largest square of a row's length, without its intercept, and the mean of it.

    The mean is as measured, as far as it can be. Before that it is taken to be uniform over what
    is possible, and at its end: owners clip most rows to the bound. Where the bound is far above
    what rados show, they bound the mean.
    """
    second = moments.second[np.ix_(features, features)]
    measured = float(np.trace(second) - added[features].sum())
    error = 2 * float(np.sum(second**2)) / len(moments.rows)
    length = min(bound, max(measured, 0.0) + _MOST_DEVIATIONS * np.sqrt(error))
    trust = length**2 / 12 / (length**2 / 12 + error)
    mean = length + trust * (measured - length)
    return length, float(np.clip(mean, _LEAST_LENGTH * length, length))


def _error_by_noise(second: np.ndarray, added: np.ndarray, count: int) -> float:
    """Return the sum of squares that the noise adds to the error of S, measured as S + N.

    The error of a covariance B that ``count`` rados show has squares of (tr(B)^2 + tr(B^2))/count
    in all (Wishart). That of S alone is there without noise as well.
    """
    without = second - np.diag(added)
    traces = np.trace(second) ** 2 - max(np.trace(without), 0.0) ** 2
    return max(float(traces + np.sum(second**2) - np.sum(without**2)), 0.0) / count


SCORES_ONLY = "scores only"  # what a model file adds to its loss if it has no probabilities
_LARGEST_CORRELATION = 0.97  # of scores with labels
_MOST_BELIEVED = 0.75  # the same where the tails of scores are not known
_QUANTILES = 400  # of Gaussian scores
_PENALTY = 1e-4  # on the slope of standardised scores: it exists always
_NEWTON_STEPS = 50
_SETTLED = 1e-10
_LEAST_SLOPE = 1e-6  # of standardised scores: predictions and probabilities agree
_MOST_ERROR = 0.25  # of the variance of scores, and of their mean over their deviation


@dataclass(frozen=True)
class LabelMeans:
    """What is known of labels: E[y s] and E[y], and the standard deviation of the first.

    Attributes
    ----------
    product : float
        E[y s], without the part that the model has learnt from noise.
    error : float
        The standard deviation of ``product`` by noise.
    mean : float or None
        E[y]; None if it is not known. Then scores of 0 count as undecided.
    """

    product: float
    error: float
    mean: float | None

    @property
    def balance(self) -> float:
        """E[y], held away from -1 and +1; 0 if it is not known."""
        return (
            0.0 if self.mean is None else float(np.clip(self.mean, -_LARGEST_MEAN, _LARGEST_MEAN))
        )


@dataclass(frozen=True)
class LogOdds:
    """The log odds of the second class: ``slope`` times the score, plus ``offset``."""

    slope: float
    offset: float


def log_odds_of_scores(
    scores: np.ndarray, labels: LabelMeans, most: float = _LARGEST_CORRELATION
) -> LogOdds:
    """Return the log odds of least logistic risk over unlabelled rows with these scores.

    Where E[y s] has an error, the slope is integrated out (`suffice.learner.calibration`). No
    correlation of scores and labels above ``most`` is believed.
    """
    free = labels.mean is not None
    centre = float(scores.mean()) if free else 0.0
    size = float(np.sqrt(np.mean((scores - centre) ** 2)))
    if not size > 1e-12 * max(abs(centre), 1e-300):
        return LogOdds(0.0, float(logit((1 + labels.balance) / 2)))
    standard = (scores - centre) / size
    covariance = _possible((labels.product - labels.balance * centre) / size, labels, most)
    if labels.error > _SETTLED * size:
        slope, offset = _mean_link(standard, covariance, labels.error / size, labels)
    else:
        slope, offset = _least_risk(standard, covariance, labels)
    slope = max(slope, _LEAST_SLOPE)
    return LogOdds(slope / size, offset - slope * centre / size)


def _mean_link(
    scores: np.ndarray, product: float, error: float, labels: LabelMeans
) -> tuple[float, float]:
    """Return slope and offset, with slopes integrated out; the score of the first class is 0."""
    shares = np.array([1 - labels.balance, 1 + labels.balance]) / 2
    link = calibrate_by_product(
        np.column_stack([np.zeros_like(scores), scores]),
        shares,
        (product + float(scores.mean())) / 2,  # E[s if y = 1] = (E[y s] + E[s]) / 2
        error / 2,
        shifted=labels.mean is not None,
    )
    return link.slope, float(link.shift[1])


def log_odds_of_moments(
    parameters: np.ndarray, moments: RadoMoments, labels: LabelMeans, weight: float
) -> LogOdds | None:
    """Return Gaussian log odds of scores without any row; None if noise hides their variance.

    ``weight`` is that of the intercept, by which rados say how large scores are on average; 0 if
    there is none.
    """
    scores = moments.rows @ parameters
    square = float(moments.square_of(parameters, moments.rows))
    if moments.square_error(parameters) > _MOST_ERROR * square:
        return None
    if not weight > 0 or labels.mean is None:
        return gaussian_log_odds(square, None, labels)
    added = 0.0 if moments.second_noise is None else moments.second_noise.added[-1]
    mean_score = (float(np.mean(scores * moments.rows[:, -1])) - added * parameters[-1]) / weight
    if moments.second_noise is not None:
        noisy = float(np.mean(scores**2) * np.mean(moments.rows[:, -1] ** 2)) / len(scores)
        if np.sqrt(noisy) / weight > _MOST_ERROR * np.sqrt(square):
            return None
    return gaussian_log_odds(square, mean_score, labels)


def _possible(covariance: float, labels: LabelMeans, most: float) -> float:
    """Return a covariance of standardised scores and labels that is not beyond what can be."""
    return float(np.clip(covariance, 0.0, most * np.sqrt(1 - labels.balance**2)))


def _least_risk(scores: np.ndarray, product: float, labels: LabelMeans) -> tuple[float, float]:
    """Return slope and offset of least logistic risk, by Newton's method.

    Without E[y] the offset is 0.
    """
    free = labels.mean is not None
    design = np.column_stack([scores, np.full_like(scores, float(free))])
    goal = np.array([product, labels.balance * free]) / 2
    ridge = np.diag([_PENALTY, 0.0 if free else 1.0])
    weights = np.zeros(2)
    risk = _risk(design, goal, ridge)
    for _ in range(_NEWTON_STEPS):
        half = np.tanh(design @ weights / 2)
        gradient = design.T @ half / (2 * len(half)) - goal + ridge @ weights
        curvature = (design.T * (1 - half**2)) @ design / (4 * len(half)) + ridge
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        length = 1.0
        while length > 1e-6 and risk(weights - length * step) > risk(weights):
            length /= 2
        weights = weights - length * step
        if float(gradient @ step) < _SETTLED:
            break
    return max(float(weights[0]), 0.0), float(weights[1]) if free else 0.0


def _risk(design: np.ndarray, goal: np.ndarray, ridge: np.ndarray) -> Callable[[np.ndarray], float]:
    def risk(weights: np.ndarray) -> float:
        scores = design @ weights
        even = np.logaddexp(scores / 2, -scores / 2).mean()
        return float(even - goal @ weights + weights @ ridge @ weights / 2)

    return risk


def gaussian_log_odds(square: float, mean_score: float | None, labels: LabelMeans) -> LogOdds:
    """Return the log odds if scores are Gaussian in each class, with one variance.

    ``square`` is E[s^2] and ``mean_score`` E[s]; if either mean is not known, classes are taken to
    lie at +-E[y s]. With class means m_1, m_0 and the variance v within them the log odds are
    logit pi + (m_1 - m_0)/v (s - (m_1 + m_0)/2). Scores of real tables have
    longer tails, so no correlation with labels above 0.75 is believed.
    """
    if mean_score is None or labels.mean is None:
        labels, mean_score = LabelMeans(labels.product, labels.error, None), 0.0
    variance = square - mean_score**2
    if not variance > 1e-24 * square:
        return LogOdds(0.0, float(logit((1 + labels.balance) / 2)))
    covariance = (labels.product - labels.balance * mean_score) / float(np.sqrt(variance))
    spread = float(np.sqrt(1 - labels.balance**2))
    correlation = _possible(covariance, labels, _MOST_BELIEVED) / spread
    standard = _two_normals(correlation, (1 + labels.balance) / 2)
    scores = mean_score + float(np.sqrt(variance)) * standard
    return log_odds_of_scores(scores, labels, _MOST_BELIEVED)


def _two_normals(correlation: float, share: float) -> np.ndarray:
    """Return quantiles of two classes of scores, with mean 0, variance 1 and this correlation."""
    second = int(np.clip(round(_QUANTILES * share), 2, _QUANTILES - 2))
    within = np.sqrt(1 - correlation**2)
    parts = []
    for count, mean in (
        (second, correlation * np.sqrt((1 - share) / share)),
        (_QUANTILES - second, -correlation * np.sqrt(share / (1 - share))),
    ):
        parts.append(mean + within * ndtri((np.arange(count) + 0.5) / count))
    scores = np.concatenate(parts)
    return np.asarray((scores - scores.mean()) / scores.std())


def class_probabilities(log_odds: np.ndarray) -> np.ndarray:
    """Return the probabilities of both classes, one row for each of the log odds."""
    positive = expit(log_odds)
    return np.column_stack([1 - positive, positive])
