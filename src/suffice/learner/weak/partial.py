"""Labels of some rows only: positives among unlabelled rows, or a labelled sample of all."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError, TableError
from suffice.learner.weak.moments import OperatorEstimate, Supervision, noise_of_gram, per_column
from suffice.learner.weak.supervision import PlainLabels
from suffice.models.gram import gram
from suffice.tables.labels import check_classes, label_codes

__all__ = ["PositiveUnlabelled", "SemiSupervised"]

_FOLDS = 5
_FEWEST = 2 * _FOLDS  # labelled rows
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # times the mean eigenvalue of the labelled rows' gram


@dataclass(frozen=True, eq=False)
class PositiveUnlabelled(Supervision):
    """Computes mu from positive rows, unlabelled rows and the proportion of positives.

    mu = 2 pi E[x | +] - E[x], with pi = ``prior``. Assumes two classes, a prior that is right for
    these rows, and positives that are a random sample of all positive ones.

    Parameters
    ----------
    positives : array of shape (m,) or (n, d)
        A mask over the rows, true for rows that are known to be positive; or other mapped rows,
        all of them positive.
    prior : float
        The proportion of the second class among the rows.
    classes : sequence
        The two classes; the second is the positive one.
    """

    positives: Any
    prior: float
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator; its error comes from the sampling of the positives.

        Parameters
        ----------
        rows : array of shape (m, d)
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ParameterError
            If the positives do not fit the rows, or the prior does not fit them.
        """
        classes = check_classes(self.classes)
        if len(classes) != 2:
            raise ParameterError("PositiveUnlabelled works for two classes only. List two classes.")
        if not 0 < self.prior < 1:
            raise ParameterError(
                "prior, the proportion of the second class, must lie between 0 and 1. It is"
                f" {self.prior!r}."
            )
        positive_rows, among = _positive_rows(self.positives, rows)
        expected = self.prior * len(rows)
        if among and len(positive_rows) > expected + 0.5:
            raise ParameterError(
                f"{len(positive_rows)} rows are marked positive, but the prior allows"
                f" {expected:.0f}. Raise the prior."
            )
        # mu = pi E[x|+] - (1 - pi) E[x|-], and E[x] = pi E[x|+] + (1 - pi) E[x|-]
        centre = positive_rows.mean(axis=0)
        operator = 2 * self.prior * centre - rows.mean(axis=0)
        # a sample of the rows' own positives errs less (finite population), one from elsewhere more
        share = 1 / len(positive_rows) + (-1 if among else 1) / expected
        scatter = gram(positive_rows - centre) / (len(positive_rows) - 1)
        noise = noise_of_gram(scatter, 4 * self.prior**2 * share)
        note = (
            "The covariance is 4 pi^2 Cov(x | +) (1/n + s/(pi m)) from the sample covariance of n"
            " positives, s = -1 if they are among the rows and +1 if not; an error of the prior is"
            " not in it."
        )
        return OperatorEstimate(operator, noise, classes, note)


