"""Losses: the factored risk is the plain one, and what is not linear-odd is refused with reason."""

import numpy as np
import pytest
from scipy.special import xlogy

from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.models.problem import LOSSES, FactoredProblem, from_even, from_function, loss_named
from suffice.owner.mean_operator import MeanOperator
from suffice.papers.patrini import from_generator, rho_loss

PLAIN = {
    "logistic": lambda z: np.logaddexp(0, -z),
    "square": lambda z: (1 - z) ** 2,
    "matsushita": lambda z: np.sqrt(1 + z**2) - z,
    "linear": lambda z: -z,
}
_rng = np.random.default_rng(4)
X = _rng.normal(size=(300, 5))
signs = np.where(X @ [1.0, -2.0, 0.0, 0.5, 0.0] + _rng.normal(size=300) > 0, 1.0, -1.0)
del _rng  # tests draw from the fixture


def huber_like(z: np.ndarray) -> np.ndarray:
    """Return a loss of one's own: log cosh is even, minus z is odd."""
    return np.logaddexp(z, -z) - z


@pytest.mark.parametrize("name", PLAIN)
def test_the_factored_risk_equals_the_plain_risk(name, rng):
    """Theorem 3, to 1e-12, on random data."""
    for _ in range(5):
        theta = rng.normal(size=5)
        exact_risk = PLAIN[name](signs * (X @ theta)).mean()
        factored, _ = FactoredProblem(X, X.T @ signs / len(X), LOSSES[name]).risk(theta)
        assert factored == pytest.approx(exact_risk, abs=1e-12)


@pytest.mark.parametrize("name", PLAIN)
def test_constants_and_derivatives_of_the_registry_are_those_of_the_loss(name, rng):
    loss, z = LOSSES[name], np.linspace(-4, 4, 41)
    numerical = from_function(PLAIN[name])
    assert loss.a == pytest.approx(numerical.a, rel=1e-9)
    assert np.allclose(loss(z), PLAIN[name](z), atol=1e-12)
    assert np.allclose(loss.slope(z), numerical.slope(z), atol=1e-8)
    assert np.allclose(loss.second(z), numerical.second(z), atol=1e-5)
    assert loss.curvature == pytest.approx(float(loss.second(np.zeros(1))[0]))
    if loss.fused is not None:
        weights, scores = rng.random(41), z.copy()
        assert loss.fused(scores, weights) == pytest.approx(weights @ loss.even(z))
        assert np.allclose(scores, weights * loss.slope(z))


def test_every_loss_is_tried_here():
    assert set(PLAIN) == set(LOSSES)


def test_linear_loss_has_its_closed_form():
    """Theta = a mu / (2 lam)."""
    mu = X.T @ signs / len(X)
    solution = FactoredProblem(X, mu, LOSSES["linear"]).solve(0.5, tol=1e-9, max_iter=100)
    assert np.allclose(solution.parameters, mu / 0.5)


@pytest.mark.parametrize("loss", [*PLAIN, huber_like])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_loss_learns_from_a_release(loss, classes):
    y = (signs > 0).astype(int) if classes == 2 else np.digitize(X[:, 1], [-0.5, 0.5])
    operator = MeanOperator(epsilon=100.0, classes=tuple(range(classes)), map=None)
    model = FactoredClassifier(loss=loss).fit_release(operator.release(X, y, ledger=None), X)
    assert model.score(X, y) > (0.8 if classes == 2 else 0.7)
    assert model.theta_.shape == ((6,) if classes == 2 else (6, 3))


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


def test_softmax_is_the_logistic_loss_whose_form_for_more_classes_is_joint():
    assert loss_named("softmax") is LOSSES["logistic"]
    assert [name for name, loss in LOSSES.items() if loss.joint] == ["logistic"]


