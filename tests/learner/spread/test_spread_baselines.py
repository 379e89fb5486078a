"""Other ways to learn from corrupted records: what they are without noise, and why they fail."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression

from suffice.learner.problem import design_matrix
from suffice.learner.spread_likelihood import CleanFeatures, Corrupted, SpreadLikelihood, maximise
from suffice.papers.spread import ReconstructionObjective, as_observed, spread_baselines
from suffice.releases.columns import Added, Flips, SpreadColumn, declared_pipeline

SURE = 1e-12  # of noise: a declared column has some


def channel_of(classes: int, flip: float) -> np.ndarray:
    """Return P of even flips; a flip of zero has no name among valid noises."""
    other = flip / (classes - 1)
    return np.full((classes, classes), other) + np.eye(classes) * (1 - flip - other)


def numbers(rng: np.random.Generator, count: int, classes: int = 2):
    """Return records of two correlated columns with hardly any noise, and noisy labels of them."""
    x = rng.normal(size=(count, 2)) @ np.array([[1.0, 0.8], [0.0, 0.4]])
    noise = Added(-4.0, 4.0, "gaussian", SURE)
    records = Corrupted(tuple(SpreadColumn(n, None, noise) for n in "ab"), tuple(x.T))
    levels = np.quantile(x[:, 0], np.arange(1, classes) / classes)
    codes = np.digitize(x[:, 0] - x[:, 1] + rng.normal(size=count) / 2, levels)
    return records, codes, pa.table({"a": x[:, 0], "b": x[:, 1]})


def regression(rows: np.ndarray, codes: np.ndarray, lam: float) -> np.ndarray:
    """Return scikit-learn's weights for (lam/2) ||w||^2, the constant's free and last."""
    strength = np.inf if lam == 0 else 1 / (len(rows) * lam)
    model = LogisticRegression(C=strength, tol=1e-9, max_iter=5000).fit(rows[:, :-1], codes)
    weights = np.column_stack([model.coef_, model.intercept_])
    return weights[0] if len(weights) == 1 else weights.T


def centred(coef: np.ndarray) -> np.ndarray:
    """Return weights without what softmax does not see: a vector common to all classes."""
    return coef if coef.ndim == 1 else coef - coef.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("lam", [0.0, 0.01])
def test_without_noise_all_are_logistic_regression(classes, lam, rng):
    """Whitening is the same regression where nothing is penalised, reconstruction too."""
    records, codes, table = numbers(rng, 400, classes)
    baselines = spread_baselines(records, codes, np.eye(classes), (table, codes), lam=lam)
    assert list(baselines) == ["clean", "naive", "whitened", "reconstruction"]
    rows = as_observed(records).mean
    right = centred(regression(rows, codes, lam))
    for name, model in baselines.items():
        assert model.lam_ == lam
        if lam == 0 or name in {"clean", "naive"}:
            assert np.allclose(centred(model.theta_), right, atol=5e-3), name


def test_whitening_penalises_in_the_metric_of_what_was_observed(rng):
    """At its solution, the slope of lam/2 w' S w balances that of the fit."""
    records, codes, _ = numbers(rng, 300)
    lam = 0.05
    coef = spread_baselines(records, codes, channel_of(2, 0.2), lam=lam)["whitened"].theta_
    rows = as_observed(records).mean
    covariance = ledoit_wolf(rows[:, :-1])[0]
    slope = SpreadLikelihood(CleanFeatures(rows), codes, np.eye(2))(coef)[1]
    penalty = np.append(covariance @ coef[:-1], 0.0)
    assert np.allclose(slope + lam * penalty, 0, atol=5e-5)
    assert np.linalg.norm(penalty) > 0.05


def test_penalties_are_chosen_on_what_each_was_given():
    """Labels of pure chance: naive training, and all that follow it, must shrink far more.

    (In about one sample of six, chance looks like a signal; not in this one.)
    """
    rng = np.random.default_rng(1)
    records, codes, table = numbers(rng, 300)
    wrong = rng.integers(0, 2, 300)
    baselines = spread_baselines(records, wrong, channel_of(2, 0.45), (table, codes))
    assert baselines["clean"].lam_ < baselines["naive"].lam_ / 10
    assert baselines["reconstruction"].lam_ == baselines["naive"].lam_
    without = spread_baselines(records, wrong, channel_of(2, 0.45))
    assert list(without) == ["naive", "whitened", "reconstruction"]
    assert np.array_equal(without["naive"].theta_, baselines["naive"].theta_)


