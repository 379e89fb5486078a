"""Losses that see labels through the mean operator alone (Patrini et al. 2016, Theorem 3).

A loss is linear-odd if f(z) - f(-z) = -a z. The risk of theta is then

    (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu>,     g(z) = (f(z) + f(-z)) / 2,

so that g, the even part, needs rows and no labels. Softmax is the same for more classes:
(1/m) sum_i log sum_k exp(<W_k, x_i>) - <W, M>.

Penalties are data too: squared 2-norm, 1-norm, a mixture of both, or none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from suffice.errors import ParameterError
from suffice.kernels.models import logistic_slopes

Function = Callable[[np.ndarray], np.ndarray]
Fused = Callable[[np.ndarray, np.ndarray], float]

_GRID = np.concatenate([np.linspace(0.01, 5, 400), np.linspace(5, 40, 200)])
_ODDNESS = 1e-8  # of f's size on the grid: how far from linear an odd part may be


@dataclass(frozen=True)
class LinearOddLoss:
    """Computes f(z) = g(z) - (a/2) z, the loss of margin z, from its even part g.

    Parameters
    ----------
    name : str
        The name of the loss.
    a : float
        The constant of the odd part.
    even : callable
        The even part g.
    slope : callable
        Its derivative g'.
    second : callable
        Its second derivative g''.
    link : callable or None
        The probability of the second class at a score; None where the loss has none.
    joint : bool
        Whether three classes or more have one joint model, softmax, instead of one against the
        rest.
    steepest : float or None
        The supremum of g' in units of a/2, which decides where a minimiser exists without a
        penalty; None where it is not known.
    untrainable : str
        The reason why nothing can be learnt with this loss, or empty.
    fused : callable or None
        Overwrites scores with weighted slopes and returns the weighted sum of g
        (`suffice.kernels.models`).
    """

    name: str
    a: float
    even: Function
    slope: Function
    second: Function
    link: Function | None = None
    joint: bool = False
    steepest: float | None = None
    untrainable: str = ""
    fused: Fused | None = None

    @property
    def curvature(self) -> float:
        """g''(0), of H = lam I + g''(0) S."""
        return float(self.second(np.zeros(1))[0])

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Let a loss of this package travel to other processes by its name."""
        built_in = LOSSES.get(self.name) is self
        return (loss_named, (self.name,)) if built_in else super().__reduce__()

    def __call__(self, margins: np.ndarray) -> np.ndarray:
        """Return the loss at each margin y <theta, x>."""
        return self.even(margins) - self.a / 2 * margins


# Table 1 of the paper; a as in Theorem 3.
LOSSES: Mapping[str, LinearOddLoss] = {
    loss.name: loss
    for loss in (
        LinearOddLoss(
            "logistic",
            1.0,
            even=lambda z: np.logaddexp(z / 2, -z / 2),
            slope=lambda z: np.tanh(z / 2) / 2,
            second=lambda z: expit(z) * expit(-z),
            link=expit,
            joint=True,
            steepest=1.0,
            fused=logistic_slopes,
        ),
        LinearOddLoss(
            "square",
            4.0,
            even=lambda z: 1 + z**2,
            slope=lambda z: 2 * z,
            second=lambda z: np.full_like(z, 2.0),
            link=lambda z: np.clip((1 + z) / 2, 0, 1),
            steepest=np.inf,
        ),
        LinearOddLoss(
            "matsushita",
            2.0,
            even=lambda z: np.sqrt(1 + z**2),
            slope=lambda z: z / np.sqrt(1 + z**2),
            second=lambda z: (1 + z**2) ** -1.5,
            link=lambda z: (1 + z / np.sqrt(1 + z**2)) / 2,
            steepest=1.0,
        ),
        LinearOddLoss(
            "linear",
            2.0,
            even=np.zeros_like,
            slope=np.zeros_like,
            second=np.zeros_like,
            steepest=0.0,
        ),
    )
}
_ALIASES = {"softmax": "logistic"}  # one loss: softmax of two classes is logistic in their margin
NOTHING_TO_LEARN = (
    "no margin has a smaller loss than zero, so theta = 0 minimises it for any labels and there is"
    " nothing to learn with it. Use logistic or matsushita."
)
_REFUSED = {
    "hinge": "The hinge loss is not linear-odd: f(z) - f(-z) is not linear between -1 and 1, so"
    " the mean operator does not suffice for it. Use logistic or matsushita.",
    "rho": f"The rho-loss equals 1 + 2 rho max(0, -z): {NOTHING_TO_LEARN}",
}


