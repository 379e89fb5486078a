"""What to expect of a classifier on fresh rows, estimated from the release alone.

Scores are taken to be Gaussian in each class, with the means and variances that thinning found. No
interval is given: those that were tried covered less than they said.
"""

import numpy as np
from scipy.special import expit, log_expit

from suffice.learner.moments.directions import Scores
from suffice.learner.moments.estimates import CleanMoments

__all__ = ["class_probabilities", "expected_quality"]

_SAMPLES = 20_000


def class_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each class: of one score per row by its link, else in proportion.

    Scores of three classes or more are log odds of each class against all others.
    """
    positive = expit(scores)
    if scores.ndim == 1:
        return np.column_stack([1 - positive, positive])
    total = positive.sum(axis=1, keepdims=True)
    return np.asarray(positive / np.maximum(total, 1e-300))


def expected_quality(
    moments: CleanMoments, scores: Scores, slopes: np.ndarray, constants: np.ndarray
) -> tuple[float, float]:
    """Return the log loss and the accuracy that are expected on fresh rows.

    ``slopes`` and ``constants`` turn centred scores of contrasts into the final ones.
    """
    rng = np.random.default_rng(0)  # a simulation: the same numbers for the same release
    classes = len(moments.proportions)
    labels = rng.choice(classes, _SAMPLES, p=moments.proportions)
    means, root = _class_model(moments, scores)
    drawn = means[labels] + rng.normal(size=(_SAMPLES, len(root))) @ root
    final = drawn * slopes + constants
    if classes == 2:
        sign = np.where(labels == 1, 1.0, -1.0)
        loss = -log_expit(sign * final[:, 0]).mean()
        return float(loss), float(((final[:, 0] > 0) == (labels == 1)).mean())
    probabilities = class_probabilities(final)
    own = probabilities[np.arange(_SAMPLES), labels]
    loss = -np.log(np.maximum(own, 1e-12)).mean()
    return float(loss), float((final.argmax(axis=1) == labels).mean())


def _class_model(moments: CleanMoments, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return the class means of centred scores, and a root of their covariance within classes."""
    weights = scores.weights
    total = weights.T @ ((moments.variances + scores.added)[:, None] * weights)
    between = weights.T @ moments.covariances  # score j with membership k
    share = moments.told
    named = scores.correlations * np.sqrt(scores.variances * share * (1 - share))
    own = np.maximum(np.diag(between), 1e-300)
    trust = np.sqrt(np.clip(named / own, 0.0, 1.0))
    between = between * np.outer(trust, trust)
    if len(share) == 1:
        means = np.array([-between[0] / (1 - share[0]), between[0] / share[0]])
    else:
        means = (between / share).T
    proportions = moments.proportions
    within = total - (means * proportions[:, None]).T @ means
    values, vectors = np.linalg.eigh((within + within.T) / 2)
    least = 0.02 * max(float(np.diag(total).max()), 1e-300)
    return means, (vectors * np.sqrt(np.maximum(values, least))).T
