"""How sure a model is: intervals that cover at their stated rate, from both sides.

Seeds are fixed. A rate of 95 % over n independent trials is called met between the 1e-6 quantiles
of the binomial distribution; rates that are only bounded say so.
"""

import pickle

import numpy as np
import pytest
from scipy import stats

from suffice.errors import ParameterError
from suffice.learner.denoise import Denoised
from suffice.learner.intervals import Evidence, interval, interval_above
from suffice.learner.operator import FactoredClassifier
from suffice.learner.weak import KnownProportions
from suffice.models.problem import LOSSES, PENALTIES, FactoredProblem
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.codec import decode
from suffice.releases.release import Covariance, encode

ALARM = 1e-6
LAM = 0.1
_rng = np.random.default_rng(0)
ROWS = np.column_stack([_rng.normal(size=(400, 4)), np.ones(400)])
SCORES = ROWS @ [1.0, -1.0, 0.5, 0.0, 0.2]
SHARES = 1 / (1 + np.exp(-SCORES))
X = ROWS[:, :4]


def met(hits: int, trials: int, rate: float = 0.95) -> bool:
    low, high = stats.binom.ppf([ALARM / 2, 1 - ALARM / 2], trials, rate)
    return bool(low <= hits <= high)


def solved(operator: np.ndarray, lam: float = LAM, rows: np.ndarray = ROWS) -> tuple:
    loss = LOSSES["logistic"] if operator.ndim == 1 else None
    problem = FactoredProblem(rows, operator, loss, intercept=True)
    return problem, problem.solve(lam, tol=1e-7, max_iter=500).parameters


def normal(covariance: Covariance, local: np.random.Generator, columns: int = 0) -> np.ndarray:
    root = np.linalg.cholesky(covariance.dense(5))
    return root @ local.normal(size=(5, columns) if columns else 5)


NOISES = {
    "even": Covariance("identity", 0.05**2),
    "shaped": Covariance("factor", 0.03**2, np.eye(5) + _rng.normal(size=(5, 5))),
}
del _rng  # tests draw from the fixture

# --- coefficients


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_cover_the_model_of_exact_labels(noise):
    """300 draws of noise on the same labels, each coefficient by itself."""
    covariance, local = NOISES[noise], np.random.default_rng(1)
    exact = ROWS.T @ np.where(local.random(400) < SHARES, 1, -1) / 400
    truth = solved(exact)[1]
    hits, narrow = np.zeros(5, dtype=int), np.zeros(5, dtype=int)
    for _ in range(300):
        problem, theta = solved(exact + normal(covariance, local))
        deviation = Evidence([problem], [theta], LAM, covariance).deviations(sampling=False)
        low, high = interval(theta, deviation, 0.95)
        hits += (low <= truth) & (truth <= high)
        low, high = interval(theta, 0.65 * deviation, 0.95)
        narrow += (low <= truth) & (truth <= high)
    assert all(met(count, 300) for count in hits)
    assert not any(met(count, 300) for count in narrow)


def test_intervals_of_softmax_cover_the_model_of_exact_labels():
    local = np.random.default_rng(2)
    exact = ROWS.T @ np.eye(3)[np.digitize(SCORES, [-0.5, 0.5])] / 400
    truth, covariance = solved(exact)[1], Covariance("identity", 0.02**2)
    hits = np.zeros((5, 3), dtype=int)
    for _ in range(150):
        noise = normal(covariance, local, 3)  # of which the learner sets right what columns share
        problem, theta = solved(exact + noise - noise.mean(axis=1, keepdims=True))
        deviation = Evidence([problem], [theta], LAM, covariance).deviations(sampling=False)
        low, high = interval(theta, deviation, 0.95)
        hits += (low <= truth) & (truth <= high)
    assert all(met(count, 150) for count in hits.ravel())


