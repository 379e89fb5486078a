"""What all learners share: exact data, weights, features, model files, and the notebook view.

The contract is scikit-learn's: rows and labels in, scores out.

Weights of rows: a weight of 2 counts as two rows alike, a weight of 0 as none. They need the label
of each row, exact or randomised. A release that is a sum over rows has none: its learner refuses
weights.

Weights of classes: a weight is what a mistake about the class costs. A row gets the class k of
largest w_k p_k, of least expected cost (Elkan 2001, Section 1). Probabilities, scores and
coefficients stay those of the population. A logistic model that is trained with weighted rows has
the same decisions, if it is right: weights multiply odds. So no label is needed, and any model with
probabilities can take weights, also after it was fitted.

Features: a model's own coordinates (``theta_``) are standardised, and rows that are too long are
clipped. Users know their columns in other units. Where the way from columns to coordinates is
affine, coefficients become those of the columns: numbers as they are, and one indicator (0 or 1)
for each category. Maps that are not affine (ranks, polynomials, random features) stay: coefficients
are then those of the mapped features, before they are standardised.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from suffice.engines.engine import fold
from suffice.engines.summary import PublicSummary, Sample, Summary, fit_pipeline
from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.calibration import class_probabilities
from suffice.learner.portable import Arithmetic, arithmetic_of, as_onnx, as_pipeline, weights_of
from suffice.learner.problem import (
    checked_weights,
    design_matrix,
    feature_batches,
    mapped_batches,
    matrix_of,
)
from suffice.learner.rado_moments import moments_of
from suffice.learner.sklearn_names import InvalidParameterError, Refused, StrOptions
from suffice.plain_text import escaped, html_facts, listed, sign_of_life
from suffice.privacy.guarantee import Unit
from suffice.releases.kinds import kind_named
from suffice.releases.merge import agreed_pipeline, apart
from suffice.releases.release import Covariance, Release
from suffice.tables.columns import is_categorical, numeric_columns, temporal_unit
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import SelectedRows, Table

# Why a learner refuses weights of rows, and what to do instead.
RADOS_HAVE_NONE = (
    "A rado is a sum over records that counts each of them alike, so records cannot have weights."
    " Leave sample_weight out. Of exact labels, use FactoredClassifier."
)
MOMENTS_HAVE_NONE = (
    "A release of moments is a sum over private records, so records cannot have weights. Leave"
    " sample_weight out."
)
# Why a regression states no interval, and what to do about it.
HIDDEN = (
    "The noise on second moments is not small against how little some combination of the features"
    " varies. So no interval can be stated. Use fewer features, more records or a larger epsilon."
)
EXAMPLES_HAVE_NONE = (
    "AdaBoostLinear is the baseline of a paper and counts all examples alike. Leave sample_weight"
    " out, or use FactoredClassifier."
)
RECORDS_HAVE_NONE = (
    "SpreadClassifier chooses its penalty by the likelihood of records that all count alike, so"
    " they cannot have weights. Use FactoredClassifier or NoisyLabelClassifier, which take"
    " sample_weight."
)
BAGS_HAVE_NONE = (
    "ClassRatio compares whole bags, in which all rows count alike. Leave sample_weight out."
)
CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]  # what the parameter may be
_PROPORTIONS_UNKNOWN = (
    "The class proportions are not known, so class_weight cannot be 'balanced'. Pass a weight for"
    " each class: class_weight={class: weight}."
)
_FROM_PARTIES = (
    "This model was learnt from parties. Their votes tell which class most of them choose, not how"
    " probable it is. Use predict or decision_function."
)
# What a model file says of its quality: the estimated risk, its interval at 95 %, how far the noise
# has moved the parameters at most, with probability 95 %, and the standard deviation that the noise
# gives each coefficient (`Coefficient`).
FIGURES = ("risk", "risk_low", "risk_high", "parameter_bound", "coefficient_deviations")

# What docstrings of learners say alike. An entry there that is a name alone gets its text from here
# (`Learner.__init_subclass__`).
_SHARED_TEXT = """
X : array of shape (n, p)
    The rows: numbers without missing values.
y : array of shape (n,)
    One label per row.
sample_weight : array of shape (n,), optional
    How often each row counts.
progress : callable, optional
    Called with the number of rows of each batch that was read.
level : float, default=0.95
    The confidence level.
sampling : bool, default=False
    Whether it also covers what other labels of the same rows would give.
