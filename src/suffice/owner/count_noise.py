"""How class counts of public bags are released: each mechanism is known before a label is read.

A bag of n rows has counts eta in N^K with a public sum n. Replacing one label moves one unit from
one count to another, in each of the at most r (``overlap``) bags that its row is in:

    D1 = 2 r, D2 = sqrt(2 r), and D1 = r where K = 2 and one count says both.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, xlogy

from suffice.errors import ParameterError
from suffice.models.simplex import nearest_proportions
from suffice.privacy.calibrate import check_delta, check_epsilon
from suffice.privacy.dirichlet import (
    DELTA_RULES,
    SIGMA_UNIT,
    bounded_sigma,
    largest_sigma,
    least_kappa,
)
from suffice.privacy.events import Approximate, Event
from suffice.privacy.guarantee import Protection
from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise, Sensitivity
from suffice.privacy.response import draw_balls, enough_balls
from suffice.release.release import Covariance
from suffice.tables.labels import check_classes

__all__ = [
    "FARTHEST",
    "MECHANISMS",
    "AdditiveCounts",
    "BagSizes",
    "BoundedCounts",
    "CountMechanism",
    "CountNoise",
    "DirichletSettings",
    "PriorCounts",
    "ScaledCounts",
    "bag_sizes",
    "best_count_noise",
    "check_settings",
    "count_noise",
    "every_count_noise",
    "mean_size",
]


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


_UNIT = round(1 / SIGMA_UNIT)
_COMPUTED = 32  # sizes for which a prediction is computed


@dataclass(frozen=True)
class PriorCounts:
    """Protects each label as its Laplace noise does: proportions drawn from Dir(noisy counts).

    (Machanavajjhala et al. 2008, as Iyer et al. 2016 compare with it.) The draw is
    post-processing, and adds noise that protects nothing.

    Parameters
    ----------
    laplace : AdditiveCounts
        The counts with Laplace noise that proportions are drawn from.
    kind : Protection
        Whether the guarantee is global; it is.
    """

    laplace: AdditiveCounts
    kind: Protection = Protection.GLOBAL

    @property
    def event(self) -> Event:
        """What one label costs."""
        return self.laplace.event

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return drawn proportions times the sizes."""
        sizes = self.laplace.bags.sizes
        noisy = nearest_proportions(self.laplace.draw(counts) / sizes[:, None]) * sizes[:, None]
        weights = np.rint(noisy * _UNIT).astype(np.int64)
        return np.asarray(sizes[:, None] * np.array([_shares(w) for w in weights]))

    def covariance(self) -> Covariance:
        """Return none: the noise of the draw depends on the counts."""
        return Covariance("none")

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, for which the draw spreads most."""
        classes, scale = self.laplace.bags.classes, self.laplace.scale

        def of(size: int) -> float:
            spread = size * math.sqrt(_even_variance(classes, size))
            first_only = self.laplace.noise_on_first_count_only
            mean = mean_size(classes, spread / scale, first_only=first_only)
            return classes * scale * mean / size

        return _by_size(self.laplace.bags.sizes, of)


@dataclass(frozen=True)
class ScaledCounts:
    """Not differentially private: theta ~ Dir(sigma eta), sigma computed from the counts eta.

    (Iyer et al. 2016, Section 3.) For these counts and their neighbours at the same sigma the loss
    is (epsilon, delta); but a neighbour has another sigma, or none, and then nothing is released.

    Parameters
    ----------
    bags : BagSizes
        What is public about the bags.
    epsilon, delta : float
        The loss at a fixed sigma.
    rule : str
        How sigma is computed: "exact", "tail" (eq. 9) or "chebyshev" (eq. 10).
    kind : Protection
        Whether the guarantee is global; it is not.
    """

    bags: BagSizes
    epsilon: float
    delta: float
    rule: str = "exact"
    kind: Protection = Protection.DATA_DEPENDENT

    def __post_init__(self) -> None:
        if self.rule not in DELTA_RULES:
            raise ParameterError(f"--sigma-rule must be one of {', '.join(DELTA_RULES)}.")

    @property
    def event(self) -> Event:
        """What one label costs at the sigma of this data bag; bags that overlap add up."""
        return Approximate(self.epsilon, self.delta)

    def _sigma(self, counts: np.ndarray) -> float:
        overlap = self.bags.overlap
        sigma = largest_sigma(counts, self.epsilon / overlap, self.delta / overlap, self.rule)
        if sigma is None:
            raise ParameterError(
                "A class is too rare in some bag for this epsilon and delta. (This message depends"
                " on labels; do not publish it.) Raise --epsilon or --delta, or use another"
                " --mechanism."
            )
        return sigma

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return drawn proportions times the sizes; an error where some bag has no sigma."""
        weights = [round(self._sigma(eta) * _UNIT) * eta for eta in counts]
        return np.asarray(self.bags.sizes[:, None] * np.array([_shares(w) for w in weights]))

    def covariance(self) -> Covariance:
        """Return none: it depends on the counts."""
        return Covariance("none")

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, the best case; infinite if they have no sigma."""
        classes = self.bags.classes

        def of(size: int) -> float:
            try:
                sigma = self._sigma(np.full(classes, size / classes))
            except ParameterError:
                return math.inf
            return classes * _even_deviation(classes, sigma * size)

        return _by_size(self.bags.sizes, of)


@dataclass(frozen=True)
class BoundedCounts:
    """Protects each label: theta ~ Dir(sigma (eta + kappa)), sigma and kappa public.

    The worst neighbours have counts (kappa + 1, kappa) and (kappa, kappa + 1), whatever the labels
    are, and decide sigma (proofs/proportions.md). What is released is (n + K kappa) theta - kappa,
    whose mean are the counts. Where no sigma exists it is refused: nothing depends on labels.

    Parameters
    ----------
    bags : BagSizes
        What is public about the bags.
    epsilon, delta : float
        What one label costs.
    requested_kappa : int, optional
        The public addition to every count. Default: the power of two of least distortion.
    kind : Protection
        Whether the guarantee is global; it is.
    """

    bags: BagSizes
    epsilon: float
    delta: float
    requested_kappa: int | None = None
    kind: Protection = Protection.GLOBAL

    def __post_init__(self) -> None:
        if not self.sigma:
            overlap = self.bags.overlap
            least = least_kappa(self.epsilon / overlap, self.delta / overlap)
            raise ParameterError(
                f"This epsilon and delta need a kappa of at least {least}. Use --kappa {least} or"
                " more (Python: kappa=...), or --mechanism gaussian."
            )

    @property
    def event(self) -> Event:
        """What one label costs: the point that sigma was chosen for; overlapping bags add up."""
        return Approximate(self.epsilon, self.delta)

    @property
    def kappa(self) -> int:
        """The public addition to every count."""
        return self._chosen[0]

    @property
    def sigma(self) -> float:
        """The public scale of the parameters."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[int, float]:
        """Return kappa and sigma: the requested kappa, or a power of two of least distortion."""
        overlap, requested = self.bags.overlap, self.requested_kappa
        largest = max(1, int(self.bags.sizes.max()))
        tried = [2**k for k in range(largest.bit_length() + 1)]
        least, chosen = math.inf, (requested or 1, 0.0)
        for kappa in [requested] if requested is not None else tried:
            sigma = bounded_sigma(kappa, self.epsilon / overlap, self.delta / overlap)
            if sigma is None:
                continue
            distortion = float(self._distortion(kappa, sigma).mean())
            if distortion < least:
                least, chosen = distortion, (kappa, sigma)
        return chosen

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return noisy counts; those of a bag sum to its size."""
        padded = round(self.sigma * _UNIT) * (counts + self.kappa)
        shares = np.array([_shares(w) for w in padded])
        totals = self.bags.sizes + self.bags.classes * self.kappa
        return np.asarray(totals[:, None] * shares - self.kappa)

    def covariance(self) -> Covariance:
        """Return none: it depends on the counts."""
        return Covariance("none")

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, for which the draw spreads most."""
        return self._distortion(self.kappa, self.sigma)

    def _distortion(self, kappa: int, sigma: float) -> np.ndarray:
        classes = self.bags.classes

        def of(size: int) -> float:
            total = size + classes * kappa
            return classes * total / size * _even_deviation(classes, sigma * total)

        return _by_size(self.bags.sizes, of)


