"""A linear classifier that learns from public rows and a mean operator, and never sees a label."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary
from suffice.errors import OptimisationError, ParameterError
from suffice.learner.losses import factored_risk, probabilities
from suffice.learner.rows import design_matrix, matching_rows
from suffice.release.artifact import Release
from suffice.release.merge import merge
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table

__all__ = ["FactoredClassifier"]


class FactoredClassifier(ClassifierMixin, BaseEstimator):
    """Computes the linear classifier of least factored risk: logistic, or softmax for K > 2.

    minimise (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu> + (lam/2) ||theta||^2

    with mu from a release (`fit_release`) or from plain labels (`fit`, which is not private).

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the squared 2-norm penalty; the intercept's coordinate is penalised as well.
    tol : float, default=1e-6
        The gradient's largest entry at which the solver may stop; reaching it is checked.
    max_iter : int, default=1000
        The most iterations of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``, the intercept's among them.
    classes_ : ndarray
        The classes; for two, positive scores mean the second.
    pipeline_ : Pipeline
        What turns raw rows into coordinates.
    release_ : Release or None
        The release that the model was learnt from.
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "lam": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(self, lam: float = 0.01, tol: float = 1e-6, max_iter: int = 1000) -> None:
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "FactoredClassifier":
        """Learn from plain labels; this promises nothing about them."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ParameterError("the labels hold one class only; a classifier needs two.")
        table = open_table(X)
        names = tuple(table.schema.names)
        summary = fold(table.batches(names), PublicSummary(table.schema)).result()
        self.pipeline_ = fit_pipeline(
            summary, names, categories={}, missing="error", clip=1.0, intercept=1.0
        )
        rows = design_matrix(table, self.pipeline_)
        self.release_ = None
        return self._fit_operator(rows, _exact_operator(rows, codes, len(self.classes_)))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_release(self, release: Release | Sequence[Release], X: Any) -> "FactoredClassifier":
        """Learn from one release, or several of one kind, and the public rows they belong to."""
        merged = release if isinstance(release, Release) else merge(list(release))
        if merged.kind != "mean-operator":
            raise ParameterError(f"a {merged.kind} release holds no mean operator.")
        rows = matching_rows(X, merged.pipeline, merged.parts)
        self.classes_ = np.array(merged.classes)
        self.pipeline_ = merged.pipeline
        self.n_features_in_ = len(merged.pipeline.columns)
        self.release_ = merged
        return self._fit_operator(rows, merged.arrays["mean_operator"])

    def _fit_operator(self, rows: np.ndarray, operator: np.ndarray) -> "FactoredClassifier":
        """Minimise the factored risk and check that the minimum was reached."""
        shape = operator.shape
        found = minimize(
            lambda flat: _flattened(factored_risk(flat.reshape(shape), rows, operator, self.lam)),
            np.zeros(operator.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": int(self.max_iter), "gtol": self.tol, "ftol": 0.0, "maxcor": 20},
        )
        self.n_iter_ = int(found.nit)
        self.gradient_norm_ = float(np.abs(found.jac).max())
        if not self.gradient_norm_ <= max(self.tol, 1e-10) * 10:
            raise OptimisationError(
                f"the solver stopped at a gradient of {self.gradient_norm_:.2g}, short of"
                f" {self.tol:.2g}; raise max_iter or lam."
            )
        self.coef_ = found.x.reshape(shape)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one per row for two classes, one per row and class for more."""
        return self._mapped(X) @ self.coef_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, by the logistic or softmax link."""
        return probabilities(self.decision_function(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def _mapped(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.release_ is None:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        return design_matrix(X, self.pipeline_, unknown="zero")

    def to_release(self) -> Release:
        """Return the model as a release: it keeps the guarantees of what it learnt from."""
        check_is_fitted(self)
        if self.release_ is None:
            raise ParameterError(
                "a model learnt from plain labels has no guarantee to travel with."
            )
        from dataclasses import replace

        from suffice.release.covariance import Covariance

        return replace(
            self.release_.unsigned(),
            kind="model",
            arrays={"coefficients": self.coef_},
            details={
                "classes": list(self.release_.classes),
                "loss": "logistic" if self.coef_.ndim == 1 else "softmax",
                "lam": float(self.lam),
            },
            noise=Covariance("none"),
        )

    @classmethod
    def from_release(cls, model: Release) -> "FactoredClassifier":
        """Return the fitted classifier of a model file."""
        if model.kind != "model":
            raise ParameterError(f"a {model.kind} release is no model; fit one with suffice fit.")
        self = cls(lam=model.details["lam"] or 0.01)
        self.release_ = model
        self.pipeline_: Pipeline = model.pipeline
        self.classes_ = np.array(model.classes)
        self.n_features_in_ = len(model.pipeline.columns)
        self.coef_ = model.arrays["coefficients"]
        return self


def _flattened(pair: tuple[float, np.ndarray]) -> tuple[float, np.ndarray]:
    return pair[0], pair[1].ravel()


def _exact_operator(rows: np.ndarray, codes: np.ndarray, classes: int) -> np.ndarray:
    """Return mu (two classes) or M of labels in the clear."""
    if classes == 2:
        return rows.T @ (2.0 * codes - 1.0) / len(rows)
    return rows.T @ np.eye(classes)[codes] / len(rows)
