"""Label proportions of bags as a source of supervision; the methods stand in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.weak.alternating import AlternatingMeanMap
from suffice.learner.weak.bags import bags_of
from suffice.learner.weak.mean_maps import LaplacianMeanMap, MeanMap
from suffice.learner.weak.moments import OperatorEstimate, Supervision
from suffice.tables.labels import check_classes

__all__ = ["METHODS", "KnownProportions", "Method"]

Method = MeanMap | LaplacianMeanMap | AlternatingMeanMap

METHODS: Mapping[str, Method] = {
    "mean-map": MeanMap(),
    "laplacian": LaplacianMeanMap(),
    "alternating-min": AlternatingMeanMap("min"),
    "alternating-max": AlternatingMeanMap("max"),
}


@dataclass(frozen=True, eq=False)
class KnownProportions(Supervision):
    """Computes the mean operator from the proportion of each class in disjoint bags of rows.

    All methods assume that the proportions are exact; what else they assume stands there.

    Parameters
    ----------
    bags : array of shape (m,)
        The number of each row's bag, from 0.
    proportions : array of shape (n, K) or (n,)
        The class proportions of the bags, in the order of ``classes``; for two classes also the
        proportions of the second only.
    classes : sequence
        The K classes.
    method : str or object, default="mean-map"
        "mean-map", "laplacian", "alternating-min" or "alternating-max"; or one of `MeanMap`,
        `LaplacianMeanMap` and `AlternatingMeanMap` with its options.
    """

    bags: Any
    proportions: Any
    classes: Any
    method: str | Method = "mean-map"

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator that the method estimates.

        Parameters
        ----------
        rows : array of shape (m, d)
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ParameterError
            If the bags or proportions do not fit the rows.
        """
        classes = check_classes(self.classes)
        method = METHODS.get(self.method) if isinstance(self.method, str) else self.method
        if not isinstance(method, Method):
            raise ParameterError(
                f"method must be one of {', '.join(METHODS)}, or an object such as MeanMap()."
            )
        bags = bags_of(rows, self.bags, self.proportions, len(classes))
        operator, noise, note = method.estimate(rows, bags)
        return OperatorEstimate(operator, noise, classes, note)
