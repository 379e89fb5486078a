"""Any scikit-learn classifier, trained from many parties' noisy votes on public rows."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.errors import ParameterError
from suffice.learner.linear import plain_pipeline
from suffice.learner.rows import design_matrix, matching_rows
from suffice.models.simplex import nearest_proportions
from suffice.release.artifact import Release

__all__ = ["VoteClassifier"]

_LAM = 1e-4  # of the default estimator (Hamm et al. 2016, Section 6)


class VoteClassifier(ClassifierMixin, BaseEstimator):
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

    def fit(self, X: Any, y: Any) -> "VoteClassifier":
        """Train on plain labels; this promises nothing about them."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, self.pipeline_ = np.unique(y), plain_pipeline(X)
        self.estimator_ = self._chosen(len(y), y).fit(design_matrix(X, self.pipeline_), y)
        return self

    def fit_release(self, release: Release, X: Any) -> "VoteClassifier":
        """Learn from a release of votes and the public rows that they were cast on, in order."""
        self._validate_params()
        if release.kind != "votes":
            raise ParameterError(f"a {release.kind} release holds no votes.")
        rows, votes = matching_rows(X, [release])[0], release.arrays["votes"]
        self.classes_, self.pipeline_ = np.array(release.classes), release.pipeline
        self.n_features_in_ = len(self.pipeline_.columns)
        weights = None
        if self.labels == "shares":
            shares = nearest_proportions(votes)
            row, code = np.nonzero(shares)
            rows, labels, weights = rows[row], self.classes_[code], shares[row, code]
        else:
            labels = self.classes_[votes.argmax(axis=1)]
        self.estimator_ = self._chosen(len(votes), labels)
        given = {} if weights is None else {"sample_weight": weights}
        self.estimator_.fit(rows, labels, **given)
        return self

    def _chosen(self, rows: int, labels: np.ndarray) -> Any:
        if (labels == labels[0]).all():
            return DummyClassifier(strategy="most_frequent")
        if self.estimator is not None:
            return clone(self.estimator)
        return LogisticRegression(C=1 / (rows * _LAM), fit_intercept=False, max_iter=10_000)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._mapped(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each declared class, zero where no row had it."""
        check_is_fitted(self)
        shares = self.estimator_.predict_proba(self._mapped(X))
        found = np.zeros((len(shares), len(self.classes_)))
        places = {label: k for k, label in enumerate(self.classes_.tolist())}
        found[:, [places[label] for label in self.estimator_.classes_.tolist()]] = shares
        return found

    def _mapped(self, X: Any) -> np.ndarray:
        return design_matrix(X, self.pipeline_, unknown="zero")
