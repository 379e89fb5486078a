"""What sums of fair coins hide: the cost of binomial numbers that are moved by one.

A rado's coordinate of a column coded -1, +1 is K - q, K ~ Bin(m, 1/2) and q a count that one
changed value moves by one (Nock, Patrini & Friedman 2015, Section 5.1). K may be held to
low..m - low, which is their DP-Feat. The loss of one number is

    l(k) = ln P[K = k] / P[K = k - 1] = ln((m - k + 1) / k),

and infinite at k = low. By symmetry both directions cost the same. The proof is
``privacy/proofs/rados.md``.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.privacy import events
from suffice.privacy.accounting import CONVOLUTION_ERROR, LEAST_DELTA

_ROUNDING = 1e-9  # relative: far above what a binomial probability and n products lose
_CELLS = 200  # of the grid per standard deviation of one loss
_TAIL = 6.5  # sqrt(m): P[|K - m/2| > 6.5 sqrt(m)] < 2 e^(-84), counted as infinite loss


def truncation(trials: int, epsilon: float) -> int:
    """Return the least K that DP-Feat keeps at its per-rado ``epsilon`` (eq. 16).

    With beta = 1/(1 + e^(epsilon/2)) it keeps K in [beta (m + 1), m - beta (m + 1)].
    """
    beta = 1 / (1 + math.exp(events.check_epsilon(epsilon) / 2))
    low = math.ceil(beta * (trials + 1))
    if 2 * low > trials:
        beta = (trials // 2) / (trials + 1)  # where beta (m + 1) = floor(m / 2)
        least = 2 * math.log((1 - beta) / beta) if beta > 0 else math.inf
        raise ParameterError(
            f"This truncation leaves no subset sums: with {trials} rows it must exceed {least:.3g}."
        )
    return low


def edge_mass(trials: int, low: int = 0) -> float:
    """Return P[K = low] of the truncated K: the chance of an infinite loss in one number."""
    from scipy.stats import binom

    mass = 1 - 2 * binom.cdf(low - 1, trials, 0.5)
    return min(1.0, float(binom.pmf(low, trials, 0.5) / mass) * (1 + _ROUNDING))


def shift_epsilon(trials: int, draws: int, delta: float, low: int = 0) -> float:
    """Return the epsilon at ``delta`` of ``draws`` independent numbers, all moved by one.

    Infinite where the edges alone weigh more: 1 - (1 - P[K = low])^draws > delta.
    """
    delta = events.read_delta(delta, positive=True)
    if delta <= LEAST_DELTA:
        raise ParameterError(f"delta must exceed {LEAST_DELTA:g} for binomial numbers.")
    remaining = delta * (1 - _ROUNDING) - CONVOLUTION_ERROR
    composed = _loss_distribution(trials, low).self_compose(draws)
    return float(composed.get_epsilon_for_delta(remaining)) * (1 + _ROUNDING) + _ROUNDING


@lru_cache(maxsize=16)
def _loss_distribution(trials: int, low: int) -> Any:
    """Return the loss distribution of one number on a grid that dominates the exact one.

    An atom of mass p and loss l between two grid points g < h is split so that its mass under
    either data set stays what it is: p' = p (e^-g - e^-l) / (e^-g - e^-h) goes to h. That spreads
    the likelihood ratio and keeps its mean, hence no divergence falls.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import binom

    reach = math.ceil(_TAIL * math.sqrt(trials))
    first, last = max(low + 1, trials // 2 - reach), min(trials - low, trials // 2 + reach)
    outcomes = np.arange(first, last + 1)
    masses = binom.pmf(outcomes, trials, 0.5) / (1 - 2 * binom.cdf(low - 1, trials, 0.5))
    losses = np.log((trials - outcomes + 1) / outcomes)
    infinite = edge_mass(trials, low) if first == low + 1 else 0.0
    infinite = max(infinite, 1 - float(masses.sum()), 0.0)
    interval = 2 / math.sqrt(trials) / _CELLS
    cells = np.floor(losses / interval).astype(np.int64)
    over = losses - cells * interval
    upper = masses * np.expm1(-over) / math.expm1(-interval)
    totals: dict[int, float] = {}
    for cell, low_mass, high_mass in zip(cells, masses - upper, upper, strict=True):
        totals[int(cell)] = totals.get(int(cell), 0.0) + float(low_mass)
        totals[int(cell) + 1] = totals.get(int(cell) + 1, 0.0) + float(high_mass)
    pmf = pld_pmf.create_pmf(totals, interval, infinite, pessimistic_estimate=True)
    return pld.PrivacyLossDistribution(pmf)


def most_draws(trials: int, epsilon: float, delta: float, low: int = 0) -> int:
    """Return how many numbers fit into (epsilon, delta); none may."""
    fitting, beyond = 0, 1
    while shift_epsilon(trials, beyond, delta, low) <= epsilon:
        fitting, beyond = beyond, 2 * beyond
        if beyond > trials:
            break
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        if shift_epsilon(trials, middle, delta, low) <= epsilon:
            fitting = middle
        else:
            beyond = middle
    return fitting
