"""Names of scikit-learn that have no public home, in one place, and our own error in their stead.

Nothing else of the package imports a name of scikit-learn that begins with an underscore, or from a
module that does.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as Refused

from suffice.errors import ParameterError
from suffice.models.trees import BoostedTrees

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "Refused",
    "StrOptions",
    "boosted_trees",
    "fit_context",
]


Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Return scikit-learn's decorator of ``fit``, which checks parameters, with its type."""
    decorate: Callable[[Method], Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return decorate


class InvalidParameterError(ParameterError, Refused):  # type: ignore[misc]  # sklearn is untyped
    """A parameter of an estimator is outside its domain: ours, and scikit-learn's own."""


def boosted_trees(estimator: Any) -> BoostedTrees:
    """Return the trees of a fitted HistGradientBoostingClassifier, of numeric columns without NaN.

    Its nodes come in our order: each before its children, the left one right behind it.
    """
    trees = []
    for predictor in (tree for iteration in estimator._predictors for tree in iteration):  # noqa: SLF001
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        inner = np.flatnonzero(~leaf)
        if nodes["is_categorical"].any() or (nodes["left"][inner] != inner + 1).any():
            raise ParameterError(
                "these trees cannot be stored as plain arrays: use them in Python."
            )
        features = np.where(leaf, -1, nodes["feature_idx"])
        trees.append((features, np.where(leaf, nodes["value"], nodes["num_threshold"])))
    baseline = np.ravel(estimator._baseline_prediction).astype(np.float64)  # noqa: SLF001
    if len(baseline) == 1:
        baseline = np.array([0.0, baseline[0]])
    return BoostedTrees.joined(trees, baseline)
