"""The weights of coordinates that tell a class from all others, and how far to trust them.

With e = 1 for members of the class and else 0, c the covariance of rows with e and v the variance
of its error, weights are a priori N(0, tau / variance) along the eigenvectors of the covariance.
Given tau, their mean is c / (variance + v / tau); tau is averaged over by its likelihood. How well
scores follow e is measured by thinning: weights from c + error, their covariance from c - error.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import logit

from suffice.learner.moments.estimates import CleanMoments

__all__ = ["Scores", "contrast_scores", "linear_scores"]

_TAUS = np.logspace(-4, 3, 25)
_NOISE_SHARE = 0.75  # of the penalty, in the variance of a score: its weights follow the noise
_MOST_ADDED = 1.5  # times the mean variance, that noise may add to that of a direction
_CORRELATIONS = (0.02, 0.98)
_CAUTION = 0.3  # less correlation at most, where the noise is as large as can be
_RIDGE_SHARE = 8.0  # slope of a fitted proportion beside a discriminant, where classes are many


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of contrasts: weights along eigenvectors, and what is believed of the scores.

    Attributes
    ----------
    weights : ndarray of shape (d, contrasts)
        The weights along the eigenvectors of the covariance.
    spread : ndarray of shape (contrasts, contrasts)
        The covariance of the scores.
    correlations : ndarray of shape (contrasts,)
        The correlation of each score with membership in its class.
    memberships : ndarray of shape (contrasts, contrasts)
        The covariance of scores with memberships in all classes, by thinning.
    most_correlated : float
        The largest correlation that is believed, given the noise.
    """

    weights: np.ndarray
    spread: np.ndarray
    correlations: np.ndarray
    memberships: np.ndarray
    most_correlated: float

    @property
    def variances(self) -> np.ndarray:
        """The variance of each score."""
        return np.diag(self.spread)


def contrast_scores(moments: CleanMoments, draws: int, rng: np.random.Generator) -> Scores:
    """Return the scores of every contrast; ``draws`` of error measure how good they are."""
    mean_variance = float(moments.variances.mean())
    added = min(_NOISE_SHARE * moments.penalty, _MOST_ADDED * mean_variance)
    cautious = (moments.variances + added)[:, None]
    most = _CORRELATIONS[1] - _CAUTION * added / (added + mean_variance)
    weights = _all_weights(moments, moments.covariances, moments.errors)
    spread = weights.T @ (cautious * weights)
    measured, together = [], np.zeros_like(spread)
    for _ in range(draws):
        error = _error(moments, rng)
        thinned = _all_weights(moments, moments.covariances + error, 2 * moments.errors)
        sizes = np.sqrt(np.maximum((cautious * thinned**2).sum(axis=0), 1e-300))
        each = (thinned / sizes).T @ (moments.covariances - error)
        measured.append(np.diag(each))
        together += each / draws
    shares = moments.contrast_shares
    correlations = np.mean(measured, axis=0) / np.sqrt(shares * (1 - shares))
    together *= np.sqrt(np.diag(spread))[:, None]
    return Scores(
        weights,
        spread,
        np.clip(correlations, _CORRELATIONS[0], most),
        (together + together.T) / 2,
        most,
    )


def _error(moments: CleanMoments, rng: np.random.Generator) -> np.ndarray:
    """Return an error of the covariances; that of many classes sums to zero, as they do."""
    error = rng.normal(size=moments.errors.shape) * np.sqrt(moments.errors)
    classes = error.shape[1]
    if classes == 1:
        return np.asarray(error)
    centred = error - error.mean(axis=1, keepdims=True)
    return np.asarray(centred / math.sqrt(1 - 1 / classes))


def _all_weights(moments: CleanMoments, covariances: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return the expected weights of every contrast."""
    spreads = np.sqrt(moments.contrast_shares * (1 - moments.contrast_shares))
    columns = zip(covariances.T, errors.T, spreads, strict=True)
    return np.column_stack([_weights(moments, c, e, float(size)) for c, e, size in columns])


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
    """Return the matrix and the constants that turn centred scores into the final ones.

    Of two classes the final score is the log odds of the second under Gaussian scores, which is
    linear discriminant analysis. Of more classes it is halfway between the scores of that analysis
    and what least squares of the indicators gives, put on their scale.
    """
    if len(moments.proportions) == 2:
        return _log_odds(moments, scores)
    matrix, constants = _discriminants(moments, scores)
    squares = _RIDGE_SHARE * np.eye(len(matrix))
    return (matrix + squares) / 2, (constants + _RIDGE_SHARE * (moments.proportions - 0.5)) / 2


def _log_odds(moments: CleanMoments, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return slope and constant of the log odds of two classes, by the centred score."""
    share, r = moments.contrast_shares, scores.correlations
    covariance = r * np.sqrt(scores.variances * share * (1 - share))
    inside, outside = covariance / share, -covariance / (1 - share)
    within = np.maximum(scores.variances * (1 - r**2), 1e-300)
    slopes = (inside - outside) / within
    return slopes[:, None], logit(share) - slopes * (inside + outside) / 2


def _discriminants(moments: CleanMoments, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return matrix and constants of linear discriminant analysis, by centred scores.

    With M the covariance of scores and memberships and P the diagonal of proportions, directions u
    of M u = rho^2 P u, u^T P u = 1, are canonical: u^T score has correlation rho with u_y.
    """
    proportions = moments.proportions
    fitted = scores.weights.T @ moments.covariances
    _, directions = eigh((fitted + fitted.T) / 2, np.diag(proportions))
    directions = directions[:, 1:]  # the least belongs to the sum of memberships, which is 1
    sizes = np.sqrt(np.maximum(_along(directions, scores.spread), 1e-300))
    rho = np.clip(_along(directions, scores.memberships) / sizes, 0.0, scores.most_correlated)
    matrix = (directions * (rho / sizes / (1 - rho**2))) @ directions.T
    lengths = (directions**2 * (rho**2 / (1 - rho**2))).sum(axis=1)
    return matrix, np.log(proportions) - lengths / 2


def _along(directions: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return u^T A u for each column u of ``directions``."""
    return np.asarray(np.einsum("kl,kj,jl->l", directions, matrix, directions))
