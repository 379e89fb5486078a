"""Weights of rows and of classes: what they mean, and the learners that cannot use them.

Rows: a weight of 2 counts as two rows alike, a weight of 0 as none. They need the label of each
row, exact or randomised. A release that is a sum over rows has none: its learner refuses weights.

Classes: a weight is what a mistake about the class costs. A row gets the class k of largest
w_k p_k, of least expected cost (Elkan 2001, Section 1). Probabilities, scores and coefficients stay
those of the population. A logistic model that is trained with weighted rows has the same decisions,
if it is right: weights multiply odds. So no label is needed, and any model with probabilities can
take weights, also after it was fitted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from suffice.engines.summary import Sample, Summary
from suffice.errors import ParameterError
from suffice.learner.rado_moments import moments_of
from suffice.learner.sklearn_names import StrOptions
from suffice.plain_text import listed
from suffice.release.release import Release
from suffice.tables.columns import numeric_columns

__all__ = [
    "BAGS_HAVE_NONE",
    "CLASS_WEIGHT",
    "EXAMPLES_HAVE_NONE",
    "MOMENTS_HAVE_NONE",
    "RADOS_HAVE_NONE",
    "RECORDS_HAVE_NONE",
    "check_storable",
    "check_takes_weights",
    "checked_weights",
    "refuse_weights",
    "released_shares",
    "repeated_count",
    "weighted_codes",
    "weighted_summary",
]


# Why a learner refuses weights of rows, and what to do instead.
RADOS_HAVE_NONE = (
    "A rado is a sum over records that counts each of them alike, so records cannot have weights."
    " Leave sample_weight out. Of exact labels, use FactoredClassifier."
)
MOMENTS_HAVE_NONE = (
    "A release of moments is a sum over private records, so records cannot have weights. Leave"
    " sample_weight out."
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

Method = TypeVar("Method", bound=Callable[..., Any])


def checked_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Return the weights of rows as numbers, None where all rows count alike."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("sample_weight must hold numbers. Pass one for each row.") from None
    if weights.shape != (rows,):
        raise ParameterError(
            f"sample_weight must hold one number for each of the {rows:,} rows. It has the shape"
            f" {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ParameterError(
            "sample_weight must hold finite numbers, none below zero and not all zero."
        )
    return weights


def repeated_count(weights: np.ndarray) -> float:
    """Return how many labels weights of rows stand for: their sum, if they are repetitions.

    Weights below 1 cannot be. Some tools scale them to a sum of 1: then it is the number of labels
    of equal weight that vary as much, (sum w)^2 / sum w^2, which no repetitions exceed.
    """
    total = float(weights.sum())
    return max(total, total**2 / float(weights @ weights))


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


def weighted_summary(summary: Summary, batch: pa.RecordBatch, weights: np.ndarray) -> Summary:
    """Return the summary of rows without missing values, as if each was there ``weights`` times.

    ``summary`` is that of the same rows, each counted once.
    """
    shares = weights / weights.sum()
    numeric = list(summary.mean)
    columns = numeric_columns(batch, numeric)
    mean = columns @ shares
    deviation = np.sqrt((columns - mean[:, None]) ** 2 @ shares)
    return replace(
        summary,
        mean=dict(zip(numeric, mean.tolist(), strict=True)),
        deviation=dict(zip(numeric, deviation.tolist(), strict=True)),
        counts={name: _weighted_counts(batch.column(name), weights) for name in summary.counts},
        sample=Sample(batch, weights),
    )


def _weighted_counts(cells: pa.Array, weights: np.ndarray) -> Counter[Any]:
    """Return the weight of each category; the texts are those that counting rows gives."""
    encoded = cells if pa.types.is_dictionary(cells.type) else pc.dictionary_encode(cells)
    sums = np.bincount(encoded.indices.to_numpy(), weights, len(encoded.dictionary))
    counts: Counter[Any] = Counter()
    for text, total in zip(encoded.dictionary.to_pylist(), sums.tolist(), strict=True):
        if total > 0:
            counts[text] += total
    return counts


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