class_weight : dict, "balanced" or None, default=None
    What a mistake about each class costs: `predict` takes the class of largest weight times
    probability. A class that a dict lacks has weight 1; "balanced" weighs against the class
    proportions. Probabilities, scores and coefficients stay as they are.
classes_ : ndarray of shape (K,)
    The classes. With two classes, positive scores mean the second.
coef_ : ndarray of shape (1, p) or (K, p)
    One coefficient per feature, in the units of its column (`get_feature_names_out`).
intercept_ : ndarray of shape (1,) or (K,)
    The score of a row whose features are all zero.
theta_ : ndarray of shape (d,) or (d, K)
    One weight per coordinate of ``pipeline_``, the intercept's last.
n_features_in_ : int
    The number of columns that the model reads.
pipeline_ : Pipeline
    Turns raw rows into coordinates.
releases_ : tuple of Release
    The releases that it was learnt from; empty after a fit to exact data.
ForeignRowsError
    If the rows are not those that the release belongs to.
OptimisationError
    If the solver stops short of ``tol``.
TableError
    If the table has no rows, lacks a column, or has missing values without a rule.
NotFittedError
    If the learner is not fitted.
"""
_SHARED_ENTRIES = {
    re.split(r" : |\n", entry)[0]: entry for entry in re.split(r"\n(?=\S)", _SHARED_TEXT.strip())
}
_SHARED_ENTRIES["X (new rows)"] = """X : array, table or path
    New rows with the columns that the model was learnt from: a matrix, a data frame, an Arrow
    table, or the path of a file. A category that the release does not list counts as none."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _completed(text: str, learner: str = "") -> str:
    """Return a docstring with the texts that learners share, and with what a fit returns.

    Every fit returns its ``learner``, fitted, which no docstring needs to say.
    """
    lines = [_SHARED_ENTRIES.get(line, line) for line in inspect.cleandoc(text).splitlines()]
    if learner and "Returns" not in lines:
        later = [i for i, line in enumerate(lines) if line in ("Raises", "Warns", "Examples")]
        at = min(later, default=len(lines))
        returned = ["Returns", "-------", learner, "    Itself, fitted."]
        lines[at:at] = [*returned, ""] if later else ["", *returned]
    return "\n".join(lines)


def check_takes_weights(estimator: Any) -> None:
    """Raise if an estimator of the caller has no weights of rows."""
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ParameterError(
            f"{type(estimator).__name__} takes no sample_weight, so its rows cannot have weights."
            " Leave sample_weight out, or choose another estimator."
        )


