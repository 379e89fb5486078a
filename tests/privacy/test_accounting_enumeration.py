"""Compositions of a few events, computed exactly: pure ones and Gaussians keep what they state.

The losses of all paths are enumerated, or integrated where they are Gaussian. Nothing is drawn.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from suffice.privacy.accounting import composed_epsilon, fits
from suffice.privacy.events import Gaussian, Pure, gaussian_delta, gaussian_multiplier

EPSILON, DELTA = 1.0, 1e-6


def likely(bound: float) -> float:
    """Return how likely two-state response is to tell the truth."""
    return 1 / (1 + math.exp(-bound))


@pytest.mark.parametrize("bound", [0.2, 0.6])
def test_a_list_that_is_fixed_costs_what_is_stated_and_hardly_less(bound):
    first, then = Pure(bound), Gaussian(12.0)
    stated = composed_epsilon([first, then], DELTA)
    p = likely(bound)

    def delta(epsilon: float) -> float:
        return p * gaussian_delta(epsilon - bound, 12.0) + (1 - p) * gaussian_delta(
            epsilon + bound, 12.0
        )

    assert delta(stated) <= DELTA < delta(stated - 1e-3)


def test_pure_events_keep_their_sum_however_they_are_chosen():
    """Two answers, then a bound that depends on them: all paths, in both data sets."""
    rest = {(0, 0): 0.5, (0, 1): 0.25, (1, 0): 0.125, (1, 1): 0.4}
    largest = 0.0
    for path in itertools.product((0, 1), repeat=3):
        bounds = (0.3, 0.2, rest[path[:2]])
        assert fits([Pure(b) for b in bounds], EPSILON, 0.0)
        signs = [1 if approximate else -1 for approximate in path]
        largest = max(largest, abs(sum(s * b for s, b in zip(signs, bounds, strict=True))))
    assert largest == 1.0


@pytest.mark.parametrize("first_share", [0.2, 0.7])
@pytest.mark.parametrize("least", [-math.inf, 0.5, 1.5, math.inf])
def test_gaussians_keep_their_delta_however_they_are_chosen(first_share, least):
    """A second one only where the first has gone badly: never more than one of the same precision.

    Where it always comes, delta is that of the budget; where it comes sometimes, it is less.
    """
    share = 0.9e-3  # of a budget of delta 1e-3, for Gaussians alone
    z = gaussian_multiplier(EPSILON, share)
    first = z / math.sqrt(first_share)
    second = z / math.sqrt(1 - first_share)
    gaussians = [Gaussian(first), Gaussian(second)]
    assert fits(gaussians, EPSILON + 3e-6, 1e-3)
    assert not fits(gaussians, EPSILON - 1e-6, 1e-3)

    def added(x: float) -> float:
        loss = x / first + 0.5 / first**2
        if x >= least:
            return gaussian_delta(EPSILON - loss, second) * stats.norm.pdf(x)
        return max(0.0, -math.expm1(EPSILON - loss)) * stats.norm.pdf(x)

    grid = np.linspace(-9, 9, 6001)
    delta = integrate.simpson([added(x) for x in grid], x=grid)
    if least == -math.inf:
        assert delta == pytest.approx(share, rel=1e-6)
    else:
        assert delta < share * (1 - 1e-6)
