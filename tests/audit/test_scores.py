"""The bound against closed forms, from both sides: never above the truth, and not far below it."""

import numpy as np
import pytest
from scipy.stats import binomtest

from suffice.audit.scores import (
    Forecast,
    choose_event,
    epsilon_measure,
    event_bound,
    limits,
    mu_measure,
)
from suffice.privacy.events import gaussian_epsilon

ALPHA = 1e-6  # of each bound below: the chance that a test here fails without reason


def bound_of(draw, measure, *, forward=True, trials=40_000):
    """Return the bound from fresh scores, after other scores chose the event."""
    some, fresh = ({"score": draw(n)} for n in (trials // 4, trials))
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

    bound = bound_of(losses, epsilon_measure(0.0), forward=forward)
    assert 0.85 * epsilon < bound <= epsilon


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

    forward_bound, backward_bound = (
        bound_of(uneven, epsilon_measure(0.0), forward=f) for f in (True, False)
    )
    assert forward_bound < 0.2
    assert 3.5 < backward_bound <= np.log(100)


def test_either_tail_of_a_score_is_tried():
    rng = np.random.default_rng(5)

    def wrong_way(count):
        return rng.normal(size=count) - 2, rng.normal(size=count)

    assert 1.8 < bound_of(wrong_way, mu_measure) <= 2


def test_a_forecast_is_what_the_limits_are_at_its_knots_and_between():
    size, trials, alpha = 5000, 20_000, 1e-5
    forecast = Forecast.of(size, trials, alpha)
    hits = np.arange(size + 1)
    least, most = np.maximum(hits - np.sqrt(hits), 0), np.minimum(hits + np.sqrt(hits) + 1, size)
    low, high = limits(least * 4, trials, alpha)[0], limits(most * 4, trials, alpha)[1]
    assert np.allclose(np.interp(hits, forecast.knots, forecast.low), low, rtol=0.01, atol=2e-5)
    assert np.allclose(np.interp(hits, forecast.knots, forecast.high), high, rtol=0.01)


def test_a_later_score_has_to_promise_more():
    rng = np.random.default_rng(6)
    shifted = rng.normal(size=4000) + 1, rng.normal(size=4000)
    slightly = shifted[0] + 0.01, shifted[1]
    much = shifted[0] + 1, shifted[1]
    choices = [{"first": shifted, "second": other} for other in (slightly, much)]
    chosen = [choose_event(c, mu_measure, 4000, ALPHA, forward=True).score for c in choices]
    assert chosen == ["first", "second"]
