"""How class counts of public bags are released: each mechanism is known before a label is read.

A bag of n rows has counts eta in N^K with a public sum n. Replacing one label moves one unit from
one count to another, in each of the at most r (``overlap``) bags that its row is in:

    D1 = 2 r, D2 = sqrt(2 r), and D1 = r where K = 2 and one count says both.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad

from suffice.privacy.events import Event
from suffice.privacy.guarantee import Protection
from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise, Sensitivity
from suffice.release.covariance import Covariance

__all__ = ["AdditiveCounts", "BagSizes", "mean_size"]

_STEP = 2.0**-24  # of a count: so fine that the lattice costs nothing that shows


@dataclass(frozen=True, eq=False)
class BagSizes:
    """What is public about the bags.

    Parameters
    ----------
    sizes : array of int
        Number of rows of each bag.
    classes : int
        Number of classes.
    overlap : int
        The largest number of bags that one row is in.
    """

    sizes: np.ndarray
    classes: int
    overlap: int = 1


@dataclass(frozen=True)
class AdditiveCounts:
    """Protects each label: noise on every count, rounded to steps of 2^-24 of a count.

    With two classes Laplace noise is drawn once per bag, for the first count; the second one is the
    public size less the first. That is a third less distortion than noise on both.

    Parameters
    ----------
    bags : BagSizes
        What is public about the bags.
    noise : Noise
        The calibrated noise, in rounding steps.
    kind : Protection
        Whether the guarantee is global; it is.
    """

    bags: BagSizes
    noise: Noise
    kind: Protection = Protection.GLOBAL

    @classmethod
    def laplace(cls, bags: BagSizes, epsilon: float) -> "AdditiveCounts":
        """Return discrete Laplace noise, which needs no delta."""
        first_only = bags.classes == 2
        l1 = (1 if first_only else 2) * bags.overlap
        reach = _reach(bags, l1, 1 if first_only else bags.classes)
        return cls(bags, LaplaceNoise.calibrated(reach, epsilon))

    @classmethod
    def gaussian(cls, bags: BagSizes, epsilon: float, delta: float) -> "AdditiveCounts":
        """Return discrete Gaussian noise of the analytic scale."""
        reach = _reach(bags, 2 * bags.overlap, bags.classes)
        return cls(bags, GaussianNoise.calibrated(reach, epsilon, delta))

    @property
    def event(self) -> Event:
        """What one label costs."""
        return self.noise.event

    @property
    def noise_on_first_count_only(self) -> bool:
        """Whether only the first of two counts has noise of its own."""
        return self.noise.sensitivity.dimension < self.bags.classes * len(self.bags.sizes)

    @property
    def scale(self) -> float:
        """The scale of the noise, in counts."""
        return self.noise.scale * _STEP

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return noisy counts; those of a bag need not sum to its size, nor be positive."""
        first_only = self.noise_on_first_count_only
        exact = np.rint(counts[:, :1] if first_only else counts).astype(np.int64)
        noisy = self.noise.add(exact * round(1 / _STEP)) * _STEP
        return np.hstack([noisy, self.bags.sizes[:, None] - noisy]) if first_only else noisy

    def covariance(self) -> Covariance:
        """Return v I, v the variance along any unit direction that keeps a bag's total."""
        variance = self.noise.variance * _STEP**2
        doubled = self.noise_on_first_count_only
        return Covariance("identity", 2 * variance if doubled else variance)

    def distortion(self) -> np.ndarray:
        """Return K E|z_1 - mean(z)| / n: the total is mended, negative counts are not yet cut off.

        That does not depend on the labels.
        """
        classes = self.bags.classes
        if isinstance(self.noise, GaussianNoise):
            mean = math.sqrt(2 / math.pi * (1 - 1 / classes))
        else:
            mean = mean_size(classes, first_only=self.noise_on_first_count_only)
        return classes * self.scale * mean / self.bags.sizes


def _reach(bags: BagSizes, l1: int, per_set: int) -> Sensitivity:
    steps = round(1 / _STEP)
    two = math.sqrt(2 * bags.overlap) * (1 + 1e-15)
    return Sensitivity(l1 * steps, two * steps, per_set * len(bags.sizes))


def mean_size(classes: int, spread: float = 0.0, *, first_only: bool = False) -> float:
    """Return E|z_1 - mean(z) + g| for K unit Laplace numbers z and a normal g of this deviation.

    ``first_only``: E|z_1 + g|. By the characteristic function f,

        E|x| = (2/pi) int (1 - f(t)) / t^2 dt.
    """
    other = 0.0 if first_only else 1 / classes

    def integrand(t: float) -> float:
        tail = math.log1p(((1 - other) * t) ** 2) + (classes - 1) * math.log1p((other * t) ** 2)
        return -math.expm1(-tail - (spread * t) ** 2 / 2) / (t * t)

    return float(2 / math.pi * (quad(integrand, 0, 1)[0] + quad(integrand, 1, math.inf)[0]))
