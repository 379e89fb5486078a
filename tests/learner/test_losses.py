"""Losses: the factored risk is the plain one, and what is not linear-odd is refused with reason."""

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner.factored import FactoredClassifier
from suffice.learner.losses import LOSSES, from_even, from_function, loss_named
from suffice.learner.problem import FactoredProblem
from suffice.owner.mean_operator import MeanOperator

PLAIN = {
    "logistic": lambda z: np.logaddexp(0, -z),
    "square": lambda z: (1 - z) ** 2,
    "matsushita": lambda z: np.sqrt(1 + z**2) - z,
    "linear": lambda z: -z,
}
rng = np.random.default_rng(4)
X = rng.normal(size=(300, 5))
signs = np.where(X @ [1.0, -2.0, 0.0, 0.5, 0.0] + rng.normal(size=300) > 0, 1.0, -1.0)


def huber_like(z: np.ndarray) -> np.ndarray:
    """Return a loss of one's own: log cosh is even, minus z is odd."""
    return np.logaddexp(z, -z) - z


@pytest.mark.parametrize("name", PLAIN)
def test_the_factored_risk_equals_the_plain_risk(name):
    """Theorem 3, to 1e-12, on random data."""
    for _ in range(5):
        theta = rng.normal(size=5)
        plain = PLAIN[name](signs * (X @ theta)).mean()
        factored, _ = FactoredProblem(X, X.T @ signs / len(X), LOSSES[name]).risk(theta)
        assert factored == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("name", PLAIN)
def test_constants_and_derivatives_of_the_registry_are_those_of_the_loss(name):
    ours, z = LOSSES[name], np.linspace(-4, 4, 41)
    numerical = from_function(PLAIN[name])
    assert ours.a == pytest.approx(numerical.a, rel=1e-9)
    assert np.allclose(ours(z), PLAIN[name](z), atol=1e-12)
    assert np.allclose(ours.slope(z), numerical.slope(z), atol=1e-8)
    assert ours.curvature == pytest.approx(numerical.curvature, abs=1e-4)


def test_every_loss_is_tried_here():
    assert set(PLAIN) == set(LOSSES)


def test_linear_loss_has_its_closed_form():
    """Theta = a mu / (2 lam)."""
    mu = X.T @ signs / len(X)
    found = FactoredProblem(X, mu, LOSSES["linear"]).solve(0.5, tol=1e-9, max_iter=100)
    assert np.allclose(found.parameters, mu / 0.5)


@pytest.mark.parametrize("loss", [*PLAIN, huber_like])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_loss_learns_from_a_release(loss, classes):
    y = (signs > 0).astype(int) if classes == 2 else np.digitize(X[:, 1], [-0.5, 0.5])
    operator = MeanOperator(epsilon=100.0, classes=tuple(range(classes)))
    model = FactoredClassifier(loss=loss).fit_release(operator.release(X, y, ledger=None), X)
    assert model.score(X, y) > (0.8 if classes == 2 else 0.7)
    assert model.coef_.shape == ((6,) if classes == 2 else (6, 3))


@pytest.mark.parametrize(
    ("name", "reason"), [("hinge", "not linear-odd"), ("rho", "theta = 0 minimises it")]
)
def test_losses_that_cannot_work_are_refused_by_name_with_the_reason(name, reason):
    with pytest.raises(ParameterError, match=reason):
        FactoredClassifier(loss=name).fit(X, signs)


def test_a_loss_of_ones_own_is_told_by_how_much_it_fails():
    with pytest.raises(ParameterError, match=r"differs from the line -1\.\d+ z by up to \d"):
        from_function(lambda z: np.maximum(0, 1 - z))
    with pytest.raises(ParameterError, match="finite numbers"):
        from_function(lambda z: z / 0 if False else np.nan * z)
    with pytest.raises(ParameterError, match="even"):
        from_even(lambda z: z, 1.0)
    with pytest.raises(ParameterError, match="positive"):
        from_even(np.abs, -1.0)
    with pytest.raises(ParameterError, match="one of"):
        loss_named("nonsense")


def test_an_even_function_makes_a_loss_and_comes_back():
    """Lemma 5: losses and even functions are one to one."""
    loss, z = from_even(lambda z: np.sqrt(1 + z**2), 2.0), np.linspace(-3, 3, 31)
    assert np.allclose(loss(z), LOSSES["matsushita"](z))


@pytest.mark.parametrize("name", ["logistic", "square", "matsushita"])
def test_probabilities_are_probabilities_and_linear_has_none(name):
    y = (signs > 0).astype(int)
    shares = FactoredClassifier(loss=name, lam=0.01).fit(X, y).predict_proba(X)
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.abs(shares[:, 1].mean() - y.mean()) < 0.1
    with pytest.raises(ParameterError, match="no probabilities"):
        FactoredClassifier(loss="linear", lam=0.01).fit(X, y).predict_proba(X)
