"""The covariance of released noise, as structure and never as a dense matrix."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice.errors import CorruptFileError, ParameterError
from suffice.strict_json import number, text

__all__ = ["Covariance"]

Vector = NDArray[np.float64]
_FORMS = ("none", "identity", "diagonal", "factor")


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance C of the noise on each column of released sums, of d coordinates.

    Attributes
    ----------
    form
        "none": unknown or zero. "identity": C = variance I. "diagonal": C = variance diag(array).
        "factor": C = variance A A^T, with A = array of shape (d, r).
    variance
        The variance.
    array
        The diagonal, or A; None for other forms.
    """

    form: str
    variance: float = 0.0
    array: Vector | None = None

    def __post_init__(self) -> None:
        if self.form not in _FORMS or not (np.isfinite(self.variance) and self.variance >= 0):
            raise ParameterError("The noise covariance has an unknown form or a bad variance.")
        needs = {"diagonal": 1, "factor": 2}.get(self.form)
        has = None if self.array is None else self.array.ndim
        if needs != has or (self.array is not None and not np.isfinite(self.array).all()):
            raise ParameterError(f"A {self.form} covariance does not fit its array.")
        if self.form == "diagonal" and self.array is not None and (self.array < 0).any():
            raise ParameterError("A variance of the noise is negative.")

    def scaled(self, factor: float) -> "Covariance":
        """Return the covariance of the noise times sqrt(factor)."""
        return Covariance(self.form, self.variance * factor, self.array)

    def quadratic(self, parameters: Vector) -> float:
        """Return sum_k theta_k^T C theta_k over the columns theta_k of ``parameters``."""
        return float(self.along(parameters.reshape(len(parameters), -1)).sum())

    def along(self, directions: Vector) -> Vector:
        """Return v^T C v for each column v of ``directions`` (d, n)."""
        if self.form == "diagonal" and self.array is not None:
            directions = np.sqrt(self.array)[:, None] * directions
        elif self.form == "factor" and self.array is not None:
            directions = self.array.T @ directions
        return np.asarray(self.variance * np.sum(directions**2, axis=0))

    def diagonal(self, width: int) -> Vector:
        """Return the variance of each of ``width`` coordinates."""
        if self.array is None:
            return np.full(width, self.variance)
        own = self.array if self.form == "diagonal" else (self.array**2).sum(axis=1)
        return np.asarray(self.variance * own)

    def dense(self, width: int) -> Vector:
        """Return C as a matrix, to compute with; it never travels."""
        if self.form == "factor" and self.array is not None:
            return np.asarray(self.variance * (self.array @ self.array.T))
        return np.asarray(np.diag(self.diagonal(width)))

    def last(self) -> "Covariance":
        """Return the covariance of the last coordinate alone."""
        if self.array is None:
            return self
        only = np.zeros((len(self.array), 1))
        only[-1] = 1.0
        return Covariance("identity", float(self.along(only)[0]))

    def __add__(self, other: "Covariance") -> "Covariance":
        """Return the covariance of the sum of two independent noises."""
        if "none" in (self.form, other.form):
            return Covariance("none")
        if self.form == other.form == "identity":
            return Covariance("identity", self.variance + other.variance)
        return Covariance("factor", 1.0, np.hstack([self._root(other), other._root(self)]))

    def _root(self, other: "Covariance") -> Vector:
        """Return A with C = A A^T; the dimension comes from whichever of the two has an array."""
        scale = np.sqrt(self.variance)
        if self.form == "factor" and self.array is not None:
            return np.asarray(scale * self.array)
        if self.form == "diagonal" and self.array is not None:
            return np.asarray(scale * np.diag(np.sqrt(self.array)))
        assert other.array is not None  # noqa: S101  # for the type checker: one of them has one
        return np.asarray(scale * np.eye(len(other.array)))

    def to_json(self) -> dict[str, Any]:
        """Return form and variance as plain JSON values."""
        return {"form": self.form, "variance": self.variance}

    def arrays(self) -> dict[str, Vector]:
        """Return the array, named as it travels in a release."""
        return {} if self.array is None else {"noise.array": self.array}

    @classmethod
    def from_json(cls, data: object, arrays: dict[str, NDArray[Any]]) -> "Covariance":
        """Return the covariance that `to_json` and `arrays` described."""
        if not isinstance(data, dict) or set(data) != {"form", "variance"}:
            raise CorruptFileError("The noise covariance must hold a form and a variance.")
        try:
            return cls(text(data["form"]), number(data["variance"]), arrays.get("noise.array"))
        except ParameterError as error:
            raise CorruptFileError("The noise covariance in the file is not valid.") from error
