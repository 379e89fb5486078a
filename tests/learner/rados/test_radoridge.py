"""Least squares from the moments of rados: exact where all rados are there, prudent under noise."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from builders import labelled_examples, rado_release, slow_rados
from suffice.errors import ParameterError
from suffice.learner.rado_moments import moments_of
from suffice.learner.rados import RadoRidge, rescaled_risks, risks_by_penalty
from suffice.releases.release import Release

M = 10


def small() -> tuple[np.ndarray, np.ndarray]:
    X, y = labelled_examples(M, seed=4)
    return np.column_stack([X, np.ones(M)]), y


def signatures(support: int | None = None) -> np.ndarray:
    """Return all signatures, relative to labels: +1 where an edge is in the rado."""
    signs = np.array(list(product((-1, 1), repeat=M)))
    return signs if support is None else signs[(signs > 0).sum(axis=1) == support]


@pytest.mark.parametrize("support", [None, 2, 5])
def test_all_rados_have_the_moments_of_the_examples(support):
    X, y = small()
    rados = slow_rados(X, y, signatures(support) * y)
    moments = moments_of(rado_release(rados, M, support=support))
    exact = 1 - 1 / len(rados)  # a sample's covariance is divided by one less
    edges = y[:, None] * X
    mean, second = edges.mean(axis=0), X.T @ X / M
    centred = 0 if support is None else np.outer(mean, mean)
    np.testing.assert_allclose(moments.operator, mean, atol=1e-12)
    np.testing.assert_allclose(moments.second, (second - centred) / exact + centred, atol=1e-12)


def test_all_rados_give_the_ridge_regression_of_the_examples():
    X, y = small()
    rados = slow_rados(X, y, signatures())
    model = RadoRidge(lam=0.2).fit_release(rado_release(rados, M))
    second = X.T @ X / M * len(rados) / (len(rados) - 1)
    expected = np.linalg.solve(second + 0.1 * np.eye(5), X.T @ y / M)
    np.testing.assert_allclose(model.minimiser_, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("mechanism", "support", "variance"),
    [
        ("shared", None, 4 / 20),
        ("matrix", None, 4 / 20 / 50),
        ("edges", None, 2 / 20),
        ("matrix", 5, 20 / 25 / 50),
        ("edges", 5, 20 / 25 / 4),
    ],
)
def test_noise_in_the_mean_is_what_the_mechanism_leaves_of_it(mechanism, support, variance):
    """Each rado has noise of variance 20; m = 20, n = 50."""
    rados = np.random.default_rng(0).normal(size=(50, 3))
    release = rado_release(rados, 20, variance=20.0, mechanism=mechanism, support=support)
    assert moments_of(release).noise.variance == pytest.approx(variance)


def edges_with_noise(rng: np.random.Generator, X: np.ndarray, y: np.ndarray, signs: np.ndarray):
    """Return rados of edges that have noise of variance 4 each, and the variance on a rado."""
    noise = 2.0 * rng.normal(size=X.shape)
    return slow_rados(X + y[:, None] * noise, y, signs), 4.0 * (signs == y).sum(axis=1).mean()


@pytest.mark.parametrize("support", [None, 3])
@pytest.mark.parametrize("mechanism", ["matrix", "edges"])
def test_the_noise_in_the_second_moments_is_known(mechanism, support):
    """Over 40 releases what is left on the diagonal is 0 to 3 %; a tenth more or less is 10 %."""
    X, y = small()
    rest = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        all_signs = signatures(support) * y
        signs = all_signs[rng.integers(0, len(all_signs), 3000)]
        rados, variance = edges_with_noise(rng, X, y, signs)
        if mechanism == "matrix":
            rados, variance = slow_rados(X, y, signs) + 4 * rng.normal(size=(3000, 5)), 16.0
        moments = moments_of(
            rado_release(rados, M, variance=variance, mechanism=mechanism, support=support)
        )
        measured = moments.rows.T @ moments.rows / 3000
        left = measured - np.diag(moments.second_noise.added) - X.T @ X / M
        rest.append(np.trace(left) / moments.second_noise.added.sum())
    # Noise on 10 edges of 5 coordinates varies by sqrt(2/50), a mean over 40 by a fortieth of it.
    limit = 0.1 if mechanism == "edges" else 0.03
    assert abs(np.mean(rest)) < limit


def test_a_shared_noise_is_in_no_second_moment():
    rados = np.random.default_rng(0).normal(size=(50, 3))
    release = rado_release(rados, 20, variance=20.0, mechanism="shared")
    assert moments_of(release).second_noise is None


def test_more_rados_or_less_noise_let_the_second_moments_speak():
    """Without noise S is measured; under much of it S is what public facts say."""
    X, y = labelled_examples(400)
    rows = np.column_stack([X, np.ones(400)])
    second = rows.T @ rows / 400
    rng = np.random.default_rng(5)
    exact = slow_rados(rows, y, rng.choice([-1, 1], (400, 400)))
    trusts, errors = [], []
    for deviation in (1e-3, 10.0, 1000.0):
        rados = exact + deviation * rng.normal(size=exact.shape)
        moments = moments_of(
            bounded(rado_release(rados, 400, variance=deviation**2, mechanism="matrix"))
        )
        trusts.append(moments.second_noise.trust[0])
        errors.append(np.abs(moments.second - second).max())
    assert trusts[0] > 0.999 > trusts[1] > trusts[2]
    assert trusts[2] < 0.01
    assert errors[0] < 0.3
    assert errors[2] < bounded(noisy(1.0, shared=False)).pipeline.bound ** 2
    assert moments.second[-1, -1] == 1.0  # the intercept's is exact


def bounded(release: Release) -> Release:
    """Return a release of rows that are 4 long at most, as the examples are."""
    return replace(release, pipeline=replace(release.pipeline, bound=4.0))


def rare_release(seed: int) -> tuple[Release, np.ndarray, np.ndarray]:
    """Return 400 rados of records with a rare class and strong noise, and examples to test on."""
    rng = np.random.default_rng(seed)

    def examples(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.where(rng.random(count) < 0.25, 1.0, -1.0)
        X = rng.normal(size=(count, 20))
        X[:, :4] += 0.7 * y[:, None]
        X *= 4 / np.maximum(np.linalg.norm(X, axis=1), 4)[:, None]
        return np.column_stack([X, np.ones(count)]), y

    X, y = examples(4000)
    rados = slow_rados(X, y, rng.choice([-1, 1], (400, 4000)))
    rados += 1000 * rng.normal(size=rados.shape)  # a rado varies by 32 without it
    release = bounded(rado_release(rados, 4000, variance=1e6, mechanism="matrix"))
    return release, *examples(4000)


def test_noise_on_every_rado_leaves_a_model_where_the_mean_operator_shows_one():
    """Without the subtraction every one of these is a constant, right in 75 %."""
    for seed in range(5):
        release, rows, y = rare_release(seed)
        model = RadoRidge().fit_release(release)
        assert not model.intercept_only_
        accuracy = np.mean((rows @ model.theta_ > 0) == (y > 0))
        assert accuracy > np.mean(y < 0) + 0.03
        undone = RadoRidge()
        undone._learn_from((release,))
        undone._fit_moments(replace(moments_of(release), second_noise=None), None)
        assert np.linalg.norm(undone.minimiser_) < 0.05 * np.linalg.norm(model.minimiser_)


def noisy(deviation: float, *, shared: bool, seed: int = 0, count: int = 200):
    """Return a release with noise, and the seed's own examples to test on."""
    X, y = labelled_examples(400, seed)
    rng = np.random.default_rng(seed + 50)
    rados = slow_rados(np.column_stack([X, np.ones(400)]), y, rng.choice([-1, 1], (count, 400)))
    rados += deviation * rng.normal(size=5 if shared else rados.shape)
    mechanism = "shared" if shared else "matrix"
    return rado_release(rados, 400, variance=deviation**2, mechanism=mechanism)