@pytest.mark.parametrize("loss", ["logistic", "square"])
@pytest.mark.parametrize("mechanism", ["gaussian", "response"])
def test_deviations_of_three_classes_are_those_of_many_releases(loss, mechanism):
    """Stated and found over 60 releases, a mean over 12 coefficients: within a fifth.

    Softmax and one against the rest, columns whose noise is independent and columns that sum to
    what they must.
    """
    labels = np.digitize(SCORES + np.random.default_rng(5).normal(size=400), [-0.5, 0.5])
    operator = MeanOperator(2.0, 1e-5, mechanism=mechanism, classes=(0, 1, 2), map=None)
    models, stated = [], []
    for _ in range(60):
        release = operator.release(X, labels, ledger=None)
        model = FactoredClassifier(loss=loss, lam=LAM, denoise=False).fit_release(release, X)
        models.append(model.theta_)
        stated.append(np.ptp(model.theta_interval(), axis=0) / 3.92)
    ratio = float(np.mean(np.mean(stated, axis=0) / np.std(models, axis=0)))
    assert 0.8 < ratio < 1.25


def test_with_sampling_intervals_are_wider_and_cover_what_fresh_labels_give():
    """At least at the stated rate: S/m is the largest covariance that labels of these rows have."""
    covariance, local = NOISES["even"], np.random.default_rng(3)
    truth = solved(ROWS.T @ (2 * SHARES - 1) / 400)[1]
    hits, without = np.zeros(5, dtype=int), np.zeros(5, dtype=int)
    for _ in range(300):
        signs = np.where(local.random(400) < SHARES, 1, -1)
        problem, theta = solved(ROWS.T @ signs / 400 + normal(covariance, local))
        evidence = Evidence([problem], [theta], LAM, covariance)
        wide, small = (evidence.deviations(sampling=sampling) for sampling in (True, False))
        assert (wide > small).all()
        hits += np.abs(theta - truth) <= 1.96 * wide
        without += np.abs(theta - truth) <= 1.96 * small
    assert (hits >= stats.binom.ppf(ALARM, 300, 0.95)).all()
    assert without.sum() < hits.sum()


def test_sampling_noise_of_chance_labels_is_met_from_both_sides():
    """Labels of pure chance have the covariance S/m exactly; there is no other noise here."""
    local = np.random.default_rng(4)
    hits = np.zeros(5, dtype=int)
    for _ in range(300):
        problem, theta = solved(ROWS.T @ local.choice([-1, 1], 400) / 400)
        evidence = Evidence([problem], [theta], LAM, Covariance("identity", 0.0))
        hits += np.abs(theta) <= 1.96 * evidence.deviations(sampling=True)
    assert all(met(count, 300) for count in hits)


def test_where_there_is_no_interval_it_says_so():
    problem, theta = solved(ROWS.T @ (2 * SHARES - 1) / 400)
    with pytest.raises(ParameterError, match="not known"):
        Evidence([problem], [theta], LAM, Covariance("none")).deviations(sampling=False)
    l1 = FactoredProblem(ROWS, problem.operator, problem.loss, penalty=PENALTIES["l1"])
    with pytest.raises(ParameterError, match="1-norm"):
        Evidence([l1], [theta], LAM, NOISES["even"]).deviations(sampling=False)
    for level in (0.0, 1.0, -1, 2):
        with pytest.raises(ParameterError, match="level"):
            interval(theta, theta, level)
    assert np.allclose(interval(1.0, 2.0, 0.95), [1 - 3.92, 1 + 3.92], atol=1e-3)


# --- risk


@pytest.mark.parametrize("deviation", [0.1, 0.3])
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_the_interval_of_the_risk_covers_the_risk_on_fresh_labels(deviation, lam):
    """Chance labels, whose sampling is S/m exactly: 300 draws of labels and noise.

    Without the second-order term (Bellec & Zhang 2021) all four fail.
    """
    local, covariance = np.random.default_rng(5), Covariance("identity", deviation**2)
    fresh = FactoredProblem(ROWS, np.zeros(5), LOSSES["logistic"])
    hits, narrow = 0, 0
    for _ in range(300):
        operator = ROWS.T @ local.choice([-1, 1], 400) / 400 + normal(covariance, local)
        problem, theta = solved(operator, lam)
        risk, error, _ = Evidence([problem], [theta], lam, covariance).risk
        gap = abs(risk - fresh.risk(theta)[0])
        hits += gap <= 1.96 * error
        narrow += gap <= 1.96 * 0.6 * error
    assert hits >= stats.binom.ppf(ALARM, 300, 0.95)
    assert narrow < stats.binom.ppf(ALARM, 300, 0.95)


