"""Scaled Dirichlet: its exact delta against brute force, the bounds in print, and the urn."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betaln, gammaln

from suffice.errors import ParameterError
from suffice.kernels import response as kernel
from suffice.privacy.dirichlet import (
    bounded_sigma,
    chebyshev_delta,
    exact_delta,
    largest_sigma,
    least_kappa,
    pair_delta,
    tail_delta,
)
from suffice.privacy.response import draw_balls, enough_balls

PAIRS = [
    (50, 50, 0.8, 0.05),
    (3, 800, 0.3, 0.2),
    (800, 3, 0.3, 0.2),
    (2, 1, 0.05, 1.0),
    (21, 20, 0.3, 0.05),
    (1000, 900, 16.0, 0.5),
    (2, 50, 0.02, 0.125),  # both cuts lie where a share, or one less it, is below 1e-12
]
counts_of_sets = st.lists(st.integers(2, 60), min_size=2, max_size=5)
scales = st.floats(0.02, 4.0)
losses = st.floats(0.01, 2.0)


def beta_divergence(first: tuple, second: tuple, epsilon: float) -> float:
    """Return the hockey-stick divergence of two Beta laws by a sum over the logit."""
    a, b = np.minimum(first, second)
    middle, half = np.log(a / b), 14 * np.sqrt(1 / a + 1 / b) + 40 / min(a, b)
    x = np.linspace(middle - half, middle + half, 400_001)
    above, below = -np.logaddexp(0, -x), -np.logaddexp(0, x)
    logs = [a * above + b * below - betaln(a, b) for a, b in (first, second)]
    gaps = np.maximum(np.exp(logs[0]) - np.exp(epsilon + logs[1]), 0)
    return float(gaps.sum() * (x[1] - x[0]))


@pytest.mark.parametrize(("one", "two", "sigma", "epsilon"), PAIRS)
def test_the_exact_delta_is_the_integral_both_ways(one, two, sigma, epsilon):
    stayed = (sigma * one, sigma * two)
    moved = (sigma * (one - 1), sigma * (two + 1))
    forward = beta_divergence(stayed, moved, epsilon)
    back = beta_divergence(moved, stayed, epsilon)
    computed = float(pair_delta(one, two, sigma, epsilon))
    assert computed == pytest.approx(max(forward, back), rel=1e-5, abs=1e-9)
    assert computed > 1.0001 * min(forward, back) or forward == pytest.approx(back, rel=1e-3)


def test_a_whole_dirichlet_costs_no_more_than_its_pair_of_shares():
    """Three classes, summed over the simplex: only theta_i / theta_j carries the change."""
    counts, sigma, epsilon = np.array([6.0, 9.0, 12.0]), 0.7, 0.1
    grid = (np.arange(700) + 0.5) / 700
    x, y = np.meshgrid(grid, grid)
    inside = x + y < 1
    theta = np.stack([x[inside], y[inside], 1 - x[inside] - y[inside]])

    def density(a: np.ndarray) -> np.ndarray:
        return np.exp(((a - 1)[:, None] * np.log(theta)).sum(axis=0) + gammaln(a.sum())) / np.exp(
            gammaln(a).sum()
        )

    for i, j in permutations(range(3), 2):
        after = counts.copy()
        after[i] -= 1
        after[j] += 1
        before, moved = density(sigma * counts), density(sigma * after)
        both = [(before, moved), (moved, before)]
        summed = [np.maximum(p - math.exp(epsilon) * q, 0).sum() / 700**2 for p, q in both]
        expected = float(pair_delta(counts[i], counts[j], sigma, epsilon))
        assert max(summed) == pytest.approx(expected, rel=0.01)


@given(counts_of_sets, scales, losses)
@settings(max_examples=50)
def test_the_two_rarest_classes_decide(counts, sigma, epsilon):
    every = [float(pair_delta(a, b, sigma, epsilon)) for a, b in permutations(counts, 2)]
    assert exact_delta(counts, sigma, epsilon) == pytest.approx(max(0.0, *every), abs=1e-12)


@given(st.integers(1, 40), st.lists(st.integers(0, 60), min_size=2, max_size=4), scales, losses)
def test_no_counts_cost_more_than_the_worst_pair(kappa, counts, sigma, epsilon):
    worst = float(pair_delta(kappa + 1, kappa, sigma, epsilon))
    for a, b in permutations(counts, 2):
        if a >= 1:
            assert float(pair_delta(a + kappa, b + kappa, sigma, epsilon)) <= worst + 1e-12


def test_a_rare_class_has_no_delta_at_all():
    assert exact_delta([1, 500], 0.5, 1.0) == exact_delta([0, 500], 0.5, 1.0) == 1.0
    assert largest_sigma([1, 500], 1.0, 0.1) is None


@given(counts_of_sets, losses, st.sampled_from([0.2, 0.05, 1e-3]))
@settings(max_examples=30)
def test_sigma_is_the_largest_that_keeps_delta(counts, epsilon, delta):
    sigma = largest_sigma(counts, epsilon, delta)
    if sigma is None:
        assert exact_delta(counts, 1e-6, epsilon) > delta - 1e-9
        return
    assert exact_delta(counts, sigma, epsilon) <= delta
    assert exact_delta(counts, 1.001 * sigma, epsilon) > delta or sigma > 1000


@pytest.mark.parametrize("kappa", [1, 5, 10])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_as_sigma_falls_delta_falls_to_a_closed_form(kappa, epsilon):
    """Far below the smallest float: theta_j < e^-10000 happens, and is counted."""
    limit = math.exp(-kappa * epsilon) / (2 * kappa + 1)
    assert float(pair_delta(kappa + 1, kappa, 1e-5, epsilon)) == pytest.approx(limit, rel=1e-3)
    assert bounded_sigma(kappa, epsilon, 0.99 * limit) is None
    assert bounded_sigma(kappa, epsilon, 1.01 * limit) is not None


def test_the_least_kappa_is_the_least():
    least = least_kappa(0.05, 1e-3)
    assert bounded_sigma(least, 0.05, 1e-3) is not None
    assert bounded_sigma(least - 1, 0.05, 1e-3) is None
    with pytest.raises(ParameterError, match="delta"):
        least_kappa(0.05, 1e-11)
    for bad in (0, -1, 2.5, True):
        with pytest.raises(ParameterError, match="kappa"):
            bounded_sigma(bad, 0.05, 0.05)


def logit_tail(a: float, b: float, cut: float) -> float:
    """Return P[ln(x / (1 - x)) > cut] for x ~ Beta(a, b) by a sum over the logit."""
    half = 14 * math.sqrt(1 / a + 1 / b) + 40 / min(a, b)
    if cut >= math.log(a / b) + half:
        return 0.0
    low = max(cut, math.log(a / b) - half)
    x = np.linspace(low, math.log(a / b) + half, 20_001)
    density = np.exp(-a * np.logaddexp(0, -x) - b * np.logaddexp(0, x) - betaln(a, b))
    return float(np.trapezoid(density, x))


@given(counts_of_sets, scales, losses)
@settings(max_examples=30)
def test_the_bounds_in_print_lie_above_what_they_bound(counts, sigma, epsilon):
    tail = tail_delta(counts, sigma, epsilon)
    likely = []
    for a, b in permutations(sigma * np.array(counts, dtype=np.float64), 2):
        cut = gammaln(a) - gammaln(a - sigma) + gammaln(b) - gammaln(b + sigma)
        likely.append(logit_tail(a, b, (cut + epsilon) / sigma))
    assert tail == pytest.approx(max(likely), abs=2e-5)
    assert chebyshev_delta(counts, sigma, epsilon) >= tail - 1e-9


def test_eq_9_as_printed_and_the_exact_delta_at_the_papers_setting():
    """Section 4.1, m = 1000, c = 5, (.05, .05): .31 by eq. 9, .036 exact; printed is .06."""
    counts = np.array([50, 50, 50, 50, 800])
    rng = np.random.default_rng(0)
    distortion = {}
    for rule in ("exact", "tail"):
        sigma = largest_sigma(counts, 0.05, 0.05, rule)
        theta = rng.dirichlet(sigma * counts, 4000)
        distortion[rule] = np.abs(theta - counts / 1000).sum(axis=1).mean()
    assert distortion["exact"] == pytest.approx(0.036, abs=0.001)
    assert distortion["tail"] == pytest.approx(0.31, abs=0.01)
    assert largest_sigma(counts, 0.05, 0.05, "chebyshev") is None
    with pytest.raises(ParameterError, match="rule"):
        largest_sigma(counts, 0.05, 0.05, "guess")


@pytest.mark.parametrize(
    ("rare", "epsilon", "delta", "leaks"), [(10, 1.0, 1e-5, 0.05), (7, 0.05, 0.05, 0.14)]
)
def test_sigma_that_depends_on_private_counts_breaks_the_promise(rare, epsilon, delta, leaks):
    """Two neighbours have two sigmas, and one label is seen far beyond the stated delta."""
    one, other = np.array([rare, 1000 - rare]), np.array([rare + 1, 999 - rare])
    scaled = [largest_sigma(c, epsilon, delta) * c for c in (one, other)]
    true = beta_divergence(tuple(scaled[0]), tuple(scaled[1]), epsilon)
    assert true > leaks
    assert leaks > 2 * delta
    fixed = [largest_sigma(one, epsilon, delta) * c for c in (one, other)]
    assert beta_divergence(tuple(fixed[0]), tuple(fixed[1]), epsilon) <= delta


def test_whether_there_is_a_sigma_tells_a_label():
    assert largest_sigma([6, 994], 0.05, 0.05) is None
    assert largest_sigma([7, 993], 0.05, 0.05) is not None


# --- the urn


def slow_urn(weights: list[int], unit: int, words: list[int], most: int) -> list[int]:
    """Return what the kernel draws, by Python's integers."""
    state, counts = list(weights), [0] * len(weights)
    for word in words:
        if sum(counts) == most:
            break
        total = sum(state)
        index = word >> (64 - max(1, (total - 1).bit_length()))
        if index >= total:
            continue
        for k, weight in enumerate(state):
            if index < weight:
                state[k] += unit
                counts[k] += 1
                break
            index -= weight
    return counts


