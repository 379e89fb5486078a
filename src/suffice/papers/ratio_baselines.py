"""Baselines of `ClassRatio`: classify every row and count, with classifiers learnt from bags.

They assume that classes are as frequent in U as in the bags, and are wrong where they are not.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.svm import SVC

from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.weak import BagMoments, KnownProportions, MeanMap, bags_of

__all__ = ["ProportionSVM", "classify_and_count", "mean_map_classifier"]


_FIRST, _GROWTH = 1e-4, 4.0  # where the weight of the losses starts, and how it grows
_MOST_ROUNDS = 20


def classify_and_count(classifier: Any, U: Any, classes: Sequence[Any]) -> np.ndarray:
    """Return the share of rows that ``classifier`` puts in each class."""
    predicted = classifier.predict(U)
    return np.array([np.mean(predicted == class_name) for class_name in classes])


def mean_map_classifier(
    rows: np.ndarray, bags: np.ndarray, proportions: np.ndarray, classes: Sequence[Any]
) -> FactoredClassifier:
    """Return the classifier that the mean map of Quadrianto et al. 2009 learns from bags."""
    return FactoredClassifier().fit_weak(rows, KnownProportions(bags, proportions, classes))


class ProportionSVM:
    """Computes a support vector machine from bags whose proportion of positives is known.

    minimise over w and labels y   1/2 ||w||^2 + C sum_i hinge(y_i <w, x_i>)
                                   + C_p sum_j n_j |share of positives in j - p_j|

    (Yu et al. 2013, alter-pSVM): labels and machine in turn, C growing from C / 10^4. Two things
    differ: it starts from the mean map's labels and not from random ones, and the last term counts
    rows (n_j), which keeps it from vanishing beside the losses of large bags. Two classes, 0 and 1.
    """

    def __init__(
        self, kernel: str = "rbf", C: float = 1.0, proportion_weight: float = 10.0
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.proportion_weight = proportion_weight

    def fit(self, rows: np.ndarray, bags: np.ndarray, proportions: np.ndarray) -> "ProportionSVM":
        """Learn from rows, the number of each one's bag, and the bags' proportions (M, 2)."""
        moments = bags_of(rows, bags, proportions, 2)
        weights = MeanMap().weights(moments)
        scores = rows @ (moments.means.T @ (weights[:, 1] - weights[:, 0]))
        labels = self._labels(scores / (np.abs(scores).max() or 1.0), moments, self.C)
        weight = _FIRST * self.C
        while True:
            weight = min(weight * _GROWTH, self.C)
            labels = self._alternated(rows, labels, moments, weight)
            if weight >= self.C:
                return self

    def _alternated(
        self, rows: np.ndarray, labels: np.ndarray, moments: BagMoments, weight: float
    ) -> np.ndarray:
        """Fit and label in turn until the labels stay; the last machine is kept."""
        for _ in range(_MOST_ROUNDS):
            if len(np.unique(labels)) < 2:
                raise ParameterError(
                    "These bags give every row the same class. Use bags whose proportions differ."
                )
            self.machine_ = SVC(C=weight, kernel=self.kernel).fit(rows, labels)
            new_labels = self._labels(self.machine_.decision_function(rows), moments, weight)
            if np.array_equal(new_labels, labels):
                break
            labels = new_labels
        return labels

    def _labels(self, scores: np.ndarray, moments: BagMoments, weight: float) -> np.ndarray:
        """Return the labels of least loss: in each bag its best rows are the positive ones."""
        extra = weight * (np.maximum(1 - scores, 0) - np.maximum(1 + scores, 0))
        labels = np.zeros(len(scores), dtype=np.int64)
        for j, share in enumerate(moments.shares[:, 1]):
            members = np.flatnonzero(moments.codes == j)
            order = members[np.argsort(extra[members], kind="stable")]
            positives = np.arange(len(order) + 1)
            losses = np.append(0.0, np.cumsum(extra[order]))
            losses += self.proportion_weight * np.abs(positives - share * len(order))
            labels[order[: losses.argmin()]] = 1
        return labels

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return the class of each row."""
        return np.asarray(self.machine_.predict(rows))
