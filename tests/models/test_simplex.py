"""Points of the simplex: least squares and mixture weights meet their optimality conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from suffice.models.simplex import least_squares_on_simplex, mixture_weights


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_least_squares_on_the_simplex_meets_its_optimality_conditions(classes, seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(classes + 2, classes))
    gram, target = factor.T @ factor, rng.normal(size=classes) * rng.choice([0.1, 1, 10])
    rho = least_squares_on_simplex(gram, target)
    slope = 2 * (gram @ rho - target)
    assert rho.sum() == pytest.approx(1)
    assert rho.min() >= 0
    assert (slope - slope @ rho).min() >= -1e-6 * (1 + np.abs(slope).max())


def test_least_squares_finds_a_mixture_that_is_one(rng):
    points, truth = rng.normal(size=(6, 4)), np.array([0.5, 0.0, 0.2, 0.3])
    mixture = least_squares_on_simplex(points.T @ points, points.T @ (points @ truth))
    assert np.allclose(mixture, truth, atol=1e-8)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_mixture_weights_meet_their_optimality_conditions(classes, seed):
    """No class would gain by more weight: the mean of l_k / (l rho) is at most one for each."""
    rng = np.random.default_rng(seed)
    likelihoods = rng.dirichlet(np.ones(classes), size=200) * rng.random((200, 1))
    counts = rng.integers(0, 4, 200).astype(float)
    rho = mixture_weights(likelihoods, counts)
    slopes = counts @ (likelihoods / (likelihoods @ rho)[:, None]) / counts.sum()
    assert rho.sum() == pytest.approx(1)
    assert rho.min() >= -1e-12
    assert slopes.max() <= 1 + 1e-5


def test_mixture_weights_come_back_from_an_edge(rng):
    """One row in 500 is nearly impossible without a class that Newton's first steps empty."""
    likelihoods = np.full((500, 4), 1e-9)
    likelihoods[np.arange(500), rng.choice(3, 500, p=[0.9, 0.08, 0.02])] = 1.0
    likelihoods[7] = [1e-9, 1e-9, 1e-9, 1.0]
    rho = mixture_weights(likelihoods)
    slope = (likelihoods / (likelihoods @ rho)[:, None]).mean(axis=0)
    assert slope.max() <= 1 + 1e-6  # the condition of Karush, Kuhn and Tucker
    assert rho[3] == pytest.approx(1 / 500, rel=1e-3)


def test_newtons_mixture_weights_are_where_em_climbs_to(rng):
    likelihoods, rho = rng.dirichlet(np.ones(4), size=300), np.full(4, 0.25)
    for _ in range(5000):  # Saerens et al. 2002, eq. 2.9
        posterior = likelihoods * rho
        rho = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    assert np.allclose(mixture_weights(likelihoods), rho, atol=1e-4)


def test_least_squares_agree_with_a_general_solver(rng):
    factor = rng.normal(size=(5, 4))
    gram, target = factor.T @ factor, rng.normal(size=4)
    general = minimize(
        lambda r: r @ gram @ r - 2 * target @ r, np.full(4, 0.25), method="SLSQP",
        bounds=[(0, 1)] * 4, constraints={"type": "eq", "fun": lambda r: r.sum() - 1},
        options={"ftol": 1e-14},
    ).x  # fmt: skip
    assert np.allclose(least_squares_on_simplex(gram, target), general, atol=1e-5)
