"""From the noisy numbers of a release to a mean, a covariance and class proportions.

All in rows of length 1. What is known of the noise is used: a proportion lies between 0 and 1, a
mean is shrunk towards zero, the eigenvalues of the covariance are moved back by what symmetric
Gaussian noise did to them (Bun, Allez, Bouchaud & Potters 2016).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import truncnorm

from suffice.learner.weights import repeated_count
from suffice.release.artifact import Release

__all__ = ["CleanMoments", "MomentNumbers", "cleaned", "numbers_of", "plain_numbers"]

_FLOOR = 1e-3  # of the mean eigenvalue: smaller ones cannot be told from noise
_LEAST_FLOOR = 1e-9
_LEAST_TOTAL = 1e-9
_ROUNDING = 1e-13  # of the largest number
_FLAT = 100.0  # noise on a proportion that leaves nothing of it
_SURE = 2.0  # deviations of the noise that tell the larger class from another


@dataclass(frozen=True, eq=False)
class MomentNumbers:
    """The numbers of a release, in rows of length 1, and the deviations of their noise.

    Attributes
    ----------
    second : ndarray of shape (d, d)
        The mean products of two coordinates.
    mean : ndarray of shape (d,)
        The mean row.
    operator : ndarray of shape (d, contrasts)
        The mean of x (e - base) for each contrast, e being 1 for members of a class and else 0.
    proportions : ndarray of shape (K,)
        The class proportions.
    second_noise, mean_noise, operator_noise, proportions_noise : float
        The standard deviations of the noise on a square, and on the numbers of each other block.
    rows : float
        The number of records, or what their weights stand for.
    """

    second: np.ndarray
    mean: np.ndarray
    operator: np.ndarray
    proportions: np.ndarray
    second_noise: float
    mean_noise: float
    operator_noise: float
    proportions_noise: float
    rows: float

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
        return bool(largest[0] - largest[1] >= _SURE * factor * self.proportions_noise)


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
    """What is believed of the data, in the eigenvectors of their covariance.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        The mean row, in the coordinates of rows.
    vectors : ndarray of shape (d, d)
        The eigenvectors of the covariance, one a column.
    variances : ndarray of shape (d,)
        The variance along each of them.
    covariances : ndarray of shape (d, contrasts)
        The covariance of rows with membership in a class, along them.
    errors : ndarray of shape (d, contrasts)
        The variance of the error of ``covariances``, by noise and by sampling.
    proportions : ndarray of shape (K,)
        The class proportions, between 0 and 1.
    contrast_shares : ndarray of shape (contrasts,)
        The proportion of the class that each contrast tells from all others.
    penalty : float
        Half of what noise can add to an eigenvalue.
    """

    mean: np.ndarray
    vectors: np.ndarray
    variances: np.ndarray
    covariances: np.ndarray
    errors: np.ndarray
    proportions: np.ndarray
    contrast_shares: np.ndarray
    penalty: float

    @property
    def square_noise(self) -> float:
        """The standard deviation of the noise on the variance of any direction of length 1."""
        return self.penalty / math.sqrt(len(self.variances) / 2)


def cleaned(numbers: MomentNumbers) -> CleanMoments:
    """Return what is believed of the data, from noisy numbers."""
    width, noise = len(numbers.mean), numbers.second_noise
    proportions = _proportions(numbers)
    mean = _shrunk_mean(numbers.mean, numbers.mean_noise)
    contrast_shares = proportions[numbers.contrasts]
    shift = contrast_shares - 1 / numbers.classes
    covariances = numbers.operator - np.outer(mean, shift)
    values, vectors = np.linalg.eigh(numbers.second - np.outer(mean, mean))
    penalty = math.sqrt(width / 2) * noise
    variances = _shrunk_values(values, noise, penalty)
    by_noise = (
        numbers.operator_noise**2
        + shift**2 * numbers.mean_noise**2
        + numbers.proportions_noise**2 * float(mean @ mean) / width
    )
    errors = (
        by_noise[None, :]
        + np.outer(variances, contrast_shares * (1 - contrast_shares)) / numbers.rows
    )
    return CleanMoments(
        mean,
        vectors,
        variances,
        _without_rounding(vectors.T @ covariances),
        errors,
        proportions,
        contrast_shares,
        penalty,
    )


def _without_rounding(covariances: np.ndarray) -> np.ndarray:
    """Return covariances with zeros for what only rounding made: small variances divide them."""
    least = _ROUNDING * np.abs(covariances).max(axis=0, initial=0.0)
    return np.where(np.abs(covariances) > least, covariances, 0.0)


def _proportions(numbers: MomentNumbers) -> np.ndarray:
    """Return the expected proportions, given that each lies between 0 and 1."""
    noisy, noise = numbers.proportions, numbers.proportions_noise
    expected: Any = noisy
    if noise > _FLAT:
        expected = np.full(len(noisy), 0.5)
    elif noise > 1e-12:
        expected = truncnorm.mean(-noisy / noise, (1 - noisy) / noise, loc=noisy, scale=noise)
    least = 0.5 / numbers.rows
    proportions = np.clip(np.nan_to_num(expected, nan=0.5), least, 1 - least)
    return np.asarray(proportions / proportions.sum())


def _shrunk_mean(mean: np.ndarray, noise: float) -> np.ndarray:
    """Return a mean shrunk towards zero, as James and Stein do, and not beyond it."""
    length = float(mean @ mean)
    if len(mean) < 3 or length == 0:
        return mean
    return np.asarray(mean) * max(0.0, 1 - (len(mean) - 2) * noise**2 / length)


def _total_variance(noisy: float, noise: float) -> float:
    """Return the expected sum of variances: that of rows of length 1 lies between 0 and 1.

    Without this, noise that makes the sum negative would leave no variance, and scores of which
    the learner is far too sure.
    """
    expected = noisy
    if noise > 1e-12:
        expected = float(truncnorm.mean(-noisy / noise, (1 - noisy) / noise, noisy, noise))
    return float(np.clip(np.nan_to_num(expected, nan=noisy), _LEAST_TOTAL, 1))


def _shrunk_values(values: np.ndarray, noise: float, penalty: float) -> np.ndarray:
    """Return eigenvalues without what symmetric Gaussian noise is expected to have added.

    Their sum is the expected total variance.
    """
    total = _total_variance(float(values.sum()), math.sqrt(len(values)) * noise)
    mean = total / len(values)
    floor = max(_LEAST_FLOOR * mean, min(_FLOOR * mean, penalty))
    if noise > 0:
        apart = values[:, None] - values[None, :]
        values = values - noise**2 * (apart / (apart**2 + noise**2 / 2)).sum(axis=1)
    floored = np.maximum(values, floor)
    return np.asarray(np.maximum(floored * (total / floored.sum()), floor))
