"""Mean votes of many parties on public rows: soft labels with noise of their own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.estimate import OperatorEstimate
from suffice.learner.weak.moments import as_operator, noise_of_gram
from suffice.models.gram import gram
from suffice.tables.labels import check_classes

__all__ = ["SoftVotes"]


@dataclass(frozen=True, eq=False)
class SoftVotes:
    """Computes the mean operator of soft labels: M = (1/m) sum_i x_i v_i^T.

    ``votes`` (m, K) estimate the share of each class, with independent noise of ``variance`` on
    every entry; they need not be shares themselves. The operator's noise is variance S/m per
    column, S = X^T X / m, twice that for mu.
    """

    votes: np.ndarray
    classes: Any
    variance: float = 0.0

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator of the votes, with the covariance of their noise."""
        classes = check_classes(self.classes)
        votes = np.asarray(self.votes, dtype=np.float64)
        if votes.shape != (len(rows), len(classes)):
            raise ParameterError("there must be one vote per row and class.")
        operator = as_operator(rows.T @ votes / len(rows))
        entries = 2.0 if len(classes) == 2 else 1.0
        noise = noise_of_gram(gram(rows) / len(rows) ** 2, entries * self.variance)
        return OperatorEstimate(operator, noise, classes, "The covariance is that of the votes.")
