"""From scores to log odds, without a label: what the mean operator says about scores.

Of labels y = -1 or +1 and scores s, the mean operator gives E[y] and E[y s]. The logistic risk of
slope a and offset c is E[log(2 cosh((a s + c)/2))] - (a E[y s] + c E[y])/2: its first part needs
scores and no label (Patrini 2016, Theorem 3). So unlabelled rows calibrate scores as labelled ones
would (Platt 1999). Without rows, scores of a class are taken to be Gaussian.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtri

from suffice.learner.moderation import moderated_by_product
from suffice.learner.rados.moments import RadoMoments

__all__ = [
    "SCORES_ONLY",
    "LabelMeans",
    "LogOdds",
    "class_probabilities",
    "gaussian_log_odds",
    "log_odds_of_moments",
    "log_odds_of_scores",
]

SCORES_ONLY = "scores only"  # what a model file adds to its loss if it has no probabilities
_LARGEST_MEAN = 0.98  # of labels
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

    Where E[y s] has an error, the slope is integrated out (`suffice.learner.moderation`). No
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
    link = moderated_by_product(
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
