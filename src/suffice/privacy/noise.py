"""Noise whose guarantee holds in floating point: integers in, integers out, exact probabilities.

Every real statistic is first put on a lattice (`suffice.engines` sums integers), so what reaches
this module has an exact integer sensitivity and nothing is ever rounded after noise was added.
Each class adds noise to integers and has the event that states what one call costs; `NOISES` has
them by name. ``owner/`` and ``audit/`` use them, and nobody else. The proofs are in
``privacy/proofs/``, one page per mechanism.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffice.errors import ParameterError, missing_package
from suffice.privacy import events, randomness
from suffice.privacy.events import Event, Gaussian, Laplace, Pure

Integers = NDArray[np.int64]

# A sum must stay below this, and noise practically always does: then 64 bits never wrap around.
LARGEST_SUM = 2**61


@dataclass(frozen=True)
class Sensitivity:
    """How far replacing one unit can move an integer statistic, in lattice steps.

    ``l1`` and ``l2`` bound the change in the 1-norm and the 2-norm; ``dimension`` is its length.
    """

    l1: int
    l2: float
    dimension: int

    def __post_init__(self) -> None:
        if not (self.l1 > 0 and self.l2 > 0 and math.isfinite(self.l2) and self.dimension > 0):
            raise ParameterError(
                "No record can change these sums, so they need no noise. Check the rows."
            )


@dataclass(frozen=True)
class Noise(ABC):
    """A calibrated mechanism: what it costs (``event``) and how far it spreads (``variance``).

    Both are known before any private number is seen; ``add`` draws the noise. ``needs_delta`` says
    whether it needs a delta above 0.
    """

    name: ClassVar[str]
    needs_delta: ClassVar[bool] = False
    sensitivity: Sensitivity
    event: Event
    scale: float

    def __post_init__(self) -> None:
        # e^-100 and less: the chance that one coordinate of this noise reaches LARGEST_SUM.
        if not self.scale * (self.sensitivity.dimension + 100) < LARGEST_SUM:
            raise ParameterError("epsilon is too small: the noise would not fit into 64 bits.")

    @classmethod
    @abstractmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0) -> Self:
        """Return the least noise that costs at most ``epsilon`` at ``delta``."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance that each coordinate gains, in squared steps."""

    def add(self, exact: ArrayLike) -> Integers:
        """Return ``exact`` plus fresh noise."""
        values = np.asarray(exact, dtype=np.int64)
        if values.size != self.sensitivity.dimension:
            raise ParameterError(
                "These sums do not have the dimension that the noise was computed for."
            )
        if values.size and not -LARGEST_SUM < values.min() <= values.max() < LARGEST_SUM:
            raise ParameterError(
                "These sums are too large for their rounding grid. Use a larger rounding step."
            )
        return self._add(values.ravel()).reshape(values.shape)

    @abstractmethod
    def _add(self, values: Integers) -> Integers:
        """Return fresh noise on top of a flat vector."""


@dataclass(frozen=True)
class CellNoise(Noise):
    """Noise that is drawn for every coordinate on its own."""

    def per_cell(self, count: int) -> Self:
        """Return the noise of one number for ``count`` numbers that are a unit each.

        No coordinate depends on another unit, so that the cost stays that of one.
        """
        if self.sensitivity.dimension != 1:
            raise ParameterError("Only noise for a single number can be repeated value by value.")
        return replace(self, sensitivity=replace(self.sensitivity, dimension=count))


def _opendp(values: Integers, measurement: Any) -> Integers:
    return np.asarray(measurement(values.tolist()), dtype=np.int64)


def _measurement(law: str, dimension: int, scale: float) -> Any:
    """Return opendp's discrete Laplace or Gaussian mechanism of this scale, on integer vectors.

    Its own modules are imported, since its prelude takes a second: that imports scikit-learn,
    polars and pandas where they are installed.
    """
    try:
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian, make_laplace
        from opendp.metrics import l1_distance, l2_distance
        from opendp.mod import enable_features
    except ModuleNotFoundError as error:
        raise missing_package(error) from None

    enable_features("contrib")  # opendp's flag for constructors whose proof is not yet vetted
    integers = vector_domain(atom_domain(T="i64"), size=dimension)
    if law == "laplace":
        return make_laplace(integers, l1_distance(T="i64"), scale)
    return make_gaussian(integers, l2_distance(T="f64"), scale)


