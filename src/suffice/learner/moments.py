"""Learn linear classifiers and regressions from noisy second moments, and describe them.

There is no row, no iteration and no tuning.

Noisy numbers of a release become a mean, a covariance and class proportions, all in rows of length
1. What is known of the noise is used: a proportion lies between 0 and 1, a mean is shrunk towards
zero, the eigenvalues of the covariance are moved back by what symmetric Gaussian noise did to them
(Bun, Allez, Bouchaud & Potters 2016).

Predictions are of models that are shrunk. The coefficients of a regression table, and means,
variances and correlations, are plain estimates, so that intervals can be stated. These are about
the people whom the records are a sample of: rows as long as the pipeline allows, the target cut to
its range. They count the noise of the release and the sampling.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh
from scipy.special import logit, ndtr, ndtri
from scipy.stats import truncnorm
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from suffice.errors import ParameterError
from suffice.learner.base import (
    CLASS_WEIGHT,
    FIGURES,
    HIDDEN,
    MOMENTS_HAVE_NONE,
    FeatureUnits,
    Learner,
    LinearModel,
    refuse_weights,
)
from suffice.learner.calibration import class_probabilities
from suffice.learner.operator import MAJORITY_HIDDEN
from suffice.learner.problem import (
    NoiseWarning,
    checked_weights,
    mapped_batches,
    repeated_count,
)
from suffice.learner.sklearn_names import Interval, fit_context
from suffice.releases.merge import apart, merge
from suffice.releases.release import Covariance, Release
from suffice.tables.pipeline import Pipeline

_EIGENVALUE_FLOOR = 1e-3  # of the mean one: smaller ones cannot be told from noise
_TAUS = np.logspace(-4, 3, 25)
_CORRELATIONS = (0.02, 0.98)
_CLASS_LEAD = 2.0  # deviations of the noise that tell the larger class from another


@dataclass(frozen=True, eq=False)
class MomentNumbers:
    """The numbers of a release, in rows of length 1, and the deviations of their noise."""

    second: np.ndarray  # (d, d): the mean products of two coordinates
    mean: np.ndarray  # (d,): the mean row
    # (d, contrasts): the mean of x (e - 1/K), e being 1 for members of a class and else 0.
    operator: np.ndarray
    proportions: np.ndarray  # (K,): of the classes
    second_noise: float  # on a square
    mean_noise: float
    operator_noise: float
    proportions_noise: float
    rows: float  # the number of records, or what their weights stand for
    target_variance: float | None = None  # of a target, which takes the place of membership

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.proportions)

    @property
    def contrasts(self) -> np.ndarray:
        """The classes that are told from all others: of two the second, else every one."""
        return np.array([1]) if self.classes == 2 else np.arange(self.classes)

    @property
    def majority_known(self) -> bool:
        """Whether the noise leaves it clear which class is the largest."""
        largest = np.sort(self.proportions)[::-1]
        # Of two classes the noises are opposite, and their difference has twice the deviation.
        factor = 2.0 if self.classes == 2 else math.sqrt(2)
        return bool(largest[0] - largest[1] >= _CLASS_LEAD * factor * self.proportions_noise)


def numbers_of(release: Release) -> MomentNumbers:
    """Return the numbers of a release of moments."""
    arrays, details, bound = release.arrays, release.details, release.pipeline.bound
    classes = len(release.classes)
    operator = release.array("operator", "moments").reshape(len(arrays["mean"]), -1) / bound
    spread = details["operator_noise"] / bound
    return MomentNumbers(
        second=arrays["second_moments"] / bound**2,
        mean=arrays["mean"] / bound,
        # y x is twice x (e - 1/2); of more classes the mean over classes was subtracted.
        operator=operator / 2 if classes == 2 else operator,
        proportions=arrays["proportions"],
        second_noise=details["second_noise"] / bound**2,
        mean_noise=details["mean_noise"] / bound,
        operator_noise=spread / 2 if classes == 2 else spread * math.sqrt(1 - 1 / classes),
        proportions_noise=details["proportions_noise"],
        rows=release.rows,
    )


def plain_numbers(
    rows: np.ndarray, codes: np.ndarray, classes: int, weights: np.ndarray | None = None
) -> MomentNumbers:
    """Return the numbers of plain rows of length 1 at most and the codes of their labels.

    ``weights`` say how often each row counts.
    """
    each = np.ones(len(rows)) if weights is None else weights
    count = float(each.sum())
    members = (codes[:, None] == np.arange(classes)).astype(np.float64)
    contrasts = members[:, 1:] if classes == 2 else members
    weighted = each[:, None] * rows / count
    operator = weighted.T @ (contrasts - 1 / classes)
    return MomentNumbers(
        weighted.T @ rows, weighted.sum(axis=0), operator, each @ members / count,
        0.0, 0.0, 0.0, 0.0, repeated_count(each),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CleanMoments:
    """What is believed of the data, in the eigenvectors of their covariance."""

    mean: np.ndarray  # (d,): the mean row, in the coordinates of rows
    vectors: np.ndarray  # (d, d): the eigenvectors, one a column
    variances: np.ndarray  # (d,): along each of them
    covariances: np.ndarray  # (d, contrasts): of rows with membership in a class, along them
    errors: np.ndarray  # (d, contrasts): variances of the error of these, by noise and sampling
    proportions: np.ndarray  # (K,): of the classes, between 0 and 1
    contrast_shares: np.ndarray  # (contrasts,): of the class that each tells from all others
    contrast_variances: np.ndarray  # (contrasts,): of membership in that class
    penalty: float  # half of what noise can add to an eigenvalue

    @property
    def square_noise(self) -> float:
        """The standard deviation of the noise on the variance of any direction of length 1."""
        return self.penalty / math.sqrt(len(self.variances) / 2)

    def most_correlated(self, weights: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Return the largest correlations that are believed of scores of these weights.

        The noise moves the variance of a score by ``square_noise`` times the squared length of its
        weights. The larger that is beside the variance, the less of a correlation is believed.
        """
        lengths = (weights**2).sum(axis=0)
        doubts = self.square_noise * lengths / np.maximum(variances, 1e-300)
        return np.asarray(_CORRELATIONS[1] / (1 + doubts))


