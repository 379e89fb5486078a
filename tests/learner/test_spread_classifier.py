"""Learning the clean model from corrupted records: exact identities, consistency, contracts."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from suffice.errors import ParameterError
from suffice.learner.factored import FactoredClassifier
from suffice.learner.spread.classifier import SpreadClassifier
from suffice.learner.spread.gaussian import predicted_features
from suffice.learner.spread.importance import sampled_records
from suffice.learner.spread.likelihood import CleanFeatures, SpreadLikelihood
from suffice.learner.spread.posterior import Corrupted, clean_features, coordinates
from suffice.learner.spread.priors import deconvolved, observed_frequencies
from suffice.owner.mean_operator import MeanOperator
from suffice.release.spread import Added, Flips, SpreadColumn

LEVELS = tuple(range(5))


def flipped(codes: np.ndarray, noise: Flips, rng: np.random.Generator) -> np.ndarray:
    """Send every code through the channel."""
    ends = np.cumsum(noise.matrix, axis=0)
    return (rng.random(codes.shape)[..., None] > ends.T[codes]).sum(axis=-1)


def records(rng: np.random.Generator, count: int, keep: float, *, label_keep: float = 0.8):
    """Return corrupted records of three independent columns, their labels, and the true theta."""
    noise, label = Flips(5, keep=keep), Flips(2, keep=label_keep)
    columns = tuple(SpreadColumn(name, LEVELS, noise) for name in "abc")
    clean = rng.integers(0, 5, size=(count, 3))
    theta = np.array([2.0, -1.0, 0.0, 0.5])
    scores = np.column_stack([coordinates(columns[0])[clean[:, j], 0] for j in range(3)])
    labels = (rng.random(count) < expit(np.c_[scores, np.ones(count)] @ theta)).astype(int)
    dirty = flipped(clean, noise, rng)
    return Corrupted(columns, tuple(dirty.T)), flipped(labels, label, rng), label.matrix, theta


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", ["exact", "spread", "root", "blocks"])
def test_the_gradient_is_that_of_the_likelihood(kind, classes, rng):
    mean = rng.normal(size=(40, 5))
    spread, blocks, root = None, None, None
    if kind in {"spread", "root"}:
        spread = rng.random((40, 5))
    if kind == "root":
        root = rng.normal(size=(5, 2))
    if kind == "blocks":
        mean[:, :3] = rng.dirichlet(np.ones(3), size=40)
        spread = np.c_[mean[:, :3], rng.random((40, 2))]
        blocks = np.array([[1.0], [1], [1], [0], [0]])
    channel = np.full((classes, classes), 0.1) + np.eye(classes) * (1 - 0.1 * classes)
    features = CleanFeatures(mean, spread, blocks, root)
    likelihood = SpreadLikelihood(features, rng.integers(0, classes, 40), channel)
    theta = rng.normal(size=likelihood.shape)
    _, gradient = likelihood(theta, 0.1)
    step = 1e-6 * rng.normal(size=theta.shape)
    change = likelihood(theta + step, 0.1)[0] - likelihood(theta - step, 0.1)[0]
    assert change == pytest.approx(2 * np.vdot(gradient, step), rel=1e-4)


def test_two_classes_are_the_special_case_of_many(rng):
    features = CleanFeatures(rng.normal(size=(30, 4)), rng.random((30, 4)))
    codes, channel = rng.integers(0, 2, 30), np.array([[0.8, 0.3], [0.2, 0.7]])
    likelihood = SpreadLikelihood(features, codes, channel)
    theta = rng.normal(size=4)
    both = np.column_stack([np.zeros(4), theta])
    assert likelihood._many(both)[0] == pytest.approx(likelihood._two(theta)[0], abs=1e-12)


def test_the_expectation_is_close_to_that_of_sampling(rng):
    """MacKay's approximation is good to .017 for Gaussian scores."""
    for mean, variance in ((0.5, 1.0), (2.0, 4.0), (-1.0, 9.0)):
        sampled = expit(mean + np.sqrt(variance) * rng.normal(size=200_000)).mean()
        features = CleanFeatures(np.array([[mean]]), np.array([[variance]]))
        known = SpreadLikelihood(features, np.array([1]), np.eye(2))
        assert np.exp(-known(np.ones(1))[0]) == pytest.approx(sampled, abs=0.02)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_logistic_regression(classes, rng):
    X = rng.normal(size=(300, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=300), np.linspace(-0.5, 0.5, classes - 1))
    ours = SpreadClassifier(lam=0.05, tol=1e-8).fit(X, y)
    theirs = FactoredClassifier(lam=0.05, tol=1e-8).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_marginals_are_recovered_where_the_observed_ones_are_exact(rng):
    for noise in (
        Flips(4, keep=0.5),
        Flips(3, table=((0.7, 0.2, 0.1), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6))),
    ):
        clean = rng.dirichlet(np.ones(noise.states), size=6)
        assert np.allclose(deconvolved(clean @ noise.matrix.T, noise), clean, atol=5e-3)


def test_observed_frequencies_count_each_column():
    codes = np.array([[0, 2], [0, 1], [1, 1]], dtype=np.uint8)
    assert np.allclose(observed_frequencies(codes, 3), [[2 / 3, 1 / 3, 0], [0, 2 / 3, 1 / 3]])


