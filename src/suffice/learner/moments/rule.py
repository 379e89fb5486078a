"""The linear scores that the numbers of a release teach."""

from dataclasses import dataclass

import numpy as np

from suffice.learner.moments.directions import (
    BLEND,
    Blend,
    Scores,
    Thinning,
    contrast_scores,
    linear_scores,
    thinned,
)
from suffice.learner.moments.estimates import CleanMoments, MomentNumbers, cleaned

__all__ = ["LinearRule", "learn_rule", "rule_of"]


@dataclass(frozen=True, eq=False)
class LinearRule:
    """Linear scores of rows of length 1, and what they were computed from.

    Attributes
    ----------
    weights : ndarray of shape (d, 1) or (d, K)
        The weights of coordinates: of two classes those of the log odds of the second.
    at_zero : ndarray of shape (1,) or (K,)
        The scores of a row of zeros.
    moments : CleanMoments
        What is believed of the data.
    scores : Scores
        The scores of contrasts, before they are turned into final ones.
    matrix, constants : ndarray
        What turns centred scores of contrasts into final ones.
    """

    weights: np.ndarray
    at_zero: np.ndarray
    moments: CleanMoments
    scores: Scores
    matrix: np.ndarray
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
