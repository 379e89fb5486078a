"""Slopes are integrated out: little information gives proportions, much gives the model's odds."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from scipy.stats import truncnorm

from suffice.learner import calibration
from suffice.learner.calibration import (
    ProductPrior,
    calibrate_by_labels,
    calibrate_by_product,
    class_proportions,
    expected_share,
)


def channel_of(classes: int, stays: float) -> np.ndarray:
    channel = np.full((classes, classes), (1 - stays) / (classes - 1))
    np.fill_diagonal(channel, stays)
    return channel


def randomised(truth: np.ndarray, channel: np.ndarray, rng) -> np.ndarray:
    return (rng.random((len(truth), 1)) > np.cumsum(channel[:, truth].T, axis=1)).sum(axis=1)


def drawn(rng, rows: int, classes: int, slope: float) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and labels whose log-odds are ``slope`` times the scores."""
    scores = rng.normal(size=(rows, classes))
    chances = np.cumsum(softmax(slope * scores, axis=1), axis=1)
    return scores, np.minimum((rng.random((rows, 1)) > chances).sum(axis=1), classes - 1)


def test_proportions_of_two_classes_are_the_mean_over_likely_ones():
    channel = np.array([[0.7, 0.2], [0.3, 0.8]])
    labels = np.array([0, 1, 1, 1, 1])
    grid = np.linspace(0, 1, 200_001)
    likelihood = (0.7 - 0.5 * grid) * (0.3 + 0.5 * grid) ** 4 * grid * (1 - grid)
    mean = (likelihood * grid).sum() / likelihood.sum()
    assert class_proportions(labels, channel)[1] == pytest.approx(mean, abs=1e-4)
    times = np.array([2.0, 0.0, 1.0, 3.0, 1.0])
    repeated = np.repeat(labels, times.astype(int))
    np.testing.assert_allclose(
        class_proportions(labels, channel, times), class_proportions(repeated, channel)
    )


def test_a_measured_proportion_is_the_mean_over_likely_ones():
    grid = np.linspace(0, 1, 200_001)
    likelihood = np.exp(-(((grid - 1.2) / 0.3) ** 2) / 2) * grid * (1 - grid)
    mean = (likelihood * grid).sum() / likelihood.sum()
    assert expected_share(1.2, 0.3) == pytest.approx(mean, abs=1e-4)
    assert expected_share(0.31, 1e-6) == pytest.approx(0.31)  # nothing but what was measured
    assert expected_share(0.31, 3e-3) == pytest.approx(0.31, abs=1e-4)
    assert expected_share(5.0, 0.0) == 1.0
    assert expected_share(-40.0, 1e4) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("stays", [0.34, 0.9])
def test_proportions_of_three_classes_follow_labels_as_far_as_these_tell(rng, stays):
    """At .34 of 1/3 the labels tell nothing; at .9 the error of 20,000 is .004."""
    truth = rng.choice(3, size=20_000, p=[0.7, 0.2, 0.1])
    channel = channel_of(3, stays)
    shares = class_proportions(randomised(truth, channel, rng), channel)
    assert shares.sum() == pytest.approx(1)
    expected = [0.7, 0.2, 0.1] if stays > 0.5 else [1 / 3] * 3
    np.testing.assert_allclose(shares, expected, atol=0.02 if stays > 0.5 else 0.25)


@pytest.mark.parametrize("classes", [2, 4])
def test_many_labels_and_a_sure_product_find_the_slope(rng, classes):
    """The slope's error is .03 (two classes); seven of them are allowed, and the grid's 1 %."""
    scores, truth = drawn(rng, 20_000, classes, 1.5)
    channel = channel_of(classes, 0.8)
    by_labels = calibrate_by_labels(scores, randomised(truth, channel, rng), channel)
    assert by_labels.slope == pytest.approx(1.5, abs=0.2)
    product = float((softmax(1.5 * scores, axis=1) * scores).sum(axis=1).mean())
    shares = softmax(1.5 * scores, axis=1).mean(axis=0)
    by_product = calibrate_by_product(scores, shares, product, 1e-3)
    assert by_product.slope == pytest.approx(1.5, rel=0.03)
    np.testing.assert_allclose(by_product.shift, 0.0, atol=0.03)
    assert by_labels.error < 0.03


def test_the_constant_of_scores_and_of_a_product_does_not_matter(rng):
    """Both of more rows than bins and of fewer."""
    for rows in (300, 3_000):
        scores, _ = drawn(rng, rows, 2, 1.0)
        product = float((softmax(scores, axis=1) * scores).sum(axis=1).mean())
        first = calibrate_by_product(scores, np.array([0.5, 0.5]), product, 0.05)
        moved = calibrate_by_product(scores + 7.0, np.array([0.5, 0.5]), product + 7.0, 0.05)
        assert moved.slope == pytest.approx(first.slope, rel=1e-3)
        np.testing.assert_allclose(moved.shift, first.shift, atol=1e-3)


