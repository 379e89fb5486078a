"""Learning the clean model from corrupted records: exact identities, consistency, contracts."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from suffice.errors import ParameterError
from suffice.learner.frequencies import deconvolve, observed_frequencies
from suffice.learner.problem import design_matrix
from suffice.learner.spread import SpreadClassifier, joint_states, predicted_features
from suffice.learner.spread_likelihood import (
    CleanFeatures,
    Corrupted,
    Knowledge,
    SpreadLikelihood,
    clean_features,
    coordinates,
    expected_logistic,
)
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.responses import RandomizedResponse
from suffice.papers.spread import as_observed, expectation_maximisation, sampled_records
from suffice.releases.columns import Added, Flips, SpreadColumn
from suffice.releases.merge import merge

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
    assert likelihood(both)[0] == pytest.approx(likelihood(theta)[0], abs=2e-5)


def test_the_expectation_is_that_of_the_logistic_function():
    """Against quadrature; MacKay's one-term approximation errs by up to .017 on the same grid."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    worst, mackay = 0.0, 0.0
    for mean in np.linspace(-12, 12, 25):
        for deviation in (1e-3, 0.3, 1.0, 3.0, 10.0):
            at = 9 * nodes
            normal = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
            true = float((9 * weights * normal) @ expit(mean + deviation * at))
            expectation = expected_logistic(np.array([mean]), np.array([deviation**2]))[0][0]
            worst = max(worst, abs(expectation - true))
            by_mackay = expit(mean / np.sqrt(1 + np.pi * deviation**2 / 8))
            mackay = max(mackay, abs(by_mackay - true))
    assert worst < 6e-6
    assert mackay > 0.01


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_logistic_regression(classes, rng):
    X = rng.normal(size=(300, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=300), np.linspace(-0.5, 0.5, classes - 1))
    model = SpreadClassifier(lam=0.05, tol=1e-8).fit(X, y)
    rows = design_matrix(X, model.pipeline_)[:, :-1]
    theirs = LogisticRegression(C=1 / (0.05 * 300), tol=1e-9, max_iter=1000).fit(rows, y)
    assert np.allclose(model.predict_proba(X), theirs.predict_proba(rows), atol=1e-6)


def test_marginals_are_recovered_where_the_observed_ones_are_exact(rng):
    for noise in (
        Flips(4, keep=0.5),
        Flips(3, table=((0.7, 0.2, 0.1), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6))),
    ):
        clean = rng.dirichlet(np.ones(noise.states), size=6)
        assert np.allclose(deconvolve(clean @ noise.matrix.T, noise), clean, atol=5e-3)


def test_observed_frequencies_count_each_column():
    codes = np.array([[0, 2], [0, 1], [1, 1]], dtype=np.uint8)
    assert np.allclose(observed_frequencies(codes, 3), [[2 / 3, 1 / 3, 0], [0, 2 / 3, 1 / 3]])


def test_the_posterior_is_bayes_rule(rng):
    column = SpreadColumn("a", ("x", "y", "z"), Flips(3, keep=0.6))
    number = SpreadColumn("b", (0, 1, 4), Flips(3, keep=0.5))
    priors = [np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])]
    cells = (rng.integers(0, 3, 20), rng.integers(0, 3, 20))
    posterior = clean_features(Corrupted((column, number), cells), priors)
    for i in range(20):
        first = priors[0] * column.noise.matrix[cells[0][i]]
        assert np.allclose(posterior.mean[i, :3], first / first.sum())
        second = priors[1] * number.noise.matrix[cells[1][i]]
        second /= second.sum()
        values = np.array([-1.0, -0.5, 1.0])
        assert posterior.mean[i, 3] == pytest.approx(second @ values)
        assert posterior.spread[i, 3] == pytest.approx(second @ values**2 - (second @ values) ** 2)
    theta = rng.normal(size=5)
    first = posterior.mean[:, :3]
    one_hot = first @ theta[:3] ** 2 - (first @ theta[:3]) ** 2
    assert np.allclose(posterior.variances(theta), one_hot + posterior.spread[:, 3] * theta[3] ** 2)