CountNoise = AdditiveCounts | PriorCounts | ScaledCounts | BoundedCounts  # of some bags


def _shares(weights: np.ndarray) -> np.ndarray:
    """Return the shares of many balls drawn from the urn of Dir(weights x SIGMA_UNIT)."""
    balls = enough_balls(float(weights.sum()) / _UNIT)
    return draw_balls(weights.tolist(), _UNIT, balls) / balls


def _by_size(sizes: np.ndarray, of: Callable[[int], float]) -> np.ndarray:
    """Return ``of`` each size: of many sizes some are computed, and those between interpolated."""
    different = np.unique(sizes)
    if len(different) > _COMPUTED:
        different = different[np.linspace(0, len(different) - 1, _COMPUTED).astype(int)]
    computed = np.array([of(int(size)) for size in different])
    between = np.interp(np.log(sizes), np.log(different), np.log(computed))
    return np.exp(np.where(np.isnan(between), math.inf, between))  # next to a size that has none


def _even_variance(classes: int, total: float) -> float:
    """Return the variance of one share drawn from Dir of even parameters that sum to ``total``."""
    return (1 - 1 / classes) / classes / (total + 1) * (1 + total / enough_balls(total))


def _even_deviation(classes: int, total: float) -> float:
    """Return the mean absolute deviation of one such share.

    That of Beta(a, b) is 2 a^a b^b / (B(a, b) (a + b)^(a + b + 1)); finitely many balls widen it.
    """
    a = total / classes
    b = total - a
    logs = float(xlogy(a, a) + xlogy(b, b) - betaln(a, b) - xlogy(total + 1, total))
    return 2 * math.exp(logs) * math.sqrt(1 + total / enough_balls(total))


