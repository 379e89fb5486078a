"""What every linear learner shares: plain rows in, scores and classes out, and its file."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary
from suffice.errors import ParameterError
from suffice.learner.rows import design_matrix
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.release.merge import agreed_pipeline, apart
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table

__all__ = ["FIGURES", "LinearModel", "plain_pipeline"]

# What a model file says of its quality: the estimated risk, its interval at 95 %, and how far the
# noise has moved the parameters at most, with probability 95 %.
FIGURES = ("risk", "risk_low", "risk_high", "parameter_bound")


def plain_pipeline(X: np.ndarray) -> Pipeline:
    """Return the pipeline of plain rows, as an owner without options would fit it.

    Whether these rows are public is the caller's to know: its origin stays unknown.
    """
    table = open_table(X)
    names = tuple(table.schema.names)
    summary = fold(table.batches(names), PublicSummary(table.schema)).result()
    return fit_pipeline(summary, names, categories={}, missing="error")


class LinearModel(ClassifierMixin, BaseEstimator):
    """Computes scores <theta, x> of rows mapped by ``pipeline_``, and the class they mean.

    ``coef_`` is (d,) for two classes, positive scores meaning the second, else (d, K).
    ``releases_`` are those that it was learnt from, none if it was plain data.
    """

    def _plain_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the mapped rows of plain data and the codes of their labels."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ParameterError("the labels hold one class only; a classifier needs two.")
        return self._plain_rows(X), codes

    def _plain_rows(self, X: np.ndarray) -> np.ndarray:
        """Fit the pipeline to plain rows and return them mapped."""
        self.pipeline_ = plain_pipeline(X)
        self.releases_: tuple[Release, ...] = ()
        return design_matrix(X, self.pipeline_)

    def _learn_from(self, releases: tuple[Release, ...]) -> None:
        """Take over what releases say about rows and classes."""
        self.releases_ = releases
        self.classes_ = np.array(releases[0].classes)
        self.pipeline_ = agreed_pipeline(releases)
        self.n_features_in_ = len(self.pipeline_.columns)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one per row for two classes, one per row and class for more."""
        check_is_fitted(self)
        if not self.releases_:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        return design_matrix(X, self.pipeline_, unknown="zero") @ self.coef_

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def to_release(self) -> Release:
        """Return the model as a release: it keeps the guarantees of what it learnt from."""
        check_is_fitted(self)
        if not self.releases_:
            raise ParameterError("a model learnt from plain data has no guarantee to travel with.")
        first = self.releases_[0].unsigned()
        return replace(
            first,
            kind="model",
            parts=apart(self.releases_),
            pipeline=agreed_pipeline(self.releases_),
            arrays={"coefficients": self.coef_},
            details={"classes": list(first.classes), "lam": float(self.lam_), **self._details()},
            noise=Covariance("none"),
        )

    def _details(self) -> dict[str, Any]:
        """Return the loss, and what is known of the model's quality."""
        raise NotImplementedError
