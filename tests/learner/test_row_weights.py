"""Weights of public rows count where a learner sees each row's label, and are refused elsewhere."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import has_fit_parameter

import suffice as sf
from suffice.engines.engine import Computing
from suffice.errors import ParameterError
from suffice.learner.calibration import calibrate_by_labels
from suffice.learner.fit import fit as fit_any
from suffice.learner.problem import design_matrix, weigh_release
from suffice.owner.parties.gathering import Enrolled, VoteTally

ROWS = 400


@pytest.fixture
def rows(rng):
    """Return rows of two halves in which the first column means opposite things."""
    X = rng.normal(size=(ROWS, 2))
    first_half = np.arange(ROWS) < ROWS // 2
    y = ((X[:, 0] > 0) == first_half).astype(int)
    return X, y, first_half.astype(float)


def vote_release(X: np.ndarray, y: np.ndarray) -> sf.Release:
    auxiliary = sf.AuxiliaryRows.read(X)
    tally = VoteTally(auxiliary, (0, 1), Enrolled(60))
    tally.add([f"p{i}" for i in range(60)], np.tile(y, (60, 1)))
    ensemble = sf.PrivateEnsemble(9.0, 1e-5, "vote-table")
    return ensemble.aggregate(tally, auxiliary, enrolled=60, ledger=None).release


@pytest.mark.parametrize("labels", ["largest", "shares"])
def test_rows_without_weight_do_not_count_for_votes(rows, labels):
    X, y, first_half = rows
    release = vote_release(X, y)
    learner = sf.VoteClassifier(labels=labels)
    weighted = learner.fit_release(release, X, sample_weight=first_half)
    assert weighted.score(X[first_half > 0], y[first_half > 0]) > 0.9
    other = sf.VoteClassifier(labels=labels).fit_release(release, X, sample_weight=1 - first_half)
    assert other.score(X[first_half > 0], y[first_half > 0]) < 0.1


def test_equal_weights_change_nothing_for_votes(rows):
    X, y, _ = rows
    release = vote_release(X, y)
    for labels in ("largest", "shares"):
        alike = sf.VoteClassifier(LogisticRegression(C=1e6), labels).fit_release(
            release, X, sample_weight=np.ones(ROWS)
        )
        unset = sf.VoteClassifier(LogisticRegression(C=1e6), labels).fit_release(release, X)
        np.testing.assert_allclose(alike.coef_, unset.coef_, rtol=1e-6)


def test_rows_without_weight_do_not_count_for_randomised_labels(rows):
    X, y, first_half = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    learner = sf.NoisyLabelClassifier("logistic", settings=[{"C": 1.0}])
    weighted = learner.fit_release(release, X, sample_weight=first_half)
    assert weighted.score(X[first_half > 0], y[first_half > 0]) > 0.9
    assert weighted.score(X[first_half == 0], y[first_half == 0]) < 0.1


def test_whole_weights_of_a_link_are_repetitions(rng):
    logs = np.log(rng.dirichlet(np.ones(3), 200))
    labels = rng.integers(0, 3, 200)
    channel = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    times = rng.integers(0, 4, 200)
    weighted = calibrate_by_labels(logs, labels, channel, times.astype(float))
    repeated = calibrate_by_labels(
        np.repeat(logs, times, axis=0), np.repeat(labels, times), channel
    )
    assert weighted.slope == pytest.approx(repeated.slope, abs=1e-3)
    np.testing.assert_allclose(weighted.shift, repeated.shift, atol=1e-3)


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_rows_without_weight_do_not_count_for_the_operator_of_labels(rows, loss):
    X, y, first_half = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    for weights, sign in ((first_half, 1.0), (1 - first_half, -1.0)):
        model = sf.FactoredClassifier(loss=loss).fit_release(release, X, sample_weight=weights)
        assert sign * model.coef_[0, 0] > 0


def test_weights_of_labels_give_the_operator_of_weighted_rows(rng):
    """Mu = sum_i s_i y_i x_i of corrected labels, and its covariance by the same shares."""
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 2, 60)
    release = sf.MeanOperator(epsilon=1.0, mechanism="response").release(X, y, ledger=None)
    weights = rng.uniform(0.5, 3.0, 60)
    weighted = weigh_release(release, X, weights, Computing())
    shares = weights / weights.sum()
    mapped = design_matrix(X, release.pipeline)
    inverse = np.linalg.inv(release.arrays["channel"])[:, release.arrays["answers"]]
    corrected = inverse[1] - inverse[0]
    np.testing.assert_allclose(weighted.estimate.operator, (shares * corrected) @ mapped)
    variances = 2 * ((inverse**2).sum(axis=0) - 1) * shares**2
    expected = (mapped.T * variances) @ mapped
    np.testing.assert_allclose(weighted.estimate.noise.dense(4), expected, atol=1e-12)
    assert weighted.weighted.labels == pytest.approx(1 / (shares**2).sum())
    np.testing.assert_allclose(weighted.weighted.mean, shares @ mapped)


def test_equal_weights_change_nothing_for_the_operator(rows):
    X, y, _ = rows
    for release in (
        vote_release(X, y),
        sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None),
    ):
        unset = sf.FactoredClassifier().fit_release(release, X)
        alike = sf.FactoredClassifier().fit_release(release, X, sample_weight=np.full(ROWS, 3.0))
        np.testing.assert_allclose(alike.theta_, unset.theta_, rtol=1e-4, atol=1e-6)
        assert alike.lam_ == pytest.approx(unset.lam_)


EXACT = [
    sf.FactoredClassifier(),
    sf.FactoredClassifier(loss="square", lam=0.1),
    sf.MomentClassifier(),
    sf.VoteClassifier(),
]


@pytest.mark.parametrize("learner", EXACT, ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_whole_weights_of_exact_rows_are_repetitions(rng, learner, classes):
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 12, 90),
            "ward": rng.choice(["north", "south", "east"], 90),
            "dose": rng.normal(1e4, 1e3, 90),
        }
    )
    frame.loc[0, "ward"] = "closed"  # of weight 0: no category
    y = np.digitize(frame["age"] + rng.normal(0, 5, 90), [45, 58][: classes - 1])
    times = rng.integers(0, 4, 90)
    times[0] = 0
    weighted = clone(learner).fit(frame, y, sample_weight=times)
    order = np.repeat(np.arange(90), times)
    repeated = clone(learner).fit(frame.iloc[order], y[order])
    assert weighted.pipeline_.columns == repeated.pipeline_.columns
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-9)
    unweighted = clone(learner).fit(frame, y)
    assert np.abs(weighted.coef_[:, 0] - unweighted.coef_[:, 0]).max() > 1e-4


def test_a_sum_over_rows_takes_no_weights(rows):
    X, y, first_half = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="laplace", map=None).release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="one sum over all rows"):
        sf.FactoredClassifier().fit_release(release, X, sample_weight=first_half)


@pytest.mark.parametrize(
    "learner",
    [sf.AdaBoostLinear(), sf.ClassRatio(), sf.RadoBoost(), sf.RadoRidge(), sf.SpreadClassifier()],
    ids=lambda learner: type(learner).__name__,
)
def test_learners_without_weights_say_why(rows, learner):
    X, y, weights = (part[: ROWS // 2] for part in rows)
    with pytest.raises(ParameterError, match="sample_weight"):
        learner.fit(X, y, sample_weight=weights)
    assert not has_fit_parameter(learner, "sample_weight")
    learner.fit(X, y, sample_weight=None)


def test_releases_without_weights_say_why(rows):
    X, y, weights = rows
    public = X[:50]
    rados = sf.Rados(count=20, standardize=public).release(X, y, ledger=None, unprotected=True)
    moments = sf.Moments(1.0, 1e-6, standardize=public).release(X, y, ledger=None)
    answers = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    for fit in (
        lambda: sf.RadoRidge().fit_release(rados, X, sample_weight=weights),
        lambda: sf.RadoBoost().fit_release(rados, X, sample_weight=weights),
        lambda: sf.MomentClassifier().fit_release(moments, sample_weight=weights),
        lambda: sf.SpreadClassifier().fit_release(answers, X, sample_weight=weights),
    ):
        with pytest.raises(ParameterError, match="cannot have weights"):
            fit()


def test_the_function_that_fits_any_release_passes_weights_on(rows):
    X, y, first_half = rows
    answers = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    votes = vote_release(X, y)
    half = first_half > 0
    for release, options in (
        (answers, {}),
        (answers, {"estimator": "logistic"}),
        (votes, {}),
        (votes, {"estimator": LogisticRegression()}),
    ):
        model = fit_any(release, X, sample_weight=first_half, **options)
        assert model.score(X[half], y[half]) > 0.8
    operator = sf.MeanOperator(epsilon=4.0, mechanism="laplace", map=None).release(
        X, y, ledger=None
    )
    with pytest.raises(ParameterError, match="sample_weight cannot be used with mean-operator"):
        fit_any(operator, X, sample_weight=first_half)


def test_rows_that_stay_in_files_take_no_weights(rows, tmp_path, monkeypatch):
    X, y, weights = rows
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_parquet(tmp_path / "rows.parquet")
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(frame, y, ledger=None)
    monkeypatch.setattr("suffice.learner.problem._HELD_BYTES", 1)
    with pytest.raises(ParameterError, match="stay in their file"):
        sf.FactoredClassifier().fit_release(
            release, tmp_path / "rows.parquet", sample_weight=weights
        )
    sf.FactoredClassifier().fit_release(release, frame, sample_weight=weights)


def test_an_estimator_without_weights_is_named(rows):
    X, y, weights = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    neighbours = KNeighborsClassifier()
    for fit in (
        lambda: sf.NoisyLabelClassifier(neighbours).fit_release(release, X, sample_weight=weights),
        lambda: sf.NoisyLabelClassifier(neighbours).fit(X, y, sample_weight=weights),
        lambda: sf.VoteClassifier(neighbours).fit(X, y, sample_weight=weights),
        lambda: sf.VoteClassifier(neighbours, "shares").fit_release(vote_release(X, y), X),
    ):
        with pytest.raises(ParameterError, match="KNeighborsClassifier takes no sample_weight"):
            fit()


@pytest.mark.parametrize(
    "wrong", [[1.0], [-1.0] * ROWS, [np.nan] * ROWS, [0.0] * ROWS, ["much"] * ROWS]
)
def test_weights_must_be_one_number_for_each_row(rows, wrong):
    X, y, _ = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="sample_weight must hold"):
        sf.NoisyLabelClassifier("logistic").fit_release(release, X, sample_weight=wrong)
