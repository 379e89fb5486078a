"""The operators that labels can have, and where minimisers are."""

import numpy as np
import pytest
from scipy.optimize import linprog

from suffice.models.problem import LOSSES, FactoredProblem, _nearest_labels, why_no_minimiser

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


def test_an_operator_of_labels_is_refused_and_one_nearer_to_the_middle_is_solved(rng):
    """Labels that are the sign of a score have an operator on the boundary."""
    scores = X @ rng.normal(size=(3, 3))
    several = X.T @ np.eye(3)[scores.argmax(axis=1)] / 60
    middle = np.tile(X.mean(axis=0)[:, None] / 3, 3)
    two = X.T @ np.sign(scores[:, 0]) / 60
    for operator, centre, loss in ((two, 0 * two, LOSSES["matsushita"]), (several, middle, None)):
        inside = centre + 0.98 * (operator - centre)
        assert "boundary" in why_no_minimiser(X, operator)
        assert why_no_minimiser(X, inside) == ""
        problem = FactoredProblem(X, inside, loss)
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
