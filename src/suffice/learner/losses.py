"""Losses that see labels through the mean operator alone (Patrini et al. 2016, Theorem 3).

A loss is linear-odd if f(z) - f(-z) = -a z. The risk of theta is then

    (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu>,     g(z) = (f(z) + f(-z)) / 2,

so that g, the even part, needs rows and no labels. Softmax is the same for more classes:
(1/m) sum_i log sum_k exp(<W_k, x_i>) - <W, M>.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from suffice.errors import ParameterError

__all__ = ["LOSSES", "LinearOddLoss", "from_even", "from_function", "loss_named"]

Function = Callable[[np.ndarray], np.ndarray]

_GRID = np.concatenate([np.linspace(0.01, 5, 400), np.linspace(5, 40, 200)])
_ODDNESS = 1e-8  # of f's size on the grid: how far from linear an odd part may be
_STEP = 1e-6  # of numerical derivatives, where a loss brings none


@dataclass(frozen=True)
class LinearOddLoss:
    """Computes f(z) = g(z) - (a/2) z, the loss of margin z, from its even part g.

    ``slope`` is g', ``curvature`` g''(0), ``link`` the probability of the second class at a score,
    where the loss has one.
    """

    name: str
    a: float
    even: Function
    slope: Function
    curvature: float
    link: Function | None = None

    def __call__(self, margins: np.ndarray) -> np.ndarray:
        """Return the loss at each margin y <theta, x>."""
        return self.even(margins) - self.a / 2 * margins


def _log_two_cosh_half(z: np.ndarray) -> np.ndarray:
    return np.logaddexp(z / 2, -z / 2)


# Table 1 of the paper; a as in Theorem 3.
LOSSES: Mapping[str, LinearOddLoss] = {
    loss.name: loss
    for loss in (
        LinearOddLoss(
            "logistic", 1.0, _log_two_cosh_half, lambda z: np.tanh(z / 2) / 2, 0.25, expit
        ),
        LinearOddLoss(
            "square",
            4.0,
            lambda z: 1 + z**2,
            lambda z: 2 * z,
            2.0,
            lambda z: np.clip((1 + z) / 2, 0, 1),
        ),
        LinearOddLoss(
            "matsushita",
            2.0,
            lambda z: np.sqrt(1 + z**2),
            lambda z: z / np.sqrt(1 + z**2),
            1.0,
            lambda z: (1 + z / np.sqrt(1 + z**2)) / 2,
        ),
        LinearOddLoss("linear", 2.0, np.zeros_like, np.zeros_like, 0.0),
    )
}
_REFUSED = {
    "hinge": "the hinge loss is not linear-odd: f(z) - f(-z) is not linear between -1 and 1, so"
    " the mean operator does not suffice for it. Use logistic or matsushita.",
    "rho": "the rho-loss equals 1 + 2 rho max(0, -z): theta = 0 minimises it for any labels, so"
    " there is nothing to learn with it.",
}


def loss_named(loss: "str | LinearOddLoss | Function") -> LinearOddLoss:
    """Return the loss of this name, or of a function after checking that it is linear-odd."""
    if isinstance(loss, LinearOddLoss):
        return loss
    if callable(loss):
        return from_function(loss)
    if loss in _REFUSED:
        raise ParameterError(_REFUSED[loss])
    if loss not in LOSSES:
        raise ParameterError(f"loss must be one of softmax, {', '.join(LOSSES)}, or a function.")
    return LOSSES[loss]


def from_even(even: Function, a: float, name: str = "custom") -> LinearOddLoss:
    """Return the loss g(z) - (a/2) z of an even function g (Lemma 5 of the paper)."""
    values = np.asarray(even(_GRID), dtype=np.float64)
    gap = float(np.abs(values - even(-_GRID)).max())
    if not gap <= _ODDNESS * (1 + np.abs(values).max()):
        raise ParameterError(f"g must be even: g(z) - g(-z) reaches {gap:.3g}.")
    if not (np.isfinite(a) and a > 0):
        raise ParameterError("a must be a positive number.")
    return LinearOddLoss(name, float(a), even, _numerical_slope(even), _numerical_curvature(even))


def from_function(loss: Function, name: str = "custom") -> LinearOddLoss:
    """Return a user's loss f in its factored form; the error says by how much f fails."""
    odd = np.asarray(loss(_GRID), dtype=np.float64) - np.asarray(loss(-_GRID), dtype=np.float64)
    if odd.shape != _GRID.shape or not np.isfinite(odd).all():
        raise ParameterError("a loss must map an array of margins to as many finite numbers.")
    a = -float(odd @ _GRID / (_GRID @ _GRID))
    gap = float(np.abs(odd + a * _GRID).max())
    if gap > _ODDNESS * (1 + np.abs(odd).max()):
        raise ParameterError(
            f"the loss is not linear-odd: f(z) - f(-z) differs from the line {-a:.4g} z by up to"
            f" {gap:.3g}, so the mean operator does not suffice for it."
        )
    return from_even(lambda z: (loss(z) + loss(-z)) / 2, a, name)


def _numerical_slope(function: Function) -> Function:
    return lambda z: (function(z + _STEP) - function(z - _STEP)) / (2 * _STEP)


def _numerical_curvature(function: Function) -> float:
    step = 1e-3
    ends = np.array([-step, 0.0, step])
    low, middle, high = np.asarray(function(ends), dtype=np.float64)
    return float((low - 2 * middle + high) / step**2)
