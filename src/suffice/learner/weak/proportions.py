"""Label proportions of bags as a source of supervision; the methods stand in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.weak.alternating import AlternatingMeanMap
from suffice.learner.weak.bags import bags_of
from suffice.learner.weak.mean_maps import LaplacianMeanMap, MeanMap
from suffice.learner.weak.moments import OperatorEstimate
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
class KnownProportions:
    """Computes the mean operator from the share of each class in disjoint bags of rows.

    ``bags`` is the number of each row's bag, from 0; ``proportions`` (n, K) its class shares in the
    order of ``classes``, or for two classes the share of the second (n,). ``method`` is a name of
    METHODS or one of `MeanMap`, `LaplacianMeanMap`, `AlternatingMeanMap` with its options, which
    say what they assume. All assume that the proportions are exact.
    """

    bags: Any
    proportions: Any
    classes: Any
    method: str | Method = "mean-map"

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator that the method finds."""
        classes = check_classes(self.classes)
        method = METHODS.get(self.method) if isinstance(self.method, str) else self.method
        if not isinstance(method, Method):
            raise ParameterError(f"method must be one of {', '.join(METHODS)}, or an object.")
        bags = bags_of(rows, self.bags, self.proportions, len(classes))
        operator, noise, note = method.estimate(rows, bags)
        return OperatorEstimate(operator, noise, classes, note)
