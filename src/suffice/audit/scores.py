"""Scores of outputs, and the lower bound on a privacy loss that a threshold on a score gives.

A score is a function of an output that is larger where D is likelier than D'. Best is the logarithm
of the likelihood ratio, ln p(output | D) / p(output | D'), wherever densities are known; its values
are the privacy loss. Beside it stand scores that are learnt from outputs: classifiers
(`learnt_scores`), and what exact values and supports show (`support_scores`).

Two neighbouring data sets D and D' are given, and many outputs of each. Some of them choose an
event S, a threshold on a score; fresh ones count how often it comes, k of n under D and k' of n'
under D'. With the limits of Clopper and Pearson (1934),

    p_lo = Beta^-1(alpha/2; k, n - k + 1), q_hi = Beta^-1(1 - alpha/2; k' + 1, n' - k'),

any (epsilon, delta) that the mechanism keeps has epsilon >= ln((p_lo - delta) / q_hi), and any mu
for which it is mu-Gaussian differentially private has mu >= Phi^-1(p_lo) - Phi^-1(q_hi) (Dong, Roth
& Su 2022), but for a probability of alpha. The two counts need not be independent. A bound below a
claim proves nothing: other events, pairs or more samples may still break it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, ndtri

from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise

Score = Callable[[np.ndarray], np.ndarray]
Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of p_lo and q_hi: what they imply
Scored = tuple[np.ndarray, np.ndarray]  # scores of outputs under D and under D'

_THRESHOLDS = 400  # tried per score
_MORE = 0.1  # of a bound, by which a score must exceed those before it
_FEW_HITS, _KNOTS = 64, 120  # that a forecast is computed at, and not interpolated


def log_density(noise: Noise, distance: np.ndarray) -> np.ndarray:
    """Return ln p of noise (n, dimension), up to a constant that does not depend on it."""
    if isinstance(noise, LaplaceNoise):
        return np.asarray(-np.abs(distance).sum(axis=1) / noise.scale)
    if isinstance(noise, GaussianNoise):
        return np.asarray(-((distance / noise.scale) ** 2).sum(axis=1) / 2)
    return np.asarray(-np.linalg.norm(distance, axis=1) / noise.scale)


def shift_score(noise: Noise, first: np.ndarray, second: np.ndarray) -> Score:
    """Return the privacy loss of noise that is added to one of two exact statistics.

    The statistics of the two data sets are in multiples of the noise's step, and so are outputs.
    """
    first, second = first.reshape(1, -1), second.reshape(1, -1)
    return lambda outputs: (
        log_density(noise, outputs - first) - log_density(noise, outputs - second)
    )


def limits(hits: np.ndarray, trials: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper and Pearson's limits of a probability, after ``hits`` of ``trials``.

    Each limit is wrong with a probability of at most alpha / 2. Hits are fractional where they are
    a forecast.
    """
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1e-9), trials - k + 1, alpha / 2), 0.0)
    rest = np.maximum(trials - k, 1e-9)
    high = np.where(k < trials, 1 - betaincinv(rest, k + 1, alpha / 2), 1.0)
    return low, high


def epsilon_measure(delta: float) -> Measure:
    """Return what limits say about epsilon at this delta: ln((p_lo - delta) / q_hi)."""

    def measure(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        excess = np.asarray(low) - delta
        return np.where(excess > 0, np.log(np.maximum(excess, 1e-300) / high), -math.inf)

    return measure


def mu_measure(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return what limits say about a Gaussian-privacy parameter: Phi^-1(p_lo) - Phi^-1(q_hi)."""
    return np.asarray(ndtri(low) - ndtri(high))


@dataclass(frozen=True)
class OutputEvent:
    """The outputs whose ``score``, times ``tail``, is at least ``threshold``."""

    score: str  # its name
    forward: bool  # whether the event is more likely under D than under D'
    tail: int  # 1 for large scores, -1 for small ones
    threshold: float
    expected_bound: float

    def hits(self, scores: np.ndarray) -> int:
        """Return how many of these scores are in the event."""
        return int(np.count_nonzero(self.tail * scores >= self.threshold))


@dataclass(frozen=True)
class Forecast:
    """A forecast of the limits that fresh outputs will give, from the hits of earlier ones.

    The forecast is cautious, because a rare event may have been luck. It lowers the hits under one
    data set by a standard deviation and raises those under the other by a standard deviation and
    one. Between its knots it interpolates. It only helps to choose; no bound depends on it.
    """

    knots: np.ndarray  # numbers of hits
    low: np.ndarray  # the lower limit at each knot
    high: np.ndarray

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, size: int, trials: int, alpha: float) -> "Forecast":
        """Return the forecast for one number of outputs."""
        few = np.arange(min(size, _FEW_HITS) + 1)
        many = np.geomspace(1, size + 1, _KNOTS).astype(int) - 1
        knots = np.unique(np.concatenate([few, size - few, many, size - many]))
        least = np.maximum(knots - np.sqrt(knots), 0)
        most = np.minimum(knots + np.sqrt(knots) + 1, size)
        share = trials / size
        low, high = limits(least * share, trials, alpha)[0], limits(most * share, trials, alpha)[1]
        return cls(knots, low, high)

    def measured(self, measure: Measure, hits: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the expected bounds; a bound that is not a number counts as none."""
        low, high = np.interp(hits, self.knots, self.low), np.interp(others, self.knots, self.high)
        return np.nan_to_num(measure(low, high), nan=-math.inf, posinf=-math.inf)


def choose_event(
    scored: Mapping[str, Scored], measure: Measure, trials: int, alpha: float, *, forward: bool
) -> OutputEvent:
    """Return the event with the largest expected bound from ``trials`` fresh outputs of each.

    Both tails of every score are tried. A score must exceed those before it by a tenth: the first
    is the exact loss, if there is one, and among many others one may look better by luck. Where
    ``forward``, the event is to be more likely under D than under D'.
    """

    def above(scores: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return how many scores are at least each level."""
        return len(scores) - np.searchsorted(np.sort(scores), levels)

    best = OutputEvent(next(iter(scored)), forward, 1, math.inf, -math.inf)
    for name, scores in scored.items():
        likely, other = scores if forward else scores[::-1]
        forecast = Forecast.of(len(likely), trials, alpha)
        least = (
            best.expected_bound + _MORE * abs(best.expected_bound)
            if name != best.score
            else -math.inf
        )
        levels = np.unique(np.concatenate(scores))
        if len(levels) > _THRESHOLDS:
            levels = levels[np.linspace(0, len(levels) - 1, _THRESHOLDS).astype(int)]
        for tail in (1, -1):
            hits, others = (above(tail * s, tail * levels) for s in (likely, other))
            bounds = forecast.measured(measure, hits, others)
            at = int(np.argmax(bounds))
            if bounds[at] > max(least, best.expected_bound):
                best = OutputEvent(name, forward, tail, float(tail * levels[at]), float(bounds[at]))
    return best


def event_bound(
    event: OutputEvent, fresh: Mapping[str, Scored], measure: Measure, alpha: float
) -> float:
    """Return the bound from fresh outputs, which is wrong with a probability of at most alpha."""
    likely, other = fresh[event.score] if event.forward else fresh[event.score][::-1]
    low, _ = limits(np.array(event.hits(likely)), len(likely), alpha)
    _, high = limits(np.array(event.hits(other)), len(other), alpha)
    return float(measure(low, high))
