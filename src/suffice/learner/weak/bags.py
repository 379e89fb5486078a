"""Bags of rows with known label proportions: checked, summed up, and their sampling noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.weak.moments import CONDITION_LIMIT, group_sums

__all__ = ["BagMoments", "bags_of", "check_identified"]


@dataclass(frozen=True, eq=False)
class BagMoments:
    """Holds n bags: each row's bag, and per bag its size, mean row and class shares.

    ``codes`` (m,), ``sizes`` (n,), ``means`` (n, d), ``shares`` (n, K), ``squares`` (n,) the mean
    squared 2-norm of the rows.
    """

    codes: np.ndarray
    sizes: np.ndarray
    means: np.ndarray
    shares: np.ndarray
    squares: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """The share of all rows in each bag."""
        return self.sizes / self.sizes.sum()

    @property
    def prior(self) -> np.ndarray:
        """The share of each class among all rows."""
        return self.weights @ self.shares

    @property
    def spread(self) -> np.ndarray:
        """The trace of each bag's covariance."""
        return np.maximum(self.squares - (self.means**2).sum(axis=1), 0.0)


def bags_of(rows: np.ndarray, bags: Any, proportions: Any, classes: int) -> BagMoments:
    """Return the bags of these rows, or say what does not fit."""
    shares = _shares(proportions, classes)
    codes = np.asarray(bags)
    if codes.shape != (len(rows),) or codes.dtype.kind not in "iu":
        raise ParameterError(
            f"bags must hold one whole number, that of its bag, for each of the {len(rows)} rows."
        )
    count = len(shares)
    if codes.min() < 0 or codes.max() >= count:
        raise ParameterError(
            f"bags must hold numbers from 0 to {count - 1}, one for each row of proportions. Some"
            " rows have another number."
        )
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    if not sizes.all():
        raise ParameterError(
            f"{np.count_nonzero(sizes == 0)} of {count} bags have no rows. Leave them out."
        )
    means = group_sums(rows, codes, count) / sizes[:, None]
    squares = np.bincount(codes, weights=(rows**2).sum(axis=1)) / sizes
    return BagMoments(codes, sizes, means, shares, squares)


def _shares(proportions: Any, classes: int) -> np.ndarray:
    """Return class shares (n, K)."""
    try:
        matrix = np.asarray(proportions, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim == 1 and classes == 2 and len(matrix):
        matrix = np.column_stack([1 - matrix, matrix])
    if matrix.ndim != 2 or matrix.shape[1] != classes:
        short_form = ", or one number per bag for the second class" if classes == 2 else ""
        raise ParameterError(f"proportions must have {classes} columns, one per class{short_form}.")
    inside = ((matrix >= 0) & (matrix <= 1)).all()
    if not (inside and np.allclose(matrix.sum(axis=1), 1, atol=1e-6)):
        raise ParameterError(
            "proportions must be between 0 and 1, and those of each bag must sum to one."
        )
    return matrix


def check_identified(bags: BagMoments) -> None:
    """Raise unless the proportions tell all classes apart (Quadrianto et al. 2009)."""
    count, classes = bags.shares.shape
    if count < classes:
        raise ParameterError(
            f"{count} bags cannot tell {classes} classes apart. Use at least {classes} bags."
        )
    condition = float(np.linalg.cond(np.sqrt(bags.weights)[:, None] * bags.shares))
    if not condition <= CONDITION_LIMIT:
        raise ParameterError(
            f"The proportions of the bags are too much alike: their matrix has condition number"
            f" {condition:.2g}, above {CONDITION_LIMIT:.0e}. Form bags that differ more."
        )
