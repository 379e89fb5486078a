"""The estimate from any source of supervision, and those sources that need no estimation."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suffice.errors import ForeignRowsError, ParameterError
from suffice.learner.weak.flipped import FlippedLabels
from suffice.learner.weak.moments import (
    OperatorEstimate,
    Supervision,
    as_operator,
    codes_of,
    group_sums,
    no_noise,
    noise_of_gram,
)
from suffice.models.rows import WeightedRows, as_weighted
from suffice.release.artifact import Release
from suffice.tables.labels import check_classes

__all__ = ["PlainLabels", "Released", "SoftVotes", "estimate_mean_operator"]


def estimate_mean_operator(rows: Any, source: Supervision) -> OperatorEstimate:
    """Return an estimate of the mean operator of mapped rows from a source of supervision.

    Patrini et al. 2016, Meta-Algorithm 1, step 1. What a source assumes stands in its docstring.

    Parameters
    ----------
    rows : array of shape (m, d)
        Mapped rows. Those of a release may also be `WeightedRows`, which need not be in memory.
    source : Supervision
        One of `suffice.learner.weak`, for example ``PlainLabels`` or ``KnownProportions``.

    Returns
    -------
    OperatorEstimate
        The operator, the covariance of its error, and a note on what that covers.

    Raises
    ------
    ParameterError
        If the rows are not a matrix of finite numbers, or do not fit the source.

    Examples
    --------
    >>> import suffice
    >>> from suffice.learner.weak import PlainLabels
    >>> source = PlainLabels([0, 1], classes=(0, 1))
    >>> suffice.estimate_mean_operator([[1.0, 2.0], [3.0, 4.0]], source).operator
    array([1., 1.])
    """
    if isinstance(rows, WeightedRows):
        return source.estimate(rows)
    try:
        mapped = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "rows must be a matrix of numbers. Map them with a pipeline first."
        ) from None
    if mapped.ndim != 2 or 0 in mapped.shape or not np.isfinite(mapped).all():
        raise ParameterError("rows must be a matrix of finite numbers, with one row per record.")
    if not isinstance(source, Supervision):
        raise ParameterError(
            "source must be an object of suffice.learner.weak, such as PlainLabels."
        )
    return source.estimate(mapped)


@dataclass(frozen=True, eq=False)
class PlainLabels(Supervision):
    """Computes the mean operator itself: mu = (1/m) sum_i y_i x_i, or M = (1/m) sum_i x_i e_y^T.

    Parameters
    ----------
    labels : array of shape (m,)
        One exact label per row.
    classes : sequence
        The classes; the second of two counts as +1.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice.learner.weak import PlainLabels
    >>> source = PlainLabels(["ill", "well"], classes=("well", "ill"))
    >>> source.estimate(np.array([[1.0, 0.0], [0.0, 1.0]])).operator
    array([ 0.5, -0.5])
    """

    labels: Any
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator of the exact labels.

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
            If there is not one label per row.
        """
        classes = check_classes(self.classes)
        codes = codes_of(self.labels, classes, rows)
        matrix = group_sums(rows, codes, len(classes)).T / len(rows)
        return OperatorEstimate(as_operator(matrix), no_noise(), classes, "Every label is known.")


@dataclass(frozen=True, eq=False)
class SoftVotes(Supervision):
    """Computes the mean operator of soft labels: M = (1/m) sum_i x_i v_i^T.

    The operator's noise is variance S/m per column, S = X^T X / m, twice that for mu.

    Parameters
    ----------
    votes : array of shape (m, K)
        Estimates of the proportion of each class; they need not be proportions themselves.
    classes : sequence
        The K classes.
    variance : float, default=0.0
        The variance of the independent noise on every entry.
    """

    votes: np.ndarray
    classes: Any
    variance: float = 0.0

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator of the votes.

        Parameters
        ----------
        rows : array of shape (m, d) or WeightedRows
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ParameterError
            If there is not one vote per row and class.
        """
        classes = check_classes(self.classes)
        votes = np.asarray(self.votes, dtype=np.float64)
        if votes.shape != (len(rows), len(classes)):
            raise ParameterError(
                f"votes must be a matrix with {len(rows)} rows and {len(classes)} columns"
                " (classes)."
            )
        weighted = as_weighted(rows)
        operator = as_operator(weighted.combined(votes) / len(rows))
        entries = 2.0 if len(classes) == 2 else 1.0
        noise = noise_of_gram(weighted.moment / len(rows), entries * self.variance)
        return OperatorEstimate(operator, noise, classes, "The covariance is that of the votes.")


@dataclass(frozen=True, eq=False)
class Released(Supervision):
    """Computes the mean operator of a release: as it was released, or from labels or votes.

    Patrini et al. 2016, Section 4: the release is unbiased. Only the number and the width of the
    rows are checked here; `suffice.learner.rows.matching_rows` checks the rows themselves.

    Parameters
    ----------
    release : Release
        A release of kind mean-operator, label-responses or votes.
    """

    release: Release

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator of the release.

        Parameters
        ----------
        rows : array of shape (m, d) or WeightedRows
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ForeignRowsError
            If the rows have another number or width than those of the release.
        ParameterError
            If the release holds no operator, labels or votes.
        """
        release = self.release
        width = len(release.pipeline.outputs)
        if (release.rows, width) != rows.shape:
            raise ForeignRowsError(
                f"The release belongs to {release.rows} rows of {width} coordinates, but there are"
                f" {len(rows)} rows of {rows.shape[1]}. Map the owner's rows with the release's"
                " pipeline."
            )
        if {*release.arrays} == {"answers", "channel"}:  # labels, each randomised
            answers, codes = release.arrays["answers"], range(len(release.classes))
            corrected = FlippedLabels(answers, codes, release.arrays["channel"]).estimate(rows)
            return replace(corrected, classes=release.classes)
        if "votes" in release.arrays:
            votes = SoftVotes(release.arrays["votes"], release.classes, release.noise.variance)
            return votes.estimate(rows)
        operator = release.array("mean_operator", "mean operator")
        note = "The covariance is that of the mechanism's noise."
        return OperatorEstimate(operator, release.noise, release.classes, note)
