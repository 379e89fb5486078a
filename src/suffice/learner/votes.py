"""Any scikit-learn classifier, trained from many parties' noisy votes on public rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from suffice.engines.engine import Progress
from suffice.errors import ParameterError
from suffice.learner.base import CLASS_WEIGHT, Classifier, FeatureUnits, check_takes_weights
from suffice.learner.portable import Arithmetic, arithmetic_of, weights_of
from suffice.learner.problem import checked_weights, matching_rows
from suffice.learner.sklearn_names import HasMethods, StrOptions, fit_context
from suffice.models.simplex import nearest_proportions
from suffice.releases.merge import merge
from suffice.releases.release import Release

_PENALTY_WEIGHT = 1e-4  # of the default estimator: lam of Hamm et al. 2016, Section 6


@dataclass(eq=False, repr=False)
class VoteClassifier(Classifier):
    """Computes a classifier from a release of kind ``votes``: its noisy votes become labels.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        What is trained, on the rows as the release's pipeline maps them, intercept included.
        Logistic regression with lam = 1e-4 unless set.
    labels : {"largest", "shares"}, default="largest"
        "largest": each row gets the class of its largest noisy vote. With Gaussian noise this is
        GNMax of Papernot et al. 2018 (PATE), and not their stronger Confident-GNMax, which answers
        only where parties agree. "shares": each row enters once per class, weighted by the
        proportions nearest to its votes; the estimator must take ``sample_weight``.
    class_weight

    Attributes
    ----------
    estimator_ : scikit-learn classifier
        The fitted estimator; a constant where all labels are of one class.
    classes_
    n_features_in_
    pipeline_
    releases_

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(300, 1))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> suffice.VoteClassifier().fit(X, labels).predict([[2.0], [-2.0]])
    array([1, 0])
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "labels": [StrOptions({"largest", "shares"})],
        "class_weight": CLASS_WEIGHT,
    }

    estimator: Any = None
    labels: str = "largest"
    class_weight: Any = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "VoteClassifier":
        """Train on exact labels. This protects nothing about them.

        Parameters
        ----------
        X
        y
        sample_weight : array of shape (n,), optional
            How much each row counts. The estimator must take weights.

        Raises
        ------
        ParameterError
            If a parameter is not valid.
        """
        X, codes, weights = self._weighted_labels(X, y, sample_weight)
        return self._train(self._map_exact_rows(X, weights), self.classes_[codes], weights)

    @fit_context(prefer_skip_nested_validation=False)
    def fit_release(
        self,
        release: Release | Sequence[Release],
        X: Any,
        *,
        sample_weight: Any = None,
        progress: Progress = None,
    ) -> "VoteClassifier":
        """Learn from a release of votes and the public rows that were voted on.

        Parameters
        ----------
        release : Release or sequence of Release
            A release of kind votes.
        X : array, table or path
            The public rows that the votes are about, unchanged and in their order.
        sample_weight : array of shape (n,), optional
            How much each public row counts. The estimator must take weights.
        progress

        Raises
        ------
        ForeignRowsError
        ParameterError
            If the release holds no votes, or a parameter is not valid.
        """
        merged = merge(release)
        votes = merged.array("votes", "votes")
        rows = matching_rows(X, [merged], progress)[0]
        self._learn_from((merged,))
        weights = checked_weights(sample_weight, len(rows))
        if self.labels == "shares":
            shares = nearest_proportions(votes)
            row, code = np.nonzero(shares)
            rows, labels = rows[row], self.classes_[code]
            weights = shares[row, code] * (1.0 if weights is None else weights[row])
        else:
            labels = self.classes_[votes.argmax(axis=1)]
        return self._train(rows, labels, weights)

    def _train(
        self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
    ) -> "VoteClassifier":
        """Fit the estimator to rows that have one label each."""
        count = len(rows) if weights is None else weights.sum()
        if (labels == labels[0]).all():
            self.estimator_ = DummyClassifier(strategy="most_frequent")
        elif self.estimator is not None:
            self.estimator_ = clone(self.estimator)
        else:
            C = 1 / (count * _PENALTY_WEIGHT)
            self.estimator_ = LogisticRegression(C=C, fit_intercept=False, max_iter=10_000)
        if weights is None:
            self.estimator_.fit(rows, labels)
            return self
        check_takes_weights(self.estimator_)
        self.estimator_.fit(rows, labels, sample_weight=weights)
        return self

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        if len(getattr(self.estimator_, "coef_", ())) not in {1, len(self.classes_)}:
            raise AttributeError("The trained estimator is not linear in all classes: no coef_.")
        coef, intercept = FeatureUnits(self.pipeline_).coefficients(self.estimator_.coef_.T)
        return coef, intercept + self.estimator_.intercept_

    def arithmetic(self) -> Arithmetic:
        """Return what the model computes of a row, as plain numbers for other programs.

        Raises
        ------
        ParameterError
            If the estimator is not logistic regression of all classes.
        NotFittedError
        """
        check_is_fitted(self)
        coefficients = getattr(self.estimator_, "coef_", np.zeros((0, 1)))
        several = len(self.classes_) if len(self.classes_) > 2 else 1
        if not isinstance(self.estimator_, LogisticRegression) or len(coefficients) != several:
            raise ParameterError(
                "Only logistic regression of all classes can leave suffice. Use this model in"
                " Python: its estimator_ is trained on rows that pipeline_ maps."
            )
        weights = weights_of(coefficients.T, self.pipeline_.intercept)
        weights[-1] += self.estimator_.intercept_
        return arithmetic_of(self, FeatureUnits(self.pipeline_), weights)

    @available_if(  # type: ignore[untyped-decorator]  # scikit-learn is untyped
        lambda self: hasattr(self.estimator_, "decision_function")
    )
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows, where the estimator gives scores.

        Parameters
        ----------
        X : array, table or path
            New rows with the columns that the model was learnt from.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score per row for two classes, one per row and class for more.
        """
        return np.asarray(self.estimator_.decision_function(self._mapped(X)))

    def _most_probable(self, X: Any) -> np.ndarray:
        rows = self._mapped(X)
        return np.asarray(self.estimator_.predict(rows))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, after a fit to exact labels.

        Votes are no probabilities: after `fit_release` this is an error.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n, K)
            One probability per row and class, in the order of ``classes_``; zero for a class that
            no row had.

        Raises
        ------
        ParameterError
            If the model was learnt from votes.
        TableError
            If the table has no rows or lacks a column.
        """
        self._check_probabilities()
        rows = self._mapped(X)
        shares = self.estimator_.predict_proba(rows)
        probabilities = np.zeros((len(shares), len(self.classes_)))
        places = {label: k for k, label in enumerate(self.classes_.tolist())}
        probabilities[:, [places[label] for label in self.estimator_.classes_.tolist()]] = shares
        return probabilities
