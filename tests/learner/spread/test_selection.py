"""The penalty of the spread likelihood: evidence where labels are randomised."""

import numpy as np
import pytest
from scipy.special import softmax

from suffice.learner.spread_likelihood import (
    CleanFeatures,
    JointStates,
    SpreadLikelihood,
    choose_lam,
    label_information,
    log_evidence,
    maximise,
    most_evident_lam,
    squared_sizes,
)
from suffice.releases.columns import Flips


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def flipped_labels(rng, rows, weights, keep):
    codes = (rng.random(len(rows)) < 1 / (1 + np.exp(-rows @ weights))).astype(int)
    return np.where(rng.random(len(rows)) < keep, codes, 1 - codes)


def test_evidence_is_the_integral_over_all_weights(rng):
    # One weight, no constant: the integral is a sum over a fine grid. Where scores are small the
    # information is the same for all records, as the approximation has it.
    rows = rng.normal(size=(400, 1))
    codes = flipped_labels(rng, rows, np.array([0.6]), 0.8)
    likelihood = SpreadLikelihood(
        CleanFeatures(rows), codes, Flips(2, keep=0.8).matrix, constant=False
    )
    grid, squares = np.linspace(-12, 12, 6001), squared_sizes(likelihood)
    exact, ours = [], []
    for lam in (0.001, 0.01, 0.1, 1.0):
        logs = [-400 * likelihood(np.array([w]), lam)[0] + np.log(400 * lam) / 2 for w in grid]
        exact.append(np.logaddexp.reduce(logs))
        theta = maximise(likelihood, lam, tol=1e-8, max_iter=500)[0]
        ours.append(log_evidence(likelihood, theta, lam, squares))
    gaps = np.array(exact) - np.array(ours)
    assert np.abs(gaps - gaps.mean()).max() < 0.2
    assert np.ptp(exact) > 2  # what the approximation must follow


@pytest.mark.parametrize("classes", [2, 3])
def test_information_is_the_variance_of_the_label_s_score_function(classes, rng):
    rows = np.hstack([rng.normal(size=(7, 2)), np.ones((7, 1))])
    channel = Flips(classes, keep=0.7).matrix
    likelihood = SpreadLikelihood(CleanFeatures(rows), np.zeros(7, dtype=int), channel)
    theta = rng.normal(size=likelihood.shape)
    scores = rows @ theta
    scores = np.column_stack([np.zeros(7), scores]) if classes == 2 else scores
    total = np.zeros((classes, classes))
    for score in scores:
        clean = softmax(score)
        noisy = channel @ clean
        slopes = channel @ (np.diag(clean) - np.outer(clean, clean))
        total += sum(np.outer(s, s) / p for s, p in zip(slopes, noisy, strict=True)) / 7
    expected = [total[1, 1]] if classes == 2 else np.linalg.eigvalsh(total)
    assert label_information(likelihood, theta) == pytest.approx(np.maximum(expected, 0), abs=1e-12)


def test_expected_rows_of_combinations_are_their_posterior_means():
    posterior = np.array([[0.75, 0.25], [0.5, 0.5]])
    points = np.array([[-1.0, 1.0], [1.0, 1.0]])
    states = JointStates(points, posterior, np.array([1, 0, 1]))
    assert states.expected_rows.tolist() == [[0.0, 1.0], [-0.5, 1.0], [0.0, 1.0]]


def test_exact_labels_are_left_to_cross_validation_and_randomised_ones_to_evidence(rng):
    rows = np.hstack([rng.normal(size=(300, 3)), np.ones((300, 1))])
    codes = flipped_labels(rng, rows, np.array([1.0, 0.0, 0.0, 0.0]), 0.8)
    noisy = SpreadLikelihood(CleanFeatures(rows), codes, Flips(2, keep=0.8).matrix)
    assert choose_lam(noisy, max_iter=500) == most_evident_lam(noisy, 500)
    exact = SpreadLikelihood(CleanFeatures(rows), codes, np.eye(2))
    on_the_coarse_grid = 2 * np.log10(choose_lam(exact, max_iter=500))
    assert on_the_coarse_grid == pytest.approx(round(on_the_coarse_grid))


def test_weak_labels_leave_a_direction_and_not_a_constant(rng):
    # 400 labels flipped with .4, 60 features of which one counts: 16 labels' worth. Without the
    # flat prior of the deviation, or with the penalty of the largest evidence alone, some of these
    # models are constants. One seed; a fair coin in place of a model would be right half the time.
    right, constants = [], 0
    for _ in range(8):
        rows = np.hstack([rng.normal(size=(400, 60)) * 0.3, np.ones((400, 1))])
        weights = np.zeros(61)
        weights[:5] = 6.0
        codes = flipped_labels(rng, rows, weights, 0.6)
        likelihood = SpreadLikelihood(CleanFeatures(rows), codes, Flips(2, keep=0.6).matrix)
        lam = choose_lam(likelihood, max_iter=500)
        theta = maximise(likelihood, lam, tol=1e-5, max_iter=500)[0]
        fresh = np.hstack([rng.normal(size=(2000, 60)) * 0.3, np.ones((2000, 1))])
        predictions = fresh @ theta > 0
        right.append(np.mean(predictions == (fresh @ weights > 0)))
        constants += predictions.mean() in (0.0, 1.0)
    assert constants == 0
    assert np.mean(right) > 0.6
