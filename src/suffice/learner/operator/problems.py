"""The factored problems of a classifier, one or one per class, and the noise of their operators."""

from functools import partial

import numpy as np

from suffice.learner.operator.combining import Supervised
from suffice.models.losses import LinearOddLoss
from suffice.models.penalties import Penalty
from suffice.models.problem import FactoredProblem
from suffice.release.covariance import Covariance

__all__ = [
    "column_noise",
    "factored_problems",
    "noise_per_problem",
    "side_by_side",
]

_RIGHT = 1e-9  # of the largest coordinate: what rounding does to sums


def factored_problems(
    supervision: Supervised, loss: LinearOddLoss, penalty: Penalty, *, intercept: bool
) -> list[FactoredProblem]:
    """Return one problem, or one per class where a binary loss meets three or more."""
    operator = supervision.estimate.operator
    make = partial(FactoredProblem, supervision.weighted, penalty=penalty, intercept=intercept)
    if operator.ndim == 1:
        return [make(operator=operator, loss=loss)]
    mean = supervision.weighted.mean
    # Every row is in one class: M 1 = mean x is public, and what noise adds to it is known.
    operator = operator - ((operator.sum(axis=1) - mean) / operator.shape[1])[:, None]
    if loss.joint:
        return [make(operator=operator, loss=None)]
    return [make(operator=2 * column - mean, loss=loss) for column in operator.T]


def column_noise(supervision: Supervised) -> Covariance:
    """Return the noise of each column of M, as if independent until their sum is set right.

    That leaves 1 - 1/K of independent noise, and all of it where the columns summed to mean x
    already, as those of corrected labels do.
    """
    operator, noise = supervision.estimate.operator, supervision.estimate.noise
    if operator.ndim == 1:
        return noise
    mean = supervision.weighted.mean
    right = np.allclose(operator.sum(axis=1), mean, rtol=0, atol=_RIGHT * np.abs(mean).max())
    columns = operator.shape[1]
    return noise.scaled(columns / (columns - 1)) if right else noise


def noise_per_problem(problems: list[FactoredProblem]) -> float:
    """Return how much of that noise is in 2 M_k - mean x, if that is each problem's operator."""
    return 4 * (1 - 1 / len(problems)) if len(problems) > 1 else 1.0


def side_by_side(columns: list[np.ndarray]) -> np.ndarray:
    """Return one model as it is, several as the columns of one matrix."""
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