@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=5).filter(any),
    st.integers(1, 2**30),
    st.integers(0, 300),
    st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_the_kernel_draws_what_integers_say(weights, unit, most, seed):
    words = np.random.default_rng(seed).integers(0, 2**64, 200, dtype=np.uint64)
    counts = np.zeros(len(weights), dtype=np.int64)
    state = np.array(weights, dtype=np.uint64)
    count = kernel.draw_balls(state, np.uint64(unit), words, most, counts)
    assert counts.tolist() == slow_urn(weights, unit, [int(w) for w in words], most)
    assert count == counts.sum()
    assert state.tolist() == [w + unit * n for w, n in zip(weights, counts.tolist(), strict=True)]


def chi_square(seen: np.ndarray, weights: list[float], balls: int) -> float:
    """Return the p-value of counts of the first colour under the Beta-binomial law."""
    law = stats.betabinom(balls, weights[0], sum(weights[1:]))
    expected = law.pmf(np.arange(balls + 1)) * len(seen)
    return float(stats.chisquare(np.bincount(seen, minlength=balls + 1), expected).pvalue)


def test_balls_follow_the_dirichlet_and_ten_per_cent_less_noise_is_noticed():
    """The stream is seeded: the first p-value is what it is, the second is tiny for any seed."""
    weights, unit, balls = [6, 3, 3], 2, 12
    samples = np.array([draw_balls(weights, unit, balls)[0] for _ in range(6000)])
    parameters = [w / unit for w in weights]
    assert chi_square(samples, parameters, balls) > 1e-4
    less = [p / 0.81 for p in parameters]  # the deviation of theta falls by 10 %
    assert chi_square(samples, less, balls) < 1e-6


def test_an_urn_must_hold_something_and_not_too_much():
    for weights, balls in (([0, 0], 5), ([-1, 3], 5), ([1, 1], 0), ([2**62, 1], 5)):
        with pytest.raises(ParameterError):
            draw_balls(weights, 1, balls)
    with pytest.raises(ParameterError, match="too large"):
        draw_balls([1, 1], 2**60, 4)  # would grow beyond 2^62
    assert draw_balls([0, 7], 3, 50).tolist() == [0, 50]


def test_enough_balls_hardly_widen_the_draw():
    for total in (10.0, 1e3, 16e3):
        assert 1 + total / enough_balls(total) <= 1.017
    assert enough_balls(1e12) == 2**20


def test_an_epsilon_beyond_the_floats_costs_what_one_within_them_does_at_most():
    for epsilon in (800.0, 1e6):
        assert pair_delta(3.0, 2.0, 0.5, epsilon) <= pair_delta(3.0, 2.0, 0.5, 500.0)
    assert bounded_sigma(4, 800.0, 1e-6) >= bounded_sigma(4, 500.0, 1e-6)