def cleaned(numbers: MomentNumbers) -> CleanMoments:
    """Return what is believed of the data, from noisy numbers."""
    width, noise = len(numbers.mean), numbers.second_noise
    least = 0.5 / numbers.rows
    within = _within_unit(numbers.proportions, numbers.proportions_noise)
    proportions = np.clip(within, least, 1 - least)
    proportions /= proportions.sum()
    mean, length = numbers.mean, float(numbers.mean @ numbers.mean)
    if width >= 3 and length > 0:  # shrunk towards zero, as James and Stein do, and not beyond it
        mean = mean * max(0.0, 1 - (width - 2) * numbers.mean_noise**2 / length)
    contrast_shares = proportions[numbers.contrasts]
    shift = contrast_shares - 1 / numbers.classes
    covariances = numbers.operator - np.outer(mean, shift)
    values, vectors = np.linalg.eigh(numbers.second - np.outer(mean, mean))
    along = vectors.T @ covariances
    # What only rounding made becomes zero: small variances divide it.
    rounding = 1e-13 * np.abs(along).max(axis=0, initial=0.0)
    penalty = math.sqrt(width / 2) * noise
    # Eigenvalues without what symmetric Gaussian noise is expected to have added. Their sum is the
    # expected total variance: that of rows of length 1 lies between 0 and 1. Noise that makes the
    # sum negative would leave no variance, and scores that are far too sure.
    total = max(float(_within_unit(values.sum(), math.sqrt(width) * noise)), 1e-9)
    floor = max(1e-9 * total / width, min(_EIGENVALUE_FLOOR * total / width, penalty))
    if noise > 0:
        apart = values[:, None] - values[None, :]
        values = values - noise**2 * (apart / (apart**2 + noise**2 / 2)).sum(axis=1)
    floored = np.maximum(values, floor)
    variances = np.maximum(floored * (total / floored.sum()), floor)
    contrast_variances = contrast_shares * (1 - contrast_shares)
    if numbers.target_variance is not None:
        contrast_variances = np.minimum(contrast_variances, numbers.target_variance)
    by_noise = (
        numbers.operator_noise**2
        + shift**2 * numbers.mean_noise**2
        + numbers.proportions_noise**2 * float(mean @ mean) / width
    )
    errors = by_noise[None, :] + np.outer(variances, contrast_variances) / numbers.rows
    return CleanMoments(
        mean,
        vectors,
        variances,
        np.where(np.abs(along) > rounding, along, 0.0),
        errors,
        proportions,
        contrast_shares,
        contrast_variances,
        penalty,
    )


def _within_unit(noisy: Any, noise: float) -> np.ndarray:
    """Return the expected numbers, given their noise and that each lies between 0 and 1."""
    if noise > 100:  # nothing is left of them
        return np.full(np.shape(noisy), 0.5)
    expected = noisy
    if noise > 1e-12:
        expected = truncnorm.mean(-noisy / noise, (1 - noisy) / noise, loc=noisy, scale=noise)
    return np.clip(np.where(np.isnan(expected), noisy, expected), 0.0, 1.0)


@dataclass(frozen=True)
class Blend:
    """How scores of three classes or more lie between two linear rules.

    The defaults were chosen on tables that no reported figure is about: digits of scikit-learn,
    uci-har, the grades of red wine and the attacks of kdd99. Among all settings whose accuracy is
    within one standard error of the best, they have the least log loss (``lab/bench/moments.py
    --parts choose``, which tests them on MNIST and covertype).
    """

    # The part of least squares of the class indicators; the rest is discriminant analysis.
    ridge_part: float = 0.75
    ridge_slope: float = 8.0  # the log odds that one unit of a fitted indicator is worth


BLEND = Blend()


# Weights from c + error for each draw of an error, and c - error of the same draws, both (draws, d,
# contrasts): the errors of the two parts are unrelated.
Thinning = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of contrasts: weights along eigenvectors, and what is believed of the scores."""

    weights: np.ndarray  # (d, contrasts), along the eigenvectors of the covariance
    spread: np.ndarray  # (contrasts, contrasts): the covariance of the scores
    correlations: np.ndarray  # (contrasts,): of each score with membership in its class
    memberships: np.ndarray  # (contrasts, contrasts): covariance with memberships, by thinning

    @property
    def variances(self) -> np.ndarray:
        """The variance of each score."""
        return np.diag(self.spread)


def contrast_scores(moments: CleanMoments, thinning: Thinning) -> Scores:
    """Return the scores of every contrast; ``thinning`` measures how good they are.

    A contrast tells a class from all others. With e = 1 for members of the class and else 0, c the
    covariance of rows with e and v the variance of its error, weights are a priori
    N(0, tau / variance) along the eigenvectors of the covariance. Given tau, their mean is
    c / (variance + penalty + v / tau), the penalty being what noise on squares adds; tau is
    averaged over by its likelihood. How well scores follow e is measured by thinning: weights from
    c + error, their covariance from c - error.
    """
    # A score has more variance than its weights and cleaned variances say: weights are large where
    # noise made a variance small. Noise can take sqrt(2 d) s = 2 penalty from an eigenvalue at
    # most. And weights that follow noise alone point anywhere, where the variance is the mean one.
    # The parallel sum is below both, and close to the smaller.
    most_taken, mean_variance = 2 * moments.penalty, float(moments.variances.mean())
    added = most_taken * mean_variance / (most_taken + mean_variance)
    cautious = (moments.variances + added)[:, None]
    weights = expected_weights(moments, moments.covariances, moments.errors)
    spread = weights.T @ (cautious * weights)
    drawn, held_out = thinning
    sizes = np.sqrt(np.maximum((cautious * drawn**2).sum(axis=1), 1e-300))
    together = np.einsum("tdk,tdl->tkl", drawn / sizes[:, None, :], held_out).mean(axis=0)
    shares = moments.contrast_shares
    measured = np.diag(together) / np.sqrt(shares * (1 - shares))
    together = together * np.sqrt(np.diag(spread))[:, None]
    memberships = (together + together.T) / 2
    most = np.maximum(moments.most_correlated(weights, np.diag(spread)), _CORRELATIONS[0])
    return Scores(weights, spread, np.clip(measured, _CORRELATIONS[0], most), memberships)


def thinned(moments: CleanMoments, draws: int, rng: np.random.Generator) -> Thinning:
    """Return ``draws`` of thinning: the noise of each part is twice that of the whole.

    Errors are drawn in the coordinates of rows: the signs of eigenvectors, and those of equal
    variances, are the computer's choice and change nothing. Of many classes they sum to zero, as
    the covariances do.
    """
    weights, held_out = [], []
    classes = moments.errors.shape[1]
    for _ in range(draws):
        normal = moments.vectors.T @ rng.normal(size=moments.errors.shape)
        error = normal * np.sqrt(moments.errors)
        if classes > 1:
            error = (error - error.mean(axis=1, keepdims=True)) / math.sqrt(1 - 1 / classes)
        weights.append(expected_weights(moments, moments.covariances + error, 2 * moments.errors))
        held_out.append(moments.covariances - error)
    return np.array(weights), np.array(held_out)


def expected_weights(
    moments: CleanMoments, covariances: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Return the expected weights of every contrast, averaged over how large they may be."""
    columns = []
    for covariance, error, variance in zip(
        covariances.T, errors.T, moments.contrast_variances, strict=True
    ):
        taus = _TAUS[:, None] * float(variance)
        total = taus * moments.variances + error
        logs = -0.5 * (np.log(total) + covariance**2 / total).sum(axis=1)
        likely = np.exp(logs - logs.max())
        each = covariance / (moments.variances + moments.penalty + error / taus)
        columns.append((likely / likely.sum()) @ each)
    return np.column_stack(columns)