def loss_named(loss: "str | LinearOddLoss | Function") -> LinearOddLoss:
    """Return the loss of this name, or of a function after checking that it is linear-odd."""
    if callable(loss):
        chosen = loss if isinstance(loss, LinearOddLoss) else from_function(loss)
        if chosen.untrainable:
            raise ParameterError(
                f"The {chosen.name} loss cannot be trained with: {chosen.untrainable}"
            )
        return chosen
    if loss in _REFUSED:
        raise ParameterError(_REFUSED[loss])
    name = _ALIASES.get(loss, loss)
    if name not in LOSSES:
        choices = ", ".join([*LOSSES, *_ALIASES])
        raise ParameterError(f"loss must be one of {choices}, or a function.")
    return LOSSES[name]


def from_even(even: Function, a: float, name: str = "custom") -> LinearOddLoss:
    """Return the loss g(z) - (a/2) z of an even function g (Lemma 5 of the paper).

    Derivatives are numerical: g' to about 1e-9 of g's size, g'' to about 1e-6.
    """
    values = np.asarray(even(_GRID), dtype=np.float64)
    gap = float(np.abs(values - even(-_GRID)).max())
    if not gap <= _ODDNESS * (1 + np.abs(values).max()):
        raise ParameterError(f"g must be even: g(z) - g(-z) reaches {gap:.3g}.")
    if not (np.isfinite(a) and a > 0):
        raise ParameterError(f"a must be a positive number. It is {a!r}.")
    near, far = 1e-6, 1e-3  # steps of numerical derivatives, first and second
    gain = float(even(np.zeros(1))[0] - (values - a / 2 * _GRID).min())
    return LinearOddLoss(
        name,
        float(a),
        even=even,
        slope=lambda z: (even(z + near) - even(z - near)) / (2 * near),
        second=lambda z: (even(z + far) - 2 * even(z) + even(z - far)) / far**2,
        untrainable="" if gain > _ODDNESS else NOTHING_TO_LEARN,
    )


def odd_line(loss: Function) -> tuple[float, float]:
    """Return a of the line -a z nearest to f(z) - f(-z), and by how much they differ at most.

    Margins up to 40 are looked at; the difference is rounding where f is linear-odd.
    """
    odd = np.asarray(loss(_GRID), dtype=np.float64) - np.asarray(loss(-_GRID), dtype=np.float64)
    if odd.shape != _GRID.shape or not np.isfinite(odd).all():
        raise ParameterError("a loss must map an array of margins to as many finite numbers.")
    a = -float(odd @ _GRID / (_GRID @ _GRID))
    return a, float(np.abs(odd + a * _GRID).max())


def from_function(loss: Function, name: str = "custom") -> LinearOddLoss:
    """Return a user's loss f in its factored form; the error says by how much f fails."""
    a, gap = odd_line(loss)
    if gap > _ODDNESS * (1 + abs(a) * _GRID[-1]):
        raise ParameterError(
            f"This loss is not linear-odd: f(z) - f(-z) differs from the line {-a:.4g} z by up to"
            f" {gap:.3g}. The mean operator does not suffice for it. Use logistic or matsushita."
        )
    return from_even(lambda z: (loss(z) + loss(-z)) / 2, a, name)


@dataclass(frozen=True)
class Penalty:
    """Computes lam (mixing ||theta||_1 + (1 - mixing)/2 ||theta||_2^2), or nothing at all.

    The intercept's coordinate has the penalty (lam/2) theta_d^2 whatever the mixture: a 1-norm
    would set it to zero, and with it the proportion of the classes.

    Parameters
    ----------
    name : str
        The name of the penalty; "none" for no penalty at all.
    mixing : float, default=0.0
        The weight of the 1-norm, between 0 and 1.
    """

    name: str
    mixing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.mixing <= 1:
            raise ParameterError(
                f"mixing, the weight of the 1-norm, must lie between 0 and 1; got {self.mixing!r}."
            )

    @property
    def smooth(self) -> bool:
        """Whether there is no 1-norm in it."""
        return self.mixing == 0

    def weights(
        self, lam: float, shape: tuple[int, ...], *, intercept: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of |theta_j| and the weight of theta_j^2 / 2, for each entry."""
        strength = 0.0 if self.name == "none" else lam
        absolute = np.full(shape, strength * self.mixing)
        squared = np.full(shape, strength * (1 - self.mixing))
        if intercept:
            absolute[-1], squared[-1] = 0.0, strength
        return absolute, squared


PENALTIES = {
    "l2": Penalty("l2"),
    "l1": Penalty("l1", 1.0),
    "elastic-net": Penalty("elastic-net", 0.5),
    "none": Penalty("none"),
}


def penalty_named(penalty: str | Penalty) -> Penalty:
    """Return the penalty of this name, or the one that is given."""
    if isinstance(penalty, Penalty):
        return penalty
    if penalty not in PENALTIES:
        raise ParameterError(f"penalty must be one of {', '.join(PENALTIES)}.")
    return PENALTIES[penalty]
