"""A penalty of one's own, in one file: `docs/architecture.md` says how, and this is its program."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

import suffice
from suffice.models.problem import LOSSES, PENALTIES, FactoredProblem, Penalty


@dataclass(frozen=True)
class Huber(Penalty):
    """lam theta^2 / 2 up to ``edge``, and a line beyond it: large coefficients are kept."""

    edge: float = 0.3

    def smooth_part(self, theta, squared):
        size = np.abs(theta)
        inner = np.minimum(size, self.edge)
        value = float(np.sum(squared * inner * (size - inner / 2)))
        return value, squared * np.sign(theta) * inner, squared * (size <= self.edge)


@dataclass(frozen=True)
class Prices(Penalty):
    """An elastic net whose coordinates cost differently."""

    prices: tuple[float, ...] = ()

    def weights(self, lam, shape, *, intercept):
        absolute, squared = super().weights(lam, shape, intercept=intercept)
        prices = np.ones((len(absolute), *[1] * (len(shape) - 1)))
        prices[: len(self.prices), ...] = np.reshape(self.prices, (-1, *[1] * (len(shape) - 1)))
        return absolute * prices, squared * prices


_rng = np.random.default_rng(8)
X = _rng.normal(size=(600, 3))
SCORES = X @ [2.0, -1.0, 0.2] + _rng.normal(size=600)
del _rng  # tests draw from the fixture
LABELS = {"two": (SCORES > 0).astype(int), "three": np.digitize(SCORES, [-1.0, 1.0])}
ROWS = np.hstack([X, np.ones((600, 1))])


def plain_risk(theta, operator, penalty, lam):
    """Return the risk with all that a penalty adds, the plainest way."""
    theta = theta.reshape(operator.shape)
    scores = ROWS @ theta
    even = np.logaddexp(scores / 2, -scores / 2) if theta.ndim == 1 else logsumexp(scores, axis=1)
    linear = np.vdot(theta, operator) * (0.5 if theta.ndim == 1 else 1.0)
    size = np.abs(theta)
    bent = np.where(size <= penalty.edge, size**2 / 2, penalty.edge * (size - penalty.edge / 2))
    return even.mean() - linear + lam * bent.sum()


@pytest.mark.parametrize("classes", LABELS)
def test_another_smooth_penalty_is_minimised_as_it_is_written(classes):
    matrix = ROWS.T @ np.eye(3)[LABELS[classes]] / 600
    # Columns whose sum is not the mean row, as noise leaves them: of squares alone the solver
    # knows what all classes then share.
    noisy = matrix + 0.02
    operator, loss = (noisy, None) if classes == "three" else (matrix @ [-1, 1, 0], "logistic")
    huber, lam = Huber("huber"), 0.1
    problem = FactoredProblem(ROWS, operator, LOSSES.get(loss), penalty=huber)
    found = problem.solve(lam, tol=1e-8, max_iter=1000).parameters
    peer = minimize(plain_risk, np.zeros(operator.size), (operator, huber, lam), tol=1e-12)
    assert found == pytest.approx(peer.x.reshape(operator.shape), abs=2e-4)
    assert problem.risk(found, lam)[0] == pytest.approx(peer.fun, abs=1e-9)
    squared = FactoredProblem(ROWS, operator, LOSSES.get(loss))
    assert np.abs(squared.solve(lam, tol=1e-8, max_iter=1000).parameters - found).max() > 0.05


def test_the_hessian_has_the_curvature_of_the_penalty():
    problem = FactoredProblem(ROWS, np.zeros(4), LOSSES["logistic"], penalty=Huber("huber"))
    theta = np.array([1.0, 0.1, -0.5, 0.2])
    steps = 1e-5 * np.eye(4)
    slopes = [problem.risk(theta + s, 0.1)[1] - problem.risk(theta - s, 0.1)[1] for s in steps]
    assert problem.hessian(theta, 0.1) == pytest.approx(np.array(slopes) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("classes", LABELS)
@pytest.mark.parametrize("lam", [0.05, "auto"])
def test_a_classifier_takes_it_and_states_its_risk(classes, lam):
    labels = LABELS[classes]
    owner = suffice.MeanOperator(epsilon=5.0, map=None, classes=sorted(set(labels.tolist())))
    release = owner.release(X, labels, ledger=None)
    models = {
        penalty.name: suffice.FactoredClassifier(penalty=penalty, lam=lam).fit_release(release, X)
        for penalty in (PENALTIES["l2"], Huber("huber"), Prices("prices", 0.5, (30.0,)))
    }
    low, high = models["huber"].risk_interval_
    assert low < models["huber"].risk_ < high
    assert models["huber"].score(X, labels) > 0.7
    if lam != "auto":
        assert np.abs(models["huber"].coef_).max() > np.abs(models["l2"].coef_).max()
        assert not models["prices"].coef_[:, 0].any()
        assert models["prices"].coef_[:, 1].any()
