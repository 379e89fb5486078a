"""Estimators as plain arrays: what a model file holds, and what predicts when it is loaded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from suffice.errors import ParameterError
from suffice.learner.noisy_labels.link import ChannelLink
from suffice.learner.sklearn_names import boosted_trees
from suffice.models.trees import BoostedTrees

__all__ = ["StoredEstimator", "linear_scores", "tree_scores"]


@dataclass(frozen=True, eq=False)
class StoredEstimator:
    """Predicts with scores that were read from a model file, as a scikit-learn classifier does.

    Attributes
    ----------
    scores : BoostedTrees or ndarray of shape (d + 1, K)
        Trees, or the weights of each column and of the constant.
    classes_ : ndarray
        The codes of the classes.
    """

    scores: BoostedTrees | np.ndarray
    classes_: np.ndarray

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, K)."""
        if isinstance(self.scores, BoostedTrees):
            return np.asarray(softmax(self.scores.scores(rows), axis=1))
        return np.asarray(softmax(rows @ self.scores[:-1] + self.scores[-1], axis=1))


def tree_scores(estimator: Any, link: ChannelLink) -> BoostedTrees:
    """Return the trees whose scores have the link's probabilities.

    softmax(slope log softmax(s) + shift) = softmax(slope s + shift): a row's constant cancels.
    """
    if isinstance(estimator, StoredEstimator) and isinstance(estimator.scores, BoostedTrees):
        return estimator.scores.rescaled(link.slope, link.shift)
    if not isinstance(estimator, HistGradientBoostingClassifier):
        raise _unstorable(estimator)
    return boosted_trees(estimator).rescaled(link.slope, link.shift)


def linear_scores(estimator: Any, link: ChannelLink) -> np.ndarray | None:
    """Return weights (d + 1, K) with the link's probabilities; None of what is not linear."""
    if isinstance(estimator, StoredEstimator):
        weights = estimator.scores
        if isinstance(weights, BoostedTrees):
            return None
    elif isinstance(estimator, LogisticRegression):
        weights = np.vstack([estimator.coef_.T, estimator.intercept_])
        if weights.shape[1] == 1:  # of two classes the first has the score 0
            weights = np.hstack([np.zeros_like(weights), weights])
    else:
        return None
    shifted = link.slope * weights
    shifted[-1] += link.shift
    return np.asarray(shifted)


def _unstorable(estimator: Any) -> ParameterError:
    if isinstance(estimator, DummyClassifier):
        return ParameterError(
            "All randomised labels are of one class, so there is no model to store. Every row is"
            " predicted to be of that class."
        )
    return ParameterError(
        f"A model of {type(estimator).__name__} cannot be stored in a file. Use it in Python, or"
        " choose hist-gradient-boosting or logistic."
    )