def linear_scores(
    moments: CleanMoments, scores: Scores, blend: Blend = BLEND
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and the constants that turn centred scores into the final ones.

    Of two classes the final score is the log odds of the second under Gaussian scores, which is
    linear discriminant analysis. Of more classes it lies between the scores of that analysis and
    what least squares of the indicators gives, put on their scale.
    """
    if len(moments.proportions) == 2:
        share, r = moments.contrast_shares, scores.correlations
        covariance = r * np.sqrt(scores.variances * share * (1 - share))
        inside, outside = covariance / share, -covariance / (1 - share)
        within = np.maximum(scores.variances * (1 - r**2), 1e-300)
        slopes = (inside - outside) / within
        return slopes[:, None], logit(share) - slopes * (inside + outside) / 2
    # Linear discriminant analysis by centred scores. With M the covariance of scores and
    # memberships and P the diagonal of proportions, directions u of M u = rho^2 P u, u^T P u = 1,
    # are canonical: u^T score has correlation rho with u_y.
    proportions = moments.proportions
    fitted = scores.weights.T @ moments.covariances
    # Of equal correlations, as of few rows, what thinning measured tells directions apart.
    sure = (fitted + fitted.T) / 2 + 1e-6 * scores.memberships
    _, directions = eigh(sure, np.diag(proportions))
    directions = directions[:, 1:]  # the least belongs to the sum of memberships, which is 1

    def along(matrix: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("kl,kj,jl->l", directions, matrix, directions))

    sizes = np.sqrt(np.maximum(along(scores.spread), 1e-300))
    most = moments.most_correlated(scores.weights @ directions, sizes**2)
    rho = np.clip(along(scores.memberships) / sizes, 0.0, most)
    matrix = (directions * (rho / sizes / (1 - rho**2))) @ directions.T
    lengths = (directions**2 * (rho**2 / (1 - rho**2))).sum(axis=1)
    constants = np.log(proportions) - lengths / 2
    part, slope = blend.ridge_part, blend.ridge_slope
    squares, at_mean = slope * np.eye(len(matrix)), slope * (proportions - 0.5)
    return (1 - part) * matrix + part * squares, (1 - part) * constants + part * at_mean


@dataclass(frozen=True, eq=False)
class LinearRule:
    """Linear scores of rows of length 1, and what they were computed from."""

    # (d, 1) or (d, K), of coordinates: of two classes those of the log odds of the second.
    weights: np.ndarray
    at_zero: np.ndarray  # (1,) or (K,): the scores of a row of zeros
    moments: CleanMoments
    scores: Scores  # of contrasts, before they are turned into final ones
    matrix: np.ndarray  # with ``constants``: turns centred scores of contrasts into final ones
    constants: np.ndarray


def learn_rule(numbers: MomentNumbers, draws: int = 8, seed: int = 0) -> LinearRule:
    """Return the linear scores that these numbers teach, by ``draws`` of thinning."""
    moments = cleaned(numbers)
    rng = np.random.default_rng(seed)  # draws of errors: never part of a release
    return rule_of(moments, thinned(moments, draws, rng))


def rule_of(moments: CleanMoments, thinning: Thinning, blend: Blend = BLEND) -> LinearRule:
    """Return the linear scores of cleaned moments."""
    scores = contrast_scores(moments, thinning)
    matrix, constants = linear_scores(moments, scores, blend)
    weights = moments.vectors @ scores.weights @ matrix
    at_zero = constants - moments.mean @ weights
    return LinearRule(weights, at_zero, moments, scores, matrix, constants)


@dataclass(frozen=True, eq=False)
class CoefficientIntervals:
    """Coefficients of ridge regression, with intervals for the noise of the release.

    Attributes
    ----------
    names : tuple of str
        The features.
    estimate, low, high : ndarray of shape (p,) or (p, K)
        The coefficients and the ends of their intervals, per unit of each feature; of two classes
        those of y = -1 or +1.
    penalty : float
        The penalty of the regression in rows of length 1, which follows from public numbers.
    level : float
        The confidence level of each interval.
    """

    # Variance of a plain coefficient over that of residuals which vary alike in all rows. Second
    # moments do not tell it: on eight tables it was 0.82 to 2.29, by a trial that no script keeps.
    uneven: ClassVar[float] = 2.0
    names: tuple[str, ...]
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    penalty: float
    level: float


def ridge_intervals(
    numbers: MomentNumbers, names: tuple[str, ...], level: float, units: np.ndarray
) -> CoefficientIntervals:
    """Return coefficients of ridge regression and their intervals.

    The delta method, at a public penalty: theta = (Sigma + penalty)^-1 c. An interval covers what
    the exact moments of the same records would give: it is about the noise of the release, and not
    about the sampling of records.

    ``units`` (p, d) turns weights of coordinates of rows of length 1 into those of features.
    """
    check_level(level)
    if not numbers.second_noise > 0:
        raise ParameterError("Intervals are about the noise of a release. Exact data have none.")
    width = len(numbers.mean)
    # Twice what noise can add to an eigenvalue, sqrt(2 d) deviations.
    penalty = 2 * math.sqrt(2 * width) * numbers.second_noise
    mean = numbers.mean
    inverse = np.linalg.inv(numbers.second - np.outer(mean, mean) + penalty * np.eye(width))
    columns, deviations, spread = [], [], units @ inverse
    for k, c in zip(numbers.contrasts, numbers.operator.T, strict=True):
        shift = float(numbers.proportions[k]) - 1 / numbers.classes
        theta = inverse @ (c - shift * mean)
        turn = (float(mean @ theta) - shift) * np.eye(width) + np.outer(mean, theta)
        noise = (
            numbers.operator_noise**2 * np.eye(width)
            + numbers.mean_noise**2 * turn @ turn.T
            + numbers.proportions_noise**2 * np.outer(mean, mean)
            + numbers.second_noise**2
            / 2
            * (float(theta @ theta) * np.eye(width) + np.outer(theta, theta))
        )
        columns.append(units @ theta)
        deviations.append(np.sqrt(((spread @ noise) * spread).sum(axis=1)))
    # Of two classes e = (y + 1) / 2: the coefficients of y are twice those of e.
    factor = 2.0 if numbers.classes == 2 else 1.0
    estimate, deviation = (factor * np.column_stack(part) for part in (columns, deviations))
    reach = float(ndtri(0.5 + level / 2)) * deviation
    parts = (estimate, estimate - reach, estimate + reach)
    if numbers.classes == 2:
        parts = tuple(part[:, 0] for part in parts)  # type: ignore[assignment]  # three of them
    return CoefficientIntervals(names, *parts, penalty=penalty, level=level)


LEVEL = 0.9
# How far tables are from Gaussian scores: the least hundredths with which nine in ten intervals
# covered at every epsilon, on eleven tables that no reported figure is about (lab/bench/moments.py
# --parts quality).
ALLOWANCE = 0.03
_LEAST_PROPORTION, _MOST_CORRELATED = 1e-3, 0.99


def expected_accuracy(
    rule: LinearRule, proportions_noise: float
) -> tuple[float, float, float] | None:
    """Return the accuracy of a rule of two classes on fresh rows, and both ends of an interval.

    Of more classes None. It is estimated from the release alone. The scores of two classes are
    taken to be Gaussian in each class, with the means and the variance that thinning found. The
    interval adds what the noise may have done to the correlation of scores and labels and to the
    class proportions, and an allowance for scores that are not Gaussian. Nothing is stated of the
    log loss, or of three classes or more: no interval that was tried covered.

    Correlation and proportion vary by 1.645 standard deviations, each alone.
    """
    if len(rule.constants) > 1:
        return None
    moments, scores = rule.moments, rule.scores
    share, correlation = float(moments.contrast_shares[0]), float(scores.correlations[0])
    variance = max(float(scores.variances[0]), 1e-300)
    # Slopes of log odds are positive: correlations are.
    threshold = -float(rule.constants[0]) / max(float(rule.matrix[0, 0]), 1e-300)

    def accuracy(share: float, correlation: float) -> float:
        """Return how often the score is on the side of its class."""
        covariance = correlation * (variance * share * (1 - share)) ** 0.5
        spread = (variance * (1 - correlation**2)) ** 0.5
        inside, outside = covariance / share, -covariance / (1 - share)
        right = share * ndtr((inside - threshold) / spread)
        return float(right + (1 - share) * ndtr((threshold - outside) / spread))

    estimate, reach = accuracy(share, correlation), float(ndtri(0.5 + LEVEL / 2))
    # The standard deviation of the correlation of score and class, by the delta method.
    weights = scores.weights[:, 0]
    by_operator = float(weights**2 @ moments.errors[:, 0]) / (variance * share * (1 - share))
    doubt = moments.square_noise * float(weights @ weights) / variance
    error = float(np.hypot(by_operator**0.5, correlation * doubt / 2))
    r_shift, p_shift = reach * error, reach * proportions_noise
    # The correlation is larger if noise added nothing to the score's variance.
    ratio = float(scores.variances[0]) / max(float(weights**2 @ moments.variances), 1e-300)
    withheld = correlation * (max(ratio, 1.0) ** 0.5 - 1)
    r_shifts = (-r_shift, float(np.hypot(r_shift, withheld)))
    least, most = _LEAST_PROPORTION, 1 - _LEAST_PROPORTION
    by_correlation = [
        accuracy(share, float(np.clip(correlation + shift, 0, _MOST_CORRELATED))) - estimate
        for shift in r_shifts
    ]
    by_share = [
        accuracy(float(np.clip(share + shift, least, most)), correlation) - estimate
        for shift in (-p_shift, p_shift)
    ]
    down = float(np.hypot(min(0.0, *by_correlation), min(0.0, *by_share)))
    up = float(np.hypot(max(0.0, *by_correlation), max(0.0, *by_share)))
    low, high = estimate - down - ALLOWANCE, estimate + up + ALLOWANCE
    return estimate, max(low, 0.0), min(high, 1.0)


@dataclass(eq=False, repr=False)
class MomentClassifier(LinearModel):
    """Learns a linear classifier with calibrated probabilities from moments of private records.

    The release says how much noise is in each of its numbers, and the learner uses it: it cleans
    mean, covariance and class proportions, averages the weights of coordinates over how large they
    may be, and measures by thinning how far to trust the scores. Of two classes the result is
    linear discriminant analysis. Of more it lies between that and least squares of the class
    indicators.

    Parameters
    ----------
    draws : int, default=8
        Number of thinning draws, for example 8. More make the probabilities a little steadier.
    random_state : int, default=0
        Seed of these draws: the same release and seed give the same model.
    class_weight

    Attributes
    ----------
    coef_
    intercept_
    theta_
    accuracy_, accuracy_interval_ : float, tuple of float
        The accuracy that is expected on fresh rows, estimated without labels, with an interval at
        90 % for the noise and for scores that are not Gaussian. None for three classes or more,
        where no interval that we tried covered. Model files do not store them.
    majority_known_ : bool
        Whether the noise leaves it clear which class is the largest. If not, the classifier may do
        worse than always predicting the largest class.
    lam_ : float
        The penalty that the noise on second moments adds.
    classes_
    pipeline_
    releases_

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import MomentClassifier, Moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 3))
    >>> y = (X[:, 0] + X[:, 1] > 0).astype(int)
    >>> release = Moments(epsilon=3.0, delta=1e-6, ranges=(-1, 1)).release(X, y, ledger=None)
    >>> model = MomentClassifier().fit_release(release)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    stored_as = "MomentClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "draws": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "class_weight": CLASS_WEIGHT,
    }

    draws: int = 8
    random_state: int = 0
    class_weight: Any = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MomentClassifier":
        """Learn from plain rows and labels; nothing is protected.

        Parameters
        ----------
        X
        y
        sample_weight
        """
        rows, codes, weights = self._weighted_data(X, y, sample_weight)
        coordinates = rows[:, :-1] / self.pipeline_.bound  # the last is the intercept
        return self._fit_numbers(plain_numbers(coordinates, codes, len(self.classes_), weights))

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(MOMENTS_HAVE_NONE)
    def fit_release(self, release: Release | Sequence[Release]) -> "MomentClassifier":
        """Learn from a release of moments, or from those of several owners; no row is needed.

        Parameters
        ----------
        release : Release or sequence of Release
            One release of moments, or several of different people.

        Raises
        ------
        ParameterError
            If a release is of another kind, or the owners' pipelines differ.

        Warns
        -----
        NoiseWarning
            If the noise hides which class is the largest.
        """
        merged = merge(release)
        merged.array("second_moments", "moments")
        self._learn_from((merged,))
        # Rows of a release have no intercept; the model has one, of weight 1.
        self.pipeline_ = replace(self.pipeline_, intercept=1.0)
        self._fit_numbers(numbers_of(merged))
        if not self.majority_known_:
            # Above this frame are two decorators, then the caller.
            warnings.warn(MAJORITY_HIDDEN, NoiseWarning, stacklevel=5)
        return self

    def _fit_numbers(self, numbers: MomentNumbers) -> "MomentClassifier":
        rule = learn_rule(numbers, self.draws, self.random_state)
        coefficients = np.vstack(
            [rule.weights / self.pipeline_.bound, rule.at_zero / self.pipeline_.intercept]
        )
        self.theta_ = coefficients[:, 0] if numbers.classes == 2 else coefficients
        expected = expected_accuracy(rule, numbers.proportions_noise)
        self.accuracy_ = expected and expected[0]
        self.accuracy_interval_ = expected and expected[1:]
        self.majority_known_ = numbers.majority_known
        self.lam_ = rule.moments.penalty * self.pipeline_.bound**2
        self.numbers_ = numbers
        return self

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return class_probabilities(scores)

    def coefficient_intervals(self, level: float = 0.9) -> CoefficientIntervals:
        """Return ridge coefficients with intervals that cover what the noise has done to them.

        Parameters
        ----------
        level : float, default=0.9
            Confidence level of each interval, for example 0.9.

        Returns
        -------
        CoefficientIntervals
            One coefficient per feature, in the units of its column as ``coef_``, at a public
            penalty. They predict y = -1 or +1 (of three classes or more 0 or 1), so they are not
            those of this classifier, which predicts log odds. Sampling is not covered.

        Raises
        ------
        ParameterError
            If the level is none, or the model was fitted to plain data.
        """
        numbers = self._from_fit("numbers_", "numbers of the release")
        features = FeatureUnits(self.pipeline_)
        return ridge_intervals(
            numbers, features.names, level, features.matrix.T / self.pipeline_.bound
        )

    def _details(self) -> dict[str, Any]:
        return {"loss": "logistic", **dict.fromkeys(FIGURES)}