@pytest.mark.parametrize("shared", [True, False])
def test_more_noise_means_a_stronger_penalty_and_a_model_that_still_works(shared):
    X, y = labelled_examples(2000, seed=99)
    truth = np.where(y > 0, "yes", "no")
    quiet = RadoRidge().fit_release(noisy(1e-6, shared=shared))
    loud = RadoRidge().fit_release(noisy(30.0, shared=shared))
    exact_score = RadoRidge().fit(*labelled_examples(400)).score(X, y)
    if shared:  # noise on every rado is subtracted from S, and no penalty
        assert loud.lam_ > 3 * quiet.lam_
    assert np.mean(quiet.predict(X) == truth) > exact_score - 0.03
    assert np.mean(loud.predict(X) == truth) > exact_score - 0.1
    if shared:
        assert loud.risk_ > quiet.risk_
    else:
        assert loud.risk_ is None


def test_the_risk_is_about_that_on_fresh_examples():
    """Estimated without labels; over 20 draws the mean error is below a quarter of the risk."""
    X, y = labelled_examples(4000, seed=99)
    rows = np.column_stack([X, np.ones(4000)])
    gaps, fresh = [], []
    for seed in range(20):
        model = RadoRidge().fit_release(noisy(10.0, shared=True, seed=seed))
        fresh.append(np.mean((1 - y * (rows @ model.minimiser_)) ** 2))
        gaps.append(model.risk_ - fresh[-1])
    assert abs(np.mean(gaps)) < np.mean(fresh) / 4


