"""A mean operator and how sure it is: what every source of supervision turns into."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.release.covariance import Covariance

__all__ = ["OperatorEstimate"]


@dataclass(frozen=True, eq=False)
class OperatorEstimate:
    """Holds an estimate of mu (d,) for two classes or M (d, K) for more, in public coordinates.

    ``noise`` is the covariance of its error given the true labels of the rows, of M the mean over
    its columns, form "none" where that is not known; ``note`` says where it comes from and what it
    does not cover.
    """

    operator: np.ndarray
    noise: Covariance
    classes: tuple[Any, ...]
    note: str = ""
