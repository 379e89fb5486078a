"""A mean operator and how sure it is: what every source becomes, and the sums it is made of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from suffice.errors import ParameterError
from suffice.models.rows import WeightedRows
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes, label_codes

__all__ = [
    "CONDITION_LIMIT",
    "OperatorEstimate",
    "Supervision",
    "as_operator",
    "codes_of",
    "group_sums",
    "no_noise",
    "noise_of_gram",
    "per_column",
]

CONDITION_LIMIT = 1e6  # beyond it, what is inverted is mostly rounding and sampling noise
_NEGLIGIBLE = 1e-12  # of the largest eigenvalue: rounding


@dataclass(frozen=True, eq=False)
class OperatorEstimate:
    """Holds an estimate of a mean operator, in public coordinates.

    Attributes
    ----------
    operator : ndarray of shape (d,) or (d, K)
        mu for two classes, M for more.
    noise : Covariance
        The covariance of its error given the true labels of the rows; of M the mean over its
        columns. Form "none" where it is not known.
    classes : tuple
        The classes; the second of two counts as +1.
    note : str
        Where the covariance comes from, and what it does not cover.
    """

    operator: np.ndarray
    noise: Covariance
    classes: tuple[Any, ...]
    note: str = ""


class Supervision(ABC):
    """A source of supervision: what is known about the labels of some rows."""

    @abstractmethod
    def estimate(self, rows: Any) -> OperatorEstimate:
        """Return an estimate of the mean operator of these rows.

        ``rows`` are a matrix; those of a release may also be `WeightedRows`.
        """


def codes_of(labels: Any, classes: Classes, rows: np.ndarray | WeightedRows) -> np.ndarray:
    """Return each label's position among the classes; there must be one label per row."""
    codes = label_codes(labels, classes)
    if len(codes) != len(rows):
        raise ParameterError(
            f"There are {len(codes)} labels for {len(rows)} rows. Pass one for each row."
        )
    return codes


def group_sums(rows: np.ndarray | WeightedRows, codes: np.ndarray, groups: int) -> np.ndarray:
    """Return the sum of the rows of each group, one group per line."""
    if isinstance(rows, WeightedRows):  # a byte for each row and group, and no row
        return rows.combined((codes[:, None] == np.arange(groups)).astype(np.int8)).T
    count = len(rows)
    member = csr_array((np.ones(count), (codes, np.arange(count))), shape=(groups, count))
    return np.asarray(member @ rows)


def as_operator(matrix: np.ndarray) -> np.ndarray:
    """Return mu = M_2 - M_1 for two classes, M (d, K) itself for more."""
    return matrix[:, 1] - matrix[:, 0] if matrix.shape[1] == 2 else matrix


def no_noise() -> Covariance:
    """Return the covariance of an estimate without error."""
    return Covariance("identity", 0.0)


def noise_of_gram(matrix: np.ndarray, variance: float) -> Covariance:
    """Return variance x matrix in factor form; eigenvalues below rounding are left out."""
    values, vectors = np.linalg.eigh(matrix)
    significant = values > _NEGLIGIBLE * max(values[-1], 0.0)
    if variance <= 0 or not significant.any():
        return no_noise()
    return Covariance(
        "factor", float(variance), vectors[:, significant] * np.sqrt(values[significant])
    )


def per_column(classes: int) -> str:
    """Return what a covariance says about an operator of this many classes."""
    if classes == 2:
        return ""
    return " With three classes or more it is the mean over the columns of M."
