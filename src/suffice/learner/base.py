"""What learners share: scikit-learn's contract, rows and labels in, scores out, and their file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.engine import fold
from suffice.engines.fitting import fit_pipeline
from suffice.engines.summary import PublicSummary
from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.rows import design_matrix, mapped_batches
from suffice.learner.sklearn_names import OwnErrors
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.release.merge import agreed_pipeline, apart
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import Table

__all__ = ["FIGURES", "Learner", "LinearModel", "TwoClasses", "learner_name", "plain_pipeline"]

# What a model file says of its quality: the estimated risk, its interval at 95 %, and how far the
# noise has moved the parameters at most, with probability 95 %.
FIGURES = ("risk", "risk_low", "risk_high", "parameter_bound")
_UNNAMED = "FactoredClassifier"  # whose model it is where a file of an older version does not say


def plain_pipeline(table: Table, names: Sequence[str], **options: float) -> Pipeline:
    """Return the pipeline of plain rows, as an owner with these options would fit it.

    Whether these rows are public is the caller's to know: its origin stays unknown.
    """
    schema = pa.schema([table.schema.field(name) for name in names])
    summary = fold(table.batches(names), PublicSummary(schema)).result()
    lacking = [name for name in names if summary.missing[name]]
    if lacking:
        raise TableError(
            f"{len(lacking)} of {len(names)} columns have missing values, {lacking[0]!r} among"
            " them; fill these, or leave out columns or rows."
        )
    return fit_pipeline(summary, names, categories={}, missing="error", **options)


class Learner(OwnErrors):
    """Holds what it learnt from: ``classes_``, ``pipeline_``, and ``releases_``, none if plain."""

    def _plain_labels(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return plain rows as numbers and the codes of their labels, once both are checked."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return X, codes

    def _plain_rows(self, X: np.ndarray) -> np.ndarray:
        """Fit the pipeline to plain rows and return them mapped."""
        table = open_table(X)
        self.pipeline_ = plain_pipeline(table, tuple(table.schema.names))
        self.releases_: tuple[Release, ...] = ()
        return design_matrix(X, self.pipeline_)

    def _learn_from(self, releases: tuple[Release, ...]) -> None:
        """Take over what releases say about rows and classes."""
        self.releases_ = releases
        self.classes_ = np.array(releases[0].classes)
        self.pipeline_ = agreed_pipeline(releases)
        self.n_features_in_ = len(self.pipeline_.columns)

    def _mapped(self, X: Any) -> np.ndarray:
        """Return new rows mapped; a category that was not declared counts as none."""
        return design_matrix(self._new_rows(X), self.pipeline_, new=True)

    def _new_rows(self, X: Any) -> Any:
        """Return new rows as they came; plain ones are checked to be as those that were learnt."""
        check_is_fitted(self)
        return X if self.releases_ else validate_data(self, X, dtype=np.float64, reset=False)

    def _from_fit(self, name: str, what: str) -> Any:
        """Return an attribute that a fit leaves, and a model that was loaded lacks."""
        check_is_fitted(self)
        if name not in vars(self):
            raise AttributeError(f"{what} are known where the model was fitted, not from a file.")
        return vars(self)[name]


class LinearModel(ClassifierMixin, Learner):
    """Computes scores <theta, x> of rows mapped by ``pipeline_``, and the class they mean.

    ``coef_`` is (d,) for two classes, positive scores meaning the second, else (d, K).
    ``stored_as`` names the learner in model files, None where it has none.
    """

    stored_as: ClassVar[str | None] = None

    def _plain_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the mapped rows of plain data and the codes of their labels."""
        X, codes = self._plain_labels(X, y)
        if len(self.classes_) < 2:
            raise ParameterError("the labels hold one class only; a classifier needs two.")
        return self._plain_rows(X), codes

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one per row for two classes, one per row and class for more.

        Rows are read batch by batch, and their scores alone are held.
        """
        batches = mapped_batches(self._new_rows(X), self.pipeline_, new=True)
        scores = [np.ascontiguousarray(rows) @ self.coef_ for rows in batches]
        if not scores:
            raise TableError("the table has no rows.")
        return np.concatenate(scores)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    @property
    def gives_probabilities(self) -> bool:
        """Whether scores have a link to probabilities."""
        return True

    def to_release(self) -> Release:
        """Return the model as a release: it keeps the guarantees of what it learnt from."""
        check_is_fitted(self)
        if not self.releases_:
            raise ParameterError("a model learnt from plain data has no guarantee to travel with.")
        first = self.releases_[0].unsigned()
        if "coefficients" in first.arrays:  # it was loaded, and is written as it was
            return first
        return replace(
            first,
            kind="model",
            parts=apart(self.releases_),
            pipeline=self.pipeline_,
            arrays={"coefficients": self.coef_},
            details={
                "classes": list(first.classes),
                "learner": self.stored_as,
                "lam": float(self.lam_),
                **self._details(),
            },
            noise=Covariance("none"),
        )

    def _details(self) -> dict[str, Any]:
        """Return the loss, and what is known of the model's quality."""
        raise NotImplementedError

    @classmethod
    def from_release(cls, model: Release) -> Self:
        """Return the fitted learner of a model file; `suffice.learner.fit.model_of` takes any."""
        name = learner_name(model)
        if name != cls.stored_as:
            raise ParameterError(
                f"this model was learnt by {name}: load it with suffice.learner.fit.model_of."
            )
        self = cls._unfitted(model.details)
        self._learn_from((model,))
        self.coef_ = model.arrays["coefficients"]
        self.lam_ = model.details["lam"]
        return self

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        """Return the learner that a model file's details describe, before its coefficients."""
        del details
        return cls()


class TwoClasses(LinearModel):
    """Computes scores for two classes; three or more are refused."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _plain_edges(self, X: Any, y: Any) -> np.ndarray:
        """Return y_i x_i of plain data, x_i as the pipeline maps it and y_i = -1 or +1."""
        rows, codes = self._plain_data(X, y)
        if len(self.classes_) > 2:
            raise ParameterError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        return (2.0 * codes - 1)[:, None] * rows

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        if len(details["classes"]) != 2:
            raise CorruptFileError(f"a model of {cls.stored_as} must have two classes.")
        return super()._unfitted(details)


def learner_name(model: Release) -> str:
    """Return the name of the learner whose model a file holds."""
    if "coefficients" not in model.arrays:
        raise ParameterError(f"a {model.kind} release is no model; fit one with suffice fit.")
    return str(model.details.get("learner", _UNNAMED))
