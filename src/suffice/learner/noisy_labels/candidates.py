"""Estimators that `suffice fit --estimator` names, and the settings that are tried of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from suffice.errors import ParameterError

__all__ = ["ESTIMATORS", "Settings", "default_settings", "estimator_named"]

Settings = Sequence[Mapping[str, Any]]
ESTIMATORS = ("hist-gradient-boosting", "logistic")

# From smooth to detailed. Leaves hold many rows: a mean of randomised labels needs them.
_BOOSTING = (
    {"max_leaf_nodes": 4, "max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 400},
    {"max_leaf_nodes": 15, "max_iter": 150, "learning_rate": 0.05, "min_samples_leaf": 200},
    {"max_leaf_nodes": 31, "max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 200},
    {"max_leaf_nodes": 63, "max_iter": 200, "learning_rate": 0.1, "min_samples_leaf": 400},
)
_LEAF_SHARE = 40  # a leaf holds at most this fraction of all rows, so that small tables have leaves
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # C of logistic regression, for one row


def estimator_named(name: str) -> Any:
    """Return the unfitted scikit-learn classifier of this name."""
    if name == "hist-gradient-boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    raise ParameterError(f"estimator must be one of {', '.join(ESTIMATORS)}; got {name!r}.")


def default_settings(name: str, rows: int) -> Settings:
    """Return the settings that are tried of an estimator of ours on so many rows."""
    if name == "logistic":
        return [{"C": weight} for weight in _PENALTIES]
    most = max(1, rows // _LEAF_SHARE)
    return [
        {**setting, "min_samples_leaf": min(setting["min_samples_leaf"], most)}
        for setting in _BOOSTING
    ]
