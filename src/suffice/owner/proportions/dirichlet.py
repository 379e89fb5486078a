"""Class counts released as draws of a Dirichlet: Laplace prior, scaled, and scaled with kappa.

All three draw in integers (privacy/urn.py). None of them is better than Gaussian noise where that
is allowed (bench/proportions.py); they are here to be compared with, and the last one to show what
makes the second one sound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betaln, xlogy

from suffice.errors import ParameterError
from suffice.models.simplex import nearest_proportions
from suffice.owner.proportions.noise import AdditiveCounts, BagSizes, mean_size
from suffice.privacy.dirichlet import (
    DELTA_RULES,
    SIGMA_UNIT,
    bounded_sigma,
    largest_sigma,
    least_kappa,
)
from suffice.privacy.events import Approximate, Event
from suffice.privacy.guarantee import Protection
from suffice.privacy.urn import draw_balls, enough_balls
from suffice.release.covariance import Covariance

__all__ = ["BoundedCounts", "CountNoise", "PriorCounts", "ScaledCounts"]

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
