"""Any scikit-learn classifier, trained from many parties' noisy votes on public rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from suffice.learner.base import Learner
from suffice.learner.rows import matching_rows
from suffice.learner.sklearn_names import HasMethods, StrOptions, fit_context
from suffice.models.simplex import nearest_proportions
from suffice.release.artifact import Release
from suffice.release.merge import merge

__all__ = ["VoteClassifier"]

_LAM = 1e-4  # of the default estimator (Hamm et al. 2016, Section 6)


class VoteClassifier(ClassifierMixin, Learner):  # type: ignore[misc]  # sklearn is untyped
    """Computes a classifier from a release of kind ``votes``: its noisy votes become labels.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        What is trained, on the rows as the release's pipeline maps them, the intercept's
        coordinate included. Logistic regression with lam = 1e-4 unless given.
    labels : {"largest", "shares"}, default="largest"
        "largest": each row gets the class of its largest vote (with Gaussian noise the baseline of
        Papernot et al. 2018, PATE). "shares": each row enters once per class, weighted by the
        nearest shares to its votes; the estimator must take ``sample_weight``.

    Attributes
    ----------
    estimator_ : scikit-learn classifier
        The fitted one; a constant where all labels are of one class.
    classes_ : ndarray
        The declared classes.
    pipeline_ : Pipeline
        What turns raw rows into coordinates.
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "labels": [StrOptions({"largest", "shares"})],
    }

    def __init__(self, estimator: Any = None, labels: str = "largest") -> None:
        self.estimator = estimator
        self.labels = labels

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> "VoteClassifier":
        """Train on plain labels; this promises nothing about them."""
        X, codes = self._plain_labels(X, y)
        labels = self.classes_[codes]
        self.estimator_ = self._chosen(len(labels), labels).fit(self._plain_rows(X), labels)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def fit_release(self, release: Release | Sequence[Release], X: Any) -> "VoteClassifier":
        """Learn from a release of votes and the public rows that they were cast on, in order."""
        merged = merge(release)
        votes = merged.array("votes", "votes")
        rows = matching_rows(X, [merged])[0]
        self._learn_from((merged,))
        weights = None
        if self.labels == "shares":
            shares = nearest_proportions(votes)
            row, code = np.nonzero(shares)
            rows, labels, weights = rows[row], self.classes_[code], shares[row, code]
        else:
            labels = self.classes_[votes.argmax(axis=1)]
        self.estimator_ = self._chosen(len(votes), labels)
        sample_weights = {} if weights is None else {"sample_weight": weights}
        self.estimator_.fit(rows, labels, **sample_weights)
        return self

    def _chosen(self, rows: int, labels: np.ndarray) -> Any:
        if (labels == labels[0]).all():
            return DummyClassifier(strategy="most_frequent")
        if self.estimator is not None:
            return clone(self.estimator)
        return LogisticRegression(C=1 / (rows * _LAM), fit_intercept=False, max_iter=10_000)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row."""
        rows = self._mapped(X)
        return np.asarray(self.estimator_.predict(rows))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each declared class, zero where no row had it."""
        rows = self._mapped(X)
        shares = self.estimator_.predict_proba(rows)
        probabilities = np.zeros((len(shares), len(self.classes_)))
        places = {label: k for k, label in enumerate(self.classes_.tolist())}
        probabilities[:, [places[label] for label in self.estimator_.classes_.tolist()]] = shares
        return probabilities