def test_observed_records_are_encoded_as_clean_ones(rng):
    columns = (
        SpreadColumn("n", (0, 1, 4), Flips(3, keep=0.6)),
        SpreadColumn("t", ("x", "y"), Flips(2, keep=0.7)),
        SpreadColumn("r", None, Added(-1.0, 3.0, "laplace", 0.5)),
    )
    codes = rng.integers(0, 3, 30), rng.integers(0, 2, 30)
    values = rng.uniform(-1, 3, 30)
    table = pa.table(
        {"n": np.array([0, 1, 4])[codes[0]], "t": np.array(["x", "y"])[codes[1]], "r": values}
    )
    observed = as_observed(Corrupted(columns, (*codes, values)))
    assert observed.exact
    assert np.allclose(observed.mean, design_matrix(table, declared_pipeline(columns)))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("flip", [0.0, 0.3])
def test_the_gradient_is_that_of_the_reconstruction(classes, flip, rng):
    rows = rng.normal(size=(40, 5))
    codes, channel = rng.integers(0, classes, 40), channel_of(classes, flip)
    objective = ReconstructionObjective(CleanFeatures(rows), codes, channel)
    theta = rng.normal(size=objective.shape)
    _, gradient = objective(theta, 0.1)
    step = 1e-6 * rng.normal(size=theta.shape)
    change = objective(theta + step, 0.1)[0] - objective(theta - step, 0.1)[0]
    assert change == pytest.approx(2 * np.vdot(gradient, step), rel=1e-4)


def test_reconstruction_is_bayes_rule_label_by_label(rng):
    rows, codes = rng.normal(size=(20, 3)), rng.integers(0, 2, 20)
    channel, theta = np.array([[0.8, 0.3], [0.2, 0.7]]), rng.normal(size=3)
    total = 0.0
    for row, code in zip(rows, codes, strict=True):
        positive = expit(row @ theta)
        weights = channel[code] * [1 - positive, positive]
        total += weights / weights.sum() @ np.log([1 - positive, positive]) / 20
    value, _ = ReconstructionObjective(CleanFeatures(rows), codes, channel)(theta)
    assert value == pytest.approx(-total, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_any_model_that_is_sure_maximises_the_reconstruction(classes, rng):
    """J goes to zero, its largest value, along random directions and for random labels."""
    rows = rng.normal(size=(50, 4))
    channel = channel_of(classes, 0.2)
    objective = ReconstructionObjective(CleanFeatures(rows), rng.integers(0, classes, 50), channel)
    likelihood = SpreadLikelihood(CleanFeatures(rows), objective.codes, channel)
    theta = rng.normal(size=objective.shape)
    assert objective(theta)[0] > 0.1
    assert 0 <= objective(1e5 * theta)[0] < 1e-6
    assert likelihood(1e5 * theta)[0] > likelihood(0 * theta)[0]


def test_of_a_coin_reconstruction_finds_another_one_and_the_likelihood_the_right_one():
    """Tosses that fall .4, flipped with .05, show .41: eq. 38 has its inner maximum at .367."""
    codes, ones, channel = np.repeat([1, 0], [41, 59]), np.ones((100, 1)), channel_of(2, 0.05)
    limits = {"tol": 1e-7, "max_iter": 100}
    by_likelihood, _, _ = maximise(
        SpreadLikelihood(CleanFeatures(ones), codes, channel), 0.0, **limits
    )
    other, _, _ = maximise(
        ReconstructionObjective(CleanFeatures(ones), codes, channel), 0.0, **limits
    )
    assert expit(by_likelihood[0]) == pytest.approx(0.4, abs=1e-5)
    assert expit(other[0]) == pytest.approx(0.367, abs=1e-3)


def test_naive_training_finds_the_direction_for_any_gaussian_inputs_but_not_the_length(rng):
    """Appendix B says so of even inputs only; these are stretched four to one, and shifted."""
    count, flip = 50_000, 0.2
    x = rng.normal(size=(count, 2)) @ np.diag([2.0, 0.5]) + 0.3
    theta = np.array([1.0, 2.0])
    labels = rng.random(count) < expit(x @ theta)
    codes = (labels ^ (rng.random(count) < flip)).astype(int)
    noise = Added(-1.0, 1.0, "gaussian", SURE)
    records = Corrupted(tuple(SpreadColumn(n, None, noise) for n in "ab"), tuple(x.T))
    baselines = spread_baselines(records, codes, channel_of(2, flip), lam=1e-5)
    for name in ("naive", "whitened"):
        weights = baselines[name].theta_[:-1]
        length = np.linalg.norm(weights)
        assert weights @ theta / length > 0.999 * np.linalg.norm(theta), name
        assert length < 0.6 * np.linalg.norm(theta), name
