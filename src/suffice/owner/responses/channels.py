"""The noise of one randomised column: known, with its cost, before any private cell is seen."""

import math
from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError
from suffice.privacy.events import Event
from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Sensitivity
from suffice.privacy.response import Response
from suffice.release.spread import Added, Flips

__all__ = ["Channel", "Lattice", "channel_of", "response_of"]

_FINE = 20  # one deviation of the noise is 2^20 steps or more: rounding is lost in it
_LARGEST_STEPS = 2.0**52  # a step more or less is still a float of its own


@dataclass(frozen=True)
class Lattice:
    """Protects one number: held to its declared range, put on a public rounding grid, then noise.

    A value x becomes the integer round(min(max(x, low), high) / step). Another value moves it by at
    most the declared range, and noise is added to the integer. A result outside ``limits``, which
    has a probability below 2^-64, is held to them.

    Parameters
    ----------
    step : float
        The rounding step, a power of two.
    low : float
        The lower end of the declared range.
    high : float
        The upper end of the declared range.
    noise : GaussianNoise or LaplaceNoise
        The noise on the integer.
    limits : pair of float
        The least and the largest number that is released.
    """

    step: float
    low: float
    high: float
    noise: GaussianNoise | LaplaceNoise
    limits: tuple[float, float]

    @classmethod
    def of(cls, added: Added) -> "Lattice":
        """Return the lattice of a declared range and noise."""
        deviation, width = math.sqrt(added.variance), added.high - added.low
        if not 2.0**-12 <= deviation / width <= 2.0**16:
            raise ParameterError(
                "The noise does not suit the declared range. Its standard deviation must be at"
                " least 1/4096 of the range, to protect anything, and at most 65,536 times the"
                " range."
            )
        step = 2.0 ** (math.floor(math.log2(deviation)) - _FINE)
        if not max(abs(added.low), abs(added.high)) / step < _LARGEST_STEPS:
            raise ParameterError(
                "The range lies too far from zero for its noise. Shift the values, for example by"
                " subtracting the lower end."
            )
        reach = max(1, round(added.high / step) - round(added.low / step))
        sensitivity = Sensitivity(l1=reach, l2=float(reach), dimension=1)
        noise = (
            GaussianNoise.of_scale(sensitivity, deviation / step)
            if added.kernel == "gaussian"
            else LaplaceNoise.of_scale(sensitivity, deviation / step / math.sqrt(2))
        )
        return cls(step, added.low, added.high, noise, added.limits)

    @property
    def event(self) -> Event:
        """What one cell costs."""
        return self.noise.event

    def exact(self, values: np.ndarray) -> np.ndarray:
        """Return the integers of clean values; those outside the range count as its ends."""
        clipped = np.clip(values.astype(np.float64, copy=False), self.low, self.high)
        return np.rint(clipped / self.step).astype(np.int64)

    def randomise(self, exact: np.ndarray) -> np.ndarray:
        """Return the value of each integer with fresh noise: a multiple of ``step``."""
        least, most = (end / self.step for end in self.limits)
        moved = self.noise.per_cell(exact.size).add(exact)
        return np.clip(moved, math.ceil(least), math.floor(most)) * self.step


Channel = Response | Lattice


def channel_of(noise: Flips | Added) -> Channel:
    """Return what randomises the cells of a column."""
    return response_of(noise) if isinstance(noise, Flips) else Lattice.of(noise)


def response_of(flips: Flips) -> Response:
    """Return the response of discrete noise, with integer probabilities."""
    if flips.keep is not None:
        return Response.keep_else_uniform(flips.states, flips.keep)
    return Response.from_matrix(flips.matrix)
