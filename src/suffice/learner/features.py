"""Features in the units of the user's columns, and what coefficients mean for them.

A model's own coordinates (``theta_``) are standardised, and rows that are too long are clipped.
Users know their columns in other units. Where the way from columns to coordinates is affine,
coefficients become those of the columns: numbers as they are, and one indicator (0 or 1) for each
category. Maps that are not affine (ranks, polynomials, random features) stay: coefficients are then
those of the mapped features, before they are standardised.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.rows import feature_batches
from suffice.privacy.guarantee import Unit
from suffice.release.release import Release
from suffice.tables.pipeline import Pipeline

__all__ = [
    "TOO_LITTLE",
    "WITHOUT_PROBABILITIES",
    "Coefficient",
    "FeatureModel",
    "FeatureUnits",
    "model_coefficients",
]


_LINEAR_MAPS = ("pca", "whiten")
WITHOUT_PROBABILITIES = "logistic (no probabilities)"  # the loss in a model file that refuses them
TOO_LITTLE = (
    "The randomised labels tell too little about how probable classes are. Use predict or"
    " decision_function, or learn from more records or a larger epsilon."
)
_FROM_PARTIES = (
    "This model was learnt from parties. Their votes tell which class most of them choose, not how"
    " probable it is. Use predict or decision_function."
)


@dataclass(frozen=True, eq=False)
class FeatureUnits:
    """Computes coefficients of features in the user's units from those of standardised ones.

        z = A f + b,   <theta, z> = <A^T theta, f> + <theta, b>

    f are the features of a row, z its coordinates before clipping and without the intercept.

    Attributes
    ----------
    pipeline : Pipeline
        Turns raw rows into coordinates.
    """

    pipeline: Pipeline

    @property
    def is_affine(self) -> bool:
        """Whether the features are the columns themselves, and indicators of their categories."""
        feature_map = self.pipeline.map
        return feature_map is None or feature_map.kind in _LINEAR_MAPS

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

    @cached_property
    def centre(self) -> np.ndarray:
        """The features of a row whose coordinates are all zero, (p,): A centre + b = 0."""
        if self.pipeline.map is None or not self.is_affine:
            return self.pipeline.mean
        return np.linalg.lstsq(self.matrix, -self.offset, rcond=None)[0]

    def shortened(self, features: np.ndarray) -> np.ndarray:
        """Return features (n, p) with the rows that the pipeline clips moved towards the centre.

            s = min(1, bound / |z|),   A (centre + s (f - centre)) + b = s z

        So the coordinates of what is returned are those that the model reads.
        """
        norms = np.linalg.norm(features @ self.matrix.T + self.offset, axis=1)
        far = norms > self.pipeline.bound
        moved = features.copy()
        share = (self.pipeline.bound / norms[far])[:, None]
        moved[far] = self.centre + share * (features[far] - self.centre)
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

        Parameters
        ----------
        theta : ndarray of shape (d,) or (d, K)
            Weights of the pipeline's coordinates, its intercept among them if it has one.

        Returns
        -------
        tuple of ndarray
            The coefficients and the intercepts.
        """
        weights = theta.reshape(len(theta), -1)
        rest = weights
        constant = np.zeros(weights.shape[1])
        if self.pipeline.intercept > 0:
            rest, constant = weights[:-1], self.pipeline.intercept * weights[-1]
        return rest.T @ self.matrix, constant + self.offset @ rest


