"""The analytic Gaussian, against dp-accounting and from both sides."""

import math

import mpmath
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import ParameterError
from suffice.privacy.events import gaussian_delta, gaussian_epsilon, gaussian_multiplier

GRID = [(e, d) for e in (1e-6, 0.01, 0.1, 1.0, 4.0, 20.0) for d in (1e-15, 1e-9, 1e-6, 1e-3, 0.2)]


def exact_delta(epsilon: float, multiplier: float) -> float:
    """Balle & Wang, Theorem 8, with 60 digits."""
    with mpmath.workdps(60):
        z, e = mpmath.mpf(multiplier), mpmath.mpf(epsilon)
        upper, lower = 1 / (2 * z) - e * z, -1 / (2 * z) - e * z
        return float(mpmath.ncdf(upper) - mpmath.exp(e) * mpmath.ncdf(lower))


@given(st.floats(0, 30), st.floats(0.05, 200))
def test_delta_is_exact_to_nine_digits(epsilon, multiplier):
    exact = exact_delta(epsilon, multiplier)
    if exact > 1e-300:
        assert gaussian_delta(epsilon, multiplier) == pytest.approx(exact, rel=1e-9)


@given(st.floats(-2, 9), st.floats(-1, 30))
def test_delta_keeps_twelve_digits_whatever_the_multiplier(size, shift):
    """Also where the two terms are nearly the same, in the tail and on either side of it."""
    multiplier = 10.0**size
    epsilon = max(0.0, shift + min(0.5 / multiplier, 2.0)) / multiplier
    exact = exact_delta(epsilon, multiplier)
    if exact > 1e-300:
        assert gaussian_delta(epsilon, multiplier) == pytest.approx(exact, rel=2e-12)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_multiplier_is_enough_and_a_billionth_less_is_not(epsilon, delta):
    z = gaussian_multiplier(epsilon, delta)
    assert exact_delta(epsilon, z) <= delta
    assert exact_delta(epsilon, z * (1 - 1e-9)) > delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-5), (4.0, 1e-3)])
def test_multiplier_agrees_with_dp_accounting(epsilon, delta):
    z = gaussian_multiplier(epsilon, delta)
    assert gaussian_mechanism.get_epsilon_gaussian(z, delta) == pytest.approx(epsilon, rel=1e-6)
    loss = pld.from_gaussian_mechanism(z, value_discretization_interval=1e-4)
    assert loss.get_epsilon_for_delta(delta) == pytest.approx(epsilon, abs=2e-4)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_epsilon_inverts_the_multiplier_and_rounds_up(epsilon, delta):
    z = gaussian_multiplier(epsilon, delta)
    epsilon_found = gaussian_epsilon(delta, z)
    assert epsilon_found == pytest.approx(epsilon, rel=1e-9, abs=1e-10)
    assert exact_delta(epsilon_found, z) <= delta


@given(st.floats(-15, -0.7), st.floats(-2, 6))
def test_epsilon_is_enough_and_a_billionth_less_is_not(size, scale):
    delta, multiplier = 10.0**size, 10.0**scale
    epsilon = gaussian_epsilon(delta, multiplier)
    assert exact_delta(epsilon, multiplier) <= delta
    if epsilon > 1e-5:
        assert exact_delta(epsilon * (1 - 1e-9), multiplier) > delta


def test_epsilon_is_zero_where_delta_alone_covers_the_difference():
    assert gaussian_epsilon(0.5, 10.0) == 0.0


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        gaussian_multiplier(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, -1e-9, 1, math.nan])
def test_an_impossible_delta_is_refused(delta):
    with pytest.raises(ParameterError, match="delta"):
        gaussian_multiplier(1.0, delta)
