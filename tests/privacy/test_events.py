"""Events: exact curves, exact JSON, and composition that never flatters."""

import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.privacy.accounting import (
    Composed,
    compose_events,
    composed_epsilon,
    event_from_json,
    fits,
    loss_distribution,
)
from suffice.privacy.events import Approximate, Gaussian, Laplace, Pure, Unbounded

bounds = st.floats(1e-3, 10)
events = st.one_of(
    bounds.map(Pure),
    bounds.map(Laplace),
    st.builds(Gaussian, st.floats(0.1, 100), st.floats(0, 1e-6), st.floats(0, 1e-30)),
    st.builds(Approximate, bounds, st.floats(0, 0.1)),
    st.just(Unbounded()),
)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@given(events)
def test_json_round_trip_is_exact(event):
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    both = Composed((event, Pure(1.0)))
    assert event_from_json(json.loads(json.dumps(both.to_json()))) == both


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"event": "pure"},
        {"event": "pure", "bound": "1"},
        {"event": "pure", "bound": True},
        {"event": "pure", "bound": -1},
        {"event": "pure", "bound": 1, "more": 2},
        {"event": "gaussian", "multiplier": 0},
        {"event": "gaussian", "multiplier": 1e-200},
        {"event": "gaussian", "multiplier": 1e200},
        {"event": "composed", "events": []},
        {"event": "composed", "events": "all"},
        {"event": "composed", "events": [{"event": "composed", "events": []}]},
    ],
)
def test_malformed_events_are_corrupt(data):
    with pytest.raises(CorruptFileError):
        event_from_json(data)


def test_an_event_of_the_future_is_not_guessed_at():
    with pytest.raises(UnsupportedFileError):
        event_from_json({"event": "quantum", "bound": 1})
    with pytest.raises(UnsupportedFileError):
        event_from_json({"event": ["pure"], "bound": 1})


@given(bounds, st.floats(1e-9, 0.5))
def test_pure_curve_is_that_of_two_state_response(bound, delta):
    p = np.array([1.0, math.exp(-bound)]) / (1 + math.exp(-bound))
    epsilon = Pure(bound).epsilon(delta)
    assert hockey_stick(p, p[::-1], epsilon) <= delta + 1e-15
    if epsilon > 1e-6:
        assert hockey_stick(p, p[::-1], epsilon * 0.999) > delta


