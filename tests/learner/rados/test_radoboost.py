"""Boosting from rados: the lemmas it rests on, and learning from a release without any row."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import labelled_examples, rado_release, slow_rados
from suffice.errors import ParameterError
from suffice.learner.fit import model_of
from suffice.learner.rados import (
    RadoBoost,
    RadoRidge,
    exponential_rado_risk,
    logistic_rado_risk,
    rados_of_subsets,
    run_boosting,
    sampling_term,
    simulated_rados,
)
from suffice.papers.adaboost import AdaBoostLinear
from suffice.releases.codec import decode
from suffice.releases.release import Release, encode

ORACLES = ["strong", "median", 0.3]


def all_rados(X, y):
    return slow_rados(X, y, [np.array(sigma) for sigma in product((-1, 1), repeat=len(y))])


def random_rados(X, y, count, seed=1):
    return slow_rados(X, y, np.random.default_rng(seed).choice([-1, 1], (count, len(y))))


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def toy_release(count=200, rows=400, seed=0, **details) -> Release:
    X, y = labelled_examples(rows, seed)
    return rado_release(random_rados(with_constant(X), y, count, seed + 1), rows, **details)


# --- what rados stand for


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**31))
def test_over_all_rados_each_rado_risk_is_that_of_the_examples(m, d, seed):
    """Lemma 2, and its counterpart for the square loss, for any theta."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(m, d)), rng.choice([-1.0, 1.0], m)
    theta, edges, rados = rng.normal(size=d), y[:, None] * X, all_rados(X, y)
    margins, scores = edges @ theta, rados @ theta
    logistic = np.logaddexp(0, -margins).mean()
    assert logistic_rado_risk(rados, theta, m) == pytest.approx(logistic, abs=1e-12)
    mean_variance = 1 + 4 / m * (scores.var() - scores.mean())
    assert mean_variance == pytest.approx(np.mean((1 - margins) ** 2), rel=1e-9)
    assert exponential_rado_risk(edges, theta) == pytest.approx(np.mean(np.exp(-margins)))


def test_risks_never_overflow_and_say_what_they_need():
    rados = np.array([[1e4], [-1e4]])
    assert exponential_rado_risk(rados, np.ones(1)) == np.inf
    assert logistic_rado_risk(rados, np.ones(1), 10) == pytest.approx(1e3, rel=1e-3)
    with pytest.raises(ParameterError, match="one number per column"):
        logistic_rado_risk(rados, np.ones(2), 10)
    with pytest.raises(ParameterError, match="number of records"):
        logistic_rado_risk(rados, np.ones(1), 0)
    with pytest.raises(ParameterError, match="eta"):
        sampling_term(rados, np.ones(1), 10, eta=1.0)


def test_simulated_rados_are_sums_of_random_subsets():
    edges = np.eye(40)
    rados = simulated_rados(edges, 3000, np.random.default_rng(0))
    assert set(np.unique(rados)) == {0.0, 1.0}  # an example is in a subset, or is not
    six = 6 * 0.5 / np.sqrt(3000)
    assert np.abs(rados.mean(axis=0) - 0.5).max() < six
    assert np.abs(np.corrcoef(rados.T) - np.eye(40)).max() < 2 * six
    assert len(np.unique(rados, axis=0)) == 3000


@pytest.mark.parametrize("rows", [1, 8, 13, 40])
def test_rados_of_subsets_are_their_sums(rows):
    rng = np.random.default_rng(rows)
    edges, inside = rng.normal(size=(rows, 3)), rng.random((7, rows)) < 0.5
    np.testing.assert_allclose(rados_of_subsets(edges, inside), inside @ edges, atol=1e-12)


# --- the loop


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("kappa", [1.0, 3.0])
@pytest.mark.parametrize("gentle", [True, False])
def test_the_risk_falls_at_the_rate_of_lemma_4_every_round(oracle, kappa, gentle):
    for seed in range(5):
        X, y = labelled_examples(60, seed)
        rados = random_rados(X, y, 30, seed)
        factor = kappa if gentle else 1.0
        path = run_boosting(rados, rounds=100, oracle=oracle, kappa=factor, gentle=gentle)
        rate = -np.cumsum(np.minimum(path.edges**2, path.steps**2)) / (2 * factor)  # ineq. (17)
        assert (path.log_risks <= path.log_bounds() + 1e-9).all()
        assert (path.log_bounds() <= rate + 1e-9).all()
        assert path.weights.sum() == pytest.approx(1, abs=1e-12)
        assert (path.weights > 0).all()
        risk = exponential_rado_risk(rados, path.parameters(100))
        assert np.log(risk) == pytest.approx(path.log_risks[-1], rel=1e-9)


