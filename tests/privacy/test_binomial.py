"""Sums of fair coins moved by one: the stated epsilon beside exact enumeration."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.privacy.binomial import edge_mass, most_draws, shift_epsilon, truncation
from suffice.privacy.events import gaussian_epsilon


def law(trials: int, low: int) -> dict[int, float]:
    weights = {k: math.comb(trials, k) for k in range(low, trials - low + 1)}
    return {k: w / sum(weights.values()) for k, w in weights.items()}


def exact_delta(epsilon: float, trials: int, draws: int, low: int) -> float:
    """Return the hockey-stick divergence of ``draws`` numbers, outcome by outcome."""
    weights = law(trials, low)
    outcomes = range(low, trials - low + 2)
    total = 0.0
    for numbers in product(outcomes, repeat=draws):
        p = math.prod(weights.get(k, 0.0) for k in numbers)
        q = math.prod(weights.get(k - 1, 0.0) for k in numbers)
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize(("trials", "draws"), [(8, 1), (9, 2), (12, 3), (40, 2)])
@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("share", [0.002, 0.05])
def test_epsilon_is_enough_and_hardly_more(trials, draws, low, share):
    delta = 1 - (1 - edge_mass(trials, low)) ** draws + share
    epsilon = shift_epsilon(trials, draws, delta, low)
    assert exact_delta(epsilon, trials, draws, low) <= delta
    assert exact_delta(epsilon * 0.995 - 1e-4, trials, draws, low) > delta


@pytest.mark.parametrize("low", [0, 1, 3])
def test_the_edge_is_the_mass_of_its_outcome(low):
    assert edge_mass(9, low) == pytest.approx(law(9, low)[low], rel=1e-8)
    assert edge_mass(9, low) >= law(9, low)[low]


def test_where_the_edges_weigh_more_than_delta_nothing_is_finite():
    edges = 1 - (1 - edge_mass(20, 5)) ** 3
    assert shift_epsilon(20, 3, edges * 0.999, 5) == math.inf
    assert math.isfinite(shift_epsilon(20, 3, edges * 1.001, 5))


def test_theorem_six_hides_an_edge():
    """M = 1000 at epsilon .1: .0185 before the truncation, .033 in what is published."""
    low = truncation(1000, 0.1)
    kept = sum(math.comb(1000, k) for k in range(low, 1000 - low + 1)) / 2**1000
    plain = math.comb(1000, low) / 2**1000
    estimate = math.sqrt(2 / (math.pi * 1000)) * math.exp(-1000 * 0.1**2 / 32)
    assert estimate == pytest.approx(0.0185, abs=5e-5)
    assert plain == pytest.approx(estimate, rel=0.03)
    assert kept == pytest.approx(0.57, abs=0.005)
    assert edge_mass(1000, low) == pytest.approx(plain / kept, rel=1e-8)
    assert edge_mass(1000, low) == pytest.approx(0.033, abs=5e-4)
    page = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
    assert "that is .0185" in page
    assert "a chance of .57" in page
    assert "in a published rado is .033" in page
    inside = np.arange(low + 1, 1000 - low + 1)
    assert np.abs(np.log((1000 - inside + 1) / inside)).max() <= 0.1 / 2


def test_the_set_of_rados_is_empty_below_four_over_m():
    with pytest.raises(ParameterError, match="leaves no subset sums"):
        truncation(1000, 3.9 / 1000)
    assert truncation(1000, 4.1 / 1000) == 500


@pytest.mark.parametrize(("rows", "draws"), [(17_118, 1000), (11_000_000, 1000), (2000, 40)])
def test_many_rows_are_a_gaussian_of_two_sqrt_n_over_m(rows, draws):
    near = gaussian_epsilon(1e-6, 1 / (2 * math.sqrt(draws / rows)))
    assert near < shift_epsilon(rows, draws, 1e-6) == pytest.approx(near, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_truncation_costs_more_than_it_saves(epsilon):
    untruncated = shift_epsilon(1000, 50, 0.01)
    low = truncation(1000, epsilon)
    assert untruncated <= shift_epsilon(1000, 50, 0.01, low) * (1 + 1e-4)


def test_the_most_draws_fit_and_one_more_does_not():
    most = most_draws(5000, 1.0, 1e-6)
    assert shift_epsilon(5000, most, 1e-6) <= 1.0 < shift_epsilon(5000, most + 1, 1e-6)
    assert most_draws(5000, 0.01, 1e-6) == 0


def test_a_delta_that_floats_cannot_hold_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        shift_epsilon(1000, 10, 1e-12)