def test_what_cannot_be_known_is_not_stated(rng):
    """An impossible product, and one with more error than scores are large: no slope is steep."""
    scores, _ = drawn(rng, 2_000, 2, 1.0)
    shares = np.array([0.3, 0.7])
    open_to_all = calibrate_by_product(scores, shares, 0.0, 1e6)
    p = softmax(open_to_all.slope * scores + open_to_all.shift, axis=1)
    assert p[:, 1].mean() == pytest.approx(0.7, abs=0.01)
    beyond = calibrate_by_product(scores, shares, 50.0, 0.5)
    inside = calibrate_by_product(scores, shares, 0.2, 0.01)
    assert inside.slope < 1 < beyond.slope < 200
    assert open_to_all.error > 2 * inside.error


def test_scores_that_are_all_alike_state_the_proportions():
    link = calibrate_by_product(np.ones((9, 2)), np.array([0.2, 0.8]), 1.0, 0.1)
    assert (link.slope, link.error) == (0.0, 0.0)
    assert expit(link.shift[1]) == pytest.approx(0.8)


def test_without_a_constant_there_is_no_shift(rng):
    scores, truth = drawn(rng, 800, 2, 1.0)
    assert not calibrate_by_labels(scores, truth, np.eye(2), shifted=False).shift.any()


def test_scores_of_weak_labels_gain_on_the_proportions_alone(rng):
    """Mean over 60 slopes of the prior, with 60 weak labels each.

    The gain on stating proportions has a mean of .04 and an error of .012; the seed is fixed.
    """
    gains = []
    channel = channel_of(2, 0.7)
    for _ in range(60):
        part = 10 ** rng.uniform(-2.5, -0.1)
        slope = np.sqrt(part) / (1 - part) * 2
        scores = np.column_stack([np.zeros(2_000), rng.normal(size=2_000)])
        truth = (rng.random(2_000) < expit(slope * scores[:, 1])).astype(int)
        labels = randomised(truth[:60], channel, rng)
        link = calibrate_by_labels(scores[:60], labels, channel)
        constant = class_proportions(labels, channel)
        p = softmax(link.slope * scores[60:] + link.shift, axis=1)
        rest = truth[60:]
        gains.append(np.mean(np.log(p[np.arange(1_940), rest]) - np.log(constant[rest])))
    assert np.mean(gains) > 0


def test_the_gradient_of_the_divergence_is_right(rng, monkeypatch):
    objectives = []
    minimize = calibration.minimize
    monkeypatch.setattr(
        calibration,
        "minimize",
        lambda f, start, **kwargs: objectives.append(f) or minimize(f, start, **kwargs),
    )
    scores, truth = drawn(rng, 50, 3, 1.0)
    calibrate_by_labels(scores, truth, channel_of(3, 0.6))
    at = np.array([1.3, 0.4, -0.7])
    numeric = approx_fprime(at, lambda x: objectives[0](x)[0], 1e-7)
    np.testing.assert_allclose(objectives[0](at)[1], numeric, atol=1e-6)


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_the_prior_of_a_product_is_what_it_states(chance):
    """Over steps of a tenth of a power of ten of R^2, as products of small slopes are apart."""
    prior = ProductPrior(0.3, 0.2, chance)
    products = 10.0 ** np.arange(-4, 1, 0.05)
    weights = np.exp([prior.log_weight(product) for product in (0.0, *products)])
    assert weights[0] == pytest.approx(1 - chance)
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    if chance:
        above = truncnorm(-1.5, np.inf, 0.3, 0.2)
        assert weights[1:] @ products / chance == pytest.approx(above.mean(), rel=1e-3)


def test_a_prior_stands_in_for_a_product_that_noise_hides(rng):
    scores = rng.normal(size=(800, 2)) * [1, 0]
    scores -= scores.mean(axis=0)
    shares = np.array([0.7, 0.3])

    def product_of(prior: ProductPrior) -> float:
        link = calibrate_by_product(scores, shares, 0.0, 50.0, prior=prior)
        return float((link.apply(scores) * scores).sum(axis=1).mean())

    assert product_of(ProductPrior(0.2, 0.01, 1.0)) == pytest.approx(0.2, rel=0.05)
    assert product_of(ProductPrior(0.2, 0.01, 0.5)) == pytest.approx(0.1, rel=0.1)
    assert product_of(ProductPrior(0.2, 0.01, 0.0)) == pytest.approx(0.0, abs=1e-6)