@pytest.mark.parametrize("bound", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.2])
def test_laplace_curve_is_that_of_two_laplace_densities(bound, delta):
    grid = np.linspace(-30 / bound, 30 / bound + 1, 2_000_001)
    step = grid[1] - grid[0]
    p = np.exp(-bound * np.abs(grid)) * bound / 2 * step
    q = np.exp(-bound * np.abs(grid - 1)) * bound / 2 * step
    epsilon = Laplace(bound).epsilon(delta)
    if epsilon > 0:
        assert hockey_stick(p, q, epsilon) == pytest.approx(delta, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(
    "event", [Pure(0.7), Laplace(0.7), Gaussian(2.0), Approximate(0.5, 1e-3)], ids=lambda e: e.name
)
def test_the_distribution_of_an_event_has_its_curve(event):
    for delta in (1e-3, 0.01, 0.1):
        by_distribution = loss_distribution(event).get_epsilon_for_delta(delta)
        assert event.epsilon(delta) <= by_distribution + 1e-9
        assert by_distribution <= event.epsilon(delta) + 2e-4


@settings(max_examples=25)
@given(st.lists(events.filter(lambda e: e.name != "unbounded"), min_size=1, max_size=5))
def test_composition_costs_at_least_the_dearest_part_and_at_most_the_sum(parts):
    delta = 0.3
    total = composed_epsilon(parts, delta)
    finite_parts = [part for part in parts if math.isfinite(part.epsilon(delta))]
    if math.isfinite(total):
        assert total >= max((part.epsilon(delta) for part in finite_parts), default=0.0) - 1e-6
    pure = [part for part in parts if isinstance(part, Pure)]
    if len(pure) == len(parts):
        assert total <= math.fsum(part.bound for part in pure) + 1e-12
        assert composed_epsilon(parts, 0.0) == math.fsum(part.bound for part in pure)


def test_composed_gaussians_add_in_squares():
    parts = [Gaussian(4.0)] * 16
    assert composed_epsilon(parts, 1e-6) == pytest.approx(Gaussian(1.0).epsilon(1e-6), rel=1e-9)


def test_a_long_series_of_gaussians_costs_what_one_does_and_no_plain_sum():
    """Of 1,800 the plain sum is above 200, where no distribution is asked: none is needed."""
    gaussian = Gaussian(42.0, slack=1e-12, tail=1e-18)
    exact = Gaussian(42.0 / math.sqrt(1800)).epsilon(1e-5)
    assert composed_epsilon([gaussian] * 1800, 1e-5) == pytest.approx(exact, rel=1e-6)
    assert composed_epsilon([gaussian] * 1800, 1e-5) >= exact
    assert composed_epsilon([gaussian] * 1800, 1e-12) >= Gaussian(42.0 / 1800**0.5).epsilon(1e-12)
    mixed = composed_epsilon([*[gaussian] * 1800, Laplace(0.5)], 1e-5)
    assert exact < mixed < exact + 0.5
    assert math.fsum([gaussian.epsilon(1e-5 / 1800)] * 1800) > 200


def test_composition_of_many_small_losses_beats_the_sum_and_is_true():
    """Against a brute-force convolution of 30 two-state responses."""
    bound, times, delta = 0.1, 30, 1e-4
    up = math.exp(bound) / (1 + math.exp(bound))
    k = np.arange(times + 1)
    log_choose = np.array(
        [math.lgamma(times + 1) - math.lgamma(i + 1) - math.lgamma(times - i + 1) for i in k]
    )
    p = np.exp(log_choose + k * math.log(up) + (times - k) * math.log(1 - up))
    epsilon = composed_epsilon([Pure(bound)] * times, delta)
    assert epsilon < bound * times
    assert hockey_stick(p, p[::-1], epsilon) <= delta
    assert hockey_stick(p, p[::-1], epsilon - 0.02) > delta


@pytest.mark.parametrize("delta", [1e-15, 1e-13, 1e-12, 1e-10])
def test_composition_is_true_even_where_the_floats_of_a_convolution_end(delta):
    """Against the exact binomial sum with 50 digits."""
    bound, times = 0.01, 1000
    epsilon = composed_epsilon([Pure(bound)] * times, delta)
    with mpmath.workdps(50):
        up = 1 / (1 + mpmath.exp(-mpmath.mpf(bound)))
        true = mpmath.fsum(
            mpmath.binomial(times, k)
            * max(
                up**k * (1 - up) ** (times - k)
                - mpmath.exp(epsilon) * up ** (times - k) * (1 - up) ** k,
                0,
            )
            for k in range(times + 1)
        )
    assert true <= delta


def test_an_enormous_loss_is_summed_and_fills_no_memory():
    assert composed_epsilon([Laplace(1e5), Laplace(1e5)], 1e-5) <= 2e5
    assert composed_epsilon([Gaussian(1e-3), Pure(1.0)], 1e-5) > 1e5
    assert composed_epsilon([Gaussian(1e-6)] * 2, 1e-5) > 1e11  # too large for one event to state


def test_laplace_composes_better_than_any_pure_mechanism():
    laplace = composed_epsilon([Laplace(1.0)] * 10, 1e-6)
    assert laplace < composed_epsilon([Pure(1.0)] * 10, 1e-6)


def test_nothing_fits_an_unbounded_loss_and_no_events_fit_anything():
    assert not fits([Unbounded()], 1e9, 0.5)
    assert composed_epsilon([Pure(1.0), Unbounded()], 0.1) == math.inf
    assert fits([], 1e-9, 0.0)


def test_a_gaussian_never_fits_a_pure_budget():
    assert not fits([Gaussian(100.0)], 1e6, 0.0)


def test_composing_flattens_and_refuses_nothing():
    event = compose_events([Pure(1.0), Pure(2.0)])
    assert compose_events([event, Pure(3.0)]) == Composed((Pure(1.0), Pure(2.0), Pure(3.0)))
    assert compose_events([Pure(1.0)]) == Pure(1.0)
    with pytest.raises(ParameterError, match="There is no event to compose"):
        compose_events([])


def test_slack_and_tail_only_ever_cost():
    exact, lattice = Gaussian(2.0), Gaussian(2.0, slack=1e-6, tail=1e-9)
    assert lattice.epsilon(1e-6) > exact.epsilon(1e-6)
    assert lattice.epsilon(1e-9) == math.inf
    assert composed_epsilon([lattice, lattice], 1e-6) > composed_epsilon([exact, exact], 1e-6)


def test_what_the_lattice_costs_is_kept_whole_in_a_composition():
    """Delta loses the tail and the factor e^slack, epsilon gains twice the slack: no less of it."""
    slack, tail, delta = 0.01, 4e-7, 1e-6
    lattice, exact = Gaussian(2.0, slack, tail), Gaussian(2.0)
    remaining = (delta - tail) * math.exp(-slack)
    stated_epsilon = lattice.epsilon(delta)
    assert stated_epsilon == pytest.approx(exact.epsilon(remaining) + 2 * slack, rel=1e-12)
    for other in (Laplace(0.3), Pure(0.3)):
        expected = composed_epsilon([exact, other], remaining) + 2 * slack
        assert composed_epsilon([lattice, other], delta) == pytest.approx(expected, rel=1e-5)


def test_deltas_of_several_losses_add_up():
    """Two chances of an infinite loss are more than either: 1 - .99^2 = .0199 at least."""
    event = Approximate(1.0, 0.01)
    assert event.epsilon(0.009) == math.inf
    assert composed_epsilon([event, event], 0.0198) == math.inf
    assert composed_epsilon([event, event], 0.0201) <= 2.0
    assert not fits([event, event], 1e9, 0.0198)


def test_a_delta_that_covers_one_gaussian_does_not_cover_two():
    """At delta = .1 one of these costs nothing at all, and two cost what their join does."""
    gaussian = Gaussian(4.0)
    assert gaussian.epsilon(0.1) == 0
    joined = Gaussian(4.0 / math.sqrt(2)).epsilon(0.1)
    assert composed_epsilon([gaussian, gaussian], 0.1) == pytest.approx(joined, rel=1e-9)
    assert not fits([gaussian, gaussian], 0.01, 0.1)
