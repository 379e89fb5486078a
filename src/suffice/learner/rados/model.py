"""What the learners from rados share: two classes, and edges of plain data."""

from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.linear import LinearModel

__all__ = ["TwoClasses"]


class TwoClasses(LinearModel):
    """Computes scores for two classes; three or more are refused."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _plain_edges(self, X: Any, y: Any) -> np.ndarray:
        """Return y_i x_i of plain data, x_i as the pipeline maps it and y_i = -1 or +1."""
        rows, codes = self._plain_data(X, y)
        if len(self.classes_) > 2:
            raise ParameterError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        return (2.0 * codes - 1)[:, None] * rows