class FeatureModel(TransformerMixin):  # type: ignore[misc]  # scikit-learn is untyped
    """Gives a fitted learner its features: their names, their values, and their coefficients."""

    pipeline_: Pipeline
    if TYPE_CHECKING:  # of Learner, which comes after it

        def _new_rows(self, X: Any) -> Any: ...

        def predict_proba(self, X: Any) -> np.ndarray:
            """Return the probability of each class."""

    def _weights(self) -> np.ndarray:
        """Return the weights of the pipeline's coordinates; raise if the model is not linear."""
        raise NotImplementedError

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

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        with np.errstate(all="ignore"):  # a file of a stranger may scale by numbers of any size
            numbers = FeatureUnits(self.pipeline_).coefficients(self._weights())
        if not all(np.isfinite(array).all() for array in numbers):
            raise AttributeError("The coefficients are too large for a computer. Read theta_.")
        return numbers

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
            self._check_input_features(list(input_features))
        return np.array(FeatureUnits(self.pipeline_).names, dtype=object)

    def _check_input_features(self, stated: list[Any]) -> None:
        named = getattr(self, "feature_names_in_", None)
        if named is not None and stated != list(named):
            raise ParameterError("input_features is not equal to feature_names_in_. Leave it out.")
        if len(stated) != len(self.pipeline_.columns):
            raise ParameterError(
                "input_features should have length equal to number of features"
                f" ({len(self.pipeline_.columns)}), got {len(stated)}."
            )

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of rows as the model reads them, in the units of their columns.

        Rows that are longer than the pipeline allows (``pipeline_.bound``) are moved towards its
        centre. ``set_output(transform="pandas")`` makes it a data frame.

        Parameters
        ----------
        X : array, table or path
            New rows with the columns that the model was learnt from.

        Returns
        -------
        ndarray of shape (n, p)
            One column per name of `get_feature_names_out`: numbers with missing values replaced by
            the pipeline's rule, and indicators of categories.

        Raises
        ------
        TableError
            If the table has no rows, lacks a column, or has missing values without a rule.
        NotFittedError
            If the learner is not fitted.
        """
        units = FeatureUnits(self.pipeline_)
        batches = list(feature_batches(self._new_rows(X), units.encoding))
        if not batches:
            raise TableError("The table has no rows. Use a table with at least one row.")
        return units.shortened(np.vstack(batches))

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

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each class; -inf for a probability of zero.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `predict_proba`.

        Returns
        -------
        ndarray of shape (n, K)
            One logarithm per row and class, in the order of ``classes_``.

        Raises
        ------
        ParameterError
            If the learner refuses probabilities.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


_INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Coefficient:
    """Holds one coefficient of a linear model.

    Attributes
    ----------
    feature : str
        The name of the feature, for example ``age`` or ``ward=north``; "(intercept)" for the
        constant.
    class_name : str or int
        The class whose score it belongs to. Of two classes, the second one.
    value : float
        What one unit of the feature adds to the score.
    scaled : float
        What one scale of the feature adds; usually that is its standard deviation.
    low, high : float or None
        The interval at 95 % for the noise of the release; None if the file does not state it.
    """

    feature: str
    class_name: Any
    value: float
    scaled: float
    low: float | None = None
    high: float | None = None

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

    Parameters
    ----------
    model : Release
        A release of kind "model".

    Returns
    -------
    list of Coefficient
        One per feature, and one per feature and class of three classes or more.

    Raises
    ------
    CorruptFileError
        If the numbers of the file do not fit together, or are too large for a computer.
    """
    units = FeatureUnits(model.pipeline)
    with np.errstate(all="ignore"):  # numbers as large as a stranger likes
        coef, intercept = units.coefficients(model.arrays["coefficients"])
        values = np.vstack([coef.T, intercept])
        deviations = _deviations(model, values.shape)
        scaled = values * np.append(_scales(units), 1.0)[:, None]
        reach = None if deviations is None else float(ndtri(0.975)) * deviations
    if not np.isfinite(scaled).all():
        raise CorruptFileError("The coefficients in the file are too large for a computer.")
    classes = model.classes[1:] if len(coef) == 1 else model.classes
    names = (*units.names, _INTERCEPT)
    lines = [
        Coefficient(
            feature,
            class_name,
            float(values[j, k]),
            float(scaled[j, k]),
            None if reach is None else float(values[j, k] - reach[j, k]),
            None if reach is None else float(values[j, k] + reach[j, k]),
        )
        for j, feature in enumerate(names)
        for k, class_name in enumerate(classes)
    ]
    return sorted(lines, key=lambda line: (line.feature == _INTERCEPT, -abs(line.scaled)))


def _deviations(model: Release, shape: tuple[int, ...]) -> np.ndarray | None:
    stated = model.details.get("coefficient_deviations")
    if stated is None:
        return None
    if len(stated) != np.prod(shape):
        raise CorruptFileError(
            "The intervals in the file do not fit its coefficients. This file is damaged: ask for"
            " it again."
        )
    return np.array(stated).reshape(shape)


def _scales(units: FeatureUnits) -> np.ndarray:
    """Return the size of one step of each feature, by which rows were scaled."""
    feature_map = units.pipeline.map
    if feature_map is not None and units.is_affine:
        return feature_map.arrays["spread"]
    return units.pipeline.scale
