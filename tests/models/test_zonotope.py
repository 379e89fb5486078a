"""The operators that labels can have: projection with its certificate, and where minimisers are."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from suffice.errors import OptimisationError, ParameterError
from suffice.models.losses import LOSSES
from suffice.models.problem import FactoredProblem
from suffice.models.zonotope import _nearest_labels, project, why_no_minimiser

_rng = np.random.default_rng(3)
X = _rng.normal(size=(60, 3)) * [1.0, 2.0, 0.5]
WEIGHTS = _rng.dirichlet(np.ones(60))
FAR = np.array([1.0, -1.5, 0.4])
FAR_3 = X.T @ np.eye(3)[_rng.integers(0, 3, 60)] / 60 + 0.5 * _rng.normal(size=(3, 3))
del _rng  # tests draw from the fixture


def boundary_scale(rows: np.ndarray, mu: np.ndarray) -> float:
    """Return the largest t with t mu in Z, by linear programming: max t, X^T u / m = t mu."""
    width = rows.shape[1]
    equal = np.hstack([rows.T / len(rows), -mu[:, None]])
    bounds = [(-1, 1)] * len(rows) + [(0, None)]
    cost = np.append(np.zeros(len(rows)), -1.0)
    return float(linprog(cost, A_eq=equal, b_eq=np.zeros(width), bounds=bounds).x[-1])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["even", "weighted"])
def test_the_projection_is_the_one_of_a_general_solver(weights):
    shares = np.full(60, 1 / 60) if weights is None else weights

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        missing = X.T @ (shares * u) - FAR
        return missing @ missing / 2, shares * (X @ missing)

    peer = minimize(
        objective, np.zeros(60), jac=True, bounds=[(-1, 1)] * 60, options={"ftol": 0, "gtol": 1e-10}
    )
    projection = project(X, FAR, weights=weights, tol=1e-6)
    exact = X.T @ (shares * peer.x)
    assert np.linalg.norm(projection.operator - exact) <= 1e-4
    assert projection.distance == pytest.approx(np.sqrt(2 * peer.fun), rel=1e-6)
    assert np.abs(projection.labels).max() <= 1
    assert np.allclose(projection.operator, X.T @ (shares * projection.labels))


@pytest.mark.parametrize("far", [FAR, FAR_3], ids=["two", "three"])
def test_the_certificate_holds_at_every_tolerance(far):
    """Sqrt(gap) bounds the distance to the exact projection, here one of 1e-9."""
    exact = project(X, far, tol=1e-8, max_iter=10**5).operator
    errors = []
    for tol in (1e-1, 1e-2, 1e-4):
        projection = project(X, far, tol=tol)
        errors.append(np.linalg.norm(projection.operator - exact))
        assert errors[-1] <= projection.error + 1e-8
        assert projection.error <= tol * np.linalg.norm(far)
    assert errors[0] > errors[-1]


@pytest.mark.parametrize("classes", [2, 3])
def test_true_operators_stay_and_noisy_ones_come_nearer_to_the_truth(classes, rng):
    codes = np.digitize(X[:, 1], [0.0] if classes == 2 else [-1.0, 1.0])
    labels = 2.0 * codes - 1 if classes == 2 else np.eye(3)[codes]
    truth = X.T @ labels / 60
    assert project(X, truth, tol=1e-5).distance <= 1e-5
    for _ in range(5):
        noisy = truth + 0.3 * rng.normal(size=truth.shape)
        projection = project(X, noisy, tol=1e-5)
        assert np.linalg.norm(projection.operator - truth) < np.linalg.norm(noisy - truth)
        if classes == 3:
            assert projection.labels.min() >= 0
            assert np.allclose(projection.labels.sum(axis=1), 1)
            assert np.allclose(projection.operator.sum(axis=1), X.mean(axis=0))


def test_the_metric_of_the_noise_is_that_of_whitened_coordinates(rng):
    root = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    scale = np.array([1.0, 4.0, 9.0])
    for metric, whitening in (
        (root, np.linalg.inv(root)),
        (scale, np.diag(scale**-0.5)),
        (None, np.eye(3)),
    ):
        projection = project(X, FAR, metric=metric, tol=1e-6)
        white = project(X @ whitening.T, whitening @ FAR, tol=1e-6)
        assert np.allclose(whitening @ projection.operator, white.operator, atol=1e-4)
        assert projection.distance == pytest.approx(white.distance, rel=1e-4)
    for singular in (np.ones((3, 1)), np.array([1.0, 0.0, 1.0])):
        with pytest.raises(ParameterError, match="metric"):
            project(X, FAR, metric=singular)


def test_a_projection_that_stops_short_says_so():
    with pytest.raises(OptimisationError, match="max_iter or tol"):
        project(X, FAR, tol=1e-9, max_iter=20)


def test_the_nearest_point_of_a_simplex_is_the_one_of_a_general_solver(rng):
    for point in rng.normal(size=(5, 4)):
        nearest = _nearest_labels(point[None, :])[0]
        others = rng.dirichlet(np.ones(4), size=2000)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(1)
        assert np.linalg.norm(nearest - point) <= np.linalg.norm(others - point, axis=1).min()


# --- where minimisers are


@pytest.mark.parametrize("direction", [FAR, -FAR, np.array([0.2, 1.0, 0.0])])
def test_the_boundary_is_where_linear_programming_finds_it(direction):
    edge = boundary_scale(X, direction) * direction
    assert why_no_minimiser(X, 0.98 * edge) == ""
    assert "boundary" in why_no_minimiser(X, edge)
    assert "no labels of these rows have this mean operator" in why_no_minimiser(X, 1.02 * edge)
    assert why_no_minimiser(X, 1.9 * edge, steepest=2.0) == ""


def test_a_projected_operator_is_refused_and_a_shrunk_one_is_solved():
    for far, loss in ((FAR, LOSSES["matsushita"]), (FAR_3, None)):
        projection = project(X, far, tol=1e-5)
        assert why_no_minimiser(X, projection.operator)
        assert why_no_minimiser(X, projection.shrunk(0.99)) == ""
        problem = FactoredProblem(X, projection.shrunk(0.99), loss)
        assert problem.solve(0.0, tol=1e-6, max_iter=2000).gradient <= 1e-5


def test_every_loss_has_its_own_condition():
    flat = X.copy()
    flat[:, 2] = 0.0
    assert "span" in why_no_minimiser(flat, FAR, steepest=np.inf)
    assert why_no_minimiser(flat, 100 * FAR * [1, 1, 0], steepest=np.inf) == ""
    assert "linear" in why_no_minimiser(X, FAR, steepest=0.0)
    assert why_no_minimiser(X, 0 * FAR, steepest=0.0) == ""
    assert "own" in why_no_minimiser(X, 0 * FAR, steepest=None)
    assert "mean x" in why_no_minimiser(X, FAR_3)
