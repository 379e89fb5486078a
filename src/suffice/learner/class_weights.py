"""Weights of classes: what a mistake about each class costs.

A row gets the class k of largest w_k p_k, of least expected cost (Elkan 2001, Section 1).
Probabilities, scores and coefficients stay those of the population. A logistic model that is
trained with weighted rows has the same decisions, if it is right: weights multiply odds. So no
label is needed, and any model with probabilities can take weights, also after it was fitted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suffice.errors import ParameterError
from suffice.learner.rados.moments import moments_of
from suffice.learner.sklearn_names import StrOptions
from suffice.plain_text import listed
from suffice.release.artifact import Release

__all__ = ["CLASS_WEIGHT", "check_storable", "released_shares", "weighted_codes"]

CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]  # what the parameter may be


_NOT_KNOWN = (
    "The class proportions are not known, so class_weight cannot be 'balanced'. Pass a weight for"
    " each class: class_weight={class: weight}."
)


def weighted_codes(model: Any, X: Any) -> np.ndarray | None:
    """Return the class of each row by its weights, as a position; None of a model without them."""
    stated = getattr(model, "class_weight", None)
    if stated is None:
        return None
    check_is_fitted(model)
    weights = _weights_of(model, stated)
    try:
        probabilities = model.predict_proba(X)
    except ParameterError as error:
        if model.gives_probabilities:
            raise
        raise ParameterError(f"class_weight multiplies probabilities. {error}") from None
    return np.asarray((weights * probabilities).argmax(axis=1))


def check_storable(model: Any) -> None:
    """Raise if a model has weights of classes, which no file holds."""
    if getattr(model, "class_weight", None) is not None:
        raise ParameterError(
            "A model file does not hold class_weight. Call set_params(class_weight=None) first, and"
            " set the weights again on the loaded model."
        )


def _weights_of(model: Any, stated: Any) -> np.ndarray:
    """Return the weight of each class of a fitted model, as its ``class_weight`` states them."""
    classes = model.classes_.tolist()
    if isinstance(stated, str):  # "balanced"
        shares = getattr(model, "_class_shares", None)
        shares = released_shares(model.releases_) if shares is None else shares
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
            "class_weight must give each class a finite number, none below zero and not all zero."
        )
    return weights


def released_shares(releases: Sequence[Release]) -> np.ndarray:
    """Return the class proportions that releases tell, each at least as large as its noise.

    Parameters
    ----------
    releases : sequence of Release
        What a model was learnt from.

    Returns
    -------
    ndarray of shape (K,)
        Proportions that sum to one.

    Raises
    ------
    ParameterError
        If they do not tell them, as model files do not.
    """
    if not releases:  # weak supervision
        raise ParameterError(_NOT_KNOWN)
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
    raise ParameterError(_NOT_KNOWN)
