"""Weights of public rows count where a learner sees each row's label, and are refused elsewhere."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import suffice as sf
from suffice.errors import ParameterError
from suffice.learner.noisy_labels.link import fit_link
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.tally import VoteTally

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
    weighted = fit_link(logs, labels, channel, times.astype(float))
    repeated = fit_link(np.repeat(logs, times, axis=0), np.repeat(labels, times), channel)
    assert weighted.slope == pytest.approx(repeated.slope, abs=1e-3)
    np.testing.assert_allclose(weighted.shift, repeated.shift, atol=1e-3)


def test_a_sum_over_rows_takes_no_weights(rows):
    X, y, first_half = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="laplace").release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="counts every row alike"):
        sf.FactoredClassifier().fit_release(release, X, sample_weight=first_half)


@pytest.mark.parametrize("wrong", [[1.0], [-1.0] * ROWS, [np.nan] * ROWS, [0.0] * ROWS])
def test_weights_must_be_one_number_for_each_row(rows, wrong):
    X, y, _ = rows
    release = sf.MeanOperator(epsilon=4.0, mechanism="response").release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="sample_weight must hold"):
        sf.NoisyLabelClassifier("logistic").fit_release(release, X, sample_weight=wrong)
