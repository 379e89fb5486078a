"""Several owners' releases as one factored problem: their rows, one operator, weights by noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from suffice.engines.opening import Computing
from suffice.errors import ParameterError
from suffice.learner.streaming import join_blocks, public_rows
from suffice.learner.weak import Released, Supervision, estimate_mean_operator
from suffice.learner.weak.moments import OperatorEstimate
from suffice.learner.weights import checked_weights, repeated_count
from suffice.models.rows import MatrixRows, WeightedRows, as_weighted
from suffice.release.artifact import Release

__all__ = ["Supervised", "combine_releases", "weigh_release", "weighted_supervision"]

_A_SUM = (
    "This release is one sum over all rows, so rows cannot have weights. Ask the owner for"
    " randomised labels (mechanism response), whose learners take sample_weight."
)
_IN_FILES = (
    "These rows stay in their file, and cannot have weights there. Read them first, for example"
    " with pandas, and use engine='threads'."
)


@dataclass(frozen=True, eq=False)
class Supervised:
    """Mapped rows, the operator of their labels, and the weights of rows (None: all alike).

    The rows are a matrix, or `WeightedRows`, which have their weights and need not be in memory.
    """

    rows: np.ndarray | WeightedRows
    estimate: OperatorEstimate
    weights: np.ndarray | None = None

    @cached_property
    def weighted(self) -> WeightedRows:
        """The rows with their weights."""
        return as_weighted(self.rows, self.weights)


def combine_releases(
    releases: Sequence[Release], X: Any, computing: Computing | None = None
) -> Supervised:
    """Return rows and operator of all owners, each weighted by how sure their operator is.

    Every owner's operator estimates the same mean E[y x], with an error of covariance C from the
    mechanism and S/m from sampling. The weights are inverse to the traces of C + S/m: without noise
    they are the shares of rows, and a noisy owner counts for less. ``computing`` says where rows
    that are not held are read.
    """
    _check(releases)
    blocks = public_rows(X, releases, computing or Computing())
    estimates = [
        estimate_mean_operator(rows, Released(release))
        for rows, release in zip(blocks, releases, strict=True)
    ]
    if len(estimates) == 1:
        return Supervised(blocks[0], estimates[0])
    weights = 1 / np.array([_error(*pair) for pair in zip(blocks, estimates, strict=True)])
    weights /= weights.sum()
    noise = estimates[0].noise.scaled(weights[0] ** 2)
    for weight, estimate in zip(weights[1:], estimates[1:], strict=True):
        noise = noise + estimate.noise.scaled(weight**2)
    operator = sum(w * estimate.operator for w, estimate in zip(weights, estimates, strict=True))
    rows, each = join_blocks(blocks, weights)
    return Supervised(rows, replace(estimates[0], operator=operator, noise=noise), each)


def weigh_release(release: Release, X: Any, sample_weight: Any, computing: Computing) -> Supervised:
    """Return rows and operator of randomised labels or votes, each row with a weight.

    Raise if the release is a sum over rows, which weights cannot enter any more.
    """
    if "mean_operator" in release.arrays:
        raise ParameterError(_A_SUM)
    (rows,) = public_rows(X, [release], computing)
    if isinstance(rows, WeightedRows):
        raise ParameterError(_IN_FILES)
    weights = checked_weights(sample_weight, len(rows))
    return weighted_supervision(rows, Released(release), weights, repeated=False)


def weighted_supervision(
    rows: np.ndarray, source: Supervision, weights: np.ndarray | None, *, repeated: bool
) -> Supervised:
    """Return mu = sum_i s_i y_i x_i of labels that are known one by one, s_i the shares of weights.

    That is the operator of the rows m s_i x_i, and so is the covariance of its error. Rows that are
    ``repeated`` have a label each time; else a row has one label, whatever its weight, and labels
    vary more.
    """
    if weights is None:
        return Supervised(rows, estimate_mean_operator(rows, source))
    shares = weights / weights.sum()
    scaled = (len(rows) * shares)[:, None] * rows
    count = repeated_count(weights) if repeated else None
    weighted = MatrixRows(rows, shares / shares.sum(), count=count)
    return Supervised(weighted, estimate_mean_operator(scaled, source))


def _error(rows: np.ndarray | WeightedRows, estimate: OperatorEstimate) -> float:
    """Return the trace of C + S/m per column."""
    width = rows.shape[1]
    columns = 1 if estimate.operator.ndim == 1 else estimate.operator.shape[1]
    sampling = as_weighted(rows).mean_square / (len(rows) * columns)
    return float(estimate.noise.along(np.eye(width)).sum()) + sampling


def _check(releases: Sequence[Release]) -> None:
    if not releases:
        raise ParameterError("There is no release to learn from. Pass at least one.")
    first = releases[0]
    for release in releases:
        if release.pipeline != first.pipeline:
            raise ParameterError(
                "The pipelines of the owners differ. Ask them to release with one pipeline:"
                " --pipeline-from FILE (Python: pipeline=...)."
            )
        if release.classes != first.classes:
            raise ParameterError(
                "The owners list different classes, or in another order. Ask them to release with"
                " one list: --classes (Python: classes=...)."
            )
    hashes = [part.rows.hash for release in releases for part in release.parts]
    if len(set(hashes)) < len(hashes):
        raise ParameterError("Two of the releases are about the same rows. Pass only one of them.")
