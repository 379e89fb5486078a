"""The weights of coordinates that tell a class from all others, and how far to trust them.

With e = 1 for members of the class and else 0, c the covariance of rows with e and v the variance
of its error, weights are a priori N(0, tau / variance) along the eigenvectors of the covariance.
Given tau, their mean is c / (variance + v / tau); tau is averaged over by its likelihood. How well
scores follow e is measured by thinning: weights from c + error, their covariance from c - error.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import logit

from suffice.learner.moments.estimates import CleanMoments

__all__ = [
    "BLEND",
    "Blend",
    "Scores",
    "Thinning",
    "contrast_scores",
    "linear_scores",
    "thinned",
]

_TAUS = np.logspace(-4, 3, 25)
_CORRELATIONS = (0.02, 0.98)
_TIE = 1e-6  # weight of what only decides between equal numbers


@dataclass(frozen=True)
class Blend:
    """How scores of three classes or more lie between two linear rules.

    The defaults were chosen on tables that no reported figure is about: digits of scikit-learn,
    uci-har, the grades of red wine and the attacks of kdd99. Among all settings whose accuracy is
    within one standard error of the best, they have the least log loss (``bench/moments.py --parts
    choose``, which tests them on MNIST and covertype).

    Attributes
    ----------
    ridge_part : float
        The part of least squares of the class indicators; the rest is discriminant analysis.
    ridge_slope : float
        The log odds that one unit of a fitted indicator is worth.
    """

    ridge_part: float = 0.75
    ridge_slope: float = 8.0


BLEND = Blend()


@dataclass(frozen=True, eq=False)
class Thinning:
    """Weights from one part of the covariances, and the other part: their errors are unrelated.

    Attributes
    ----------
    weights : ndarray of shape (draws, d, contrasts)
        The weights from c + error, for each draw of an error.
    held_out : ndarray of shape (draws, d, contrasts)
        c - error of the same draws.
    """

    weights: np.ndarray
    held_out: np.ndarray


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
    square_noise : float
        The standard deviation of the noise on the variance of a direction of length 1.
    """

    weights: np.ndarray
    spread: np.ndarray
    correlations: np.ndarray
    memberships: np.ndarray
    square_noise: float

    @property
    def variances(self) -> np.ndarray:
        """The variance of each score."""
        return np.diag(self.spread)

    def most_correlated(self, weights: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Return the largest correlations that are believed of scores of these weights.

        The noise moves the variance of a score by ``square_noise`` times the squared length of its
        weights. The larger that is beside the variance, the less of a correlation is believed.
        """
        lengths = (weights**2).sum(axis=0)
        doubts = self.square_noise * lengths / np.maximum(variances, 1e-300)
        return np.asarray(_CORRELATIONS[1] / (1 + doubts))


def contrast_scores(moments: CleanMoments, thinning: Thinning) -> Scores:
    """Return the scores of every contrast; ``thinning`` measures how good they are."""
    cautious = (moments.variances + _added_variance(moments))[:, None]
    weights = _all_weights(moments, moments.covariances, moments.errors)
    spread = weights.T @ (cautious * weights)
    sizes = np.sqrt(np.maximum((cautious * thinning.weights**2).sum(axis=1), 1e-300))
    each = np.einsum("tdk,tdl->tkl", thinning.weights / sizes[:, None, :], thinning.held_out)
    together = each.mean(axis=0)
    shares = moments.contrast_shares
    measured = np.diag(together) / np.sqrt(shares * (1 - shares))
    together = together * np.sqrt(np.diag(spread))[:, None]
    memberships = (together + together.T) / 2
    raw = Scores(weights, spread, measured, memberships, moments.square_noise)
    most = np.maximum(raw.most_correlated(weights, raw.variances), _CORRELATIONS[0])
    return replace(raw, correlations=np.clip(measured, _CORRELATIONS[0], most))


def _added_variance(moments: CleanMoments) -> float:
    """Return what a score has more of variance than its weights and cleaned variances say.

    Weights are large where noise made a variance small. Noise can take sqrt(2 d) s = 2 penalty
    from an eigenvalue at most. And weights that follow noise alone point anywhere, where the
    variance is the mean one. The parallel sum is below both, and close to the smaller.
    """
    most, mean = 2 * moments.penalty, float(moments.variances.mean())
    return most * mean / (most + mean)


def thinned(moments: CleanMoments, draws: int, rng: np.random.Generator) -> Thinning:
    """Return ``draws`` of thinning: the noise of each part is twice that of the whole."""
    errors = [_error(moments, rng) for _ in range(draws)]
    weights = [
        _all_weights(moments, moments.covariances + error, 2 * moments.errors) for error in errors
    ]
    return Thinning(np.array(weights), np.array([moments.covariances - e for e in errors]))


def _error(moments: CleanMoments, rng: np.random.Generator) -> np.ndarray:
    """Return an error of the covariances; that of many classes sums to zero, as they do.

    It is drawn in the coordinates of rows: the signs of eigenvectors, and those of equal variances,
    are the computer's choice and change nothing.
    """
    normal = moments.vectors.T @ rng.normal(size=moments.errors.shape)
    error = normal * np.sqrt(moments.errors)
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


def linear_scores(
    moments: CleanMoments, scores: Scores, blend: Blend = BLEND
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and the constants that turn centred scores into the final ones.

    Of two classes the final score is the log odds of the second under Gaussian scores, which is
    linear discriminant analysis. Of more classes it lies between the scores of that analysis and
    what least squares of the indicators gives, put on their scale.
    """
    if len(moments.proportions) == 2:
        return _log_odds(moments, scores)
    matrix, constants = _discriminants(moments, scores)
    part, slope = blend.ridge_part, blend.ridge_slope
    squares, at_mean = slope * np.eye(len(matrix)), slope * (moments.proportions - 0.5)
    return (1 - part) * matrix + part * squares, (1 - part) * constants + part * at_mean


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
    # Of equal correlations, as of few rows, what thinning measured tells directions apart.
    sure = (fitted + fitted.T) / 2 + _TIE * scores.memberships
    _, directions = eigh(sure, np.diag(proportions))
    directions = directions[:, 1:]  # the least belongs to the sum of memberships, which is 1
    sizes = np.sqrt(np.maximum(_along(directions, scores.spread), 1e-300))
    most = scores.most_correlated(scores.weights @ directions, sizes**2)
    rho = np.clip(_along(directions, scores.memberships) / sizes, 0.0, most)
    matrix = (directions * (rho / sizes / (1 - rho**2))) @ directions.T
    lengths = (directions**2 * (rho**2 / (1 - rho**2))).sum(axis=1)
    return matrix, np.log(proportions) - lengths / 2


def _along(directions: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return u^T A u for each column u of ``directions``."""
    return np.asarray(np.einsum("kl,kj,jl->l", directions, matrix, directions))
