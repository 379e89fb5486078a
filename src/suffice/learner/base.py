"""What all learners share: checks of exact data, scores, files, and the notebook view.

The contract is scikit-learn's: rows and labels in, scores out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from suffice.engines.engine import fold
from suffice.engines.summary import PublicSummary, fit_pipeline
from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.calibration import class_probabilities
from suffice.learner.features import FeatureModel
from suffice.learner.rows import design_matrix, mapped_batches
from suffice.learner.sklearn_names import OwnErrors
from suffice.learner.weights import (
    check_storable,
    checked_weights,
    weighted_codes,
    weighted_summary,
)
from suffice.plain_text import escaped, listed, markup
from suffice.release.kinds import kind_named
from suffice.release.merge import agreed_pipeline, apart
from suffice.release.release import Covariance, Release
from suffice.tables.columns import is_categorical, temporal_unit
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import SelectedRows, Table

__all__ = [
    "FIGURES",
    "Classifier",
    "Learner",
    "LinearModel",
    "MissingFigureError",
    "TwoClasses",
    "html_summary",
    "learner_name",
    "pipeline_of_rows",
    "summary_lines",
]


_WITHOUT_RELEASE = "exact data, without a guarantee"


def summary_lines(model: Any) -> list[tuple[str, str]]:
    """Return what a fitted learner has learnt, as pairs of a heading and a text.

    Parameters
    ----------
    model : estimator
        A fitted learner of this library.

    Returns
    -------
    list of (str, str)
        Its name, the releases that it learnt from, the guarantees that it inherits, the columns
        that it reads, and its classes. Text that comes from files is escaped.
    """
    releases: tuple[Release, ...] = model.releases_
    lines = [("learner", type(model).__name__)]
    lines += [("learnt from", _origin(release)) for release in releases]
    if not releases:
        lines.append(("learnt from", _WITHOUT_RELEASE))
    guarantees = [str(guarantee) for release in releases for guarantee in release.guarantees]
    lines += [("guarantee", escaped(text)) for text in dict.fromkeys(guarantees)]
    columns = [column.name for column in model.pipeline_.columns]
    lines.append(("features", f"{len(columns)} ({listed(columns)})"))
    lines.append(("classes", listed(model.classes_)))
    return lines


def _origin(release: Release) -> str:
    """Return what kind of release this is, and how many rows and owners are behind it."""
    owners = "" if len(release.parts) == 1 else f" of {len(release.parts)} owners"
    title = "a model file" if "learner" in release.details else kind_named(release.kind).title
    return f"{title}: {release.rows:,} rows{owners}"


def html_summary(model: Any) -> str:
    """Return the same as an HTML table for notebooks; nothing in it can act as HTML."""
    rows = "".join(
        f'<tr><th style="text-align:left">{markup(heading)}</th>'
        f'<td style="text-align:left">{markup(text)}</td></tr>'
        for heading, text in summary_lines(model)
    )
    return f"<table>{rows}</table>"


# What a model file says of its quality: the estimated risk, its interval at 95 %, how far the noise
# has moved the parameters at most, with probability 95 %, and the standard deviation that the noise
# gives each coefficient (`suffice.learner.features`).
FIGURES = ("risk", "risk_low", "risk_high", "parameter_bound", "coefficient_deviations")
Figure = TypeVar("Figure")


def pipeline_of_rows(
    table: Table,
    names: Sequence[str],
    *,
    clip: float | None = None,
    intercept: float | None = None,
    weights: np.ndarray | None = None,
) -> Pipeline:
    """Return the pipeline of exact rows, as an owner with these options would fit it.

    The caller knows whether these rows are public: the pipeline's origin stays unknown. A row of
    weight 2 counts as two rows alike.
    """
    schema = pa.schema([table.schema.field(name) for name in names])
    summary = fold(table.batches(names), PublicSummary(schema)).result()
    lacking = [name for name in names if summary.missing[name]]
    if lacking:
        raise TableError(
            f"{len(lacking)} of {len(names)} columns have missing values, for example"
            f" {lacking[0]!r}. Fill these values, or leave out the columns or rows."
        )
    if weights is not None:
        whole = pa.Table.from_batches(table.batches(names), schema=schema).combine_chunks()
        summary = weighted_summary(summary, whole.to_batches()[0], weights)
    return fit_pipeline(
        summary, names, categories={}, missing="error", clip=clip, intercept=intercept
    )


def _needs_encoding(X: Any) -> bool:
    """Whether rows are a table with columns of categories or dates."""
    if not hasattr(X, "__arrow_c_stream__"):
        return False
    kinds = open_table(X).schema.types
    return any(is_categorical(kind) or temporal_unit(kind) for kind in kinds)


class MissingFigureError(ParameterError, AttributeError):
    """A fitted model lacks this attribute, for example intervals with a 1-norm."""


class Learner(OwnErrors):
    """Holds what every fitted learner has.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes.
    pipeline_ : Pipeline
        Turns raw rows into coordinates.
    releases_ : tuple of Release
        The releases that it was learnt from; empty if it was fitted to exact data.
    n_features_in_ : int
        The number of columns that it reads.
    feature_names_in_ : ndarray of str objects
        Their names; missing after a fit to an array.
    """

    stored_as: ClassVar[str | None] = None
    _class_shares: np.ndarray | None  # of exact labels

    def _checked_labels(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Return exact rows and the codes of their labels, once both are checked."""
        return self._weighted_labels(X, y, None)[:2]

    def _weighted_labels(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return exact rows, codes of labels and weights; rows of weight 0 are left out."""
        X, y = self._checked_rows(X, y)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, len(y))
        if weights is not None:
            used = weights > 0
            X = X[used] if isinstance(X, np.ndarray) else SelectedRows(open_table(X), used)
            y, weights = y[used], weights[used]
        self.classes_, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes, weights)
        self._class_shares = counts / counts.sum()
        return X, codes, weights

    def _checked_rows(self, X: Any, *labels: Any, reset: bool = True) -> Any:
        """Return exact rows, and their labels if there are some, as scikit-learn checks them.

        Numbers become an array. A table with categories or dates stays as it is: the pipeline reads
        its columns by name, as it does for a release.
        """
        if not _needs_encoding(X):
            return validate_data(self, X, *labels, dtype=np.float64, reset=reset)
        if not labels:
            return validate_data(self, X, reset=reset, skip_check_array=True)
        y = column_or_1d(labels[0], warn=True)
        check_consistent_length(X, y)
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        return X, y

    def _map_exact_rows(self, X: Any, weights: np.ndarray | None = None) -> np.ndarray:
        """Fit the pipeline to exact rows and return them mapped."""
        self.releases_: tuple[Release, ...] = ()
        X = self._with_names(X)
        table = open_table(X)
        self.pipeline_ = pipeline_of_rows(table, tuple(table.schema.names), weights=weights)
        return design_matrix(X, self.pipeline_)

    def _with_names(self, X: Any) -> Any:
        """Return checked rows with the names of the columns that the learner was fitted to."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or not isinstance(X, np.ndarray):
            return X
        return pa.Table.from_arrays([pa.array(column) for column in X.T], names=names.tolist())

    def _learn_from(self, releases: tuple[Release, ...]) -> None:
        """Take over what releases say about rows and classes."""
        self.releases_ = releases
        self._class_shares = None
        self.classes_ = np.array(releases[0].classes)
        self.pipeline_ = agreed_pipeline(releases)
        names = [column.name for column in self.pipeline_.columns]
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    def _learnt_release(self) -> Release:
        """Return the first release that was learnt from, without its signature."""
        check_is_fitted(self)
        if not self.releases_:
            raise ParameterError(
                "This model was learnt from exact data and has no guarantee, so it cannot become a"
                " release. Learn it from a release (fit_release)."
            )
        check_storable(self)
        return self.releases_[0].unsigned()

    @classmethod
    def _check_learner(cls, model: Release) -> None:
        """Raise unless this learner wrote the model."""
        name = learner_name(model)
        if name != cls.stored_as:
            raise ParameterError(
                f"This model was learnt by {name}, not by {cls.__name__}. Load it with"
                " suffice.load."
            )

    def _mapped(self, X: Any) -> np.ndarray:
        """Return new rows mapped; a category that was not declared counts as none."""
        return design_matrix(self._new_rows(X), self.pipeline_, new=True)

    def _new_rows(self, X: Any) -> Any:
        """Return new rows as they came; after a fit to exact data they are checked first."""
        check_is_fitted(self)
        return X if self.releases_ else self._with_names(self._checked_rows(X, reset=False))

    def _notebook_view(self) -> str:
        fitted = "classes_" in vars(self) and "pipeline_" in vars(self)
        return html_summary(self) if fitted else ""

    def _figure(self, compute: Callable[[], Figure]) -> Figure:
        """Return what ``compute`` does; for an attribute, what it refuses is missing."""
        try:
            return compute()
        except ParameterError as error:
            raise MissingFigureError(str(error)) from None

    def _from_fit(self, name: str, what: str) -> Any:
        """Return an attribute that a fit leaves, and a model that was loaded lacks."""
        check_is_fitted(self)
        if name not in vars(self):
            raise AttributeError(
                f"A model file does not store the {what}. Use the model where it was fitted."
            )
        return vars(self)[name]


class Classifier(FeatureModel, ClassifierMixin, Learner):  # type: ignore[misc]  # scikit-learn is untyped
    """Computes scores of mapped rows, and the classes and probabilities that they mean."""

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of mapped rows, (n,) for two classes and (n, K) for more."""
        raise NotImplementedError

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, K), if scores are log odds."""
        if scores.ndim == 1:
            return class_probabilities(scores)
        return np.asarray(softmax(scores, axis=1))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows.

        Rows are read batch by batch; only their scores are kept in memory.

        Parameters
        ----------
        X : array, table or path
            New rows with the columns that the model was learnt from: a matrix, a data frame, an
            Arrow table, or the path of a file. A category that the release does not list counts
            as no category.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score per row for two classes, one per row and class for more.

        Raises
        ------
        TableError
            If the table has no rows, lacks a column, or has missing values without a rule.
        NotFittedError
            If the learner is not fitted.
        """
        batches = mapped_batches(self._new_rows(X), self.pipeline_, new=True)
        scores = [self._scores(rows) for rows in batches]
        if not scores:
            raise TableError("The table has no rows. Use a table with at least one row.")
        return np.concatenate(scores)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row; by ``class_weight`` the least costly.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n,)
            One of ``classes_`` for each row.

        Raises
        ------
        TableError
            If the table has no rows, lacks a column, or has missing values without a rule.
        NotFittedError
            If the learner is not fitted.
        """
        weighted = weighted_codes(self, X)
        if weighted is not None:
            return self.classes_[weighted]
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n, K)
            One probability per row and class, in the order of ``classes_``.

        Raises
        ------
        ParameterError
            If the model has scores but no probabilities; see ``gives_probabilities``.
        TableError
            If the table has no rows or lacks a column.
        """
        self._check_probabilities()
        return self._probabilities(self.decision_function(X))


class LinearModel(Classifier):
    """Computes scores <theta, x> of rows mapped by ``pipeline_``, and the class they mean.

    Attributes
    ----------
    stored_as : str or None
        The name of the learner in model files; None for learners without a file.
    theta_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``. With two classes, positive scores mean the
        second class.
    coef_ : ndarray of shape (1, p) or (K, p)
        The same in the units of the user's columns (`suffice.learner.features`).
    intercept_ : ndarray of shape (1,) or (K,)
        The score of a row whose features are all zero.
    lam_ : float
        The weight of the penalty.
    """

    theta_: np.ndarray

    def _weights(self) -> np.ndarray:
        return self.theta_

    def _weighted_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the mapped rows of exact data, the codes of their labels, and their weights."""
        X, codes, weights = self._weighted_labels(X, y, sample_weight)
        if len(self.classes_) < 2:
            raise ParameterError(
                "The labels hold one class only. A classifier needs at least two: add rows of"
                " another class."
            )
        return self._map_exact_rows(X, weights), codes, weights

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.ascontiguousarray(rows) @ self.theta_)

    def to_release(self) -> Release:
        """Return the model as a release, to save it in a file.

        The model keeps the guarantees of the releases that it was learnt from.

        Returns
        -------
        Release
            A release of kind "model". Write it with ``save``; `suffice.load` reads it again.

        Raises
        ------
        ParameterError
            If the model was learnt from exact data: it has no guarantee.
        """
        first = self._learnt_release()
        if "coefficients" in first.arrays:  # it was loaded, and is written as it was
            return first
        return replace(
            first,
            kind="model",
            parts=apart(self.releases_),
            pipeline=self.pipeline_,
            arrays={"coefficients": self.theta_},
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
        """Return the fitted learner of a model file.

        `suffice.load` returns models of any learner.

        Parameters
        ----------
        model : Release
            A release of kind "model" that this learner wrote.

        Returns
        -------
        LinearModel
            The fitted learner. What only a fit computes, such as intervals, is missing.

        Raises
        ------
        ParameterError
            If another learner wrote the file, or it is not a model.
        """
        cls._check_learner(model)
        self = cls._unfitted(model.details)
        self._learn_from((model,))
        self.theta_ = model.arrays["coefficients"]
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

    def _mapped_edges(self, X: Any, y: Any) -> np.ndarray:
        """Return y_i x_i of exact data, x_i as the pipeline maps it and y_i = -1 or +1."""
        rows, codes, _ = self._weighted_data(X, y, None)
        if len(self.classes_) > 2:
            raise ParameterError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        return (2.0 * codes - 1)[:, None] * rows

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        if len(details["classes"]) != 2:
            raise CorruptFileError(
                f"A model of {cls.stored_as} must have two classes. This file is damaged: ask for"
                " it again."
            )
        return super()._unfitted(details)


def learner_name(model: Release) -> str:
    """Return the name of the learner whose model a file holds."""
    if "learner" not in model.details:
        raise ParameterError(
            f"This {model.kind} release is not a model. Learn one from it with `suffice fit`"
            " (Python: fit_release)."
        )
    return str(model.details["learner"])