def test_continuous_cells_are_pulled_to_the_prior():
    column = SpreadColumn("a", None, Added(0.0, 2.0, "gaussian", 0.5))
    posterior = clean_features(Corrupted((column,), (np.array([3.0]),)), [np.array([1.0, 0.5])])
    assert posterior.mean[0, 0] == pytest.approx(1.0)  # halfway from 1 to 3, on the scale -1..1
    assert posterior.spread[0, 0] == pytest.approx(0.25)


def test_correlated_columns_predict_each_other(rng):
    """Two copies of one variable: together they say more about it than each alone."""
    truth = rng.normal(size=4000) / 4
    columns = tuple(SpreadColumn(n, None, Added(-1.0, 1.0, "gaussian", 0.25)) for n in "ab")
    cells = tuple(truth + 0.5 * rng.normal(size=4000) for _ in range(2))
    errors = [
        np.mean((features.mean[:, 0] - truth) ** 2)
        for features in (
            clean_features(Corrupted(columns, cells), "marginals"),
            predicted_features(Corrupted(columns, cells)),
        )
    ]
    first_variance, second_variance = 1 / (16 + 4), 1 / (16 + 8)
    assert errors[0] == pytest.approx(first_variance, rel=0.1)
    assert errors[1] == pytest.approx(second_variance, rel=0.1)


def fitted(
    knowledge: Knowledge, labels: np.ndarray, channel: np.ndarray, lam: float = 0.0
) -> np.ndarray:
    likelihood = SpreadLikelihood(knowledge, labels, channel)
    return SpreadClassifier(lam=lam)._fit_likelihood(likelihood, exact=False).theta_


def test_with_clean_features_the_error_falls_with_the_records_and_naive_training_s_does_not(rng):
    """From 2,000 to 200,000 records, root n says a factor of ten; three has a wide margin."""
    spread_errors, naive = [], []
    for count in (2_000, 200_000):
        corrupted, labels, channel, theta = records(rng, count, 1 - 1e-9)
        features = as_observed(corrupted)
        spread_errors.append(np.linalg.norm(fitted(features, labels, channel) - theta))
        naive.append(np.linalg.norm(fitted(features, labels, np.eye(2)) - theta))
    assert spread_errors[1] < spread_errors[0] / 3
    assert spread_errors[1] < 0.1
    assert naive[1] > 1.0


def test_with_corrupted_features_the_gaussian_view_of_few_columns_leaves_a_bias(rng):
    """About a sixth too much on the largest weight; combinations of states have none."""
    corrupted, labels, channel, theta = records(rng, 100_000, 0.7)
    by_combinations = fitted(joint_states(corrupted, "learned"), labels, channel)
    moments = fitted(clean_features(corrupted, "marginals"), labels, channel)
    naive = fitted(as_observed(corrupted), labels, np.eye(2))
    assert np.linalg.norm(moments - theta) < np.linalg.norm(naive - theta) / 3
    assert np.linalg.norm(by_combinations - theta) < np.linalg.norm(moments - theta) / 2


@pytest.mark.parametrize("alike", [0.0, 0.5])
def test_the_error_falls_with_the_records_whether_columns_depend_on_each_other_or_not(alike, rng):
    """From 10,000 to 1,000,000 records, root n says a factor of ten; four has a wide margin."""
    noise, label = Flips(3, keep=0.7), Flips(2, keep=0.8)
    columns = tuple(SpreadColumn(name, (0, 1, 2), noise) for name in "ab")
    theta, errors = np.array([2.0, -1.0, 0.5]), {"spread": [], "independent": [], "naive": []}
    for count in (10_000, 1_000_000):
        clean = rng.integers(0, 3, size=(count, 2))
        clean[:, 1] = np.where(rng.random(count) < alike, clean[:, 0], clean[:, 1])
        scores = (clean - 1) @ theta[:2] + theta[2]
        codes = flipped((rng.random(count) < expit(scores)).astype(int), label, rng)
        corrupted = Corrupted(columns, tuple(flipped(clean, noise, rng).T))
        for name, model in (
            ("spread", fitted(joint_states(corrupted, "learned"), codes, label.matrix)),
            ("independent", fitted(joint_states(corrupted, "marginals"), codes, label.matrix)),
            ("naive", fitted(as_observed(corrupted), codes, np.eye(2))),
        ):
            errors[name].append(np.linalg.norm(model - theta))
    assert errors["spread"][1] < errors["spread"][0] / 4
    assert errors["spread"][1] < 0.05
    assert errors["naive"][1] > 1.0
    assert (errors["independent"][1] > 0.2) == (alike > 0)