@dataclass(frozen=True, eq=False)
class NumberMoments:
    """Means and mean products of numbers, with the deviations of their noise.

    The numbers are coordinates of rows of length 1 at most; the target, if there is one, is the
    last, between -1 and 1.
    """

    second: np.ndarray  # (k, k)
    mean: np.ndarray  # (k,)
    second_noise: np.ndarray  # (k, k): of each product
    mean_noise: np.ndarray  # (k,)
    rows: float  # the number of records

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the numbers, free of the bias that noise on means gives squares."""
        return self.second - np.outer(self.mean, self.mean) + np.diag(self.mean_noise**2)


def moments_of(release: Release) -> NumberMoments:
    """Return the numbers of a release of moments, with its target if it has one."""
    arrays, details, bound = release.arrays, release.details, release.pipeline.bound
    second = release.array("second_moments", "moments") / bound**2
    mean, square = arrays["mean"] / bound, details.get("second_noise", 0.0) / bound**2
    noise = np.full(second.shape, square / math.sqrt(2))
    np.fill_diagonal(noise, square)
    mean_noise = np.full(len(mean), details.get("mean_noise", 0.0) / bound)  # 0 of public rows
    if "target" in details:
        middle, last = arrays["target_moments"]
        second = _bordered(second, arrays["operator"] / bound, last)
        noise = _bordered(
            noise,
            np.full(len(mean), details["operator_noise"] / bound),
            details["target_square_noise"],
        )
        mean, mean_noise = np.append(mean, middle), np.append(mean_noise, details["target_noise"])
    return NumberMoments(second, mean, noise, mean_noise, float(release.rows))


def _bordered(matrix: np.ndarray, edge: np.ndarray, corner: float) -> np.ndarray:
    """Return a symmetric matrix with one more row and column."""
    return np.block([[matrix, edge[:, None]], [edge[None, :], np.array([[corner]])]])


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Plain least squares of the target, with what noise and sampling do to it."""

    weights: np.ndarray  # (d + 1,): of the coordinates, then of the constant 1
    covariance: np.ndarray | None  # of their errors; None where the noise hides too much
    r2: float | None  # the part of the target's variance that is explained
    r2_deviation: float


