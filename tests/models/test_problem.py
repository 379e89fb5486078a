"""The factored problem: derivatives, weights of rows, and a solver that keeps its certificate."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from suffice.errors import OptimisationError, ParameterError
from suffice.models import problem as module
from suffice.models.problem import LOSSES, PENALTIES, FactoredProblem

_rng = np.random.default_rng(11)
X = _rng.normal(size=(250, 6)) * 3.0 ** -np.arange(6)
signs = np.where(X[:, 0] + 0.5 * _rng.normal(size=250) > 0, 1.0, -1.0)
codes = np.digitize(X[:, 0], [-0.7, 0.7])
WEIGHTS = _rng.dirichlet(np.ones(250))
del _rng  # tests draw from the fixture


def problem(name: str, weights: np.ndarray | None = None, **options) -> FactoredProblem:
    """Return the problem of exact labels, for a loss or for softmax."""
    share = np.full(250, 1 / 250) if weights is None else weights
    if name == "softmax":
        return FactoredProblem(
            X, X.T @ (share[:, None] * np.eye(3)[codes]), None, weights, **options
        )
    return FactoredProblem(X, X.T @ (share * signs), LOSSES[name], weights, **options)


names = pytest.mark.parametrize("name", [*LOSSES, "softmax"])
weighted = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["even", "weighted"])


@names
def test_integer_weights_mean_repeated_rows(name, rng):
    counts = rng.integers(0, 4, 250)
    weighted = problem(name, counts / counts.sum())
    again = FactoredProblem(np.repeat(X, counts, axis=0), weighted.operator, weighted.loss)
    theta = rng.normal(size=weighted.operator.shape)
    for expected, actual in zip(weighted.risk(theta, 0.1), again.risk(theta, 0.1), strict=True):
        assert np.allclose(expected, actual, atol=1e-12)
    assert np.allclose(weighted.hessian(theta), again.hessian(theta))
    assert np.allclose(weighted.rows.moment, again.rows.moment)


@names
@weighted
def test_gradient_and_hessian_agree_with_differences(name, weights, rng):
    factored = problem(name, weights)
    theta, step = rng.normal(size=(2, *factored.operator.shape))
    near = [factored.risk(theta + s * 1e-5 * step, 0.3) for s in (1, -1)]
    gradient = factored.risk(theta, 0.3)[1]
    assert (near[0][0] - near[1][0]) / 2e-5 == pytest.approx(np.vdot(gradient, step), abs=1e-8)
    product = (factored.hessian(theta, 0.3) @ step.ravel()).reshape(step.shape)
    assert np.allclose((near[0][1] - near[1][1]) / 2e-5, product, atol=1e-8)


def test_a_hessian_that_does_not_fit_is_refused():
    wide = FactoredProblem(np.ones((3, 900)), np.ones((900, 5)), None)
    with pytest.raises(ParameterError, match="4500 rows is too large"):
        wide.hessian(np.zeros((900, 5)))


@names
@weighted
@pytest.mark.parametrize("lam", [1.0, 1e-3, 1e-6])
def test_the_solver_reaches_its_certificate_at_any_penalty(name, weights, lam):
    factored = problem(name, weights)
    solution = factored.solve(lam, tol=1e-8, max_iter=500)
    gradient = np.abs(factored.risk(solution.parameters, lam)[1]).max()
    assert gradient <= 1.1e-8  # where a risk has no digits left to compare
    assert solution.gradient == pytest.approx(gradient, abs=1e-9)


def test_the_solver_agrees_with_scikit_learn_also_for_weighted_softmax():
    peer = LogisticRegression(C=1 / 0.01, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(X, codes, sample_weight=WEIGHTS)
    solution = problem("softmax", WEIGHTS).solve(0.01, tol=1e-8, max_iter=1000)
    assert np.allclose(solution.parameters.T, peer.coef_, atol=1e-4)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_the_metric_saves_steps_and_changes_nothing_else(name, monkeypatch):
    factored = problem(name)
    with_metric = factored.solve(1e-6, tol=1e-8, max_iter=5000)
    monkeypatch.setattr(module, "_LARGEST_METRIC", 0)
    without = factored.solve(1e-6, tol=1e-8, max_iter=5000)
    assert with_metric.iterations < 0.7 * without.iterations
    assert np.allclose(with_metric.parameters, without.parameters, rtol=1e-2)


def test_a_noisy_softmax_operator_is_no_harder_than_a_true_one(rng):
    """Its columns do not sum to mean x: what all classes share is huge, and in closed form."""
    factored = problem("softmax")
    noisy = factored.with_operator(factored.operator + rng.normal(size=(6, 3)))
    solution = noisy.solve(1e-4, tol=1e-6, max_iter=300)
    assert np.abs(noisy.risk(solution.parameters, 1e-4)[1]).max() <= 1e-5
    excess = noisy.operator.sum(axis=1) - X.mean(axis=0)
    assert np.allclose(solution.parameters.mean(axis=1), excess / (3 * 1e-4))


def test_a_start_at_the_solution_ends_there_at_once():
    factored = problem("logistic")
    first = factored.solve(0.01, tol=1e-8, max_iter=100)
    again = factored.solve(0.01, tol=1e-7, max_iter=100, start=first.parameters)
    assert again.iterations == 0
    assert np.array_equal(again.parameters, first.parameters)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("name", ["logistic", "matsushita", "square"])
def test_a_model_does_not_show_where_the_solver_began(name, penalty, rng, monkeypatch):
    """Within tol there are many; sums that round otherwise would pick another one of them."""
    factored = problem(name, penalty=PENALTIES[penalty])
    expected = factored.solve(0.01, tol=1e-6, max_iter=1000).parameters
    assert (np.count_nonzero(expected) < 6) == (penalty == "l1")
    for _ in range(5):
        begin = rng.normal(size=6)
        monkeypatch.setattr(FactoredProblem, "_near", lambda *_, begin=begin: (begin, None))
        parameters = factored.solve(0.01, tol=1e-6, max_iter=1000).parameters
        assert parameters == pytest.approx(expected, rel=0, abs=1e-10)


def test_too_few_iterations_are_an_error():
    with pytest.raises(OptimisationError, match="larger max_iter or lam"):
        problem("logistic").solve(1e-6, tol=1e-10, max_iter=3)


def test_problems_on_the_same_rows_share_what_rows_decide():
    first = problem("logistic", WEIGHTS)
    second = first.with_operator(-first.operator)
    assert second.rows.moment is first.rows.moment
    assert np.allclose(first.rows.moment, X.T @ (WEIGHTS[:, None] * X))
    third = FactoredProblem(X[:9], first.operator, first.loss, None, first.penalty)
    assert np.allclose(third.rows.moment, X[:9].T @ X[:9] / 9)


@pytest.mark.parametrize(
    "weights", [np.full(250, 0.1), -WEIGHTS, np.ones(3) / 3, np.full(250, np.nan)]
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ParameterError, match="weight"):
        FactoredProblem(X, X[0], LOSSES["logistic"], weights)


# --- without a penalty


@pytest.mark.parametrize("name", ["logistic", "matsushita", "square", "softmax"])
def test_without_a_penalty_a_problem_with_a_minimiser_is_solved(name):
    free = problem(name, penalty=PENALTIES["none"])
    solution = free.solve(5.0, tol=1e-7, max_iter=1000)  # lam has no say
    assert np.abs(free.risk(solution.parameters)[1]).max() <= 1e-6


@pytest.mark.parametrize("name", ["logistic", "linear", "softmax"])
def test_without_a_penalty_a_problem_without_a_minimiser_is_refused(name):
    far = problem(name, penalty=PENALTIES["none"])
    far = far.with_operator(far.operator + 10)
    with pytest.raises(ParameterError, match=r"no best model.*lam > 0"):
        far.solve(1.0, tol=1e-7, max_iter=1000)
    with pytest.raises(ParameterError, match="no best model"):
        problem("linear").solve(0.0, tol=1e-7, max_iter=1000)  # lam = 0 is no penalty either
