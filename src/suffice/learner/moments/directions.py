"""The weights of coordinates that tell a class from all others, and how far to trust them.

With e = 1 for members of the class and else 0, c the covariance of rows with e and v the variance
of its error, weights are a priori N(0, tau / variance) along the eigenvectors of the covariance.
Given tau, their mean is c / (variance + v / tau); tau is averaged over by its likelihood. How well
scores follow e is measured by thinning: weights from c + error, their covariance from c - error.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from suffice.learner.moments.estimates import CleanMoments

__all__ = ["Scores", "contrast_scores", "linear_scores"]

_TAUS = np.logspace(-4, 3, 25)
_NOISE_SHARE = 0.75  # of the penalty, in the variance of a score: its weights follow the noise
_MOST_ADDED = 1.5  # times the mean variance, that noise may add to that of a direction
_CORRELATIONS = (0.02, 0.98)
_CAUTION = 0.3  # less correlation at most, where the noise is as large as can be
_RIDGE_SHARE = 8.0  # slope of a proportion beside that of log odds, where there are many classes


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of contrasts: weights along eigenvectors, and what is believed of the scores.

    Attributes
    ----------
    weights : ndarray of shape (d, contrasts)
        The weights along the eigenvectors of the covariance.
    variances : ndarray of shape (contrasts,)
        The variance of each score.
    correlations : ndarray of shape (contrasts,)
        The correlation of each score with membership in its class.
    added : float
        What was added to the variance along each eigenvector, for caution.
    """

    weights: np.ndarray
    variances: np.ndarray
    correlations: np.ndarray
    added: float


def contrast_scores(moments: CleanMoments, draws: int, rng: np.random.Generator) -> Scores:
    """Return the scores of every contrast; ``draws`` of error measure how good they are."""
    mean_variance = float(moments.variances.mean())
    added = min(_NOISE_SHARE * moments.penalty, _MOST_ADDED * mean_variance)
    cautious = moments.variances + added
    most = _CORRELATIONS[1] - _CAUTION * added / (added + mean_variance)
    weights, correlations = [], []
    for k, share in enumerate(moments.told):
        c, errors = moments.covariances[:, k], moments.errors[:, k]
        spread = math.sqrt(share * (1 - share))
        weights.append(_weights(moments, c, errors, spread))
        measured = []
        for _ in range(draws):
            error = rng.normal(size=len(c)) * np.sqrt(errors)
            thinned = _weights(moments, c + error, 2 * errors, spread)
            size = math.sqrt(max(float(thinned**2 @ cautious), 1e-300))
            measured.append(float(thinned @ (c - error)) / size)
        correlations.append(float(np.clip(np.mean(measured) / spread, _CORRELATIONS[0], most)))
    together = np.column_stack(weights)
    return Scores(together, cautious @ together**2, np.array(correlations), added)


def _weights(
    moments: CleanMoments, covariance: np.ndarray, errors: np.ndarray, spread: float
) -> np.ndarray:
    """Return the expected weights, averaged over how large they may be."""
    taus = _TAUS[:, None] * spread**2
    total = taus * moments.variances + errors
    logs = -0.5 * (np.log(total) + covariance**2 / total).sum(axis=1)
    likely = np.exp(logs - logs.max())
    each = covariance / (moments.variances + moments.penalty + errors / taus)
    return np.asarray((likely / likely.sum()) @ each)


def linear_scores(moments: CleanMoments, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes and constants that turn centred scores of contrasts into the final ones.

    Of two classes a score is the log odds of the second under Gaussian scores, which is linear
    discriminant analysis. Of more classes it is halfway between these log odds of one class
    against all others and what least squares of the indicator gives, put on their scale.
    """
    slopes, constants = _log_odds(moments, scores)
    if len(moments.proportions) > 2:
        constants = (constants + _RIDGE_SHARE * (moments.told - 0.5)) / 2
        slopes = (slopes + _RIDGE_SHARE) / 2
    return slopes, constants


def _log_odds(moments: CleanMoments, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return slope and constant of the log odds by the centred score of each contrast."""
    share, r = moments.told, scores.correlations
    covariance = r * np.sqrt(scores.variances * share * (1 - share))
    inside, outside = covariance / share, -covariance / (1 - share)
    within = np.maximum(scores.variances * (1 - r**2), 1e-300)
    slopes = (inside - outside) / within
    return slopes, logit(share) - slopes * (inside + outside) / 2