def test_the_posterior_is_bayes_rule(rng):
    column = SpreadColumn("a", ("x", "y", "z"), Flips(3, keep=0.6))
    number = SpreadColumn("b", (0, 1, 4), Flips(3, keep=0.5))
    priors = [np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])]
    cells = (rng.integers(0, 3, 20), rng.integers(0, 3, 20))
    found = clean_features(Corrupted((column, number), cells), priors)
    for i in range(20):
        first = priors[0] * column.noise.matrix[cells[0][i]]
        assert np.allclose(found.mean[i, :3], first / first.sum())
        second = priors[1] * number.noise.matrix[cells[1][i]]
        second /= second.sum()
        values = np.array([-1.0, -0.5, 1.0])
        assert found.mean[i, 3] == pytest.approx(second @ values)
        assert found.spread[i, 3] == pytest.approx(second @ values**2 - (second @ values) ** 2)
    theta = rng.normal(size=5)
    first = found.mean[:, :3]
    one_hot = first @ theta[:3] ** 2 - (first @ theta[:3]) ** 2
    assert np.allclose(found.variances(theta), one_hot + found.spread[:, 3] * theta[3] ** 2)


def test_continuous_cells_are_pulled_to_the_prior():
    column = SpreadColumn("a", None, Added(0.0, 2.0, "gaussian", 0.5))
    known = clean_features(Corrupted((column,), (np.array([3.0]),)), [np.array([1.0, 0.5])])
    assert known.mean[0, 0] == pytest.approx(1.0)  # halfway from 1 to 3, on the scale -1..1
    assert known.spread[0, 0] == pytest.approx(0.25)


def test_correlated_columns_predict_each_other(rng):
    """Two copies of one variable: together they say more about it than each alone."""
    truth = rng.normal(size=4000) / 4
    columns = tuple(SpreadColumn(n, None, Added(-1.0, 1.0, "gaussian", 0.25)) for n in "ab")
    cells = tuple(truth + 0.5 * rng.normal(size=4000) for _ in range(2))
    errors = [
        np.mean((known.mean[:, 0] - truth) ** 2)
        for known in (
            clean_features(Corrupted(columns, cells), "marginals"),
            predicted_features(Corrupted(columns, cells)),
        )
    ]
    one, two = 1 / (16 + 4), 1 / (16 + 8)
    assert errors[0] == pytest.approx(one, rel=0.1)
    assert errors[1] == pytest.approx(two, rel=0.1)


def as_observed(corrupted: Corrupted) -> CleanFeatures:
    """Return the corrupted records as if they were clean."""
    pairs = zip(corrupted.columns, corrupted.cells, strict=True)
    observed = [coordinates(column)[cells, 0] for column, cells in pairs]
    return CleanFeatures(np.column_stack([*observed, np.ones(corrupted.count)]))


def fitted(known: CleanFeatures, labels: np.ndarray, channel: np.ndarray) -> np.ndarray:
    likelihood = SpreadLikelihood(known, labels, channel)
    return SpreadClassifier(lam=0.0)._fit_likelihood(likelihood, None).coef_


def test_with_clean_features_the_error_falls_with_the_records_and_naive_training_s_does_not(rng):
    """From 2,000 to 200,000 records, root n says a factor of ten; three has a wide margin."""
    ours, naive = [], []
    for count in (2_000, 200_000):
        corrupted, labels, channel, theta = records(rng, count, 1 - 1e-9)
        known = as_observed(corrupted)
        ours.append(np.linalg.norm(fitted(known, labels, channel) - theta))
        naive.append(np.linalg.norm(fitted(known, labels, np.eye(2)) - theta))
    assert ours[1] < ours[0] / 3
    assert ours[1] < 0.1
    assert naive[1] > 1.0


def test_with_corrupted_features_most_of_the_bias_goes(rng):
    """What is left, a sixth too much on the largest, is the Gaussian view of discrete columns."""
    corrupted, labels, channel, theta = records(rng, 100_000, 0.7)
    ours = fitted(clean_features(corrupted, "marginals"), labels, channel)
    naive = fitted(as_observed(corrupted), labels, np.eye(2))
    assert np.linalg.norm(ours - theta) < np.linalg.norm(naive - theta) / 3


@pytest.mark.parametrize("prior", ["marginals", "flat", "given"])
def test_importance_sampling_agrees(prior, rng):
    """Skewed marginals would part the priors; here they are even, and all three are right."""
    corrupted, labels, channel, _ = records(rng, 3000, 0.8)
    prior = [np.full(5, 0.2)] * 3 if prior == "given" else prior
    one = SpreadClassifier(lam=1e-3, prior=prior)
    two = SpreadClassifier(lam=1e-3, prior=prior, solver="importance", samples=40)
    for model in (one, two):
        model.fit_corrupted(corrupted, labels, channel, (0, 1))
    assert np.allclose(one.coef_, two.coef_, atol=0.15)


def test_a_flat_prior_stays_flat_when_it_is_sampled(rng):
    """Nearly all cells are zero: marginals pull to zero what a flat prior leaves alone."""
    column = SpreadColumn("a", LEVELS, Flips(5, keep=0.4))
    cells = np.where(rng.random(2000) < 0.9, 0, rng.integers(0, 5, 2000))
    corrupted = Corrupted((column,), (flipped(cells, column.noise, rng),))
    for prior in ("flat", "marginals"):
        drawn = sampled_records(corrupted, prior, 200, rng)[:, :, 0].mean(axis=0)
        assert np.allclose(drawn, clean_features(corrupted, prior).mean[:, 0], atol=0.25)
    assert drawn.mean() < -0.7


def test_randomised_labels_of_public_rows_can_be_learnt_from(rng):
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    release = MeanOperator(epsilon=2.0, mechanism="response").release(X, y, ledger=None)
    model = SpreadClassifier().fit_release(release, X)
    assert model.score(X, y) > 0.85
    assert model.to_release().guarantees == release.guarantees
    other = MeanOperator(epsilon=2.0, mechanism="laplace").release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="no randomised labels"):
        SpreadClassifier().fit_release(other, X)


@parametrize_with_checks([SpreadClassifier()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
