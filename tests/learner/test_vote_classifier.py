"""Classifiers of any kind, trained from noisy votes on public rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from builders import make_release
from suffice.errors import ForeignRowsError, ParameterError
from suffice.learner.votes import VoteClassifier
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally

CLASSES = ("lie", "sit", "walk")
PARTIES = 400


@pytest.fixture(scope="module")
def crowd():
    """Return rows, the classes that a parabola parts them into, and the release of votes on them.

    Nine parties in ten know the truth: the largest vote is right but for noise of .1 or so.
    """
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(80, 2))
    truth = np.digitize(X[:, 1], [-0.7, 0.7]) * (np.abs(X[:, 0]) < 1.2)
    auxiliary = AuxiliaryRows.read(X)
    tally = VoteTally(auxiliary, CLASSES, Enrolled(PARTIES))
    guesses = rng.integers(0, 3, size=(PARTIES, 80))
    wise = rng.random((PARTIES, 1)) < 0.9
    tally.add([f"p{i}" for i in range(PARTIES)], np.where(wise, truth, guesses))
    ensemble = PrivateEnsemble(3.0, 1e-5, "vote-table", classes=CLASSES)
    release = ensemble.aggregate(tally, auxiliary, enrolled=PARTIES, ledger=None).release
    return X, np.array(CLASSES)[truth], release


@pytest.mark.parametrize("labels", ["largest", "shares"])
@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=6), GaussianNB()])
def test_any_classifier_learns_from_votes(crowd, estimator, labels):
    X, truth, release = crowd
    model = VoteClassifier(estimator, labels).fit_release(release, X)
    curved = isinstance(estimator, DecisionTreeClassifier)
    assert np.mean(model.predict(X) == truth) > (0.9 if curved else 0.6)
    assert model.estimator_ is not estimator  # which is cloned, and stays unfitted
    assert not model.gives_probabilities
    with pytest.raises(ParameterError, match="not how probable it is"):
        model.predict_proba(X)
    taught = VoteClassifier(estimator, labels).fit(X, truth)
    assert taught.gives_probabilities
    shares = taught.predict_proba(X)
    assert shares.shape == (80, 3)
    assert shares.sum(axis=1) == pytest.approx(1.0)


def test_the_default_is_a_logistic_regression_of_the_largest_votes(crowd):
    X, _, release = crowd
    model = VoteClassifier().fit_release(release, X)
    rows = AuxiliaryRows.read(X).rows
    labels = np.array(CLASSES)[release.arrays["votes"].argmax(axis=1)]
    regression = LogisticRegression(C=1 / (80 * 1e-4), fit_intercept=False, max_iter=10_000)
    assert isinstance(model.estimator_, LogisticRegression)
    assert model.estimator_.coef_ == pytest.approx(regression.fit(rows, labels).coef_, rel=1e-3)


def test_shares_of_exact_votes_weigh_each_class_by_its_votes(crowd):
    X, _, release = crowd
    exact = np.random.default_rng(0).dirichlet(np.ones(3), 80)
    fresh = release.__class__(**{**vars(release), "arrays": {"votes": exact}})
    model = VoteClassifier(GaussianNB(), "shares").fit_release(fresh, X)
    assert model.estimator_.class_prior_ == pytest.approx(exact.mean(axis=0))


def test_a_class_without_a_largest_vote_is_never_predicted(crowd):
    X, _, release = crowd
    votes = np.zeros((80, 3))
    votes[:, 0], votes[:40, 2] = 0.5, 0.9
    fresh = release.__class__(**{**vars(release), "arrays": {"votes": votes}})
    model = VoteClassifier(GaussianNB()).fit_release(fresh, X)
    assert set(model.predict(X)) == {CLASSES[0], CLASSES[2]}
    with pytest.raises(AttributeError, match="not linear in all classes"):
        model.coef_  # noqa: B018
    votes[:, 0] = 1.0
    one_class = release.__class__(**{**vars(release), "arrays": {"votes": votes}})
    constant = VoteClassifier().fit_release(one_class, X)
    assert (constant.predict(X) == "lie").all()


def test_what_holds_no_votes_or_belongs_to_other_rows_is_refused(crowd):
    X, _, release = crowd
    with pytest.raises(ParameterError, match="no votes"):
        VoteClassifier().fit_release(make_release(), X)
    with pytest.raises(ForeignRowsError):
        VoteClassifier().fit_release(release, X[::-1])
    with pytest.raises(ValueError, match="'labels' parameter"):
        VoteClassifier(labels="soft").fit_release(release, X)


def test_plain_labels_train_it_as_well(crowd):
    X, truth, _ = crowd
    model = VoteClassifier(DecisionTreeClassifier()).fit(X, truth)
    assert (model.predict(X) == truth).all()
    assert model.classes_.tolist() == sorted(CLASSES)
