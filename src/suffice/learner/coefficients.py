"""The coefficients of a stored linear model, in the units of the user's columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError
from suffice.learner.features import FeatureUnits
from suffice.release.artifact import Release

__all__ = ["Coefficient", "model_coefficients"]

_NORMAL_95 = 1.959963984540054
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
        reach = None if deviations is None else _NORMAL_95 * deviations
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
