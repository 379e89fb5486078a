"""Randomised response: integer probabilities, exact cost, and a kernel equal to its slow twin."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from suffice.errors import ParameterError
from suffice.privacy.response import Response

ALARM = 1e-6
ASYMMETRIC = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]])
# The largest ratio is 5 within a row, and 4.5 within a column.
FLAT = np.array([[0.5, 0.1, 0.25], [0.25, 0.45, 0.375], [0.25, 0.45, 0.375]])
RESPONSES = {
    "two": Response.from_epsilon(2, 1.0),
    "many": Response.from_epsilon(300, 2.0),
    "kept": Response.keep_else_uniform(4, 0.6),
    "any": Response.from_matrix(ASYMMETRIC),
    "flat": Response.from_matrix(FLAT),
    "liar": Response.from_matrix(np.array([[0.2, 0.8], [0.8, 0.2]])),
    "wide": Response.from_matrix(np.full((20, 20), 0.04) + 0.2 * np.eye(20)),
}


def slow_answer(response: Response, state: int, word: int) -> int:
    """Walk through the integer weights; for keep-else-uniform the kept weight comes first."""
    uniform = response._uniform_weights
    if uniform:
        same, width = uniform
        if word < same:
            return state
        others = [i for i in range(response.states) if i != state]
        return others[(word - same) // width]
    for answer, weight in enumerate(response.weights[state]):
        if word < weight:
            return answer
        word -= weight
    raise AssertionError


def edge_words(response: Response, state: int) -> list[int]:
    """Return words at and around every threshold."""
    uniform = response._uniform_weights
    steps = response.weights[state]
    if uniform:
        steps = (uniform[0], *[uniform[1]] * (response.states - 1))
    ends = np.cumsum(np.array(steps, dtype=object))
    near = {int(e) + d for e in [0, *ends] for d in (-2, -1, 0, 1, 2)}
    return sorted(w for w in near if 0 <= w < 2**64)


@pytest.mark.parametrize("name", RESPONSES)
def test_the_kernel_equals_its_slow_twin_at_every_threshold(name):
    response = RESPONSES[name]
    rng = np.random.default_rng(0)
    for state in range(min(response.states, 20)):
        words = edge_words(response, state) + rng.integers(0, 2**64, 50, dtype=np.uint64).tolist()
        states = np.full(len(words), state, dtype=np.int16)
        answers = np.empty_like(states)
        assert response._kernel()(states, np.array(words, dtype=np.uint64), answers)
        assert answers.tolist() == [slow_answer(response, state, int(w)) for w in words]


@pytest.mark.parametrize("name", RESPONSES)
def test_epsilon_is_the_largest_ratio_within_a_row(name):
    response = RESPONSES[name]
    rows = list(zip(*response.weights, strict=True))
    exact = max(Fraction(max(row), min(row)) for row in rows)
    assert response.event.bound >= math.log(exact.numerator) - math.log(exact.denominator)
    assert response.event.bound == pytest.approx(math.log(exact), rel=1e-9)
    assert all(sum(column) == 2**64 for column in response.weights)


def test_the_stated_epsilon_is_rounded_up():
    """Against 60 digits: e^epsilon is never below the ratio of the integer weights."""
    rng = np.random.default_rng(4)
    for states in rng.integers(2, 9, 200).tolist():
        response = Response.from_epsilon(states, float(rng.uniform(0.01, 9.0)))
        same, width, bound = *response.weights[0][:2], response.event.bound
        with mpmath.workdps(60):
            exact = mpmath.log(same) - mpmath.log(width)
            assert exact <= mpmath.mpf(bound) <= exact + mpmath.mpf(10) ** -12


@settings(max_examples=30)
@given(st.integers(2, 100), st.floats(1e-3, 20))
def test_from_epsilon_never_costs_more_and_wastes_nothing(states, epsilon):
    bound = Response.from_epsilon(states, epsilon).event.bound
    assert epsilon - 1e-9 < bound <= epsilon


def test_answers_have_the_stated_probabilities_and_ten_percent_less_noise_is_rejected():
    response = RESPONSES["any"]
    count = 60_000
    for state in range(3):
        answers = response.randomise(np.full(count, state, dtype=np.uint8))
        observed = np.bincount(answers, minlength=3)
        truth = response.matrix[:, state]
        assert stats.chisquare(observed, truth * count).pvalue > ALARM
        less = truth * 0.9
        less[state] = 1 - np.delete(less, state).sum()
        assert stats.chisquare(observed, less * count).pvalue < ALARM


def test_answers_to_one_record_do_not_depend_on_another():
    response = RESPONSES["two"]
    moved = response.randomise(np.zeros(100_000, dtype=np.uint8)).astype(float)
    moved -= moved.mean()
    correlation = float((moved[:-1] * moved[1:]).mean() / moved.var())
    assert abs(correlation) < 5 / math.sqrt(len(moved))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Response.keep_else_uniform(2, 1.0),
        lambda: Response.keep_else_uniform(2, 0.5),
        lambda: Response.keep_else_uniform(1, 0.7),
        lambda: Response.from_epsilon(2, 0.0),
        lambda: Response.from_epsilon(2, math.inf),
        lambda: Response.from_matrix([[1.0, 0.5], [0.0, 0.5]]),
        lambda: Response.from_matrix([[0.6, 0.5], [0.5, 0.5]]),
        lambda: Response.from_matrix([[0.6, 0.4]]),
        lambda: Response.from_matrix([[math.nan, 0.5], [0.5, 0.5]]),
        lambda: Response(((2**64 - 1, 1), (1, 2**64))),
        lambda: Response(((2**64, 0), (1, 2**64 - 1))),
    ],
)
def test_noise_that_cannot_be_is_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_equal_columns_say_nothing_and_have_no_event():
    with pytest.raises(ParameterError, match="say nothing"):
        _ = Response.from_matrix([[0.5, 0.5], [0.5, 0.5]]).event


@pytest.mark.parametrize("states", [[0, 1, 2], [-1], [0.0], ["a"]])
def test_states_outside_the_domain_are_refused(states):
    with pytest.raises(ParameterError):
        RESPONSES["two"].randomise(np.array(states))


def test_a_byte_goes_in_and_a_byte_comes_out():
    states = np.zeros((3, 4), dtype=np.uint8)
    answers = RESPONSES["two"].randomise(states)
    assert answers.dtype == np.uint8
    assert answers.shape == states.shape
    with pytest.raises(ParameterError, match="hold every possible value"):
        RESPONSES["many"].randomise(states)


@pytest.mark.parametrize("states", [2, 3, 256])
@pytest.mark.parametrize("epsilon", [44.0, 45.0, 60.0, 709.0, 710.0, 1e7, 1e300])
def test_more_epsilon_than_words_can_spend_gives_the_most_faithful_response(states, epsilon):
    """The least probability is 2^-64: ln((2^64 - K + 1) / 1) is the most that is ever stated."""
    response = Response.from_epsilon(states, epsilon)
    assert response.event.bound <= epsilon
    if epsilon > 64 * math.log(2) + 1e-9:
        assert response.weights[0][1] == 1
        assert response.event.bound == pytest.approx(64 * math.log(2), rel=1e-12)
