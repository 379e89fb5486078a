"""What label privacy costs in accuracy, on one split of a public data set."""

from collections.abc import Sequence

import numpy as np

from suffice.learner.factored import FactoredClassifier
from suffice.learner.losses import LOSSES
from suffice.learner.problem import FactoredProblem
from suffice.learner.rows import design_matrix
from suffice.owner.mean_operator import MeanOperator
from suffice.study.data_sets import Split

__all__ = ["DELTA", "private_accuracy", "without_noise"]

DELTA = 1e-6
_LAMS = 10.0 ** np.arange(1.0, -5.01, -0.5)
_FOLDS = 5


def private_accuracy(
    data: Split,
    epsilon: float,
    mechanism: str = "auto",
    delta: float = DELTA,
    clip: float | None = None,
) -> tuple[float, str]:
    """Return the test accuracy of a model learnt from one release, and the mechanism it used."""
    operator = MeanOperator(epsilon, delta, mechanism, clip=clip)
    release = operator.release(data.rows, data.labels, ledger=None)
    model = FactoredClassifier().fit_release(release, data.rows)
    return float(model.score(data.test_rows, data.test_labels)), release.details["mechanism"]


def without_noise(
    data: Split,
    folds: int = _FOLDS,
    lams: Sequence[float] = _LAMS,
    clip: float | None = None,
) -> float:
    """Return the test accuracy of the same learner on exact labels, lam by cross-validation.

    ``lams`` go from large to small: each solution is where the next search starts.
    """
    pipeline = MeanOperator(1.0, clip=clip).public_rows(data.rows).pipeline
    rows, test = design_matrix(data.rows, pipeline), design_matrix(data.test_rows, pipeline)
    signs = 2.0 * data.labels - 1
    fold = np.arange(len(rows)) % folds

    def right(fit: np.ndarray, held: np.ndarray, truth: np.ndarray) -> np.ndarray:
        operator = rows[fit].T @ signs[fit] / fit.sum()
        problem = FactoredProblem(rows[fit], operator, LOSSES["logistic"], intercept=True)
        found, start = [], None
        for lam in lams:
            start = problem.solve(lam, tol=1e-5, max_iter=1000, start=start).parameters
            found.append(np.mean(np.sign(held @ start) == truth))
        return np.array(found)

    scores = sum(right(fold != k, rows[fold == k], signs[fold == k]) for k in range(folds))
    everything = right(fold >= 0, test, 2.0 * data.test_labels - 1)
    return float(everything[int(np.argmax(scores))])