FARTHEST = 2.0  # the largest L1 distance of two proportions


@dataclass(frozen=True)
class DirichletSettings:
    """Settings of the Dirichlet mechanisms.

    Parameters
    ----------
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count; public.
    sigma_rule : str
        How sigma of scaled-dirichlet follows from private counts: exact, tail or chebyshev.
    """

    kappa: int | None = None
    sigma_rule: str = "exact"


MECHANISMS: Mapping[str, Callable[[BagSizes, float, float, DirichletSettings], CountNoise]] = {
    "laplace": lambda bags, epsilon, _, __: AdditiveCounts.laplace(bags, epsilon),
    "gaussian": lambda bags, epsilon, delta, _: AdditiveCounts.gaussian(bags, epsilon, delta),
    "laplace-prior": lambda bags, epsilon, _, __: PriorCounts(
        AdditiveCounts.laplace(bags, epsilon)
    ),
    "scaled-dirichlet": lambda bags, epsilon, delta, settings: ScaledCounts(
        bags, epsilon, delta, settings.sigma_rule
    ),
    "scaled-dirichlet-bounded": lambda bags, epsilon, delta, settings: BoundedCounts(
        bags, epsilon, delta, settings.kappa
    ),
}


class CountMechanism(StrEnum):
    """The mechanisms of counts; the first one takes the least predicted distortion."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    LAPLACE_PRIOR = "laplace-prior"
    SCALED = "scaled-dirichlet"
    BOUNDED = "scaled-dirichlet-bounded"


_PURE = ("laplace", "laplace-prior")
_UNSOUND = ("scaled-dirichlet",)


def count_noise(
    name: str,
    bags: BagSizes,
    epsilon: float,
    delta: float,
    settings: DirichletSettings | None = None,
) -> CountNoise:
    """Return one mechanism, calibrated for these bags."""
    if name not in MECHANISMS:
        raise ParameterError(f"The mechanism must be one of auto, {', '.join(MECHANISMS)}.")
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta, positive=name not in _PURE)
    return MECHANISMS[name](bags, epsilon, delta, settings or DirichletSettings())


def best_count_noise(
    bags: BagSizes, epsilon: float, delta: float, settings: DirichletSettings | None = None
) -> tuple[str, CountNoise]:
    """Return the mechanism of least predicted distortion among those with a global guarantee.

    The prediction is that before negative counts are cut off, which does not depend on labels; so
    the choice costs no privacy.
    """
    every = every_count_noise(bags, epsilon, delta, settings)
    sound = {name: noise for name, noise in every.items() if name not in _UNSOUND}
    best = min(sound, key=lambda name: float(sound[name].distortion().mean()))
    return best, sound[best]


def every_count_noise(
    bags: BagSizes, epsilon: float, delta: float, settings: DirichletSettings | None = None
) -> dict[str, CountNoise]:
    """Return every mechanism that exists at this epsilon and delta, by its name."""
    noises = {}
    for name in MECHANISMS:
        if not delta > 0 and name not in _PURE:
            continue
        try:
            noises[name] = count_noise(name, bags, epsilon, delta, settings)
        except ParameterError:
            if name not in ("scaled-dirichlet-bounded", *_UNSOUND):
                raise
    return noises


def check_settings(mechanism: str, delta: float, kappa: int | None, sigma_rule: str | None) -> None:
    """Raise if a setting does not belong to the mechanism; auto takes kappa, if it has a delta."""
    if kappa is not None and mechanism == "auto" and not delta:
        raise ParameterError("--kappa cannot be used without --delta. Remove --kappa.")
    unused = []
    if kappa is not None and mechanism not in {"auto", "scaled-dirichlet-bounded"}:
        unused.append("--kappa")
    if sigma_rule is not None and mechanism != "scaled-dirichlet":
        unused.append("--sigma-rule")
    if unused:
        raise ParameterError(
            f"{unused[0]} cannot be used with --mechanism {mechanism}. Remove {unused[0]}."
        )


def bag_sizes(sizes: Sequence[int], classes: int | Sequence[Any], overlap: int = 1) -> BagSizes:
    """Return the public facts about some bags, checked."""
    rows = np.asarray(sizes)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 1:
        raise ParameterError("sizes must list the number of rows of every bag, each at least 1.")
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if number < 2:
        raise ParameterError("There must be two classes or more.")
    if not 1 <= overlap <= len(rows):
        raise ParameterError(
            f"overlap is the largest number of bags that one row is in: from 1 to {len(rows)}."
        )
    return BagSizes(rows, number, int(overlap))
