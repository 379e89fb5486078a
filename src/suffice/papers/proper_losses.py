"""Symmetric proper losses from their generator (Patrini et al. 2016, Section 2 and Table 1)."""

import numpy as np

from suffice.errors import ParameterError
from suffice.models.losses import Function, LinearOddLoss

_GRID = np.linspace(0, 1, 1001)
_ROUNDING = 1e-9  # of phi's range: how far from symmetric and convex a generator may be
_HALVINGS = 64  # of the interval in which log p is sought
_LEAST = np.log(np.finfo(float).tiny)


def from_generator(
    phi: Function, *, slope: Function | None = None, b: float | None = None, name: str = "custom"
) -> LinearOddLoss:
    """Return f(z) = a_phi + phi*(-z) / b, with phi* the convex conjugate of ``phi`` on [0, 1].

    phi must be permissible: finite, strictly convex and symmetric about 1/2 on [0, 1]. Then
    phi*(-z) = phi*(z) - z, so that f is linear-odd with a = 1/b, and f' links a score to the
    probability p at which phi'(p) is the score. a_phi = phi(0)/b makes f fall to zero. ``b`` is
    phi(0) - phi(1/2) unless given, so that f(0) = 1 (Nock & Nielsen 2009); the logistic loss is
    b = 1 with phi(p) = p log p + (1 - p) log(1 - p), Matsushita's phi(p) = -sqrt(p (1 - p)).
    ``slope`` is phi'; without it derivatives are numerical, and good to about 1e-9.
    """
    values = _permissible(phi)
    scale = float(values[0] - values[500]) if b is None else float(b)
    if not (np.isfinite(scale) and scale > 0):
        raise ParameterError("b must be a positive number.")
    derivative = _numerical_slope(phi) if slope is None else slope

    def even(z: np.ndarray) -> np.ndarray:
        size = np.abs(z)
        p = _lesser_share(derivative, size)
        return (values[0] - phi(p) + size * (0.5 - p)) / scale  # Table 1: phi*(-z) = -p z - phi(p)

    def link(z: np.ndarray) -> np.ndarray:
        p = _lesser_share(derivative, np.abs(z))
        return np.where(z > 0, 1 - p, p)

    def even_slope(z: np.ndarray) -> np.ndarray:
        return np.sign(z) * (0.5 - _lesser_share(derivative, np.abs(z))) / scale

    def second(z: np.ndarray, step: float = 1e-4) -> np.ndarray:
        return (even_slope(z + step) - even_slope(z - step)) / (2 * step)

    return LinearOddLoss(
        name, 1 / scale, even=even, slope=even_slope, second=second, link=link, steepest=1.0
    )


def _permissible(phi: Function) -> np.ndarray:
    """Return phi on the grid, or say by how much it is not permissible."""
    values = np.asarray(phi(_GRID), dtype=np.float64)
    if values.shape != _GRID.shape or not np.isfinite(values).all():
        raise ParameterError("phi must be finite on [0, 1], its ends included.")
    limit = _ROUNDING * (1 + float(np.ptp(values)))
    uneven = float(np.abs(values - values[::-1]).max())
    if uneven > limit:
        raise ParameterError(
            f"phi must be symmetric about 1/2: phi(p) - phi(1 - p) reaches {uneven:.3g}."
        )
    above = float((values[1:-1] - (values[2:] + values[:-2]) / 2).max())
    if above > limit or not values[500] < values[0] - limit:
        raise ParameterError(
            f"phi must be strictly convex on [0, 1]: it rises {max(above, 0):.3g} above a chord,"
            f" and phi(0) - phi(1/2) is {values[0] - values[500]:.3g}."
        )
    return values


def _lesser_share(derivative: Function, size: np.ndarray) -> np.ndarray:
    """Return p in (0, 1/2] with phi'(p) = -size, or about zero if phi is less steep than that.

    The logarithm of p is halved into: small probabilities keep their relative accuracy.
    """
    low, high = np.full(np.shape(size), _LEAST), np.full(np.shape(size), np.log(0.5))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = derivative(np.exp(middle)) > -size
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.exp((low + high) / 2)


def _numerical_slope(phi: Function, step: float = 1e-5) -> Function:
    return lambda p: (phi(p * np.exp(step)) - phi(p * np.exp(-step))) / (2 * p * np.sinh(step))
