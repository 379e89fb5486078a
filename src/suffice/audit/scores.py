"""Scores of outputs, and the lower bound on a privacy loss that a threshold on a score gives.

A score is a function of an output that is larger where D is likelier than D'. Best is the logarithm
of the likelihood ratio, ln p(output | D) / p(output | D'), wherever densities are known; its values
are the privacy loss. Beside it stand scores that are learnt from outputs: classifiers (`learnt`),
and what exact values and supports show (`atoms`).

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
from scipy.special import betaincinv, logsumexp, ndtri

from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise

__all__ = [
    "Forecast",
    "Measure",
    "OutputEvent",
    "Score",
    "Scored",
    "choose_event",
    "epsilon_measure",
    "event_bound",
    "limits",
    "log_density",
    "mixture_score",
    "mu_measure",
    "shift_score",
]

Score = Callable[[np.ndarray], np.ndarray]
Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of p_lo and q_hi: what they imply
Scored = tuple[np.ndarray, np.ndarray]  # scores of outputs under D and under D'

_THRESHOLDS = 400  # tried per score
_MORE = 0.1  # of a bound, that a score has to promise beyond those before it
_FEW_HITS, _KNOTS = 64, 120  # that a forecast is computed at, and not interpolated


def log_density(noise: Noise, distance: np.ndarray) -> np.ndarray:
    """Return ln p of noise (n, dimension), up to a constant that does not depend on it."""
    if isinstance(noise, LaplaceNoise):
        return -np.abs(distance).sum(axis=1) / noise.scale
    if isinstance(noise, GaussianNoise):
        return -((distance / noise.scale) ** 2).sum(axis=1) / 2
    return -np.linalg.norm(distance, axis=1) / noise.scale


def shift_score(noise: Noise, one: np.ndarray, two: np.ndarray, unit: float = 1.0) -> Score:
    """Return the privacy loss of noise on either of two exact statistics, in steps of ``unit``."""
    return mixture_score(noise, [one], [two], unit)


def mixture_score(
    noise: Noise, ones: list[np.ndarray], twos: list[np.ndarray], unit: float = 1.0
) -> Score:
    """Return the loss where the exact statistic is one of ``ones``, or of ``twos``, at random."""

    def log_mean(outputs: np.ndarray, means: list[np.ndarray]) -> np.ndarray:
        logs = [log_density(noise, outputs / unit - m.reshape(1, -1)) for m in means]
        return np.asarray(logsumexp(logs, axis=0))

    return lambda outputs: log_mean(outputs, ones) - log_mean(outputs, twos)


def limits(hits: np.ndarray, trials: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper and Pearson's limits of a probability: each fails with at most alpha / 2.

    ``hits`` may be fractional where they are only expected.
    """
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1e-9), trials - k + 1, alpha / 2), 0.0)
    rest = np.maximum(trials - k, 1e-9)
    high = np.where(k < trials, 1 - betaincinv(rest, k + 1, alpha / 2), 1.0)
    return low, high


def epsilon_measure(delta: float) -> Measure:
    """Return what limits say about epsilon at this delta: ln((p_lo - delta) / q_hi)."""

    def measure(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        left = np.asarray(low) - delta
        return np.where(left > 0, np.log(np.maximum(left, 1e-300) / high), -math.inf)

    return measure


def mu_measure(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return what limits say about a Gaussian-privacy parameter: Phi^-1(p_lo) - Phi^-1(q_hi)."""
    return np.asarray(ndtri(low) - ndtri(high))


@dataclass(frozen=True)
class OutputEvent:
    """The outputs whose ``score``, times ``tail``, is at least ``threshold``.

    It is likelier under D than under D' if it is ``forward``, else the other way round. ``promise``
    is the bound that it is expected to give.
    """

    score: str
    forward: bool
    tail: int
    threshold: float
    promise: float

    def hits(self, scores: np.ndarray) -> int:
        """Return how many of these scores are in the event."""
        return int(np.count_nonzero(self.tail * scores >= self.threshold))


@dataclass(frozen=True)
class Forecast:
    """What the limits of ``trials`` fresh outputs will be about, after hits of ``size`` others.

    Hits are counted a deviation less, and those under the other data set a deviation and one more,
    than they were: an event that has rarely been seen is not taken at its word. Between its knots
    it is interpolated, which is good enough to choose by; no bound rests on it.
    """

    knots: np.ndarray
    low: np.ndarray
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
        """Return the bounds that are to be expected; what is no number counts as none."""
        low, high = np.interp(hits, self.knots, self.low), np.interp(others, self.knots, self.high)
        return np.nan_to_num(measure(low, high), nan=-math.inf, posinf=-math.inf)


def choose_event(
    scored: Mapping[str, Scored], measure: Measure, trials: int, alpha: float, *, forward: bool
) -> OutputEvent:
    """Return the event that promises the largest bound from ``trials`` fresh outputs of each.

    Either tail of every score is tried. A score has to promise a tenth more than those before it:
    the first is the exact loss, if there is one, and of many others one promises too much by luck.
    """
    best = OutputEvent(next(iter(scored)), forward, 1, math.inf, -math.inf)
    for name, scores in scored.items():
        likely, other = scores if forward else scores[::-1]
        forecast = Forecast.of(len(likely), trials, alpha)
        least = best.promise + _MORE * abs(best.promise) if name != best.score else -math.inf
        levels = np.unique(np.concatenate(scores))
        if len(levels) > _THRESHOLDS:
            levels = levels[np.linspace(0, len(levels) - 1, _THRESHOLDS).astype(int)]
        for tail in (1, -1):
            hits, others = (_above(tail * s, tail * levels) for s in (likely, other))
            promised = forecast.measured(measure, hits, others)
            at = int(np.argmax(promised))
            if promised[at] > max(least, best.promise):
                best = OutputEvent(
                    name, forward, tail, float(tail * levels[at]), float(promised[at])
                )
    return best


def _above(scores: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return how many scores are at least each level."""
    return len(scores) - np.searchsorted(np.sort(scores), levels)


def event_bound(
    event: OutputEvent, fresh: Mapping[str, Scored], measure: Measure, alpha: float
) -> float:
    """Return the bound that fresh outputs give, wrong with a probability of at most alpha."""
    likely, other = fresh[event.score] if event.forward else fresh[event.score][::-1]
    low, _ = limits(np.array(event.hits(likely)), len(likely), alpha)
    _, high = limits(np.array(event.hits(other)), len(other), alpha)
    return float(measure(low, high))
