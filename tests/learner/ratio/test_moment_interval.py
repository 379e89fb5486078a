"""Intervals of moments hold the truth however little the bags differ, and say so by their width."""

import numpy as np
import pytest

from suffice.learner.ratio.bags import exact_bags
from suffice.learner.ratio.posteriors import (
    ScoreMoments,
    TableMoments,
    accepted_ends,
    within_classes,
)

ROWS = 300
LARGE = 10**9  # rows of a table: class counts then add no variance to take off


def shares_of(*ones: float) -> np.ndarray:
    return np.column_stack([1 - np.array(ones), ones])


def score_moments(proportions: np.ndarray, means, deviation: float, *, complete=False):
    """Return moments of scores whose mean over a bag has this standard deviation."""
    many, classes = proportions.shape
    bags = exact_bags(range(many), np.full(many, ROWS), proportions, tuple(range(classes)))
    means = np.asarray(means)
    return ScoreMoments(bags, means, np.tile(score_covariance(classes, deviation), (many, 1, 1)),
                        complete)  # fmt: skip


def score_covariance(classes: int, deviation: float) -> np.ndarray:
    """Return a covariance of scores that sum to one."""
    return deviation**2 * (np.eye(classes) - 1 / classes) * classes / (classes - 1)


def test_the_interval_of_two_classes_is_fiellers():
    """The ends solve (g - a - c d)^2 = z^2 S(c), a quadratic in c."""
    proportions, deviation = shares_of(0.1, 0.4, 0.7), 0.02
    psi = np.array([0.3, 0.7])
    ones = proportions @ psi
    moments = score_moments(proportions, np.column_stack([1 - ones, ones]), deviation)
    means = moments.class_means()
    table = TableMoments(np.array([0.52, 0.48]), score_covariance(2, deviation), LARGE)
    low, high = accepted_ends(means, table, 0.95)[:, 1]
    first, second = means.leverage
    cov = deviation**2 * np.array(
        [[first @ first, first @ second], [first @ second, second @ second]]
    )
    a, d, z2 = means.psi[0, 1], means.psi[1, 1] - means.psi[0, 1], 1.959964**2
    # S(c) = deviation^2 + v0 + 2 c (v01 - v0) + c^2 (v0 + v1 - 2 v01)
    slope, bend = cov[0, 1] - cov[0, 0], cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]
    roots = np.roots([
        d**2 - z2 * bend, -2 * d * (0.48 - a) - 2 * z2 * slope,
        (0.48 - a) ** 2 - z2 * (deviation**2 + cov[0, 0]),
    ])  # fmt: skip
    assert sorted(roots) == pytest.approx([low, high], abs=2e-4)


