"""Scores that are learnt: classifiers trained to tell the outputs of two data sets apart."""

from typing import Any

import numpy as np

from suffice.audit.atoms import FEW_OUTCOMES, varying
from suffice.audit.scores import Score

__all__ = ["learnt_scores"]

_MOST = 2000  # outputs of each data set that teach: more would cost more than it gains
_LARGEST = 1e50  # to which numbers are held: their squares are numbers too


def learnt_scores(sample: np.ndarray, neighbours: np.ndarray, seed: int) -> dict[str, Score]:
    """Return scores of classifiers, a linear one and trees, that learnt from outputs of both.

    Where outputs are few and discrete there are none: to count them is better.
    """
    columns = varying(sample, neighbours)
    outputs = np.concatenate([sample[:_MOST, columns], neighbours[:_MOST, columns]])
    if not columns.size or len(np.unique(outputs, axis=0)) <= FEW_OUTCOMES:
        return {}
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labels = np.repeat([1, 0], [len(sample[:_MOST]), len(neighbours[:_MOST])])
    models = {
        "linear classifier": make_pipeline(StandardScaler(), LogisticRegression()),
        "trees": HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, min_samples_leaf=30, random_state=seed
        ),
    }

    def score_by(model: Any) -> Score:
        return lambda fresh: model.decision_function(_numbers(fresh[:, columns]))

    return {name: score_by(model.fit(_numbers(outputs), labels)) for name, model in models.items()}


def _numbers(outputs: np.ndarray) -> np.ndarray:
    return np.nan_to_num(outputs.astype(np.float64)).clip(-_LARGEST, _LARGEST)
