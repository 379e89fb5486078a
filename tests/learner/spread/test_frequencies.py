"""Shares of states from randomised answers: exact where they can be, covered where they cannot."""

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner.frequencies import _intervals, estimate_frequencies, release_frequencies
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.columns import Flips

UNEVEN = Flips(3, table=((0.7, 0.2, 0.15), (0.2, 0.6, 0.25), (0.1, 0.2, 0.6)))


def test_warner_s_estimate_is_the_corrected_one():
    """Barber 2020, eq. 2 prints another; see docs/errata.md."""
    answers = np.repeat([0, 1], [620, 380])  # f = .3 of state 1 at p = .2: .3 * .8 + .7 * .2
    frequencies = estimate_frequencies(answers, Flips(2, keep=0.8))
    assert frequencies.shares == pytest.approx([0.7, 0.3], abs=1e-9)
    assert frequencies.low[1] < 0.3 < frequencies.high[1]


@pytest.mark.parametrize("method", ["likelihood", "inverse"])
@pytest.mark.parametrize("noise", [Flips(4, keep=0.5), UNEVEN], ids=["keep", "table"])
def test_exact_shares_come_back(noise, method):
    truth = np.arange(1.0, noise.states + 1)
    truth /= truth.sum()
    counts = np.rint(noise.matrix @ truth * 1e6).astype(int)
    answers = np.repeat(np.arange(noise.states), counts)
    frequencies = estimate_frequencies(answers, noise, method=method)
    assert frequencies.shares == pytest.approx(truth, abs=1e-4)
    assert frequencies.shares.sum() == pytest.approx(1)


def test_the_most_likely_shares_are_a_distribution_where_the_inverse_is_none():
    answers = np.repeat([0, 1], [95, 5])  # fewer than flips alone would give
    inverse = estimate_frequencies(answers, Flips(2, keep=0.8), method="inverse")
    likely = estimate_frequencies(answers, Flips(2, keep=0.8))
    assert inverse.shares[1] < 0
    assert likely.shares[1] == pytest.approx(0, abs=1e-3)
    assert likely.low[1] == 0


@pytest.mark.parametrize(
    ("noise", "truth"),
    [
        (Flips(2, keep=0.8), (0.3, 0.7)),
        (Flips(3, keep=0.6), (0.2, 0.3, 0.5)),
        (Flips(5, keep=0.4), (0.1, 0.2, 0.2, 0.2, 0.3)),
        (UNEVEN, (0.2, 0.3, 0.5)),
    ],
    ids=["two", "three", "five", "table"],
)
def test_intervals_cover_at_their_rate(noise, truth, rng):
    """2,000 surveys of 1,000 answers; a coverage has a standard error of .005."""
    assert np.linalg.cond(noise.matrix) <= 10
    counts = rng.multinomial(1000, noise.matrix @ np.array(truth), size=2000).astype(float)
    low, high = _intervals(counts, noise, 0.95)
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    assert (covered > 0.93).all()
    assert (covered < 0.97).all()


@pytest.mark.parametrize("answers", [200, 1000])
@pytest.mark.parametrize("states", [2, 5, 10])
@pytest.mark.parametrize("contrast", [0.9, 0.3, 0.05])
def test_with_hard_channels_and_rare_states_they_cover_at_least(answers, states, contrast, rng):
    """2,000 surveys: a coverage of .955 is measured within .005; the least may be 2 below .95."""
    noise = Flips(states, keep=1 / states + contrast * (1 - 1 / states))
    rest = 0.02 * np.ones(states - 1)
    truth = np.array([1 - rest.sum(), *rest])
    counts = rng.multinomial(answers, noise.matrix @ truth, size=2000).astype(float)
    low, high = _intervals(counts, noise, 0.95)
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    assert covered.min() >= 0.94
    assert covered.mean() >= 0.95
    assert covered.max() < 0.999 or contrast == 0.9


def test_a_release_of_answers_has_frequencies(rng):
    X = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 0.3).astype(int)
    release = MeanOperator(epsilon=2.0, mechanism="response").release(X, y, ledger=None)
    (frequencies,) = release_frequencies(release)
    assert frequencies.states == (0, 1)
    assert frequencies.shares[1] == pytest.approx(0.3, abs=0.1)  # eight standard errors
    assert frequencies.to_json()["frequencies"] == frequencies.shares.tolist()
    sums = MeanOperator(epsilon=2.0, mechanism="laplace", map=None).release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="no randomised answers"):
        release_frequencies(sums)


def test_answers_outside_the_states_are_refused():
    with pytest.raises(ParameterError, match="possible values"):
        estimate_frequencies(np.array([0, 2]), Flips(2, keep=0.8))
    with pytest.raises(ParameterError, match="possible values"):
        estimate_frequencies(np.array([], dtype=int), Flips(2, keep=0.8))
    with pytest.raises(ParameterError, match="method"):
        estimate_frequencies(np.array([0, 1]), Flips(2, keep=0.8), method="guess")
