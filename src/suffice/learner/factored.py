"""A linear classifier that learns from public rows and a mean operator, and never sees a label."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.fitting import fit_pipeline
from suffice.engines.local import fold
from suffice.engines.summary import PublicSummary
from suffice.errors import ParameterError
from suffice.learner.losses import LOSSES, LinearOddLoss, loss_named
from suffice.learner.problem import FactoredProblem, Solution
from suffice.learner.rows import design_matrix, matching_rows
from suffice.learner.thinning import choose_lam
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.release.merge import merge
from suffice.tables.sources import open_table

__all__ = ["FactoredClassifier"]


class FactoredClassifier(ClassifierMixin, BaseEstimator):
    """Computes the linear classifier of least factored risk, from a mean operator and public rows.

    minimise (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu> + (lam/2) ||theta||^2

    with mu from a release (`fit_release`) or from plain labels (`fit`, which is not private).

    Parameters
    ----------
    loss : str, LinearOddLoss or callable, default="logistic"
        "logistic" (softmax for three classes or more), "square", "matsushita", "linear", or a loss
        of one's own that is checked to be linear-odd; those work one against the rest for more
        classes.
    lam : float or "auto", default="auto"
        Weight of the squared 2-norm penalty; the intercept's coordinate is penalised as well.
        "auto" chooses it by thinning, from the release alone, and falls back to the intercept where
        no model does better. One against the rest, the first class chooses for all.
    tol : float, default=1e-6
        The gradient's largest entry at which the solver may stop; reaching it is checked.
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    random_state : int, RandomState or None, default=0
        Of the thinning; learning is repeatable by default.

    Attributes
    ----------
    coef_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``, the intercept's among them.
    classes_ : ndarray
        The classes; for two, positive scores mean the second.
    lam_ : float
        The penalty that was used.
    intercept_only_ : bool
        Whether thinning found no model better than a constant.
    pipeline_ : Pipeline
        What turns raw rows into coordinates.
    release_ : Release or None
        The release that the model was learnt from.
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "loss": [StrOptions({*LOSSES, "hinge", "rho"}), LinearOddLoss, callable],
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        loss: Any = "logistic",
        lam: float | str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

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
        self.release_ = None
        rows = design_matrix(table, self.pipeline_)
        operator = _exact_operator(rows, codes, len(self.classes_))
        return self._fit_operator(rows, operator, Covariance("identity", 0.0))

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
        return self._fit_operator(rows, merged.arrays["mean_operator"], merged.noise)

    def _fit_operator(
        self, rows: np.ndarray, operator: np.ndarray, noise: Covariance
    ) -> "FactoredClassifier":
        """Choose the penalty if asked to, then minimise every factored problem there is."""
        problems = self._problems(rows, operator)
        if len(problems) > 1:
            noise = noise.scaled(4.0)  # 2 M_k - mean x: twice the noise
        self.lam_, self.intercept_only_ = self._penalty(problems[0], noise)
        found = [self._solve(problem) for problem in problems]
        self.n_iter_ = max(solution.iterations for solution in found)
        self.gradient_norm_ = max(solution.gradient for solution in found)
        columns = [solution.parameters for solution in found]
        self.coef_ = columns[0] if len(columns) == 1 else np.column_stack(columns)
        return self

    def _problems(self, rows: np.ndarray, operator: np.ndarray) -> list[FactoredProblem]:
        """Return one problem, or one per class where a binary loss meets three or more."""
        loss = loss_named(self.loss)
        if operator.ndim == 1:
            return [FactoredProblem(rows, operator, loss)]
        if loss.name == "logistic":
            return [FactoredProblem(rows, operator, None)]
        mean = rows.mean(axis=0)  # class k against the rest: mu_k = 2 M_k - mean x
        return [FactoredProblem(rows, 2 * column - mean, loss) for column in operator.T]

    def _penalty(self, problem: FactoredProblem, noise: Covariance) -> tuple[float, bool]:
        if self.lam != "auto":
            return float(self.lam), False
        seed = check_random_state(self.random_state).randint(2**31)
        choice = choose_lam(
            problem,
            noise,
            intercept=self.pipeline_.intercept > 0,
            max_iter=int(self.max_iter),
            rng=np.random.default_rng(seed),
        )
        return choice.lam, choice.intercept_only

    def _solve(self, problem: FactoredProblem) -> Solution:
        limits = {"tol": self.tol, "max_iter": int(self.max_iter)}
        if not self.intercept_only_:
            return problem.solve(self.lam_, **limits)
        alone = FactoredProblem(problem.rows[:, -1:], problem.operator[-1:], problem.loss)
        found = alone.solve(self.lam_, **limits)
        full = np.zeros_like(problem.operator)
        full[-1:] = found.parameters
        return replace(found, parameters=full)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one per row for two classes, one per row and class for more."""
        return self._mapped(X) @ self.coef_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, where the loss has a link to one."""
        loss = loss_named(self.loss)
        if loss.link is None:
            raise ParameterError(f"the {loss.name} loss gives scores but no probabilities.")
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = loss.link(scores)
            return np.column_stack([1 - positive, positive])
        if loss.name == "logistic":
            return np.asarray(softmax(scores, axis=1))
        shares = np.maximum(loss.link(scores), 1e-12)
        return shares / shares.sum(axis=1, keepdims=True)

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
        return replace(
            self.release_.unsigned(),
            kind="model",
            arrays={"coefficients": self.coef_},
            details={
                "classes": list(self.release_.classes),
                "loss": loss_named(self.loss).name,
                "lam": float(self.lam_),
            },
            noise=Covariance("none"),
        )

    @classmethod
    def from_release(cls, model: Release) -> "FactoredClassifier":
        """Return the fitted classifier of a model file."""
        if model.kind != "model":
            raise ParameterError(f"a {model.kind} release is no model; fit one with suffice fit.")
        loss = model.details["loss"]
        self = cls(loss=loss if loss in LOSSES else LOSSES["linear"])  # a stranger's: scores only
        self.release_ = model
        self.pipeline_ = model.pipeline
        self.classes_ = np.array(model.classes)
        self.n_features_in_ = len(model.pipeline.columns)
        self.coef_ = model.arrays["coefficients"]
        self.lam_ = model.details["lam"]
        return self


def _exact_operator(rows: np.ndarray, codes: np.ndarray, classes: int) -> np.ndarray:
    """Return mu (two classes) or M of labels in the clear."""
    if classes == 2:
        return rows.T @ (2.0 * codes - 1.0) / len(rows)
    return rows.T @ np.eye(classes)[codes] / len(rows)
