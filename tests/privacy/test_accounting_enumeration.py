"""Compositions of a few events, computed exactly: what fits a budget, and what choosing can cost.

The losses of all paths are enumerated, or integrated where they are Gaussian. Nothing is drawn.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from suffice.privacy.accounting import composed_epsilon, fits
from suffice.privacy.calibrate import gaussian_delta, gaussian_multiplier
from suffice.privacy.events import Approximate, Event, Gaussian, Pure

EPSILON, DELTA = 1.0, 1e-6


def likely(bound: float) -> float:
    """Return how likely two-state response is to tell the truth."""
    return 1 / (1 + math.exp(-bound))


def delta_after(loss: float, event: Event) -> float:
    """Return what an event adds to delta where earlier ones have had this loss."""
    remaining = EPSILON - loss
    if isinstance(event, Gaussian):
        return gaussian_delta(remaining, event.multiplier)
    assert isinstance(event, Approximate)  # of no loss otherwise
    return event.at_delta + (1 - event.at_delta) * max(0.0, -math.expm1(remaining))


def delta_of(first: Pure, then: tuple[Event, Event]) -> float:
    """Return the exact delta of two-state response and an event that is chosen by its answer."""
    p = likely(first.bound)
    return p * delta_after(first.bound, then[0]) + (1 - p) * delta_after(-first.bound, then[1])


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


def test_a_choice_by_an_earlier_answer_can_exceed_delta_but_not_twice():
    """The limit that proofs/accounting.md states: each list fits, and the tree of both does not."""
    first, normal, approximate = Pure(0.2), Gaussian(5.05), Approximate(1e-9, DELTA * (1 - 1e-9))
    for event in (normal, approximate):
        assert fits([first, event], EPSILON, DELTA)
        assert delta_of(first, (event, event)) <= DELTA
    chosen = delta_of(first, (normal, approximate))
    assert 1.4 * DELTA < chosen <= 2 * DELTA
    assert not fits([first, normal, approximate], EPSILON, DELTA)


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
    z = gaussian_multiplier(EPSILON, 1e-3)
    first = z / math.sqrt(first_share)
    second = z / math.sqrt(1 - first_share)
    assert fits([Gaussian(first), Gaussian(second)], EPSILON, 1e-3 * (1 + 1e-6))

    def added(x: float) -> float:
        loss = x / first + 0.5 / first**2
        if x >= least:
            return gaussian_delta(EPSILON - loss, second) * stats.norm.pdf(x)
        return max(0.0, -math.expm1(EPSILON - loss)) * stats.norm.pdf(x)

    grid = np.linspace(-9, 9, 6001)
    delta = integrate.simpson([added(x) for x in grid], x=grid)
    if least == -math.inf:
        assert delta == pytest.approx(1e-3, rel=1e-6)
    else:
        assert delta < 1e-3 * (1 - 1e-6)