def test_of_labels_that_rows_explain_the_risk_is_rather_too_large():
    local, covariance = np.random.default_rng(6), NOISES["even"]
    fresh = FactoredProblem(ROWS, ROWS.T @ (2 * SHARES - 1) / 400, LOSSES["logistic"])
    gaps, hits = [], 0
    for _ in range(300):
        signs = np.where(local.random(400) < SHARES, 1, -1)
        problem, theta = solved(ROWS.T @ signs / 400 + normal(covariance, local))
        risk, error, _ = Evidence([problem], [theta], LAM, covariance).risk
        gaps.append(risk - fresh.risk(theta)[0])
        hits += abs(gaps[-1]) <= 1.96 * error
    assert -0.002 < np.mean(gaps) < 0.01
    assert hits >= stats.binom.ppf(ALARM, 300, 0.95)


# --- the classifier's attributes


@pytest.fixture(scope="module")
def fitted() -> FactoredClassifier:
    labels = (np.random.default_rng(7).random(400) < SHARES).astype(int)
    release = MeanOperator(epsilon=2.0, mechanism="laplace", map=None).release(
        X, labels, ledger=None
    )
    return FactoredClassifier(lam=LAM).fit_release(release, X)


def test_a_classifier_shows_its_intervals(fitted):
    low, high = fitted.theta_interval()
    assert ((low < fitted.theta_) & (fitted.theta_ < high)).all()
    wider = fitted.theta_interval(sampling=True)
    assert (wider[0] < low).all()
    assert (wider[1] > high).all()
    narrower = fitted.theta_interval(0.5)
    assert (narrower[0] > low).all()
    assert fitted.risk_interval_[0] < fitted.risk_ < fitted.risk_interval_[1]
    assert 0.2 < fitted.risk_ < 0.9


def test_there_is_no_interval_after_a_pickle_or_a_file(fitted):
    """A pickle would carry the rows along; what is left says where intervals are known."""
    copies = [
        pickle.loads(pickle.dumps(fitted)),
        FactoredClassifier.from_release(decode(encode(fitted.to_release()))),
    ]
    for copy in copies:
        assert np.array_equal(copy.predict(X), fitted.predict(X))
        for name in ("coef_interval_", "risk_", "risk_interval_"):
            assert not hasattr(copy, name)
            with pytest.raises(AttributeError, match="does not store"):
                getattr(copy, name)
    assert pickle.dumps(fitted).find(ROWS[:, 0].tobytes()[:64]) < 0
    assert len(pickle.dumps(fitted)) < ROWS.nbytes


def of_luck(seed: int) -> FactoredClassifier:
    """Return a model of labels that nine times in ten are one, whatever the row."""
    luck = (np.random.default_rng(seed).random(400) < 0.9).astype(int)
    release = MeanOperator(epsilon=1e5, mechanism="laplace", map=None).release(X, luck, ledger=None)
    return FactoredClassifier().fit_release(release, X)


def test_a_constant_is_sure_of_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(Denoised, "may_be_worse", lambda *_: True)
    model = of_luck(8)
    assert model.intercept_only_
    low, high = model.theta_interval(sampling=True)
    assert np.array_equal(low[:-1], np.zeros(4))
    assert np.array_equal(high[:-1], np.zeros(4))
    assert low[-1] < model.theta_[-1] < high[-1]


def test_the_risk_interval_of_rare_labels_covers_95_in_100_and_is_not_too_wide():
    """Labels that hardly vary: of 60 intervals at least 51, of half of each fewer (1 in 500)."""
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    ends = np.array([of_luck(seed).risk_interval_ for seed in range(60)])
    middle, reach = ends.mean(axis=1), np.ptp(ends, axis=1) / 2
    assert np.count_nonzero(np.abs(middle - entropy) < reach) >= 51
    assert np.count_nonzero(np.abs(middle - entropy) < reach / 2) < 51