def test_the_step_as_printed_in_5_2_breaks_its_own_rate_and_ours_keeps_it():
    """With kappa = 1 and r = 1/2 the printed step, twice ours, leaves the risk at one."""
    rados = np.array([[1.0], [1.0], [1.0], [-1.0]])
    path = run_boosting(rados, rounds=1)
    assert path.edges[0] == 0.5
    claimed = np.exp(-(path.edges[0] ** 2) / 2)
    assert exponential_rado_risk(rados, path.parameters(1)) < claimed
    assert exponential_rado_risk(rados, 2 * path.parameters(1)) == pytest.approx(1.0)


def test_a_prudent_oracle_never_steps_beyond_its_limit():
    rados = random_rados(*labelled_examples(), 100)
    strong, prudent = (run_boosting(rados, rounds=50, oracle=oracle) for oracle in ("strong", 0.3))
    assert np.abs(strong.steps).max() > 0.5
    assert np.abs(prudent.steps).max() <= 0.3
    median = run_boosting(rados, rounds=1, oracle="median").features[0]
    first = np.abs(rados.mean(axis=0)) / np.abs(rados).max(axis=0)
    assert median == np.argsort(first)[2]
    assert strong.features[0] == np.argmax(first)


def test_kappa_scales_scores_and_changes_nothing_else():
    rados = random_rados(*labelled_examples(), 100)
    path, damped_path = (run_boosting(rados, rounds=50, kappa=kappa) for kappa in (1.0, 4.0))
    assert np.array_equal(path.features, damped_path.features)
    np.testing.assert_allclose(path.parameters(50), 4 * damped_path.parameters(50))


def test_an_outlier_slows_boosting_down_unless_edges_have_a_least_size():
    X, y = labelled_examples()
    edges = y[:, None] * X
    edges[0] = [-1e5, 1e5, -1e5, 1e5]  # section 4: it decides every edge, and makes it tiny
    slow, fixed = (
        run_boosting(edges, rounds=200, examples=edges, min_edge=least) for least in (0.0, 0.6)
    )
    assert np.abs(slow.edges).max() < 0.01
    assert slow.errors.min() > 0.45
    assert fixed.errors.min() < 0.3


def test_the_first_best_round_is_kept_and_none_where_none_helps():
    path = run_boosting(random_rados(*labelled_examples(), 100), rounds=50)
    assert path.best() == 1 + np.argmin(path.log_risks)
    judged = run_boosting(np.ones((3, 1)), rounds=5, examples=np.ones((2, 1)))
    assert judged.best() == 1
    nothing = run_boosting(np.zeros((3, 2)), rounds=5)
    assert (len(nothing), nothing.best()) == (0, 0)
    assert np.array_equal(nothing.parameters(0), np.zeros(2))


# --- the estimators


@pytest.mark.parametrize("signs", ["iid", "hadamard"])
def test_a_release_is_enough_to_classify_examples(signs):
    X, y = labelled_examples(seed=5)
    model = RadoBoost().fit_release(toy_release(signs=signs))
    assert np.mean(model.predict(X) == np.where(y > 0, "yes", "no")) > 0.85
    rados = model.releases_[0].arrays["rados"]
    assert model.rounds_ == 1 + np.argmin(model.path_.log_risks)
    assert model.rado_risk_ == pytest.approx(logistic_rado_risk(rados, model.theta_, 400))
    assert model.rado_risk_ < np.log(2)


def test_rows_that_are_all_alike_get_the_class_proportions():
    X, y = labelled_examples(400, 0)
    alike = np.zeros((5, X.shape[1]))
    model = RadoBoost(rounds=20).fit_release(toy_release(), alike)
    np.testing.assert_allclose(model.predict_proba(alike)[:, 1], np.mean(y > 0), atol=0.05)