def references(pipeline: Pipeline) -> np.ndarray:
    """Return which coordinates are the first category of a column: the others are told from it.

    All categories of a column add up to the constant, so that least squares takes one fewer.
    """
    outputs = [column.outputs for column in pipeline.columns]
    width = len(replace(pipeline, intercept=0.0).outputs)
    if sum(map(len, outputs)) != width:  # a map has made other coordinates of them
        return np.zeros(width, dtype=bool)
    firsts = [[len(names) > 1] + [False] * (len(names) - 1) for names in outputs]
    return np.array([first for column in firsts for first in column], dtype=bool)


def least_squares(moments: NumberMoments, left_out: np.ndarray) -> LeastSquares:
    """Return least squares with an intercept, and the errors of it.

    Coordinates that are ``left_out`` have the weight 0, without an error.

    With A the moments of (w, 1) and b those with the target, weights are A^-1 b. Noise E on A and e
    on b moves them by A^-1 (e - E weights), to first order. That holds while E takes little from
    the least eigenvalue of the covariance: sqrt(2 d) deviations are the most. Explained variance
    grows by E (e - E weights)^T A^-1 (e - E weights) on average, which is taken from it again.
    """
    if left_out.any():
        kept = np.append(
            np.flatnonzero(~left_out), len(left_out)
        )  # and the target, or the constant
        part = np.ix_(kept, kept)
        smaller = NumberMoments(
            moments.second[part],
            moments.mean[kept],
            moments.second_noise[part],
            moments.mean_noise[kept],
            moments.rows,
        )
        found = least_squares(smaller, np.zeros(len(kept) - 1, dtype=bool))
        weights = np.zeros(len(left_out) + 1)
        weights[kept] = found.weights
        covariance = None
        if found.covariance is not None:
            covariance = np.zeros((len(weights), len(weights)))
            covariance[part] = found.covariance
        return replace(found, weights=weights, covariance=covariance)
    width, rows = len(moments.mean) - 1, moments.rows
    ones = np.append(moments.mean[:-1], 1.0)
    a = _bordered(moments.second[:-1, :-1], moments.mean[:-1], 1.0)
    b = np.append(moments.second[:-1, -1], moments.mean[-1])
    spread = moments.second[:-1, :-1] - np.outer(ones[:-1], ones[:-1])
    least = float(np.linalg.eigvalsh(spread)[0])
    square = float(moments.second_noise[0, 0])
    most = max(math.sqrt(2 * width) * square, 1e-10 * float(np.trace(spread)))
    if not least > most:
        return LeastSquares(np.linalg.lstsq(a, b, rcond=None)[0], None, None, 0.0)
    inverse = np.linalg.inv(a)
    weights = inverse @ b
    theta, constant = weights[:-1], float(weights[-1])
    length = float(theta @ theta)
    on_mean, on_target = float(moments.mean_noise[0]), float(moments.mean_noise[-1])
    on_operator, on_square = moments.second_noise[0, -1], moments.second_noise[-1, -1]
    noise = _bordered(
        (on_operator**2 + (on_mean * constant) ** 2 + square**2 * length / 2) * np.eye(width)
        + square**2 / 2 * np.outer(theta, theta),
        on_mean**2 * constant * theta,
        on_target**2 + on_mean**2 * length,
    )
    left = float(moments.second[-1, -1] - weights @ b + np.trace(inverse @ noise))
    left = max(left, float(on_square), 0.0) * rows / max(rows - width - 1, 1.0)
    # Noise may make the target's variance smaller than what is left of it, or negative.
    variance = max(float(moments.covariance[-1, -1]), left, 1e-100)
    unexplained = left / variance
    r2 = 1 - unexplained
    by_noise = (
        (on_square * (1 - unexplained)) ** 2
        + 4 * on_operator**2 * length
        + 4 * on_target**2 * (constant - unexplained * moments.mean[-1]) ** 2
        + (square * length) ** 2
        + (2 * constant * on_mean) ** 2 * length
        + 2 * float(np.trace(inverse @ noise @ inverse @ noise))  # of what was taken from it again
    ) / variance**2
    by_sampling = (
        (CoefficientIntervals.uneven * 4 * max(r2, 0.0) + 2 * width / rows) * unexplained**2 / rows
    )
    covariance = inverse @ noise @ inverse.T + CoefficientIntervals.uneven * left * inverse / rows
    return LeastSquares(weights, covariance, r2, math.sqrt(by_noise + by_sampling))