def _positive_rows(positives: Any, rows: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the rows known to be positive, and whether they are among ``rows``."""
    array = np.asarray(positives)
    among = array.dtype == bool and array.shape == (len(rows),)
    outside = array.ndim == 2 and array.shape[1] == rows.shape[1] and array.dtype.kind in "fiu"
    if not (among or outside):
        raise ParameterError(
            f"positives must be a mask of {len(rows)} booleans, or rows of {rows.shape[1]}"
            " coordinates."
        )
    positive_rows = rows[array] if among else array.astype(np.float64)
    if len(positive_rows) < 2 or not np.isfinite(positive_rows).all():
        raise ParameterError("positives must hold two or more rows of finite numbers.")
    return positive_rows, among


@dataclass(frozen=True, eq=False)
class SemiSupervised(Supervision):
    """Computes the mean operator of all rows from the labels of a random sample of them.

    M = S B + (1/n) sum_{labelled} x_i (e_y(i) - B^T x_i)^T,   S = (1/m) sum_{all} x_i x_i^T

    (y in -1, +1 and mu for two classes): the linear prediction B^T x of the label is averaged over
    every row, and the labelled ones correct its bias. It is the generalised regression estimator
    (Saerndal, Swensson and Wretman 1992, chapter 6), with S as the control variate; B is fitted
    on other folds than it corrects (cross-prediction, Zrnic and Candes 2024), which keeps it
    unbiased for any B. B is ridge regression with the penalty of least estimated variance; B = 0,
    the labelled rows alone, is among the choices (as in PPI++, Angelopoulos et al. 2023).

    Assumes that labels are missing completely at random. Folds are drawn from a fixed seed.

    Parameters
    ----------
    labels : array of shape (m,)
        One label per row, None or NaN where it is missing.
    classes : sequence
        The classes; the second of two counts as +1.
    """

    labels: Any
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator; its error comes from the sampling of the labelled rows.

        Parameters
        ----------
        rows : array of shape (m, d)
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ParameterError
            If there are too few labels, or a class without any.
        """
        classes = check_classes(self.classes)
        labelled, codes = _known_labels(self.labels, classes, rows)
        if labelled.all():
            return PlainLabels(self.labels, classes).estimate(rows)
        labelled_rows, n, m = rows[labelled], len(codes), len(rows)
        targets = np.eye(len(classes))[codes]
        if len(classes) == 2:
            targets = targets @ [[-1.0], [1.0]]
        slopes, residuals = _cross_fit(labelled_rows, targets)
        operator = labelled_rows.T @ residuals / n
        if slopes.any():
            operator += gram(rows) @ slopes / m
        columns = targets.shape[1]
        # n of m rows without replacement; every column of M has its own, of which this is the mean
        centres = labelled_rows.T @ residuals / n
        scatter = gram(labelled_rows, (residuals**2).sum(axis=1)) - n * centres @ centres.T
        noise = noise_of_gram(scatter / (n - 1) / columns, 1 / n - 1 / m)
        note = (
            "The covariance of drawing the labelled rows, (1/n - 1/m) Cov(x r), with r the"
            " residuals of labels predicted from other folds; it holds if labels are missing"
            " completely at random." + per_column(len(classes))
        )
        final = operator[:, 0] if columns == 1 else operator
        return OperatorEstimate(final, noise, classes, note)


def _known_labels(
    labels: Any, classes: tuple[Any, ...], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows have a label, and the codes of those."""
    try:
        column = pa.array(labels, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise TableError(
            "labels must be of one type. Use None or NaN where a label is missing."
        ) from None
    if len(column) != len(rows):
        raise ParameterError(
            f"There are {len(column)} labels for {len(rows)} rows. Pass one for each row, None"
            " where it is missing."
        )
    labelled = np.asarray(column.is_valid())
    if labelled.sum() < _FEWEST:
        raise ParameterError(f"Only {labelled.sum()} rows have a label. Label at least {_FEWEST}.")
    codes = label_codes(column.drop_null(), classes)
    missing = len(classes) - len(np.unique(codes))
    if missing:
        raise ParameterError(
            f"{missing} of the classes have no labelled row. Label rows of each class."
        )
    return labelled, codes


def _cross_fit(labelled_rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean slopes (d, c) and out-of-fold residuals (n, c) of the best ridge, or of 0."""
    n, d = labelled_rows.shape
    fold = np.random.default_rng(0).permutation(n) % _FOLDS
    second, first = gram(labelled_rows), labelled_rows.T @ targets
    unit = np.trace(second) / d or 1.0
    slopes = np.zeros((len(_RIDGES), d, targets.shape[1]))
    residuals = np.repeat(targets[None], len(_RIDGES) + 1, axis=0)  # the last: no prediction
    for k in range(_FOLDS):
        held_out, y = labelled_rows[fold == k], targets[fold == k]
        values, vectors = np.linalg.eigh(second - gram(held_out))
        projected_moments = vectors.T @ (first - held_out.T @ y)
        for i, ridge in enumerate(_RIDGES):
            slope = vectors @ (
                projected_moments / (np.maximum(values, 0.0) + ridge * unit)[:, None]
            )
            residuals[i, fold == k] -= held_out @ slope
            slopes[i] += len(held_out) / n * slope
    noise = (residuals**2).sum(axis=2) @ (labelled_rows**2).sum(axis=1)
    best = int(noise.argmin())
    return (slopes[best] if best < len(_RIDGES) else np.zeros_like(first)), residuals[best]
