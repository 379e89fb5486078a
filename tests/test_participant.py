"""The participant's own randomiser: one answer per question, at the cost it states."""

import math

import pytest
from scipy import stats

from suffice.participant import Randomizer
from suffice.privacy.response import Response


def test_asking_twice_gives_the_same_answer():
    randomizer = Randomizer(["yes", "no"], 0.6)
    answers = {q: randomizer.answer(q, "yes") for q in range(200)}
    assert all(randomizer.answer(q, "yes") == answers[q] for q in answers)
    assert set(answers.values()) == {"yes", "no"}


def test_answers_are_kept_as_often_as_promised_and_less_noise_is_rejected():
    count, keep = 60_000, 0.7  # the wrong rate is 7 standard errors beyond the threshold
    randomizer = Randomizer(range(4), keep)
    given = [randomizer.answer(q, 2) for q in range(count)]
    observed = [given.count(state) for state in range(4)]
    other = (1 - keep) / 3 * count
    assert stats.chisquare(observed, [other, other, keep * count, other]).pvalue > 1e-6
    less = other * 0.9
    wrong = [less, less, count - 3 * less, less]
    assert stats.chisquare(observed, wrong).pvalue < 1e-6


@pytest.mark.parametrize(("states", "keep"), [(2, 0.75), (5, 0.5), (256, 0.8)])
def test_it_costs_what_the_owners_bulk_version_costs(states, keep):
    randomizer = Randomizer(range(states), keep)
    assert randomizer.epsilon == pytest.approx(math.log(keep * (states - 1) / (1 - keep)))
    bulk = Response.keep_else_uniform(states, keep)
    assert randomizer.epsilon == pytest.approx(bulk.event.bound, rel=1e-12)


@pytest.mark.parametrize(
    ("states", "keep"), [(["a"], 0.9), (["a", "a"], 0.9), ("ab", 0.5), ("ab", 1.0), ("ab", 0.2)]
)
def test_what_protects_nothing_is_refused(states, keep):
    with pytest.raises(ValueError, match=r"states|keep"):
        Randomizer(states, keep)


def test_a_truth_outside_the_states_is_refused_without_repeating_it():
    with pytest.raises(ValueError, match="declared states") as caught:
        Randomizer("ab", 0.9).answer("q", "secret")
    assert "secret" not in str(caught.value)