def ridge_weights(moments: NumberMoments) -> tuple[np.ndarray, float]:
    """Return weights (d + 1,) that predict well in spite of the noise, and their penalty.

    They are the expected weights of `MomentClassifier` of one contrast: a target between -1 and 1
    stands for membership e = (y + 1) / 2 with a variance of its own.
    """
    share = (1 + float(moments.mean[-1])) / 2
    numbers = MomentNumbers(
        second=moments.second[:-1, :-1],
        mean=moments.mean[:-1],
        operator=moments.second[:-1, -1:] / 2,
        proportions=np.array([1 - share, share]),
        second_noise=float(moments.second_noise[0, 0]),
        mean_noise=float(moments.mean_noise[0]),
        operator_noise=float(moments.second_noise[0, -1]) / 2,
        proportions_noise=float(moments.mean_noise[-1]) / 2,
        rows=moments.rows,
        target_variance=float(max(moments.covariance[-1, -1], moments.second_noise[-1, -1]) / 4),
    )
    clean = cleaned(numbers)
    along = expected_weights(clean, clean.covariances, clean.errors)[:, 0]
    weights = 2 * clean.vectors @ along
    constant = 2 * float(clean.proportions[1]) - 1 - float(clean.mean @ weights)
    return np.append(weights, constant), clean.penalty