def test_examples_decide_which_round_is_kept_where_the_caller_has_some():
    X, y = labelled_examples(80, seed=6)
    labels = np.where(y > 0, "yes", "no")
    model = RadoBoost(rounds=60).fit_release(toy_release(), X, labels)
    errors = [np.mean(staged != labels) for staged in model.staged_predict(X)]
    assert len(errors) == 60
    assert model.rounds_ == 1 + int(np.argmin(errors))
    kept_scores = list(model.staged_decision_function(X))[model.rounds_ - 1]
    np.testing.assert_allclose(kept_scores, model.decision_function(X))
    with pytest.raises(ParameterError, match="Labels belong to rows"):
        RadoBoost().fit_release(toy_release(), y=labels)
    with pytest.raises(ParameterError, match="one of the classes of the release"):
        RadoBoost().fit_release(toy_release(), X, y)
    with pytest.raises(ParameterError, match="one of the classes of the release"):
        RadoBoost().fit_release(toy_release(), X, labels[:-1])


@pytest.mark.parametrize("learner", [RadoBoost(), RadoRidge()])
def test_a_model_travels_as_a_file_and_says_the_same(learner):
    X, y = labelled_examples(seed=7)
    release = toy_release()
    model = learner.fit_release(release)
    again = model_of(decode(encode(model.to_release())))
    assert type(again) is type(model)
    assert again.releases_[0].guarantees == release.guarantees
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    shares = model.predict_proba(X)[:, 1]
    assert np.mean((shares - (y > 0)) ** 2) < 0.1  # Brier's score; a constant's is .25


@pytest.mark.parametrize("learner", [RadoBoost(), RadoRidge()])
def test_the_rados_of_several_owners_are_learnt_from_together(learner):
    X, y = labelled_examples(1000, seed=8)
    parts = [toy_release(100, 40, seed) for seed in range(6)]
    model = learner.fit_release(parts)
    assert sum(part.rows.count for part in model.releases_[0].parts) == 240
    assert np.mean(model.predict(X) == np.where(y > 0, "yes", "no")) > 0.85


@pytest.mark.parametrize("learner", [RadoBoost(), RadoRidge()])
def test_another_kind_of_release_is_refused(learner, release):
    with pytest.raises(ParameterError, match="holds no rados"):
        learner.fit_release(release)


def test_three_classes_are_refused():
    X, _ = labelled_examples()
    with pytest.raises(ParameterError, match="binary"):
        RadoBoost().fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))


def test_adaboost_learns_from_all_examples_or_from_some():
    X, y = labelled_examples()
    test, truth = labelled_examples(2000, seed=9)
    of_all = AdaBoostLinear().fit(X, y)
    assert of_all.score(test, truth) > 0.88
    some = AdaBoostLinear(examples=50).fit(X, y)
    assert some.path_.weights.shape == (50,)
    assert some.score(test, truth) > 0.82
    assert AdaBoostLinear(examples=5000).fit(X, y).path_.weights.shape == (400,)
    assert RadoBoost().fit(X, y).score(test, truth) > 0.85


# --- Theorem 3


def test_the_sampling_term_covers_what_sampling_does_and_is_not_always_infinite():
    X, y = labelled_examples(10, seed=3)
    every_rado, draws = all_rados(X, y), np.random.default_rng(0)
    theta = 0.02 * np.array([2.0, -1.0, 0.5, 0.0])
    truth = logistic_rado_risk(every_rado, theta, 10)
    for _ in range(20):
        rados = every_rado[draws.integers(0, len(every_rado), 4000)]
        term = sampling_term(rados, theta, 10)
        assert 0 < term < 1
        assert truth - logistic_rado_risk(rados, theta, 10) < term
    assert sampling_term(rados, 100 * theta, 10) == np.inf


def test_a_model_reports_its_sampling_term_where_the_theorem_applies():
    model = RadoBoost(rounds=1, kappa=100.0).fit_release(toy_release(4000, 50))
    assert 0 < model.sampling_term() < 1
    assert RadoBoost().fit_release(toy_release()).sampling_term() == np.inf
    with pytest.raises(ParameterError, match="hadamard"):
        RadoBoost().fit_release(toy_release(signs="hadamard")).sampling_term()