def held(rng, proportions, psi, truth, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which intervals of one draw hold the truth, and their widths."""
    many, classes = proportions.shape
    root = np.linalg.cholesky(score_covariance(classes, deviation) + 1e-15 * np.eye(classes))
    means = proportions @ psi + rng.normal(size=(many, classes)) @ root.T
    moments = score_moments(proportions, means, deviation)
    mean = truth @ psi + rng.normal(size=classes) @ root.T
    table = TableMoments(mean, score_covariance(classes, deviation), LARGE)
    low, high = accepted_ends(moments.class_means(), table, 0.95)
    return (low <= truth) & (truth <= high), high - low


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.3])
def test_intervals_of_two_classes_hold_the_truth_however_little_bags_differ(spread):
    """Fixed seed. 200 draws at 95 %: below .90 and above .99 each happen once in 300 sets."""
    rng = np.random.default_rng(1)
    proportions = shares_of(0.5 - spread, 0.5, 0.5 + spread)
    psi, truth = shares_of(0.3, 0.7), np.array([0.2, 0.8])
    draws = [held(rng, proportions, psi, truth, 0.015) for _ in range(200)]
    covered, width = (np.mean([draw[i][1] for draw in draws]) for i in (0, 1))
    assert 0.90 <= covered <= (1.0 if spread < 0.1 else 0.99)
    assert (width < 0.35) == (spread > 0.1)


@pytest.mark.parametrize("line", [False, True])
def test_intervals_of_three_classes_hold_the_truth_also_where_bags_lie_nearly_on_a_line(line):
    """Fixed seed. 60 draws of three intervals at 95 %; the test is an upper bound."""
    rng = np.random.default_rng(2)
    proportions = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])
    if line:
        proportions = np.array(
            [[0.7, 0.1, 0.2], [0.5, 0.3, 0.2], [0.2, 0.59, 0.21], [0.1, 0.71, 0.19]]
        )
    psi, truth = 0.2 + 0.4 * np.eye(3), np.array([0.2, 0.3, 0.5])
    draws = [held(rng, proportions, psi, truth, 0.012) for _ in range(60)]
    covered, width = (np.mean([draw[i] for draw in draws]) for i in (0, 1))
    assert covered >= 0.90
    assert (width > 0.3) == line


def test_classes_that_look_far_apart_by_chance_do_not_narrow_the_interval():
    """Bags of .25, .30 and .31: means .05 apart are chance, and a table of .34 may hold anything.

    Were covariances those at the class means, .9 would be rejected: they lie .75 apart, which
    leaves next to no variance within classes.
    """
    proportions = shares_of(0.247, 0.3, 0.307)
    ones = np.array([0.257, 0.282, 0.314])
    total = np.sqrt(0.21 / ROWS)
    moments = score_moments(proportions, np.column_stack([1 - ones, ones]), total, complete=True)
    means = moments.class_means()
    assert means.psi[1, 1] - means.psi[0, 1] > 0.6
    table = TableMoments(np.array([0.66, 0.34]), score_covariance(2, np.sqrt(0.21 / 400)), 400)
    low, high = accepted_ends(means, table, 0.95)[:, 1]
    assert low < 0.3
    assert high > 0.9


def test_intervals_of_large_tables_are_narrow_and_never_empty():
    proportions, psi = shares_of(0.1, 0.5, 0.9), shares_of(0.2, 0.8)
    moments = score_moments(proportions, proportions @ psi, 1e-5)
    means = moments.class_means()
    for ones in (0.5, 0.19, 0.81):  # the last two lie outside what proportions can give
        table = TableMoments(np.array([1 - ones, ones]), score_covariance(2, 1e-5), LARGE)
        low, high = accepted_ends(means, table, 0.95)
        assert (low <= means.ratios(table.mean)).all()
        assert (means.ratios(table.mean) <= high).all()
        assert 0 < high[1] - low[1] < 2e-4


def test_within_classes_leaves_what_does_not_come_from_class_counts(rng):
    """Scores with exact counts of each class: their mean varies by the variance within only."""
    psi, shares = np.array([[0.2], [0.7]]), np.array([0.3, 0.7])
    labels = np.repeat([0, 1], [60, 140])
    draws = psi[labels, 0] + 0.25 * rng.normal(size=(2000, 200))
    total = np.array([[np.mean(draws.var(axis=1, ddof=1)) / 200]])
    left = within_classes(total, psi, shares, 200)
    assert left[0, 0] == pytest.approx(draws.mean(axis=1).var(), rel=0.15)
    assert total[0, 0] > 1.5 * left[0, 0]
    many = within_classes(total, np.stack([psi, psi * 0]), np.stack([shares, shares]), 200)
    assert many[:, 0, 0] == pytest.approx([left[0, 0], total[0, 0]])


def test_bags_that_say_nothing_of_a_class_give_wide_intervals_and_no_error():
    """Numbers overflowed here once: the others of a free proportion can be very large."""
    rng = np.random.default_rng(3)
    widths = []
    for _ in range(10):
        proportions = rng.dirichlet(np.ones(3), 4)
        proportions[:, 2] = 0.2 + 1e-4 * rng.normal(size=4)
        proportions[:, :2] *= ((1 - proportions[:, 2]) / proportions[:, :2].sum(axis=1))[:, None]
        means = proportions @ (0.2 + 0.4 * np.eye(3)) + 0.01 * rng.normal(size=(4, 3))
        moments = score_moments(proportions, means, 0.02, complete=True)
        table = TableMoments(np.array([0.3, 0.3, 0.4]), score_covariance(3, 0.02), 400)
        low, high = accepted_ends(moments.class_means(), table, 0.95)
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        widths.append(high[2] - low[2])
    assert np.mean(widths) > 0.5