@dataclass(eq=False, repr=False)
class MomentRegressor(RegressorMixin, Learner):  # type: ignore[misc]  # scikit-learn is untyped
    """Learns to predict a number from moments of private records.

    The release says how much noise is in each of its numbers, and the learner uses it: predictions
    are those of a ridge regression whose penalty follows from the noise. The table of
    `coefficient_intervals` is of plain least squares.

    Attributes
    ----------
    coef_
    intercept_
    theta_
    r2_, r2_interval_ : float, tuple of float
        The part of the target's variance that least squares explains, and its interval at 95 %.
        None where the noise hides it.
    lam_ : float
        The penalty that the noise on second moments adds.
    target_ : tuple
        The name of the target and both ends of its range; predictions are held to it. None after a
        fit to plain data.
    pipeline_
    releases_

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import MomentRegressor, Moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-5, 5, (5000, 2))
    >>> y = X[:, 0] - X[:, 1] / 2 + rng.normal(size=5000)
    >>> owner = Moments(epsilon=3.0, delta=1e-6, ranges=(-5, 5))
    >>> release = owner.release(X, y, target="y", ledger=None)
    >>> model = MomentRegressor().fit_release(release)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    stored_as = "MomentRegressor"
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from plain rows and numbers; nothing is protected.

        Parameters
        ----------
        X
        y
        sample_weight
        """
        X, y = self._checked_rows(X, y, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        weights = checked_weights(sample_weight, len(y))
        each = np.ones(len(y)) if weights is None else weights
        rows = self._map_exact_rows(X, weights)[:, :-1] / self.pipeline_.bound
        used = y[each > 0]
        middle, half = (used.max() + used.min()) / 2, (used.max() - used.min()) / 2 or 1.0
        numbers = np.column_stack([rows, (y - middle) / half])
        weighted = each[:, None] * numbers / each.sum()
        none = np.zeros((numbers.shape[1],) * 2)
        self.target_: tuple[Any, float, float] | None = None
        return self._fit_moments(
            NumberMoments(
                weighted.T @ numbers, weighted.sum(axis=0), none, none[0], repeated_count(each)
            ),
            float(middle),
            float(half),
        )

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(MOMENTS_HAVE_NONE)
    def fit_release(self, release: Release | Sequence[Release]) -> Self:
        """Learn from a release of moments with a target, or from those of several owners.

        Parameters
        ----------
        release : Release or sequence of Release
            One release, or several of different people.

        Raises
        ------
        ParameterError
            If a release is of another kind, or the owners' pipelines or targets differ.
        """
        merged = merge(release)
        merged.array("target_moments", "moments with a target")
        self._learn_from((merged,))
        # Rows of a release have no intercept; the model has one, of weight 1.
        self.pipeline_ = replace(self.pipeline_, intercept=1.0)
        low, high = (float(merged.details[end]) for end in ("low", "high"))
        self.target_ = (merged.details["target"], low, high)
        return self._fit_moments(moments_of(merged), low / 2 + high / 2, high / 2 - low / 2)

    def _fit_moments(self, moments: NumberMoments, middle: float, half: float) -> Self:
        weights, penalty = ridge_weights(moments)
        plain = least_squares(moments, references(self.pipeline_))
        # From rows of length 1 and a target between -1 and 1 to the pipeline's and the target's.
        size = half / np.append(
            np.full(len(weights) - 1, self.pipeline_.bound), self.pipeline_.intercept
        )
        centre = np.append(np.zeros(len(weights) - 1), middle / self.pipeline_.intercept)
        self.theta_ = size * weights + centre
        self.estimates_ = size * plain.weights + centre
        self.deviations_ = None
        if plain.covariance is not None:
            turn = FeatureUnits(self.pipeline_).basis() * size
            variances = ((turn @ plain.covariance) * turn).sum(axis=1)
            self.deviations_ = np.sqrt(np.maximum(variances, 0.0))
        self.r2_, self.r2_interval_ = plain.r2, None
        if plain.r2 is not None:
            reach = float(ndtri(0.975)) * plain.r2_deviation
            self.r2_interval_ = (max(plain.r2 - reach, 0.0), min(max(plain.r2 + reach, 0.0), 1.0))
            self.r2_ = min(max(plain.r2, 0.0), 1.0)
        self.lam_ = penalty * self.pipeline_.bound**2
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the expected target of each row, held to its range.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n,)
            One number per row, in the units of the target.

        Raises
        ------
        TableError
        NotFittedError
        """
        batches = mapped_batches(self._new_rows(X), self.pipeline_, new=True)
        predicted = np.concatenate([rows @ self.theta_ for rows in batches])
        return predicted if self.target_ is None else np.clip(predicted, *self.target_[1:])

    @property
    def coef_(self) -> np.ndarray:
        """One coefficient per feature (p,), of the ridge regression that predicts."""
        check_is_fitted(self)
        return FeatureUnits(self.pipeline_).coefficients(self.theta_)[0][0]

    @property
    def intercept_(self) -> float:
        """What is predicted of a row whose features are all zero."""
        check_is_fitted(self)
        return float(FeatureUnits(self.pipeline_).coefficients(self.theta_)[1][0])

    def coefficient_intervals(self, level: float = 0.95) -> CoefficientIntervals:
        """Return the coefficients of plain least squares, each with an interval.

        An interval covers the coefficient among the people whom the records are a sample of, with
        rows shortened as the pipeline says and the target cut to its range. It counts noise and
        sampling. Predictions use other coefficients (``coef_``), which are shrunk.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level of each interval, for example 0.9.

        Returns
        -------
        CoefficientIntervals
            One coefficient per feature, in the units of its column and of the target, and the
            intercept. The first category of a column is the reference, with the coefficient 0.

        Raises
        ------
        ParameterError
            If the level is none, or the noise hides too much for an interval.
        """
        check_is_fitted(self)
        check_level(level)
        if self.deviations_ is None:
            raise ParameterError(HIDDEN)
        features = FeatureUnits(self.pipeline_)
        coef, intercept = features.coefficients(self.estimates_)
        estimate = np.append(coef[0], intercept[0])
        reach = float(ndtri(0.5 + level / 2)) * self.deviations_
        names = (*features.names, "(intercept)")
        return CoefficientIntervals(
            names, estimate, estimate - reach, estimate + reach, penalty=0.0, level=level
        )

    def to_release(self) -> Release:
        """Return the model as a release, to save it in a file.

        Returns
        -------
        Release
            A release of kind "regression-model", with the guarantees of what it was learnt from.

        Raises
        ------
        ParameterError
            If the model was learnt from exact data: it has no guarantee.
        """
        first = self._learnt_release()
        if "estimates" in first.arrays:  # it was loaded, and is written as it was
            return first
        low, high = self.r2_interval_ or (None, None)
        return replace(
            first,
            kind="regression-model",
            parts=apart(self.releases_),
            pipeline=self.pipeline_,
            arrays={"coefficients": self.theta_, "estimates": self.estimates_},
            details={
                **dict(zip(("target", "low", "high"), self.target_ or (), strict=False)),
                "learner": self.stored_as,
                "lam": float(self.lam_),
                "r2": self.r2_,
                "r2_low": low,
                "r2_high": high,
                "coefficient_deviations": (
                    None if self.deviations_ is None else self.deviations_.tolist()
                ),
            },
            noise=Covariance("none"),
        )

    @classmethod
    def from_release(cls, model: Release) -> Self:
        """Return the fitted learner of a model file.

        Parameters
        ----------
        model : Release
            A release of kind "regression-model".

        Returns
        -------
        MomentRegressor
            The fitted learner.

        Raises
        ------
        ParameterError
            If another learner wrote the file, or it is not a model.
        """
        cls._check_learner(model)
        self, details = cls(), model.details
        self._learn_from((model,))
        self.theta_, self.estimates_ = model.arrays["coefficients"], model.arrays["estimates"]
        stated = details["coefficient_deviations"]
        self.deviations_ = None if stated is None else np.array(stated)
        self.target_ = (details["target"], float(details["low"]), float(details["high"]))
        self.lam_, self.r2_ = details["lam"], details["r2"]
        ends = (details["r2_low"], details["r2_high"])
        self.r2_interval_ = None if None in ends else ends
        return self


def check_level(level: float) -> None:
    """Raise unless a confidence level lies between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1; got {level!r}.")