def test_rare_labels_that_follow_a_feature_are_not_left_to_a_constant():
    """Two in a hundred: labels once counted as coins, and no feature was ever worth its penalty."""
    local = np.random.default_rng(3)
    rows = local.normal(size=(6000, 4))
    rare = (rows[:, 0] + local.logistic(size=6000) > 4.7).astype(int)
    assert 0.01 < rare.mean() < 0.03
    exact = FactoredClassifier().fit(rows, rare)
    assert not exact.intercept_only_
    release = MeanOperator(epsilon=10.0, map=None).release(rows, rare, ledger=None)
    model = FactoredClassifier().fit_release(release, rows)
    assert not model.intercept_only_
    assert model.theta_[0] == pytest.approx(exact.theta_[0], rel=0.3)


def test_the_risk_of_a_projected_operator_is_not_estimated_too_small():
    """Mean over 40 releases with much noise: within two standard errors below, or above."""
    local = np.random.default_rng(9)
    gaps = []
    for _ in range(40):
        labels = (local.random(400) < SHARES).astype(int)
        release = MeanOperator(epsilon=0.5, mechanism="knorm", map=None).release(
            X, labels, ledger=None
        )
        model = FactoredClassifier(lam=0.3).fit_release(release, X)
        scores = model.decision_function(X)
        risk = np.mean(np.logaddexp(0, -scores) * SHARES + np.logaddexp(0, scores) * (1 - SHARES))
        gaps.append(model.risk_ - risk)
    assert np.mean(gaps) > -2 * np.std(gaps) / np.sqrt(40)
    assert np.mean(gaps) < 0.3


def test_where_the_noise_is_unknown_neither_risk_nor_intervals_are_claimed():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 3))
    labels = (rows[:, 0] > 0).astype(int)
    bags = np.digitize(rows[:, 1], [-0.5, 0.5])
    shares = np.array([[np.mean(labels[bags == b] == k) for k in (0, 1)] for b in range(3)])
    source = KnownProportions(bags, shares, (0, 1), "alternating-min")
    model = FactoredClassifier(lam=0.1).fit_weak(rows, source)
    for claim in (lambda: model.risk_, lambda: model.coef_interval_):
        with pytest.raises(ParameterError, match="not known"):
            claim()


def test_an_interval_above_a_bound_is_never_empty_and_far_above_it_the_usual_one():
    assert interval_above(5.0, 0.1, 0.95, 0.0) == pytest.approx(interval(5.0, 0.1, 0.95))
    low, high = interval_above(0.0, 1.0, 0.95, 0.0)  # half a normal distribution
    assert (low, high) == pytest.approx((0.0, stats.halfnorm.ppf(0.975)))
    low, high = interval_above(-50.0, 1.0, 0.95, 0.0)  # as good as exponential, of mean 1/50
    assert (low, high) == pytest.approx((0.0, -np.log(0.025) / 50), rel=0.01)
    assert interval_above(0.3, 0.0, 0.95, 0.4) == pytest.approx([0.4, 0.4])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_least_risk_is_that_of_labels_as_predicted(rng, classes):
    shape = (5,) if classes == 2 else (5, 3)
    model = rng.normal(size=shape)
    scores = ROWS @ model
    codes = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    indicators = 2 * codes - 1 if classes == 2 else np.eye(3)[codes]
    problem, *_ = solved(ROWS.T @ indicators / 400)
    evidence = Evidence([problem], [model], LAM, Covariance("identity", 0.01))
    assert evidence.risk[2] == pytest.approx(problem.risk(model)[0])
    others = rng.integers(classes, size=400)
    indicators = 2 * others - 1 if classes == 2 else np.eye(3)[others]
    assert evidence.risk[2] < problem.with_operator(ROWS.T @ indicators / 400).risk(model)[0]


def test_a_risk_is_not_estimated_below_what_labels_can_give():
    operator = ROWS.T @ (3 * np.sign(SCORES)) / 400  # as far out as noise may throw it
    release = MeanOperator(epsilon=100.0, map=None).release(
        X, (SCORES > 0).astype(int), ledger=None
    )
    model = FactoredClassifier(lam=0.01).fit_release(release, X)
    problem = model._evidence.problems[0].with_operator(operator)
    model._evidence = Evidence([problem], model._evidence.models, 0.01, model._evidence.noise)
    assert model._evidence.risk[0] < 0
    low, high = model.risk_interval_
    assert 0 < model._evidence.risk[2] == low == model.risk_ < high
