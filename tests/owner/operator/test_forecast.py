"""The forecast: whitening is the best shape of its kind, and predictions rank as outcomes do."""

import numpy as np
import pytest
from scipy.optimize import minimize

from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.owner.forecast import SIGNALS, PublicMoments
from suffice.owner.mean_operator import Candidates, MeanOperator, whitening
from suffice.owner.source import PublicSource

# --- whitening


def margin_noise(transform: np.ndarray, moment: np.ndarray, lam: float, curvature: float) -> float:
    """Return tr(H^-1 C H^-1 S) for noise that is even after ``transform``, mean ||T x||^2 = 1."""
    size = np.trace(transform @ moment @ transform.T)
    inverse = np.linalg.inv(transform)
    hessian = np.linalg.inv(lam * np.eye(len(moment)) + curvature * moment)
    return float(size * np.trace(hessian @ inverse @ inverse.T @ hessian @ moment))


@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_no_shape_with_these_eigenvectors_has_less_margin_noise(lam, rng):
    rows = rng.normal(size=(300, 6)) * 10.0 ** -np.linspace(0, 2, 6) @ rng.normal(size=(6, 6))
    moment = rows.T @ rows / len(rows)
    values, vectors = np.linalg.eigh(moment)
    whitened = margin_noise(whitening(values, vectors, lam, 0.25), moment, lam, 0.25)

    def other(logs: np.ndarray) -> float:
        return margin_noise(vectors * np.exp(logs / 2) @ vectors.T, moment, lam, 0.25)

    assert all(other(rng.normal(size=6)) >= whitened * (1 - 1e-12) for _ in range(200))
    minimum = minimize(other, np.zeros(6), method="BFGS")
    assert minimum.fun == pytest.approx(whitened, rel=1e-5)
    assert margin_noise(np.eye(6), moment, lam, 0.25) > 1.02 * whitened  # and it is not for nothing


# --- the formulas


def test_the_correlation_is_the_one_of_the_assumed_signal(rng):
    """Simulates mu = S beta + noise with beta of no direction, and correlates scores with labels.

    The prediction is a ratio of means; in 150 draws of 40 coordinates that is within 2 %.
    """
    rows = rng.normal(size=(2000, 40)) * 2.0 ** -np.linspace(0, 4, 40)
    moments = PublicMoments.of(rows, 2000, 2)
    variances = np.full(40, 1e-3)
    predicted = moments.utility(variances)
    s, lam = moments.values, predicted.lam
    inverse = 1 / (lam + s / 4)
    r2 = SIGNALS["usual"]
    beta = rng.normal(size=(150, 40)) * np.sqrt(r2 / s.sum())
    noise = rng.normal(size=(150, 40)) * np.sqrt(variances + s / 2000)
    theta = inverse * (s * beta + noise)
    covariance = (theta * s * beta).sum(axis=1).mean()
    spread = np.sqrt((theta**2 * s).sum(axis=1).mean())
    assert predicted.correlation == pytest.approx(covariance / spread, rel=0.05)


@pytest.mark.parametrize("balance", [0.12, 0.3])
def test_an_unequal_balance_has_the_predicted_correlation_and_accuracy(balance):
    """Simulates classes of Gaussian rows whose second moment is S, and trains on a noisy operator.

    A row is z S beta + w: z is the label, centred and scaled, and w Gaussian, so that E[x x^T] = S
    and E[z x] = S beta. Means of 60 draws of 40 coordinates are within 5 % and within .006.
    """
    rng = np.random.default_rng(round(100 * balance))
    s, rows, variances = 2.0 ** -np.linspace(0, 4, 40), 4000, np.full(40, 1e-3)
    moments = PublicMoments(s, np.eye(40), rows, 2, balance)
    predicted = moments.utility(variances)
    inverse, spread = 1 / (predicted.lam + s / 4), np.sqrt(balance * (1 - balance))
    threshold = np.log((1 - balance) / balance)
    measured = []
    for _ in range(60):
        beta = rng.normal(size=40)
        beta *= np.sqrt(SIGNALS["usual"] / (s * beta**2).sum())
        within = np.linalg.cholesky(np.diag(s) - np.outer(s * beta, s * beta))

        def drawn_rows(count, shift=s * beta, within=within):
            positive = rng.random(count) < balance
            z = (positive - balance) / spread
            return z[:, None] * shift + rng.normal(size=(count, 40)) @ within.T, positive

        X, positive = drawn_rows(rows)
        y = 2.0 * positive - 1
        mean_operator = X.T @ (y - y.mean()) / rows  # what an intercept leaves
        theta = inverse * (mean_operator + rng.normal(size=40) * np.sqrt(variances))
        X, positive = drawn_rows(4000)
        scores = X @ theta
        means = theta @ (s * beta) / spread * np.array([1 - balance, -balance])
        variance = ((within.T @ theta) ** 2).sum()
        cut = means.mean() + threshold * variance / (means[0] - means[1])
        correct = np.mean((scores > cut) == positive)
        measured.append((np.corrcoef(scores, positive)[0, 1], correct))
    correlation, accuracy = np.mean(measured, axis=0)
    assert predicted.correlation == pytest.approx(correlation, rel=0.05)
    assert predicted.accuracy["usual"] == pytest.approx(accuracy, abs=0.006)
    equal = PublicMoments(s, np.eye(40), rows, 2).utility(variances)
    least = {0.12: 1.08, 0.3: 1.01}[balance]  # unequal classes feel noise more
    assert equal.correlation > least * predicted.correlation
    assert (
        abs(equal.accuracy["usual"] - accuracy) > 0.05
    )  # and the formula of equal ones is another