@dataclass(frozen=True, eq=False)
class Description:
    """Means, variances and correlations of released columns, each with an interval.

    The last axis of the arrays is the estimate and both ends of the interval. They are NaN where
    the noise hides a correlation.
    """

    names: tuple[str, ...]  # of the columns, in whose units they are; a target is the last
    means: np.ndarray  # (k, 3)
    variances: np.ndarray  # (k, 3)
    correlations: np.ndarray  # (k, k, 3)
    level: float  # the confidence level of each interval

    def pairs(self) -> list[tuple[str, str, list[float] | None]]:
        """Return the correlation of every two columns with its interval; None if it is hidden."""
        return [
            (first, self.names[k], None if np.isnan(found[k, 0]) else found[k].tolist())
            for j, (first, found) in enumerate(zip(self.names, self.correlations, strict=True))
            for k in range(j + 1, len(self.names))
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        ends = ("estimate", "low", "high")
        figures = zip(self.names, self.means.tolist(), self.variances.tolist(), strict=True)
        return {
            "level": self.level,
            "columns": [
                {
                    "name": name,
                    "mean": dict(zip(ends, mean, strict=True)),
                    "variance": dict(zip(ends, variance, strict=True)),
                }
                for name, mean, variance in figures
            ],
            "correlations": [
                {"columns": [first, second], **dict(zip(ends, found, strict=True))}
                for first, second, found in self.pairs()
                if found is not None
            ],
        }


def describe(release: Release, level: float = 0.95) -> Description:
    """Return means, variances and correlations of a release of moments, with intervals.

    They are about the people whom the records are a sample of, with rows shortened as the pipeline
    says. Of a variance the fourth moment is not released: its sampling is bounded by the length of
    rows. Of a correlation it is taken to be twice that of Gaussian numbers.

    Parameters
    ----------
    release : Release
        A release of moments, with classes or with a target.
    level : float, default=0.95
        Confidence level of each interval, for example 0.9.

    Returns
    -------
    Description
        One mean and one variance per column, in its units, and the correlation of every two.

    Raises
    ------
    ParameterError
        If the release holds no moments, or the level is none.
    """
    check_level(level)
    moments, pipeline = moments_of(release), replace(release.pipeline, intercept=0.0)
    names, centre, size = pipeline.outputs, pipeline.mean, pipeline.scale * pipeline.bound
    if "target" in release.details:
        low, high = (float(release.details[end]) for end in ("low", "high"))
        names = (*names, release.details["target"])
        centre, size = np.append(centre, low / 2 + high / 2), np.append(size, high / 2 - low / 2)
    reach, rows, mean = float(ndtri(0.5 + level / 2)), moments.rows, moments.mean
    covariance = moments.covariance
    variance = np.maximum(np.diag(covariance), 0.0)
    mean_noise = moments.mean_noise
    mean_error = np.sqrt(mean_noise**2 + variance / rows)
    noise = np.sqrt(np.diag(moments.second_noise) ** 2 + (2 * mean * mean_noise) ** 2)
    # The fourth central moment of numbers between -1 and 1 is at most (1 + |mean|)^2 variances.
    variance_error = np.sqrt(noise**2 + (1 + np.abs(mean)) ** 2 * variance / rows)
    clear = variance > 2 * _CLASS_LEAD * noise
    root = np.sqrt(np.where(clear, variance, np.nan))
    correlation = np.clip(covariance / np.outer(root, root), -1.0, 1.0)
    relative = (noise / root**2) ** 2
    shifts = np.outer(mean**2, mean_noise**2) + np.outer(mean_noise**2, mean**2)
    by_noise = (moments.second_noise**2 + shifts) / np.outer(root**2, root**2)
    by_noise = by_noise + correlation**2 / 4 * np.add.outer(relative, relative)
    error = np.sqrt(by_noise + CoefficientIntervals.uneven * (1 - correlation**2) ** 2 / rows)

    def with_ends(estimate: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        off = reach * deviation
        return np.stack([estimate, estimate - off, estimate + off], axis=-1)

    return Description(
        names=names,
        means=with_ends(centre + size * mean, size * mean_error),
        variances=np.maximum(with_ends(size**2 * variance, size**2 * variance_error), 0.0),
        correlations=np.clip(with_ends(correlation, error), -1.0, 1.0),
        level=level,
    )
