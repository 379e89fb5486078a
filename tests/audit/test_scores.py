"""The bound against closed forms, from both sides: never above the truth, and not far below it."""

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from suffice.audit.scores import (
    choose_event,
    epsilon_measure,
    event_bound,
    learnt_score,
    limits,
    mu_measure,
    off_grid,
)
from suffice.audit.search import Space, worst_pairs
from suffice.privacy.calibrate import gaussian_epsilon

ALPHA = 1e-6  # of each bound below: the chance that a test here fails without reason


def bound_of(draw, measure, *, forward=True, trials=40_000):
    """Return the bound from fresh scores, after other scores chose the event."""
    some, fresh = ([draw(trials // 4)], [draw(trials)])
    event = choose_event(some, measure, trials, ALPHA, forward=forward)
    return event_bound(event, fresh, measure, ALPHA)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 50), (50, 50), (777, 1000)])
def test_limits_are_those_of_clopper_and_pearson(hits, trials):
    interval = binomtest(hits, trials).proportion_ci(0.98, method="exact")
    assert np.allclose(limits(np.array(hits), trials, 0.02), (interval.low, interval.high))


def test_limits_fail_no_more_often_than_they_say():
    rng = np.random.default_rng(1)
    hits = rng.binomial(200, 0.1, 20_000)
    low, high = limits(hits, 200, 0.1)
    for failed in (low > 0.1, high < 0.1):
        assert 0.01 < failed.mean() < 0.05  # at most alpha / 2, and not nothing


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("forward", [True, False])
def test_laplace_noise_is_bounded_from_both_sides(epsilon, forward):
    """On a grid: plain floats leak more than epsilon, and the rounding of the score shows it."""
    rng = np.random.default_rng(int(10 * epsilon))

    def losses(count):
        noisy = (at + rng.laplace(size=count) / epsilon for at in (0, 1))
        outputs = (np.rint(x * 2.0**20) / 2.0**20 for x in noisy)
        return tuple(epsilon * (np.abs(x - 1) - np.abs(x)) for x in outputs)

    found = bound_of(losses, epsilon_measure(0.0), forward=forward)
    assert 0.85 * epsilon < found <= epsilon


def test_gaussian_noise_is_bounded_by_its_parameter_and_by_its_curve():
    rng, mu, delta = np.random.default_rng(2), 1.3, 0.01

    def shifted(count):
        return rng.normal(size=count) + mu, rng.normal(size=count)

    assert 0.93 * mu < bound_of(shifted, mu_measure) <= mu
    epsilon = gaussian_epsilon(delta, 1 / mu)
    assert 0.75 * epsilon < bound_of(shifted, epsilon_measure(delta)) <= epsilon


def test_delta_is_subtracted():
    """An output that comes from one data set only, once in a hundred, is what delta allows."""
    rng = np.random.default_rng(3)

    def rare(count):
        return (rng.random(count) < 0.01).astype(float), np.zeros(count)

    assert bound_of(rare, epsilon_measure(0.0)) > 3
    assert bound_of(rare, epsilon_measure(0.01)) <= 0


def test_either_direction_can_be_the_one_that_tells():
    rng = np.random.default_rng(4)

    def uneven(count):
        return tuple((rng.random(count) < p).astype(float) for p in (0.001, 0.1))

    there, back = (bound_of(uneven, epsilon_measure(0.0), forward=f) for f in (True, False))
    assert there < 0.2
    assert 3.5 < back <= np.log(100)


def test_either_tail_of_a_score_is_tried():
    rng = np.random.default_rng(5)

    def wrong_way(count):
        return rng.normal(size=count) - 2, rng.normal(size=count)

    assert 1.8 < bound_of(wrong_way, mu_measure) <= 2


def test_the_search_finds_what_trying_all_finds():
    space = Space(((0, 1, 2),) * 4)
    weights = np.array([3.0, -1.0, 7.0, 2.0])

    def distance(one, two):
        return float(abs((np.array(one) ** 2 - np.array(two) ** 2) @ weights)) * (1 + one[0])

    found = worst_pairs(space, distance, np.random.default_rng(6))[0]
    everything = itertools.product(space.choices[0], repeat=4)
    neighbours = (
        (one, (*one[:i], c, *one[i + 1 :]))
        for one in everything
        for i in range(4)
        for c in range(3)
    )
    assert distance(found.one, found.two) == max(distance(*pair) for pair in neighbours)
    assert sum(a != b for a, b in zip(found.one, found.two, strict=True)) == 1


def test_only_units_that_may_change_do():
    space = Space(((0, 1), (0, 1, 2)), changing=(1,))
    for pair in worst_pairs(space, lambda a, b: abs(a[0] - b[0]), np.random.default_rng(0), 9):
        assert pair.one[0] == pair.two[0]


def test_the_float_event_tells_floating_point_noise_from_integers():
    rng = np.random.default_rng(7)
    shares = [off_grid(at + rng.laplace(size=(50_000, 1))).mean() for at in (0.0, 1.0)]
    assert shares[0] > 100 * shares[1]
    assert not off_grid(rng.integers(-(2**40), 2**40, (1000, 2)) * 2.0**-30).any()


def test_learnt_scores_see_counts_and_shapes():
    rng = np.random.default_rng(8)
    codes = [rng.choice(3, (4000, 1), p=p) for p in ((0.6, 0.3, 0.1), (0.2, 0.3, 0.5))]
    (counted,) = learnt_score(*codes, seed=0)
    assert np.allclose(
        counted(np.array([[0], [1], [2], [7]])), [np.log(3), 0, -np.log(5), 0], atol=0.25
    )
    rings = [rng.normal(size=(2000, 2)) * r for r in (1.0, 3.0)]  # no line parts these
    linear, trees = learnt_score(*rings, seed=0)
    fresh = rng.normal(size=(2000, 2)), 3 * rng.normal(size=(2000, 2))
    assert np.mean(trees(fresh[0]) > 0) + np.mean(trees(fresh[1]) < 0) > 1.5
    assert np.mean(linear(fresh[0]) > 0) + np.mean(linear(fresh[1]) < 0) < 1.3
