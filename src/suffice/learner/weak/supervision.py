"""One interface for every kind of supervision, and those kinds that need no estimation."""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from suffice.errors import ForeignRowsError, ParameterError
from suffice.learner.weak.flipped import FlippedLabels
from suffice.learner.weak.moments import (
    OperatorEstimate,
    as_operator,
    codes_of,
    group_sums,
    no_noise,
    noise_of_gram,
)
from suffice.models.rows import WeightedRows, as_weighted
from suffice.release.artifact import Release
from suffice.tables.labels import check_classes

__all__ = ["PlainLabels", "Released", "SoftVotes", "Supervision", "estimate_mean_operator"]


@runtime_checkable
class Supervision(Protocol):
    """What is known about the labels of some rows."""

    def estimate(self, rows: Any) -> OperatorEstimate:
        """Return an estimate of the mean operator of these rows.

        ``rows`` are a matrix; those of a release may also be `WeightedRows`.
        """
        ...


def estimate_mean_operator(rows: Any, source: Supervision) -> OperatorEstimate:
    """Compute an estimate of mu or M for mapped rows (m, d) from a source of supervision.

    Patrini et al. 2016, Meta-Algorithm 1, step 1. What a source assumes is in its docstring; what
    the stated covariance covers is in the estimate's note. The rows of a release may also be
    `WeightedRows`, which need not be in memory.
    """
    if isinstance(rows, WeightedRows):
        return source.estimate(rows)
    try:
        mapped = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("rows must be a matrix of numbers: map them first.") from None
    if mapped.ndim != 2 or 0 in mapped.shape or not np.isfinite(mapped).all():
        raise ParameterError("rows must be a matrix of finite numbers, one row per record.")
    if not isinstance(source, Supervision):
        raise ParameterError("source must be one of suffice.learner.weak, such as PlainLabels.")
    return source.estimate(mapped)


@dataclass(frozen=True, eq=False)
class PlainLabels:
    """Computes the mean operator itself: mu = (1/m) sum_i y_i x_i, or M = (1/m) sum_i x_i e_y^T.

    ``labels`` holds one label per row; the second of two ``classes`` counts as +1.
    """

    labels: Any
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator of the labels as they are."""
        classes = check_classes(self.classes)
        codes = codes_of(self.labels, classes, rows)
        matrix = group_sums(rows, codes, len(classes)).T / len(rows)
        return OperatorEstimate(as_operator(matrix), no_noise(), classes, "Every label is known.")


@dataclass(frozen=True, eq=False)
class SoftVotes:
    """Computes the mean operator of soft labels: M = (1/m) sum_i x_i v_i^T.

    ``votes`` (m, K) estimate the share of each class, with independent noise of ``variance`` on
    every entry; they need not be shares themselves. The operator's noise is variance S/m per
    column, S = X^T X / m, twice that for mu.
    """

    votes: np.ndarray
    classes: Any
    variance: float = 0.0

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator of the votes, with the covariance of their noise."""
        classes = check_classes(self.classes)
        votes = np.asarray(self.votes, dtype=np.float64)
        if votes.shape != (len(rows), len(classes)):
            raise ParameterError("there must be one vote per row and class.")
        weighted = as_weighted(rows)
        operator = as_operator(weighted.combined(votes) / len(rows))
        entries = 2.0 if len(classes) == 2 else 1.0
        noise = noise_of_gram(weighted.moment / len(rows), entries * self.variance)
        return OperatorEstimate(operator, noise, classes, "The covariance is that of the votes.")


@dataclass(frozen=True, eq=False)
class Released:
    """Computes the mean operator of a release: as it was released, or from labels or votes.

    Patrini et al. 2016, Section 4: the release is unbiased. That the rows are those it belongs to
    is for `suffice.learner.rows.matching_rows` to check; here their number and width must fit.
    """

    release: Release

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the released operator, with the covariance of the mechanism's noise."""
        release = self.release
        width = len(release.pipeline.outputs)
        if (release.rows, width) != rows.shape:
            raise ForeignRowsError(
                f"the release is about {release.rows} rows of {width} coordinates;"
                f" {len(rows)} rows of {rows.shape[1]} were given. Map the release's own rows with"
                " its pipeline."
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