def test_combinations_are_bayes_rule_over_all_of_them(rng):
    """Against a loop over records and combinations, three classes, a text column among numbers."""
    columns = (
        SpreadColumn("a", ("x", "y"), Flips(2, keep=0.6)),
        SpreadColumn(
            "b", (0, 1, 4), Flips(3, table=((0.7, 0.2, 0.1), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6)))
        ),
    )
    priors = [np.array([0.3, 0.7]), np.array([0.1, 0.2, 0.7])]
    cells = (rng.integers(0, 2, 25), rng.integers(0, 3, 25))
    states = joint_states(Corrupted(columns, cells), priors)
    theta = rng.normal(size=(4, 3))
    expected, pull = states.expected(theta)
    for i in range(25):
        total, weight = np.zeros(3), 0.0
        for a in range(2):
            for b, value in enumerate((-1.0, -0.5, 1.0)):
                share = priors[0][a] * priors[1][b]
                share *= columns[0].noise.matrix[cells[0][i], a]
                share *= columns[1].noise.matrix[cells[1][i], b]
                total += share * softmax(np.array([a == 0, a == 1, value, 1.0]) @ theta)
                weight += share
        assert np.allclose(expected[i], total / weight)
    by, step = rng.normal(size=(25, 3)), 1e-6 * rng.normal(size=(4, 3))
    change = states.expected(theta + step)[0] - states.expected(theta - step)[0]
    assert np.vdot(by, change) == pytest.approx(2 * np.vdot(pull(by), step), rel=1e-4)


def test_combinations_are_for_few_discrete_columns_and_records_enough(rng):
    corrupted, *_ = records(rng, 100, 0.7)
    assert joint_states(corrupted, "learned") is None  # 125 combinations, 100 records
    assert len(joint_states(corrupted, "marginals").observed) == 100
    many = Corrupted(corrupted.columns * 2, corrupted.cells * 2)
    assert joint_states(many, "marginals") is None
    number = SpreadColumn("z", None, Added(0.0, 1.0, "gaussian", 1.0))
    assert joint_states(Corrupted((number,), (rng.normal(size=9),)), "flat") is None


@pytest.mark.parametrize("prior", ["marginals", "flat", "given"])
def test_importance_sampling_agrees(prior, rng):
    """Skewed marginals would part the priors; here they are even, and all three are right."""
    corrupted, labels, channel, _ = records(rng, 1000, 0.8)
    prior = [np.full(5, 0.2)] * 3 if prior == "given" else prior
    model = SpreadClassifier(lam=1e-3, prior=prior)
    model.fit_corrupted(corrupted, labels, channel, (0, 1))
    draws = sampled_records(corrupted, prior, 40, rng)
    likelihood = SpreadLikelihood(clean_features(corrupted, prior), labels, channel)
    sampled = expectation_maximisation(draws, likelihood, 1e-3, tol=1e-5)
    assert np.allclose(model.theta_, sampled, atol=0.15)


def test_numbers_are_sampled_from_their_gaussian_posterior(rng):
    column = SpreadColumn("a", None, Added(-1.0, 1.0, "gaussian", 0.25))
    corrupted = Corrupted((column,), (0.3 * rng.normal(size=400) + 0.5 * rng.normal(size=400),))
    samples = sampled_records(corrupted, "marginals", 2000, rng)[:, :, 0]
    features = clean_features(corrupted, "marginals")
    assert np.allclose(
        samples.mean(axis=0), features.mean[:, 0], atol=6 * samples.std() / 2000**0.5
    )
    assert samples.var(axis=0).mean() == pytest.approx(features.spread[:, 0].mean(), rel=0.02)