def test_the_risk_under_noise_on_every_rado_is_right_or_absent():
    """Where it is given, over 20 draws its mean error is below a tenth; a tenth is 2 deviations."""
    X, y = labelled_examples(4000, seed=99)
    rows = np.column_stack([X, np.ones(4000)])
    gaps = []
    for seed in range(20):
        model = RadoRidge().fit_release(bounded(noisy(5.0, shared=False, seed=seed, count=400)))
        gaps.append(model.risk_ - np.mean((1 - y * (rows @ model.minimiser_)) ** 2))
    assert abs(np.mean(gaps)) < 0.1
    assert RadoRidge().fit_release(bounded(noisy(100.0, shared=False))).risk_ is None


def test_held_out_rados_show_what_few_rados_do_not_know():
    """With as many rados as coordinates a weak penalty fits their accidents, and is seen to."""
    X, y = labelled_examples(400)
    wide = np.random.default_rng(1).normal(size=(400, 30))
    wide[:, :4] = X
    signs = np.random.default_rng(2).choice([-1, 1], (30, 400))
    moments = moments_of(rado_release(slow_rados(wide, y, signs), 400))
    products, squares, _, _ = risks_by_penalty(moments, np.array([1e-3, 1.0]))
    risks = 1 - 2 * products + squares
    assert risks[0] > 1.5
    assert risks[1] < 1


def test_noise_that_hides_every_feature_leaves_a_constant():
    X, y = labelled_examples(400)
    y = np.where(np.arange(400) < 360, 1.0, -1.0)
    rng = np.random.default_rng(3)
    rados = slow_rados(np.column_stack([X, np.ones(400)]), y, rng.choice([-1, 1], (100, 400)))
    rados += 40 * rng.normal(size=5)
    release = rado_release(rados, 400, variance=1600.0, mechanism="shared")
    model = RadoRidge().fit_release(release)
    assert model.intercept_only_
    assert set(model.predict(X)) == {"yes"}
    assert not RadoRidge(lam=0.1).fit_release(release).intercept_only_


def test_one_rado_has_no_covariance():
    with pytest.raises(ParameterError, match="two rados"):
        RadoRidge().fit_release(rado_release(np.ones((1, 3)), 10))


def test_noise_alone_does_not_select_the_weakest_penalty():
    """Where the charge exceeds every product, the model that is least charged is the best."""
    products, squares = np.array([1.0, 1.0]), np.array([4.0, 1.0])
    risks = rescaled_risks(products - np.array([3.0, 1.5]), squares)
    np.testing.assert_allclose(risks, [2.0, 1.25])
    np.testing.assert_allclose(rescaled_risks(products, squares), [0.75, 0.0])


def test_the_mean_label_is_one_that_labels_can_have():
    """Of 400 rows, noise of deviation 2,000 on a rado leaves nothing of their mean."""
    release = noisy(2000.0, shared=True)
    moments, weight = moments_of(release), release.pipeline.intercept
    expected = moments.with_label_mean(weight)
    assert abs(moments.operator[-1]) > weight
    assert abs(expected.operator[-1]) < 0.5 * weight
    np.testing.assert_array_equal(expected.operator[:-1], moments.operator[:-1])
    exact = moments_of(noisy(0.0, shared=True))
    np.testing.assert_allclose(exact.with_label_mean(weight).operator, exact.operator)
    assert moments.with_label_mean(0.0) is moments


@pytest.mark.parametrize("seed", range(4))
def test_much_noise_gives_probabilities_near_the_proportions(seed):
    """The release knows nothing: no row is called almost certain, whatever the noise was."""
    X, _ = labelled_examples(500, seed=99)
    stated = RadoRidge().fit_release(noisy(2000.0, shared=True, seed=seed), X).predict_proba(X)
    assert stated.mean(axis=0).min() > 0.1
    assert stated.max() < 0.99
