"""`ClassRatio` as a quantifier of QuaPy, and errors of class ratios as QuaPy 0.2 defines them.

QuaPy itself is needed nowhere; where it is installed, its base class is used.
"""

from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.ratio.estimator import ClassRatio

try:
    from quapy.method.base import BaseQuantifier
except ImportError:  # QuaPy asks for methods only; the base class is a courtesy to isinstance

    class BaseQuantifier:  # type: ignore[no-redef]  # one of the two is there
        """Stands where QuaPy's own would."""


__all__ = ["QuaPyClassRatio", "ae", "nkld", "rae"]


class QuaPyClassRatio(ClassRatio, BaseQuantifier):  # type: ignore[misc]  # QuaPy is untyped
    """Computes class prevalences under QuaPy's names: ``fit(X, y)``, then ``predict(X)``.

    It learns from exact labels, where the rows of each class are a bag, and protects nothing.
    Parameters and attributes are those of `ClassRatio`. It works in QuaPy's evaluation and model
    selection as its own quantifiers do.
    """

    def predict(self, X: Any) -> np.ndarray:
        """Return the proportion (prevalence) of each class in one sample.

        Parameters
        ----------
        X : array of shape (n, p)
            The rows of the sample.

        Returns
        -------
        ndarray of shape (K,)
            The proportions, in the order of ``classes_``.

        Raises
        ------
        TableError
            If there are no rows, or not as many columns as in the fit.
        """
        return self.quantify(np.asarray(X))


def ae(true: Any, estimated: Any) -> Any:
    """Return the absolute error: the mean over classes of |p - p^|, a K-th of the L1 distance."""
    p, q = _pair(true, estimated)
    return np.abs(q - p).mean(axis=-1)


def rae(true: Any, estimated: Any, eps: float) -> Any:
    """Return the relative absolute error: the mean over classes of |p - p^| / p.

    Both are first smoothed by ``eps``, as a rule 1 / (2 rows of the table).
    """
    p, q = (_smooth(value, eps) for value in _pair(true, estimated))
    return (np.abs(q - p) / p).mean(axis=-1)


def nkld(true: Any, estimated: Any, eps: float) -> Any:
    """Return the normalised divergence 2 e^d / (1 + e^d) - 1, d = sum p log(p / p^), smoothed."""
    p, q = (_smooth(value, eps) for value in _pair(true, estimated))
    return np.tanh((p * np.log(p / q)).sum(axis=-1) / 2)  # the same, and e^d cannot overflow


def _pair(true: Any, estimated: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if p.shape != q.shape or not p.size:
        raise ParameterError("true and estimated must have the same shape, and at least one value.")
    return p, q


def _smooth(ratios: np.ndarray, eps: float) -> np.ndarray:
    if not eps > 0:
        raise ParameterError(f"eps must be a positive number. It is {eps!r}.")
    return (ratios + eps) / (eps * ratios.shape[-1] + 1)