@dataclass(frozen=True)
class LaplaceNoise(CellNoise):
    """Protects one unit with pure epsilon: discrete Laplace noise on every coordinate.

    P[noise = k] is proportional to e^(-|k| / scale) with scale = (l1 + 2) / epsilon. One unit moves
    the statistic by at most l1 steps; the two further steps make the loss that of a continuous
    Laplace pair, which composes better than "any pure mechanism" (proofs/laplace.md).
    """

    name: ClassVar[str] = "laplace"

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0) -> Self:
        """Return the least noise that costs at most ``epsilon``; no delta is needed."""
        del delta
        epsilon = events.check_epsilon(epsilon)
        reach = sensitivity.l1 + 2
        scale = reach / epsilon
        if scale >= LARGEST_SUM:
            raise ParameterError("epsilon is too small: the noise would not fit into 64 bits.")
        dimension = sensitivity.dimension
        while (stated := float(_measurement("laplace", dimension, scale).map(reach))) > epsilon:
            scale = math.nextafter(scale, math.inf)
        return cls(sensitivity, Laplace(stated), scale)

    @classmethod
    def of_scale(cls, sensitivity: Sensitivity, scale: float) -> Self:
        """Return noise of this ``scale``, in steps; what it costs follows from it."""
        measurement = _measurement("laplace", sensitivity.dimension, scale)
        stated = float(measurement.map(sensitivity.l1 + 2))
        return cls(sensitivity, Laplace(stated), scale)

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2 with q = e^(-1/scale)."""
        return 1 / (2 * math.sinh(0.5 / self.scale) ** 2)

    def _add(self, values: Integers) -> Integers:
        return _opendp(values, _measurement("laplace", values.size, self.scale))


# Outside this many standard deviations a Gaussian coordinate is counted as a failure: 2 e^(-98).
_TAIL_RADIUS = 14.0
# Below this many steps per standard deviation the lattice itself would cost privacy that shows.
_LEAST_SIGMA = 2.0**16


@dataclass(frozen=True)
class GaussianNoise(CellNoise):
    """Protects one unit with (epsilon, delta): discrete Gaussian noise on every coordinate.

    P[noise = k] is proportional to e^(-k^2 / (2 scale^2)), scale = multiplier x l2 with the
    analytic multiplier (Balle & Wang 2018). The lattice noise differs from a rounded continuous
    Gaussian by a factor of at most e^slack outside a set of probability tail; both are inside the
    event (proofs/gaussian.md).
    """

    name: ClassVar[str] = "gaussian"
    needs_delta: ClassVar[bool] = True
    event: Gaussian

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0) -> Self:
        """Return the least noise that costs at most ``epsilon`` at ``delta``."""
        epsilon = events.check_epsilon(epsilon)
        delta = events.check_delta(delta, positive=True)
        multiplier = events.gaussian_multiplier(epsilon, delta)
        while (event := cls._event(sensitivity, multiplier)).epsilon(delta) > epsilon:
            if delta <= 2 * event.tail:
                raise ParameterError(f"delta must exceed {2 * event.tail:.2g} in this dimension.")
            multiplier *= 1 + max(1e-10, 4 * event.slack / epsilon)
        return cls(sensitivity, event, multiplier * sensitivity.l2)

    @classmethod
    def of_scale(cls, sensitivity: Sensitivity, scale: float) -> Self:
        """Return noise of this ``scale``, in steps; what it costs follows from it."""
        return cls(sensitivity, cls._event(sensitivity, scale / sensitivity.l2), scale)

    @staticmethod
    def _event(sensitivity: Sensitivity, multiplier: float) -> Gaussian:
        sigma = multiplier * sensitivity.l2
        if sigma < _LEAST_SIGMA:
            raise ParameterError(
                "The rounding grid is too coarse for Gaussian noise. Use a smaller rounding step."
            )
        reach = _TAIL_RADIUS + 1 / multiplier
        slack = sensitivity.dimension * reach**2 / (24 * sigma**2)
        tail = sensitivity.dimension * 2 * math.exp(-(_TAIL_RADIUS**2) / 2)
        return Gaussian(multiplier * (1 - 1e-12), slack, tail)  # float rounding of scale = z x l2

    @property
    def variance(self) -> float:
        """scale^2, to far below the precision of a float on so fine a lattice."""
        return self.scale**2

    def _add(self, values: Integers) -> Integers:
        return _opendp(values, _measurement("gaussian", values.size, self.scale))


@dataclass(frozen=True)
class KNormNoise(Noise):
    """Protects one unit with pure epsilon: noise whose density falls with the 2-norm.

    P[noise = k] is proportional to e^(-||k||_2 / scale) on the integers, scale = l2 / epsilon
    (Hardt & Talwar 2010 for the 2-norm ball; the lattice sampler is exact, proofs/knorm.md).
    """

    name: ClassVar[str] = "knorm"

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0) -> Self:
        """Return the least noise that costs at most ``epsilon``; no delta is needed."""
        del delta
        epsilon = events.check_epsilon(epsilon)
        scale = sensitivity.l2 / epsilon * (1 + 1e-12)
        return cls(sensitivity, Pure(epsilon), scale)

    @property
    def variance(self) -> float:
        """(dimension + 1) scale^2: the radius is Gamma(dimension) and directions are even."""
        return (self.sensitivity.dimension + 1) * self.scale**2

    def _add(self, values: Integers) -> Integers:
        return values + randomness.knorm_sample(values.size, self.scale)


NOISES: Mapping[str, type[Noise]] = {
    law.name: law for law in (LaplaceNoise, GaussianNoise, KNormNoise)
}


def calibrated_noise(
    name: str, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0
) -> Noise:
    """Return the least noise of this name that costs at most ``epsilon`` at ``delta``.

    Noise with delta = 0 needs no delta, and ignores it.
    """
    if name not in NOISES:
        raise ParameterError(f"{name!r} is not additive noise. Use {' or '.join(NOISES)}.")
    return NOISES[name].calibrated(sensitivity, epsilon, delta)


def needs_delta(name: str) -> bool:
    """Say whether a mechanism of this name adds noise that needs a delta above 0.

    Names that are not in the table (``response``, or a choice such as ``auto``) do not.
    """
    return name in NOISES and NOISES[name].needs_delta