def test_a_balance_is_declared_for_two_classes_and_changes_no_choice(rng):
    X = rng.normal(size=(300, 8)) * 2.0 ** -np.arange(8)
    equal, rare = (
        MeanOperator(1.0, 1e-6, balance=balance, map=None).plan(PublicSource(X), (0.1, 1.0))
        for balance in (None, 0.12)
    )
    chosen = [[row["mechanism"] for row in plan.chosen] for plan in (equal, rare)]
    assert chosen[0] == chosen[1]
    assert [row["chosen"] for row in rare.rows] == [row["chosen"] for row in equal.rows]
    assert equal.facts["always_larger_class"] == 0.5
    assert rare.facts["always_larger_class"] == 0.88
    assert all(min(row["accuracy"].values()) >= 0.88 for row in rare.rows)
    assert "classes of 0.88 and 0.12 of the rows" in repr(rare)
    assert rare.cells()[-1][1:] == ("always the larger class", "", "", "0.880", "0.880", "0.880")
    forecast = MeanOperator(1.0, 1e-6, balance=0.12, map=None).forecast(X)
    assert forecast.utility.accuracy == rare.chosen[1]["accuracy"]
    assert forecast.utility.margin_noise == rare.chosen[1]["margin_noise"]
    for balance in (0, 1, "half", float("nan")):
        with pytest.raises(ParameterError, match="strictly between 0 and 1"):
            MeanOperator(1.0, balance=balance, map=None)
    with pytest.raises(ParameterError, match="for two classes only"):
        MeanOperator(1.0, classes=(0, 1, 2), balance=0.12, map=None)


def test_margin_noise_is_that_at_the_penalty_of_no_noise(rng):
    """So that it grows with the noise, though a learner would penalise more."""
    rows = rng.normal(size=(2000, 40)) * 2.0 ** -np.linspace(0, 4, 40)
    moments = PublicMoments.of(rows, 2000, 2)
    exact = moments.utility(np.zeros(40))
    assert exact.margin_noise == 0
    predicted = moments.utility(np.full(40, 1e-3))
    assert predicted.lam > 2 * exact.lam
    inverse = 1 / (exact.lam + moments.values / 4)
    noise_alone = 0.25 * (inverse**2 * 1e-3 * moments.values).sum()
    assert predicted.margin_noise == pytest.approx(noise_alone, rel=1e-9)


def test_less_noise_than_that_of_sampling_gains_hardly_anything(rng):
    rows = rng.normal(size=(500, 10))
    moments = PublicMoments.of(rows, 500, 2)
    none, little, much = (
        moments.utility(np.full(10, v)).correlation for v in (0.0, 1e-2 / 500, 1e2 / 500)
    )
    assert none > little > 0.999 * none
    assert much < 0.5 * none


# --- predictions against outcomes


def simulated(rows: int, width: int, epsilon: float, mechanism: str, draws: int) -> list[float]:
    """Return predicted correlation and accuracy, and the mean accuracy of real releases.

    E[y | x] = <x, beta> in the mapped coordinates: the assumption of the forecast.
    """
    local = np.random.default_rng(rows + width)
    X = local.normal(size=(rows + 1000, width))
    operator = MeanOperator(epsilon=epsilon, delta=1e-6, mechanism=mechanism, map=None)
    forecast = operator.forecast(X[:rows])
    mapped = design_matrix(X, operator.public_rows(X[:rows]).pipeline)
    scores = []
    for _ in range(draws):
        beta = local.normal(size=mapped.shape[1])
        beta *= np.sqrt(SIGNALS["usual"] / np.mean((mapped @ beta) ** 2))
        chance = (1 + np.clip(mapped @ beta, -1, 1)) / 2
        y = (local.random(len(X)) < chance).astype(int)
        release = operator.release(X[:rows], y[:rows], ledger=None)
        model = FactoredClassifier(lam=forecast.utility.lam).fit_release(release, X[:rows])
        predictions = model.predict(X[rows:]) == 1
        scores.append(np.mean(np.where(predictions, chance[rows:], 1 - chance[rows:])))
    return [
        forecast.utility.correlation,
        forecast.utility.accuracy["usual"],
        float(np.mean(scores)),
    ]


CASES = [
    (rows, width, epsilon, mechanism)
    for rows, width, epsilon in ((400, 30, 1.0), (2000, 30, 0.3))
    for mechanism in ("laplace", "gaussian", "response")
]


def test_predictions_rank_as_simulated_accuracies_do():
    """24 releases of each: a mean accuracy has a standard error of about .004.

    Limits are six of those away from what was seen, so that they hold for any seed; ranks of
    predictions that are nearly equal would not.
    """
    table = np.array([simulated(*case, draws=24) for case in CASES])
    correlation, predicted, accuracy = table.T
    assert np.corrcoef(correlation, accuracy)[0, 1] > 0.85
    assert np.abs(predicted - accuracy).max() < 0.04
    for first in (0, 3):  # within one problem: who is clearly predicted to win does
        problem = slice(first, first + 3)
        for i in range(3):
            for j in range(3):
                if predicted[problem][i] > predicted[problem][j] + 0.03:
                    assert accuracy[problem][i] > accuracy[problem][j]


def test_the_forecast_is_the_best_candidate(rng):
    X = rng.normal(size=(300, 8))
    operator = MeanOperator(epsilon=1.0, delta=1e-6, map=None)
    offered = Candidates(operator.public_rows(X), 2).every("auto", 1.0, 1e-6)
    best = max(candidate.utility.correlation for candidate in offered)
    assert operator.forecast(X).utility.correlation >= best / 1.01
