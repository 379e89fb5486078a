"""The learner's problem: rows, mean operator and noise covariance of all owners together."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from suffice.engines.engine import Computing
from suffice.errors import ParameterError
from suffice.learner.rows import join_blocks, public_rows
from suffice.learner.weak import OperatorEstimate, Released, Supervision, estimate_mean_operator
from suffice.learner.weights import checked_weights, repeated_count
from suffice.models.losses import LinearOddLoss, Penalty
from suffice.models.problem import FactoredProblem
from suffice.models.rows import MatrixRows, WeightedRows, as_weighted
from suffice.notes import note
from suffice.privacy.guarantee import Unit
from suffice.release.merge import SHAPED, has_shaped_noise
from suffice.release.release import Covariance, Release

__all__ = [
    "NoiseWarning",
    "Supervised",
    "are_votes",
    "combine_releases",
    "factored_problems",
    "side_by_side",
    "weigh_release",
    "weighted_supervision",
]


Blocks = Sequence[np.ndarray | WeightedRows]
Combined = tuple[np.ndarray, Covariance, np.ndarray]

_A_SUM = (
    "This release is one sum over all rows, so rows cannot have weights. Ask the owner for"
    " randomised labels (mechanism response), whose learners take sample_weight."
)
_IN_FILES = (
    "These rows stay in their file, and cannot have weights there. Read them first, for example"
    " with pandas, and use engine='threads'."
)


class NoiseWarning(UserWarning):
    """The noise of a release leaves little to learn; `suffice fit` prints the same sentence."""


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
    mechanism and S/m from sampling, of which the trace alone counts here. The weights are inverse
    to their sum: without noise they are the shares of rows, and a noisy owner counts for less.
    Where noise is shaped, weights are matrices: an owner counts for less only along directions in
    which its noise is large. ``computing`` says where rows that are not held are read.
    """
    _check(releases)
    blocks = public_rows(X, releases, computing or Computing())
    estimates = [
        estimate_mean_operator(rows, Released(release))
        for rows, release in zip(blocks, releases, strict=True)
    ]
    if len(estimates) == 1:
        return Supervised(blocks[0], estimates[0])
    if any(map(has_shaped_noise, releases)):
        warnings.warn(SHAPED, NoiseWarning, stacklevel=3)
        note(SHAPED)
        operator, noise, weights = _by_direction(blocks, estimates)
    else:
        operator, noise, weights = _by_owner(blocks, estimates)
    rows, each = join_blocks(blocks, weights)
    return Supervised(rows, replace(estimates[0], operator=operator, noise=noise), each)


def _by_owner(blocks: Blocks, estimates: Sequence[OperatorEstimate]) -> Combined:
    """Return operator and noise of all owners, each with one weight."""
    weights = 1 / np.array([_error(*pair) for pair in zip(blocks, estimates, strict=True)])
    weights /= weights.sum()
    noise = estimates[0].noise.scaled(weights[0] ** 2)
    for weight, estimate in zip(weights[1:], estimates[1:], strict=True):
        noise = noise + estimate.noise.scaled(weight**2)
    operator = sum(w * estimate.operator for w, estimate in zip(weights, estimates, strict=True))
    return operator, noise, weights


def _by_direction(blocks: Blocks, estimates: Sequence[OperatorEstimate]) -> Combined:
    """Return operator and noise of all owners, weighted by the inverse of their covariances.

    With E = C + (tr S / m d) I and A = (sum E^-1)^-1 E^-1 of each owner, the operator is sum A mu,
    its noise sum A C A^T. The A add up to I. Rows of an owner have the weight tr A / d. Where all
    C are even, this is what `_by_owner` returns.
    """
    width = blocks[0].shape[1]
    inverses = []
    for rows, estimate in zip(blocks, estimates, strict=True):
        sampling = _sampling_error(rows, estimate) / width
        error = estimate.noise.dense(width) + sampling * np.eye(width)
        inverses.append(np.linalg.inv(error))
    every = [np.linalg.solve(sum(inverses), inverse) for inverse in inverses]
    pairs = list(zip(every, estimates, strict=True))
    operator = sum(a @ estimate.operator for a, estimate in pairs)
    weights = np.array([np.trace(a) / width for a in every])
    if any(estimate.noise.form == "none" for estimate in estimates):
        return operator, Covariance("none"), weights
    values, vectors = np.linalg.eigh(sum(a @ e.noise.dense(width) @ a.T for a, e in pairs))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return operator, Covariance("factor", 1.0, root), weights


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
    noise = float(estimate.noise.along(np.eye(rows.shape[1])).sum())
    return noise + _sampling_error(rows, estimate)


def _sampling_error(rows: np.ndarray | WeightedRows, estimate: OperatorEstimate) -> float:
    """Return the trace of S/m per column."""
    columns = 1 if estimate.operator.ndim == 1 else estimate.operator.shape[1]
    return as_weighted(rows).mean_square / (len(rows) * columns)


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


def are_votes(releases: Sequence[Release]) -> bool:
    """Return whether what releases are about are votes of parties, not labels."""
    return any(
        guarantee.unit is Unit.PARTY for release in releases for guarantee in release.guarantees
    )


def factored_problems(
    supervision: Supervised, loss: LinearOddLoss, penalty: Penalty, *, intercept: bool
) -> tuple[list[FactoredProblem], Covariance]:
    """Return one problem, or one per class where a binary loss meets three or more, and the noise.

    The noise is that of each column of a problem's operator, as if columns of M were independent
    until their sum is set right. That leaves 1 - 1/K of independent noise, and all of it where the
    columns summed to mean x already, as those of corrected labels do. 2 M_k - mean x has four times
    as much.
    """
    operator, noise = supervision.estimate.operator, supervision.estimate.noise
    make = partial(FactoredProblem, supervision.weighted, penalty=penalty, intercept=intercept)
    if operator.ndim == 1:
        return [make(operator=operator, loss=loss)], noise
    mean, columns = supervision.weighted.mean, operator.shape[1]
    # Every row is in one class: M 1 = mean x is public, and what noise adds to it is known.
    excess = operator.sum(axis=1) - mean
    if (np.abs(excess) <= 1e-9 * np.abs(mean).max()).all():  # but for what rounding does to sums
        noise = noise.scaled(columns / (columns - 1))
    operator = operator - (excess / columns)[:, None]
    if loss.joint:
        return [make(operator=operator, loss=None)], noise
    problems = [make(operator=2 * column - mean, loss=loss) for column in operator.T]
    return problems, noise.scaled(4 * (1 - 1 / columns))


def side_by_side(columns: list[np.ndarray]) -> np.ndarray:
    """Return one model as it is, several as the columns of one matrix."""
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
