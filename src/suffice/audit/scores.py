"""Scores of outputs, and the lower bound on a privacy loss that a threshold on a score gives.

A score is a function of an output that is larger where D is likelier than D'. Best is the logarithm
of the likelihood ratio, ln p(output | D) / p(output | D'), wherever densities are known; its values
are the privacy loss. Where they are not, the ratio of counts of a few discrete outcomes, or a
classifier that was trained to tell the two apart.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, logsumexp, ndtri

from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise

__all__ = [
    "Measure",
    "OutputEvent",
    "Score",
    "Scored",
    "choose_event",
    "epsilon_measure",
    "event_bound",
    "learnt_score",
    "limits",
    "log_density",
    "mixture_score",
    "mu_measure",
    "off_grid",
    "shift_score",
]

Score = Callable[[np.ndarray], np.ndarray]
Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of p_lo and q_hi: what they imply
Scored = tuple[np.ndarray, np.ndarray]  # scores of outputs under D and under D'

_FEW = 64  # outcomes, up to which they are counted one by one
_GRID = 2.0**-53
_THRESHOLDS = 400  # tried per score


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


def off_grid(outputs: np.ndarray) -> np.ndarray:
    """Return 1 where a number is no multiple of 2^-53: noise in floating point shows what it hides.

    (Mironov 2012: which floats come out depends on what the noise was added to.)
    """
    steps = outputs / _GRID  # exact: a power of two
    return (steps != np.rint(steps)).any(axis=1).astype(np.float64)


def learnt_score(one: np.ndarray, two: np.ndarray, seed: int) -> tuple[Score, ...]:
    """Return scores learnt from outputs under D and under D', for outputs of unknown density.

    Few discrete outcomes are counted: their score is the logarithm of the ratio. Others are told
    apart by a linear classifier and by trees.
    """
    if np.issubdtype(one.dtype, np.integer):
        outcomes, places = np.unique(np.concatenate([one, two]), axis=0, return_inverse=True)
        if len(outcomes) <= _FEW:
            return (_counted(outcomes, places.ravel(), len(one)),)
    return _trained(one, two, seed)


def _counted(outcomes: np.ndarray, places: np.ndarray, first: int) -> Score:
    counts = np.bincount(places[:first], minlength=len(outcomes)) + 0.5
    others = np.bincount(places[first:], minlength=len(outcomes)) + 0.5
    ratios = {row.tobytes(): r for row, r in zip(outcomes, np.log(counts / others), strict=True)}
    return lambda outputs: np.array([ratios.get(row.tobytes(), 0.0) for row in outputs])


def _trained(one: np.ndarray, two: np.ndarray, seed: int) -> tuple[Score, ...]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    outputs = np.concatenate([one, two]).astype(np.float64)
    labels = np.repeat([1, 0], [len(one), len(two)])
    trees = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=30, random_state=seed
    )
    models = (make_pipeline(StandardScaler(), LogisticRegression()), trees)
    return tuple(model.fit(outputs, labels).decision_function for model in models)


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
    """The outputs whose score number ``which``, times ``tail``, is at least ``threshold``.

    It is likelier under D than under D' if it is ``forward``, else the other way round. ``promise``
    is the bound that it is expected to give.
    """

    which: int
    forward: bool
    tail: int
    threshold: float
    promise: float

    def hits(self, scores: np.ndarray) -> int:
        """Return how many of these scores are in the event."""
        return int(np.count_nonzero(self.tail * scores >= self.threshold))


def choose_event(
    scored: Sequence[Scored], measure: Measure, trials: int, alpha: float, *, forward: bool
) -> OutputEvent:
    """Return the event that promises the largest bound from ``trials`` fresh outputs of each.

    Either tail of every score is tried. Hits are counted a deviation less, and those under the
    other data set a deviation and one more, than they were: an event that has rarely been seen is
    not taken at its word.
    """
    best = OutputEvent(0, forward, 1, math.inf, -math.inf)
    for which, scores in enumerate(scored):
        likely, other = scores if forward else scores[::-1]
        levels = np.unique(np.concatenate(scores))
        if len(levels) > _THRESHOLDS:
            levels = levels[np.linspace(0, len(levels) - 1, _THRESHOLDS).astype(int)]
        for tail in (1, -1):
            hits, others = (_above(tail * s, tail * levels) for s in (likely, other))
            share = trials / len(likely)
            low, _ = limits(np.maximum(hits - np.sqrt(hits), 0) * share, trials, alpha)
            most = np.minimum((others + np.sqrt(others) + 1) * share, trials)
            promised = measure(low, limits(most, trials, alpha)[1])
            promised = np.nan_to_num(promised, nan=-math.inf, posinf=-math.inf)
            at = int(np.argmax(promised))
            if promised[at] > best.promise:
                best = OutputEvent(
                    which, forward, tail, float(tail * levels[at]), float(promised[at])
                )
    return best


def _above(scores: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return how many scores are at least each level."""
    return len(scores) - np.searchsorted(np.sort(scores), levels)


def event_bound(
    event: OutputEvent, fresh: Sequence[Scored], measure: Measure, alpha: float
) -> float:
    """Return the bound that fresh outputs give, wrong with a probability of at most alpha."""
    likely, other = fresh[event.which] if event.forward else fresh[event.which][::-1]
    low, _ = limits(np.array(event.hits(likely)), len(likely), alpha)
    _, high = limits(np.array(event.hits(other)), len(other), alpha)
    return float(measure(low, high))