def test_a_learned_prior_takes_combinations_of_few_columns_and_not_moments(rng):
    corrupted, labels, channel, _ = records(rng, 5000, 0.8)
    model = SpreadClassifier(lam=1e-3).fit_corrupted(corrupted, labels, channel, (0, 1))
    by_combinations = fitted(joint_states(corrupted, "learned"), labels, channel, 1e-3)
    by_moments = fitted(predicted_features(corrupted), labels, channel, 1e-3)
    assert np.allclose(model.theta_, by_combinations)
    assert not np.allclose(model.theta_, by_moments, atol=0.01)


def test_a_flat_prior_stays_flat_when_it_is_sampled(rng):
    """Nearly all cells are zero: marginals pull to zero what a flat prior leaves alone."""
    column = SpreadColumn("a", LEVELS, Flips(5, keep=0.4))
    cells = np.where(rng.random(2000) < 0.9, 0, rng.integers(0, 5, 2000))
    corrupted = Corrupted((column,), (flipped(cells, column.noise, rng),))
    for prior in ("flat", "marginals"):
        sample_means = sampled_records(corrupted, prior, 200, rng)[:, :, 0].mean(axis=0)
        assert np.allclose(sample_means, clean_features(corrupted, prior).mean[:, 0], atol=0.25)
    assert sample_means.mean() < -0.7


def test_a_handful_of_records_chooses_no_penalty(rng):
    X, y = rng.normal(size=(4, 2)), np.array([0, 1, 0, 1])
    with pytest.raises(ParameterError, match="4 records are too few"):
        SpreadClassifier().fit(X, y)
    assert SpreadClassifier(lam=0.1).fit(X, y).score(X, y) >= 0.5


def test_randomised_labels_of_public_rows_can_be_learnt_from(rng):
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    release = MeanOperator(epsilon=2.0, mechanism="response").release(X, y, ledger=None)
    model = SpreadClassifier().fit_release(release, X)
    assert model.score(X, y) > 0.85
    assert model.to_release().guarantees == release.guarantees
    other = MeanOperator(epsilon=2.0, mechanism="laplace", map=None).release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="no randomised labels"):
        SpreadClassifier().fit_release(other, X)


def test_several_owners_are_learnt_from_as_one_and_a_poll_not_at_all(rng):
    X = rng.integers(0, 2, size=(900, 2))
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0]})
    survey = RandomizedResponse(label_flip=0.1, states=(0, 1), feature_flip=0.1)
    owners = [survey.release(table.slice(i, 450), label="y", ledger=None) for i in (0, 450)]
    model = SpreadClassifier().fit_release(owners)
    assert np.array_equal(model.theta_, SpreadClassifier().fit_release(merge(owners)).theta_)
    assert model.to_release().guarantees == merge(owners).guarantees
    poll = RandomizedResponse(label_flip=0.1).release(table.select(["y"]), label="y", ledger=None)
    with pytest.raises(ParameterError, match="suffice frequencies"):
        SpreadClassifier().fit_release(poll)


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        ([np.full(5, 0.2)], "one array for each of the 2 columns"),
        ([np.full(5, 0.2)] * 3, "one array for each of the 2 columns"),
        ([np.full(4, 0.25), [0.0, 1.0]], "one probability for each possible value"),
        ([np.full(5, -0.2), [0.0, 1.0]], "one probability for each possible value"),
        ([np.zeros(5), [0.0, 1.0]], "one probability for each possible value"),
        ([np.full(5, 0.2), [0.0]], "mean and the variance"),
        ([np.full(5, 0.2), [0.0, -1.0]], "mean and the variance"),
    ],
)
def test_a_prior_is_about_the_columns(prior, says, rng):
    number = SpreadColumn("n", None, Added(-1.0, 1.0, "gaussian", 0.5))
    columns = (SpreadColumn("a", LEVELS, Flips(5, keep=0.6)), number)
    records = Corrupted(columns, (rng.integers(0, 5, 40), rng.normal(size=40)))
    with pytest.raises(ParameterError, match=says):
        SpreadClassifier(prior=prior).fit_corrupted(records, np.arange(40) % 2, np.eye(2), (0, 1))
