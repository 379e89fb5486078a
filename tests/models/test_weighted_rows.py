"""Rows under weights as a matrix: each sum against its formula, and the start on a sample."""

import numpy as np
import pytest

from suffice.errors import OptimisationError, ParameterError
from suffice.models import problem as module
from suffice.models import problem as problem_module
from suffice.models.problem import (
    LOSSES,
    PENALTIES,
    FactoredProblem,
    MatrixRows,
    as_weighted,
    sample_stride,
)


@pytest.fixture
def weighted(rng) -> MatrixRows:
    return MatrixRows(rng.normal(size=(50, 3)), rng.dirichlet(np.ones(50)))


def test_sums_are_what_they_say_row_by_row(weighted, rng):
    rows, weights, theta = weighted.matrix, weighted.weights, rng.normal(size=3)
    pairs = list(zip(weights, rows, strict=True))
    assert weighted.mean == pytest.approx(sum(w * x for w, x in pairs))
    assert weighted.mean_square == pytest.approx(sum(w * (x @ x) for w, x in pairs))
    assert weighted.moment == pytest.approx(sum(w * np.outer(x, x) for w, x in pairs))
    assert weighted.labels == pytest.approx(1 / sum(w * w for w in weights))
    value, slope = weighted.sums(theta, lambda z, w: (float(w @ z**2), 2 * w * z))
    assert value == pytest.approx(sum(w * (x @ theta) ** 2 for w, x in pairs))
    assert slope == pytest.approx(sum(2 * w * (x @ theta) * x for w, x in pairs))
    (gram,) = weighted.grams(theta, lambda z, w: [w * z**2])
    assert gram == pytest.approx(sum(w * (x @ theta) ** 2 * np.outer(x, x) for w, x in pairs))
    assert weighted.gram(weights) == pytest.approx(weighted.moment)
    assert weighted.combined(weights) == pytest.approx(weighted.mean)
    basis = rng.normal(size=(3, 2))
    assert weighted.in_basis(basis).scores(np.ones(2)) == pytest.approx(rows @ basis @ np.ones(2))


def test_sums_in_blocks_are_those_of_all_rows(weighted, rng, monkeypatch):
    theta = rng.normal(size=(3, 2))

    def slopes(z, w):
        return float(w @ (z**2).sum(axis=1)), 2 * w[:, None] * z

    value, slope = weighted.sums(theta, slopes)
    monkeypatch.setattr(module, "CELLS_IN_CACHE", 21)  # blocks of seven rows, the last of one
    in_blocks, slope_in_blocks = weighted.sums(theta, slopes)
    assert in_blocks == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope_in_blocks, slope, rtol=1e-12)


def test_a_few_rows_with_most_of_the_curvature_stand_for_all(rng):
    """Ten of 4,000 rows have nine tenths of it: every eighth row would miss most of them."""
    matrix = rng.normal(size=(4000, 5))
    heavy = rng.choice(4000, 10, replace=False)
    matrix[heavy] *= 60
    rows = MatrixRows(matrix)
    theta = np.zeros(5)
    (exact,) = rows.grams(theta, lambda _, w: [w])
    (near,) = rows.near_grams(theta, lambda _, w: [w], 500)
    assert np.linalg.eigvals(np.linalg.solve(exact, near)) == pytest.approx(1, abs=0.25)
    assert np.trace(near) == pytest.approx(np.trace(exact))
    (all_of_them,) = rows.near_grams(theta, lambda _, w: [w], 2001)
    assert np.array_equal(all_of_them, exact)
    (none,) = rows.near_grams(theta, lambda _, w: [0 * w], 500)
    assert not none.any()


@pytest.mark.parametrize("classes", [2, 4])
def test_a_model_that_is_handed_out_has_all_its_digits(rng, classes):
    rows = rng.normal(size=(3000, 8)) * np.arange(1, 9)
    codes = (rows[:, :classes] + rng.gumbel(size=(3000, classes)) * 4).argmax(axis=1)
    operator = rows.T @ np.eye(classes)[codes] / 3000
    loss = None if classes > 2 else LOSSES["logistic"]
    operator = operator if classes > 2 else operator[:, 1] - operator[:, 0]
    solution = FactoredProblem(rows, operator, loss).solve(1e-2, tol=1e-5, max_iter=1000)
    assert solution.gradient < 1e-10


def test_a_matrix_gets_weights_once(weighted):
    assert as_weighted(weighted) is weighted
    with pytest.raises(ParameterError, match="already have weights"):
        as_weighted(weighted, weighted.weights)


def test_the_sample_is_every_so_many_th_row(weighted, monkeypatch):
    assert weighted.sample is weighted
    monkeypatch.setattr(module, "_SAMPLE_CELLS", 40)
    assert sample_stride((50, 3)) == 3
    small = MatrixRows(weighted.matrix, weighted.own_weights).sample
    assert np.array_equal(small.matrix, weighted.matrix[::3])
    assert small.weights == pytest.approx(weighted.weights[::3] / weighted.weights[::3].sum())
    assert MatrixRows(weighted.matrix).sample.own_weights is None


@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic-net"])
@pytest.mark.parametrize("name", ["logistic", "matsushita", "softmax"])
def test_a_start_on_a_sample_saves_passes_and_changes_nothing_else(rng, monkeypatch, name, penalty):
    rows = rng.normal(size=(4000, 5))
    codes = np.digitize(rows[:, 0] + rng.logistic(size=4000), [-0.5, 0.5])
    operator = rows.T @ (np.eye(3)[codes] if name == "softmax" else codes - 1.0) / 4000
    loss = None if name == "softmax" else LOSSES[name]
    problem = FactoredProblem(rows, operator, loss, penalty=PENALTIES[penalty])
    cold = [problem.solve(1e-3, tol=tol, max_iter=5000) for tol in (1e-9, 1e-6)]
    monkeypatch.setattr(module, "_SAMPLE_CELLS", 4000)
    problem = FactoredProblem(rows, operator, loss, penalty=PENALTIES[penalty])
    warm = [problem.solve(1e-3, tol=tol, max_iter=5000) for tol in (1e-9, 1e-6)]
    assert warm[0].parameters == pytest.approx(cold[0].parameters, abs=1e-5)
    assert warm[0].gradient <= 1e-8
    if penalty == "l2":  # at 1e-9 the risk has no digits left, and the machine decides
        assert warm[1].iterations < cold[1].iterations


def test_a_sample_without_a_minimiser_is_no_obstacle(rng, monkeypatch):
    """The operator of all rows may be one that no labels of a few of them can have."""
    rows = rng.normal(size=(400, 2))
    problem = FactoredProblem(rows, rows.T @ np.sign(rows[:, 0]) / 400, LOSSES["logistic"])
    expected = problem.solve(1e-2, tol=1e-8, max_iter=200).parameters
    monkeypatch.setattr(module, "_SAMPLE_CELLS", 100)
    solve = problem_module.minimise

    def fails_on_few(*functions, **options):
        if len(operators) == 0:
            operators.append(options["start"])
            raise OptimisationError("the sample has no minimiser.")
        return solve(*functions, **options)

    operators: list[np.ndarray] = []
    monkeypatch.setattr(problem_module, "minimise", fails_on_few)
    again = FactoredProblem(rows, problem.operator, problem.loss)
    parameters = again.solve(1e-2, tol=1e-8, max_iter=200).parameters
    assert operators
    assert parameters == pytest.approx(expected, abs=1e-6)