@pytest.mark.parametrize("name", PLAIN)
def test_no_slope_exceeds_the_steepest_and_far_out_it_is_reached(name):
    loss = LOSSES[name]
    slopes = loss.slope(np.array([1.0, 50.0, 1e4])) / (loss.a / 2)
    assert (slopes <= loss.steepest).all()
    assert np.isinf(loss.steepest) or slopes[-1] == pytest.approx(loss.steepest, abs=1e-6)


def test_the_rho_loss_factorises_and_is_refused_for_training():
    loss, z = rho_loss(0.5), np.linspace(-3, 3, 31)
    assert np.allclose(loss(z), 1 + np.maximum(0, -z))
    assert loss.a == 1.0
    with pytest.raises(ParameterError, match="theta = 0 minimises it"):
        loss_named(loss)
    with pytest.raises(ParameterError, match="theta = 0 minimises it"):
        FactoredProblem(X, X.T @ signs, loss).solve(1.0, tol=1e-6, max_iter=10)
    with pytest.raises(ParameterError, match="theta = 0 minimises it"):
        loss_named(lambda z: 1 + np.maximum(0, -z))  # the same under no name
    with pytest.raises(ParameterError, match="positive"):
        rho_loss(0.0)


def entropy(p: np.ndarray) -> np.ndarray:
    return xlogy(p, p) + xlogy(1 - p, 1 - p)


def root(p: np.ndarray) -> np.ndarray:
    return -np.sqrt(p * (1 - p))


GENERATED = {
    "logistic": (entropy, lambda p: np.log(p) - np.log1p(-p), 1.0),
    "matsushita": (root, lambda p: (2 * p - 1) / (2 * np.sqrt(p * (1 - p))), None),
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", GENERATED)
def test_a_generator_gives_its_loss(name, exact):
    """Table 1 of the paper, also far out, with the generator's slope and without."""
    phi, slope, b = GENERATED[name]
    generated, registered = from_generator(phi, slope=slope if exact else None, b=b), LOSSES[name]
    z = np.linspace(-30, 30, 121)
    assert generated.a == pytest.approx(registered.a, rel=1e-12)
    assert np.allclose(generated(z), registered(z), rtol=1e-13, atol=1e-11)
    assert np.allclose(generated.slope(z), registered.slope(z), atol=1e-13 if exact else 1e-9)
    assert np.allclose(generated.second(z), registered.second(z), atol=1e-6)
    assert np.allclose(generated.link(z), registered.link(z), atol=1e-13 if exact else 1e-9)


def test_a_generator_is_scaled_to_one_at_zero_and_learns():
    loss = from_generator(entropy)
    assert loss(np.zeros(1))[0] == pytest.approx(1.0)
    assert loss.a == pytest.approx(1 / np.log(2))
    squared = from_generator(lambda p: -p * (1 - p))
    z = np.linspace(-1, 1, 21)
    assert np.allclose(squared(z), LOSSES["square"](z), atol=1e-9)  # on [-1, 1], linear beyond
    mu = X.T @ signs / len(X)
    generated = FactoredProblem(X, mu, loss).solve(0.1 / np.log(2), tol=1e-6, max_iter=200)
    logistic = FactoredProblem(X, mu, LOSSES["logistic"]).solve(0.1, tol=1e-6, max_iter=200)
    assert np.allclose(generated.parameters, logistic.parameters, atol=1e-4)


@pytest.mark.parametrize(
    ("phi", "reason"),
    [
        (lambda p: p**2, r"symmetric about 1/2: phi\(p\) - phi\(1 - p\) reaches 1"),
        (lambda p: np.cos(2 * np.pi * p) + 1e-4 * np.cos(60 * np.pi * p), "above a chord"),
        (lambda p: p * (1 - p), "strictly convex"),
        (lambda p: 0 * p, "strictly convex"),
        (lambda p: 1 / (p - p), "finite"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_generator_is_told_by_how_much_it_is_not_permissible(phi, reason):
    with pytest.raises(ParameterError, match=reason):
        from_generator(phi)
