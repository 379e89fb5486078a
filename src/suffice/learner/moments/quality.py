"""What accuracy to expect of a classifier on fresh rows, estimated from the release alone.

The scores of two classes are taken to be Gaussian in each class, with the means and the variance
that thinning found. The interval adds what the noise may have done to the correlation of scores and
labels and to the class proportions, and an allowance for scores that are not Gaussian. Nothing is
stated of the log loss, or of three classes or more: no interval that was tried covered.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, ndtri

from suffice.learner.moments.rule import LinearRule

__all__ = ["ALLOWANCE", "LEVEL", "ExpectedAccuracy", "class_probabilities", "expected_accuracy"]

LEVEL = 0.9
# How far tables are from Gaussian scores: the least hundredths with which nine in ten intervals
# covered at every epsilon, on eleven tables that no reported figure is about (bench/moments.py
# --parts quality).
ALLOWANCE = 0.03
_LEAST_PROPORTION, _MOST_CORRELATED = 1e-3, 0.99


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The accuracy that is expected on fresh rows, with an interval at 90 %.

    Attributes
    ----------
    estimate : float
        The accuracy, if scores are Gaussian.
    low, high : float
        The interval, for the noise of the release and for scores that are not Gaussian.
    """

    estimate: float
    low: float
    high: float


def class_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each class: of one score per row by its link, else in proportion.

    Scores of three classes or more are log odds of each class against all others.
    """
    positive = expit(scores)
    if scores.ndim == 1:
        return np.column_stack([1 - positive, positive])
    total = positive.sum(axis=1, keepdims=True)
    return np.asarray(positive / np.maximum(total, 1e-300))


@dataclass(frozen=True)
class _GaussianScores:
    """A score of given variance, and the threshold that tells its classes apart."""

    variance: float
    threshold: float

    def accuracy(self, share: float, correlation: float) -> float:
        """Return how often the score is on the side of its class.

        ``share`` is the proportion of the second class, ``correlation`` that of score and class.
        """
        covariance = correlation * (self.variance * share * (1 - share)) ** 0.5
        spread = (self.variance * (1 - correlation**2)) ** 0.5
        inside, outside = covariance / share, -covariance / (1 - share)
        right = share * ndtr((inside - self.threshold) / spread)
        return float(right + (1 - share) * ndtr((self.threshold - outside) / spread))


def expected_accuracy(rule: LinearRule, proportions_noise: float) -> ExpectedAccuracy | None:
    """Return what is expected of a rule of two classes on fresh rows; of more classes None.

    Correlation and proportion vary by 1.645 standard deviations, each alone.
    """
    if len(rule.constants) > 1:
        return None
    moments, scores = rule.moments, rule.scores
    share, correlation = float(moments.contrast_shares[0]), float(scores.correlations[0])
    variance = max(float(scores.variances[0]), 1e-300)
    # Slopes of log odds are positive: correlations are.
    threshold = -float(rule.constants[0]) / max(float(rule.matrix[0, 0]), 1e-300)
    model = _GaussianScores(variance, threshold)
    estimate, reach = model.accuracy(share, correlation), float(ndtri(0.5 + LEVEL / 2))
    r_shift, p_shift = reach * _correlation_error(rule), reach * proportions_noise
    r_shifts = (-r_shift, float(np.hypot(r_shift, _correlation_withheld(rule))))
    least, most = _LEAST_PROPORTION, 1 - _LEAST_PROPORTION
    by_correlation = [
        model.accuracy(share, float(np.clip(correlation + shift, 0, _MOST_CORRELATED))) - estimate
        for shift in r_shifts
    ]
    by_share = [
        model.accuracy(float(np.clip(share + shift, least, most)), correlation) - estimate
        for shift in (-p_shift, p_shift)
    ]
    down = float(np.hypot(min(0.0, *by_correlation), min(0.0, *by_share)))
    up = float(np.hypot(max(0.0, *by_correlation), max(0.0, *by_share)))
    low, high = estimate - down - ALLOWANCE, estimate + up + ALLOWANCE
    return ExpectedAccuracy(estimate, max(low, 0.0), min(high, 1.0))


def _correlation_error(rule: LinearRule) -> float:
    """Return the standard deviation of the correlation of score and class, by the delta method."""
    moments, scores = rule.moments, rule.scores
    weights, variance = scores.weights[:, 0], max(float(scores.variances[0]), 1e-300)
    share = float(moments.contrast_shares[0])
    by_operator = float(weights**2 @ moments.errors[:, 0]) / (variance * share * (1 - share))
    doubt = scores.square_noise * float(weights @ weights) / variance
    return float(np.hypot(by_operator**0.5, float(scores.correlations[0]) * doubt / 2))


def _correlation_withheld(rule: LinearRule) -> float:
    """Return how much larger the correlation is if noise added nothing to the score's variance."""
    scores = rule.scores
    without = float(scores.weights[:, 0] ** 2 @ rule.moments.variances)
    ratio = float(scores.variances[0]) / max(without, 1e-300)
    return float(scores.correlations[0]) * (max(ratio, 1.0) ** 0.5 - 1)