def refuse_weights(reason: str) -> Callable[[Method], Method]:
    """Return a decorator of fits without weights: ``sample_weight`` is an error with the reason.

    The signature stays as it is, so that scikit-learn does not pass weights either.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def refusing(self: Any, *args: Any, **options: Any) -> Any:
            if options.pop("sample_weight", None) is not None:
                raise ParameterError(reason)
            return method(self, *args, **options)

        return refusing  # type: ignore[return-value]  # it has the method's signature

    return decorate


def in_sight(method: Method) -> Method:
    """Return a fit that counts its seconds where a person watches (`sign_of_life`)."""

    @wraps(method)
    def fit_in_sight(self: Any, *args: Any, **options: Any) -> Any:
        with sign_of_life(f"fitting {type(self).__name__}"):
            return method(self, *args, **options)

    return fit_in_sight  # type: ignore[return-value]  # it has the method's signature


def released_shares(releases: Sequence[Release]) -> np.ndarray:
    """Return the class proportions (K,) that releases tell, each at least as large as its noise.

    Raise if they do not tell them, as model files do not.
    """
    if not releases:  # weak supervision
        raise ParameterError(_PROPORTIONS_UNKNOWN)
    counts = np.array([release.rows for release in releases], dtype=np.float64)
    pairs = [_shares_of(release) for release in releases]
    parts = counts / counts.sum()
    shares = sum(part * share for part, (share, _) in zip(parts, pairs, strict=True))
    error = float(np.sqrt(sum((part * e) ** 2 for part, (_, e) in zip(parts, pairs, strict=True))))
    clipped = np.clip(shares, min(max(error, 0.5 / counts.sum()), 0.5), 1.0)
    return np.asarray(clipped / clipped.sum())


def _shares_of(release: Release) -> tuple[np.ndarray, float]:
    """Return the class proportions of one release, and the deviation of their noise."""
    arrays, weight = release.arrays, release.pipeline.intercept
    if "proportions" in arrays and "second_moments" in arrays:
        return arrays["proportions"], float(release.details["proportions_noise"])
    if {"answers", "channel"} <= {*arrays}:
        inverse = np.linalg.pinv(arrays["channel"])
        observed = np.bincount(arrays["answers"].astype(int), minlength=inverse.shape[1])
        spread = np.abs(inverse).max() / np.sqrt(release.rows)
        return inverse @ observed / release.rows, float(spread)
    operator, noise = arrays.get("mean_operator"), release.noise
    if "rados" in arrays:
        moments = moments_of(release)
        operator, noise = moments.operator, moments.noise
    if operator is not None and weight > 0:  # the intercept's coordinate is its weight in all rows
        last, error = operator[-1] / weight, float(np.sqrt(noise.last().variance)) / weight
        return (last, error) if last.ndim else (np.array([1 - last, 1 + last]) / 2, error / 2)
    raise ParameterError(_PROPORTIONS_UNKNOWN)


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
        summary = _weighted_summary(summary, whole.to_batches()[0], weights)
    return fit_pipeline(
        summary, names, categories={}, missing="error", clip=clip, intercept=intercept
    )


def _weighted_summary(summary: Summary, batch: pa.RecordBatch, weights: np.ndarray) -> Summary:
    """Return the summary of rows without missing values, as if each was there ``weights`` times.

    ``summary`` is that of the same rows, each counted once.
    """
    shares = weights / weights.sum()
    numeric = list(summary.mean)
    columns = numeric_columns(batch, numeric)
    mean = columns @ shares
    deviation = np.sqrt((columns - mean[:, None]) ** 2 @ shares)
    counts: dict[str, Counter[Any]] = {}
    for name in summary.counts:  # the texts are those that counting rows gives
        cells = batch.column(name)
        encoded = cells if pa.types.is_dictionary(cells.type) else pc.dictionary_encode(cells)
        sums = np.bincount(encoded.indices.to_numpy(), weights, len(encoded.dictionary))
        counts[name] = Counter()
        for text, total in zip(encoded.dictionary.to_pylist(), sums.tolist(), strict=True):
            if total > 0:
                counts[name][text] += total
    return replace(
        summary,
        mean=dict(zip(numeric, mean.tolist(), strict=True)),
        deviation=dict(zip(numeric, deviation.tolist(), strict=True)),
        counts=counts,
        sample=Sample(batch, weights),
    )


@dataclass(frozen=True, eq=False)
class FeatureUnits:
    """Computes coefficients of features in the user's units from those of standardised ones.

        z = A f + b,   <theta, z> = <A^T theta, f> + <theta, b>

    f are the features of a row, z its coordinates before clipping and without the intercept, as the
    pipeline makes them of raw rows.
    """

    pipeline: Pipeline

    @property
    def is_affine(self) -> bool:
        """Whether the features are the columns themselves, and indicators of their categories."""
        feature_map = self.pipeline.map
        return feature_map is None or feature_map.kind in ("pca", "whiten")

    @cached_property
    def encoding(self) -> Pipeline:
        """The pipeline whose encoded columns are the features."""
        if self.pipeline.map is None or not self.is_affine:
            return self.pipeline
        width = self.pipeline.map.width
        return replace(self.pipeline, map=None, mean=np.zeros(width), scale=np.ones(width))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, for example ``age`` or ``ward=north``."""
        return replace(self.encoding, intercept=0.0).outputs

    @property
    def scales(self) -> np.ndarray:
        """The size of one step of each feature, by which rows were scaled."""
        feature_map = self.pipeline.map
        if feature_map is not None and self.is_affine:
            return feature_map.arrays["spread"]
        return self.pipeline.scale

    @cached_property
    def matrix(self) -> np.ndarray:
        """How coordinates follow features: A of shape (d, p)."""
        by_scale = np.diag(1 / self.pipeline.scale)
        feature_map = self.pipeline.map
        if feature_map is None or not self.is_affine:
            return by_scale
        return by_scale @ (feature_map.arrays["components"] / feature_map.arrays["spread"])

    @cached_property
    def offset(self) -> np.ndarray:
        """The coordinates b of a row whose features are all zero, (d,)."""
        feature_map = self.pipeline.map
        shift = self.pipeline.mean
        if feature_map is not None and self.is_affine:
            centre = feature_map.arrays["centre"] / feature_map.arrays["spread"]
            shift = shift + feature_map.arrays["components"] @ centre
        return -shift / self.pipeline.scale

    def shortened(self, features: np.ndarray) -> np.ndarray:
        """Return features (n, p) with the rows that the pipeline clips moved towards the centre.

            s = min(1, bound / |z|),   A (centre + s (f - centre)) + b = s z

        So the coordinates of what is returned are those that the model reads. The centre are the
        features of a row whose coordinates are all zero, A centre + b = 0.
        """
        if self.pipeline.map is None or not self.is_affine:
            centre = self.pipeline.mean
        else:
            centre = np.linalg.lstsq(self.matrix, -self.offset, rcond=None)[0]
        norms = np.linalg.norm(features @ self.matrix.T + self.offset, axis=1)
        far = norms > self.pipeline.bound
        moved = features.copy()
        share = (self.pipeline.bound / norms[far])[:, None]
        moved[far] = centre + share * (features[far] - centre)
        return moved

    def basis(self) -> np.ndarray:
        """Return the matrix (p + 1, d + 1) that turns theta into coefficients and intercept.

        Without an intercept in the pipeline it has the shape (p + 1, d).
        """
        width, features = self.matrix.shape
        constant = self.pipeline.intercept > 0
        whole = np.zeros((features + 1, width + constant))
        whole[:features, :width] = self.matrix.T
        whole[features, :width] = self.offset
        if constant:
            whole[features, width] = self.pipeline.intercept
        return whole

    def coefficients(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``coef_`` (1, p) or (K, p) and ``intercept_`` (1,) or (K,) of weights theta.

        ``theta`` (d,) or (d, K) has the weight of the pipeline's intercept too, if there is one.
        """
        whole = self.basis() @ theta.reshape(len(theta), -1)
        return whole[:-1].T, whole[-1]


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a linear model."""

    feature: str  # for example ``age`` or ``ward=north``; "(intercept)" for the constant
    class_name: Any  # whose score it belongs to; of two classes, the second one
    value: float  # what one unit of the feature adds to the score
    scaled: float  # what one scale of the feature adds, usually its standard deviation
    low: float | None = None  # the interval at 95 % for the noise of the release
    high: float | None = None  # None if the file does not state it

    def to_json(self) -> dict[str, Any]:
        """Return the coefficient as plain JSON values; an interval that is absent is left out."""
        ends = {} if self.low is None else {"low": self.low, "high": self.high}
        return {
            "feature": self.feature,
            "class": self.class_name,
            "coefficient": self.value,
            "scaled": self.scaled,
            **ends,
        }


def model_coefficients(model: Release) -> list[Coefficient]:
    """Return all coefficients of a model file, sorted by the size of ``scaled``; intercepts last.

    There is one per feature, and one per feature and class of three classes or more. Raise if the
    numbers of the file do not fit together, or are too large for a computer.
    """
    units = FeatureUnits(model.pipeline)
    deviations = model.details.get("coefficient_deviations")
    with np.errstate(all="ignore"):  # numbers as large as a stranger likes
        # The table of a regression is of plain least squares; its coefficients are shrunk.
        theta = model.arrays.get("estimates", model.arrays["coefficients"])
        coef, intercept = units.coefficients(theta)
        values = np.vstack([coef.T, intercept])
        if deviations is not None and len(deviations) != values.size:
            raise CorruptFileError(
                "The intervals in the file do not fit its coefficients. This file is damaged: ask"
                " for it again."
            )
        scaled = values * np.append(units.scales, 1.0)[:, None]
        reach = None
        if deviations is not None:
            reach = float(ndtri(0.975)) * np.array(deviations).reshape(values.shape)
    if not np.isfinite(scaled).all():
        raise CorruptFileError("The coefficients in the file are too large for a computer.")
    classes = model.classes[1:] if len(coef) == 1 else model.classes
    classes = classes or (model.details["target"],)
    constant = "(intercept)"
    lines = [
        Coefficient(
            feature,
            class_name,
            float(values[j, k]),
            float(scaled[j, k]),
            None if reach is None else float(values[j, k] - reach[j, k]),
            None if reach is None else float(values[j, k] + reach[j, k]),
        )
        for j, feature in enumerate((*units.names, constant))
        for k, class_name in enumerate(classes)
    ]
    return sorted(lines, key=lambda line: (line.feature == constant, -abs(line.scaled)))


def summary_lines(model: Any) -> list[tuple[str, str]]:
    """Return what a fitted learner has learnt, as pairs of a heading and a text.

    They are its name, the releases that it learnt from, the guarantees that it inherits, the
    columns that it reads, and its classes. Text that comes from files is escaped.
    """
    releases: tuple[Release, ...] = model.releases_
    lines = [("learner", type(model).__name__)]
    for release in releases:
        owners = "" if len(release.parts) == 1 else f" of {len(release.parts)} owners"
        title = "a model file" if "learner" in release.details else kind_named(release.kind).title
        lines.append(("learnt from", f"{title}: {release.rows:,} rows{owners}"))
    if not releases:
        lines.append(("learnt from", "exact data, without a guarantee"))
    guarantees = [str(guarantee) for release in releases for guarantee in release.guarantees]
    lines += [("guarantee", escaped(text)) for text in dict.fromkeys(guarantees)]
    columns = [column.name for column in model.pipeline_.columns]
    lines.append(("features", f"{len(columns)} ({listed(columns)})"))
    if hasattr(model, "classes_"):
        lines.append(("classes", listed(model.classes_)))
    return lines


def html_summary(model: Any) -> str:
    """Return the same as an HTML table for notebooks; nothing in it can act as HTML."""
    return html_facts(summary_lines(model))


class MissingFigureError(ParameterError, AttributeError):
    """A fitted model lacks this attribute, for example intervals with a 1-norm."""


class Learner(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Holds what every fitted learner has; parameters are checked as scikit-learn does.

    A fit leaves ``classes_``, ``pipeline_``, ``releases_`` and ``n_features_in_``, and
    ``feature_names_in_`` unless it was to an array.
    """

    stored_as: ClassVar[str | None] = None  # the name in model files; None for no file
    _class_shares: np.ndarray | None  # of exact labels

    def __init_subclass__(cls, **options: Any) -> None:
        """Put what learners say alike into docstrings, and show a person that fits are alive."""
        super().__init_subclass__(**options)
        if cls.__doc__:
            cls.__doc__ = _completed(cls.__doc__)
        for name, value in [*vars(cls).items()]:
            is_fit = name.startswith("fit")
            if inspect.isfunction(value) and value.__doc__:
                value.__doc__ = _completed(value.__doc__, cls.__name__ if is_fit else "")
            if inspect.isfunction(value) and is_fit:
                setattr(cls, name, in_sight(value))

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except Refused as error:
            raise InvalidParameterError(str(error)) from None

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

    def _checked_rows(
        self, X: Any, *labels: Any, reset: bool = True, y_numeric: bool = False
    ) -> Any:
        """Return exact rows, and their labels if there are some, as scikit-learn checks them.

        Numbers become an array. A table with categories or dates stays as it is: the pipeline reads
        its columns by name, as it does for a release.
        """
        types = getattr(X, "dtypes", ("O",))  # of a pandas table: one a column
        numbers = all(getattr(kind, "kind", "O") in "fiu" for kind in types)  # nothing to look into
        is_table = hasattr(X, "__arrow_c_stream__") and not numbers
        kinds = open_table(X).schema.types if is_table else ()
        if not any(is_categorical(kind) or temporal_unit(kind) for kind in kinds):
            options = {"y_numeric": True} if y_numeric else {}
            return validate_data(self, X, *labels, dtype=np.float64, reset=reset, **options)
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
        if releases[0].classes:
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
        if getattr(self, "class_weight", None) is not None:
            raise ParameterError(
                "A model file does not hold class_weight. Call set_params(class_weight=None) first,"
                " and set the weights again on the loaded model."
            )
        return self.releases_[0].unsigned()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a file, with the guarantees that it inherits.

        Parameters
        ----------
        path : str or Path
            The file to write. `suffice.load` reads it again, and `suffice predict` uses it.
        overwrite : bool, default=False
            Whether a file of that name is replaced.

        Raises
        ------
        ParameterError
            If the model was learnt from exact data, or its learner has no model file.
        StorageError
            If the file exists, or the disk refuses.
        """
        if not hasattr(self, "to_release"):
            raise ParameterError(
                f"A model of {type(self).__name__} cannot be stored in a file. Use it in Python."
            )
        self.to_release().save(path, overwrite=overwrite)

    def arithmetic(self) -> Arithmetic:
        """Return what the model computes of a row, as plain numbers for other programs.

        Raises
        ------
        ParameterError
            If other programs cannot compute it.
        NotFittedError
        """
        check_is_fitted(self)
        return arithmetic_of(
            self, FeatureUnits(self.pipeline_), weights_of(self.theta_, self.pipeline_.intercept)
        )

    def to_sklearn(self) -> Any:
        """Return a plain scikit-learn pipeline with the same predictions.

        It holds parts of scikit-learn and numpy alone, so that a program without suffice can load
        and run it. It carries no guarantee: note where the model came from. Cells of a column of
        categories are those that the release lists; another one counts as none.

        Returns
        -------
        sklearn.pipeline.Pipeline
            The fitted pipeline. It has ``predict_proba`` where probabilities are the logistic
            function of the scores.

        Raises
        ------
        ParameterError
            If scikit-learn has no part for what the model does, such as a feature map.
        NotFittedError
        """
        return as_pipeline(self.arithmetic())

    def to_onnx(self) -> bytes:
        """Return a linear model, or trees, as an ONNX graph in double precision.

        Of numbers alone, its input is the matrix ``X``. With categories, each column is an input
        (n, 1) of its own; a missing text is the empty one. Its outputs are ``label`` and
        ``scores``, or ``number`` of a regression. It needs the extra ``[onnx]``.

        Returns
        -------
        bytes
            What a file ``model.onnx`` holds.

        Raises
        ------
        ParameterError
            If the model has a feature map, or is neither linear nor of trees.
        MissingPackageError
            If the package onnx is not installed.
        NotFittedError
        """
        lines = dict.fromkeys(str(g) for r in self.releases_ for g in r.guarantees)
        return as_onnx(self.arithmetic(), " ".join(lines))

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
        if self.releases_:
            return X
        checked = self._checked_rows(X, reset=False)
        return self._with_names(checked) if matrix_of(X, self.pipeline_) is None else X

    def _from_fit(self, name: str, what: str) -> Any:
        """Return an attribute that a fit leaves, and a model that was loaded lacks."""
        check_is_fitted(self)
        if name not in vars(self):
            raise AttributeError(
                f"A model file does not store the {what}. Use the model where it was fitted."
            )
        return vars(self)[name]

    def _repr_html_inner(self) -> str:
        return self._with_summary(str(super()._repr_html_inner()))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_summary(bundle["text/html"])
        return bundle

    def _with_summary(self, diagram: str) -> str:
        """Return scikit-learn's diagram, and below it what a fitted learner has learnt."""
        fitted = "pipeline_" in vars(self) and "releases_" in vars(self)
        return diagram + html_summary(self) if fitted else diagram


class Classifier(TransformerMixin, ClassifierMixin, Learner):  # type: ignore[misc]  # scikit-learn is untyped
    """Computes scores of mapped rows, and what they mean: classes, probabilities, coefficients."""

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of mapped rows, (n,) for two classes and (n, K) for more."""
        raise NotImplementedError

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ``coef_`` and ``intercept_``; raise if the model is not linear."""
        raise NotImplementedError

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, K), if scores are log odds."""
        if scores.ndim == 1:
            return class_probabilities(scores)
        return np.asarray(softmax(scores, axis=1))

    def _probability_refusal(self) -> str:
        """Return why there are no probabilities; empty where there are."""
        releases = getattr(self, "releases_", ())
        units = {guarantee.unit for release in releases for guarantee in release.guarantees}
        return _FROM_PARTIES if Unit.PARTY in units else ""

    def _check_probabilities(self) -> None:
        """Raise if the model has no probabilities, with the reason."""
        check_is_fitted(self)
        reason = self._probability_refusal()
        if reason:
            raise ParameterError(reason)

    @property
    def gives_probabilities(self) -> bool:
        """Whether `predict_proba` works; if not, its error states the reason."""
        return not self._probability_refusal()

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows.

        Rows are read batch by batch; only their scores are kept in memory.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score per row for two classes, one per row and class for more.

        Raises
        ------
        TableError
        NotFittedError
        """
        batches = mapped_batches(self._new_rows(X), self.pipeline_, new=True)
        return np.concatenate([self._scores(rows) for rows in batches])

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row; by ``class_weight`` the least costly.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n,)
            One of ``classes_`` for each row.

        Raises
        ------
        TableError
        NotFittedError
        """
        if getattr(self, "class_weight", None) is None:
            return self._most_probable(X)
        check_is_fitted(self)
        weights = self._class_weights()
        try:
            probabilities = self.predict_proba(X)
        except ParameterError as error:
            if self.gives_probabilities:
                raise
            raise ParameterError(f"class_weight multiplies probabilities. {error}") from None
        return self.classes_[(weights * probabilities).argmax(axis=1)]

    def _most_probable(self, X: Any) -> np.ndarray:
        """Return the class of each row, if mistakes about all classes cost the same."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def _class_weights(self) -> np.ndarray:
        """Return the weight of each class, as ``class_weight`` states them."""
        classes, stated = self.classes_.tolist(), self.class_weight
        if isinstance(stated, str):  # "balanced"
            shares = getattr(self, "_class_shares", None)
            shares = released_shares(self.releases_) if shares is None else shares
            return np.asarray(1 / (len(classes) * shares))
        strange = [name for name in stated if name not in classes]
        if strange:
            raise ParameterError(
                f"class_weight names {listed(strange)}, but the classes are {listed(classes)}. Name"
                " classes of the model only."
            )
        try:
            weights = np.array([stated.get(name, 1.0) for name in classes], dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.array([np.nan])
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ParameterError(
                "class_weight must give each class a finite number, none below zero and not all"
                " zero."
            )
        return weights

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n, K)
            One probability per row and class, in the order of ``classes_``.

        Raises
        ------
        ParameterError
            If the model has scores but no probabilities; see ``gives_probabilities``.
        TableError
        """
        self._check_probabilities()
        return self._probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of `predict_proba`; -inf for a probability of zero.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n, K)
            One logarithm per row and class, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @property
    def coef_(self) -> np.ndarray:
        """One coefficient per feature, (1, p) or (K, p); see `get_feature_names_out`.

        ``transform(X) @ coef_.T + intercept_`` are the scores of all rows.
        """
        return self._coefficients()[0]

    @property
    def intercept_(self) -> np.ndarray:
        """The score of a row whose features are all zero, (1,) or (K,)."""
        return self._coefficients()[1]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features that `transform` computes and ``coef_`` belongs to.

        Numbers keep the name of their column. A category is named ``column=category``. Where the
        release has a feature map that is not affine, the features are the mapped ones.

        Parameters
        ----------
        input_features : array of str, optional
            The names of the columns. They must be those that the model reads.

        Returns
        -------
        ndarray of str objects
            One name per feature.

        Raises
        ------
        ParameterError
            If ``input_features`` are not the columns of the model.
        """
        check_is_fitted(self)
        if input_features is not None:
            stated, named = list(input_features), getattr(self, "feature_names_in_", None)
            if named is not None and stated != list(named):
                raise ParameterError(
                    "input_features is not equal to feature_names_in_. Leave it out."
                )
            if len(stated) != len(self.pipeline_.columns):
                raise ParameterError(
                    "input_features should have length equal to number of features"
                    f" ({len(self.pipeline_.columns)}), got {len(stated)}."
                )
        return np.array(FeatureUnits(self.pipeline_).names, dtype=object)

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of rows as the model reads them, in the units of their columns.

        Rows that are longer than the pipeline allows (``pipeline_.bound``) are moved towards its
        centre. ``set_output(transform="pandas")`` makes it a data frame.

        Parameters
        ----------
        X (new rows)

        Returns
        -------
        ndarray of shape (n, p)
            One column per name of `get_feature_names_out`: numbers with missing values replaced by
            the pipeline's rule, and indicators of categories.

        Raises
        ------
        TableError
        NotFittedError
        """
        units = FeatureUnits(self.pipeline_)
        return units.shortened(np.vstack(list(feature_batches(self._new_rows(X), units.encoding))))


class LinearModel(Classifier):
    """Computes scores <theta, x> of rows mapped by ``pipeline_``, and the class they mean.

    Attributes
    ----------
    theta_
    coef_
    intercept_
    lam_ : float
        The weight of the penalty.
    """

    theta_: np.ndarray

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
        return np.asarray(rows @ self.theta_)

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        with np.errstate(all="ignore"):  # a file of a stranger may scale by numbers of any size
            numbers = FeatureUnits(self.pipeline_).coefficients(self.theta_)
        if not all(np.isfinite(array).all() for array in numbers):
            raise AttributeError("The coefficients are too large for a computer. Read theta_.")
        return numbers

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
