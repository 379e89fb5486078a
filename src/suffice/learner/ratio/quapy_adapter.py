"""`ClassRatio` as a quantifier of QuaPy, where that is installed; it is needed nowhere else."""

from typing import Any

import numpy as np

from suffice.learner.ratio.estimator import ClassRatio

try:
    from quapy.method.base import BaseQuantifier
except ImportError:  # QuaPy asks for methods only; the base class is a courtesy to isinstance

    class BaseQuantifier:  # type: ignore[no-redef]
        """Stands where QuaPy's own would."""


__all__ = ["QuaPyClassRatio"]


class QuaPyClassRatio(ClassRatio, BaseQuantifier):
    """Computes class prevalences under QuaPy's names: ``fit(X, y)``, then ``predict(X)``.

    Not private: it learns from plain labels, the rows of each class a bag. Parameters are those of
    `ClassRatio`. Works in QuaPy's evaluation and model selection as its own quantifiers do.
    """

    def predict(self, X: Any) -> np.ndarray:
        """Return the prevalence of each class in one sample."""
        return self.quantify(np.asarray(X))
