"""Penalties: their values, zeros where they belong, and an intercept that is never set to zero."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from suffice.errors import OptimisationError, ParameterError
from suffice.models.problem import LOSSES, PENALTIES, FactoredProblem, Penalty, penalty_named

_rng = np.random.default_rng(5)
X = np.hstack([_rng.normal(size=(300, 8)), np.ones((300, 1))])
codes = (X @ [2.0, -1.0, 0.5, 0, 0, 0, 0, 0, 1.5] + _rng.normal(size=300) > 0).astype(int)
del _rng  # tests draw from the fixture
MU = X.T @ (2.0 * codes - 1) / 300
three = np.digitize(X[:, 0], [-0.5, 0.5])
M = X.T @ np.eye(3)[three] / 300


def residual(problem: FactoredProblem, theta: np.ndarray, lam: float) -> float:
    """Return the largest entry of theta - prox(theta - gradient), the plainest way."""
    share = problem.penalty.mixing * lam
    smooth = FactoredProblem(problem.rows, problem.operator, problem.loss)
    ahead = theta - smooth.risk(theta, lam - share)[1]
    return float(np.abs(theta - np.sign(ahead) * np.maximum(np.abs(ahead) - share, 0)).max())


@pytest.mark.parametrize("mixing", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("operator", [MU, M], ids=["two", "three"])
def test_a_1norm_problem_is_solved_to_its_certificate_and_sets_zeros(mixing, operator, rng):
    loss = LOSSES["logistic"] if operator.ndim == 1 else None
    problem = FactoredProblem(X, operator, loss, penalty=Penalty("elastic-net", mixing))
    solution = problem.solve(0.1, tol=1e-7, max_iter=2000)
    assert residual(problem, solution.parameters, 0.1) <= 1e-6
    assert solution.gradient == pytest.approx(residual(problem, solution.parameters, 0.1))
    best, _ = problem.risk(solution.parameters, 0.1)
    for _ in range(20):
        other = solution.parameters + 0.01 * rng.normal(size=operator.shape)
        assert problem.risk(other, 0.1)[0] > best
    if mixing == 1.0:
        assert np.count_nonzero(solution.parameters == 0) >= 4


@pytest.mark.parametrize(("name", "ratio"), [("l1", 1.0), ("elastic-net", 0.5)])
def test_the_minimiser_is_that_of_scikit_learn(name, ratio):
    peer = LogisticRegression(
        C=1 / (0.05 * 300),
        l1_ratio=ratio,
        solver="saga",
        fit_intercept=False,
        tol=1e-8,
        max_iter=20_000,
        random_state=0,
    )
    peer.fit(X, codes)
    problem = FactoredProblem(X, MU, LOSSES["logistic"], penalty=PENALTIES[name])
    assert np.allclose(
        problem.solve(0.05, tol=1e-8, max_iter=2000).parameters, peer.coef_[0], atol=1e-4
    )


def test_the_intercept_is_penalised_but_never_set_to_zero():
    for lam in (0.1, 1.0, 10.0):
        problem = FactoredProblem(
            X, MU, LOSSES["logistic"], penalty=PENALTIES["l1"], intercept=True
        )
        theta = problem.solve(lam, tol=1e-8, max_iter=2000).parameters
        assert theta[-1] != 0
    assert not theta[:-1].any()
    assert abs(theta[-1]) < 0.1  # at lam = 10 it has all but gone


def test_weights_and_values_of_every_penalty():
    theta = np.array([1.0, -2.0, 3.0])
    problem = {
        name: FactoredProblem(np.zeros((1, 3)), np.zeros(3), LOSSES["linear"], penalty=penalty)
        for name, penalty in PENALTIES.items()
    }
    values = {name: p.risk(theta, 0.5)[0] for name, p in problem.items()}
    assert values == {"l2": 3.5, "l1": 3.0, "elastic-net": 3.25, "none": 0.0}
    absolute, squared = PENALTIES["elastic-net"].weights(2.0, (3, 2), intercept=True)
    assert absolute.tolist() == [[1, 1], [1, 1], [0, 0]]
    assert squared.tolist() == [[1, 1], [1, 1], [2, 2]]


def test_a_1norm_too_weak_for_the_operator_is_an_error_that_says_what_to_change():
    """The linear loss falls for ever along a coordinate whose |mu_j| exceeds lam."""
    problem = FactoredProblem(X, MU, LOSSES["linear"], penalty=PENALTIES["l1"])
    with pytest.raises(OptimisationError, match="lam"):
        problem.solve(0.5 * np.abs(MU).max(), tol=1e-6, max_iter=200)
    assert not problem.solve(1.01 * np.abs(MU).max(), tol=1e-6, max_iter=200).parameters.any()


def test_names_lead_to_penalties_and_nonsense_to_an_error():
    assert penalty_named("l1") is PENALTIES["l1"]
    assert penalty_named(Penalty("elastic-net", 0.2)).mixing == 0.2
    assert penalty_named(PENALTIES["none"]).name == "none"
    for call in (lambda: penalty_named("l3"), lambda: Penalty("elastic-net", 1.5)):
        with pytest.raises(ParameterError, match=r"penalty|mixing"):
            call()
