"""Weights of classes move decisions as costs do, and leave probabilities as they are."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import suffice as sf
from suffice.errors import ParameterError
from suffice.learner.base import released_shares
from suffice.learner.fit import fit
from suffice.learner.weak import FlippedLabels

ROWS = 600
LEARNERS = [
    sf.FactoredClassifier(),
    sf.FactoredClassifier(loss="square"),
    sf.FactoredClassifier(loss="matsushita"),
    sf.MomentClassifier(draws=2),
    sf.NoisyLabelClassifier("logistic", settings=[{"C": 1.0}], folds=2),
    sf.NoisyLabelClassifier(settings=[{"max_iter": 5}], folds=2),
    sf.SpreadClassifier(lam=0.01),
    sf.VoteClassifier(),
    sf.RadoRidge(),
    sf.RadoBoost(rounds=20),
    sf.AdaBoostLinear(rounds=20),
]


@pytest.fixture
def rare(rng):
    """Return rows and labels of which one in five is "ill"."""
    X = rng.normal(size=(ROWS, 2))
    scores = 1.2 * X[:, 0] - 1.8 + rng.logistic(size=ROWS)
    return X, np.where(scores > 0, "ill", "well")


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_class_of_least_expected_cost_is_taken(rare, learner):
    X, y = rare
    plain = clone(learner).fit(X, y)
    weights = {"ill": 4.0, "well": 0.5}
    costly = clone(learner).set_params(class_weight=weights).fit(X, y)
    chances = plain.predict_proba(X)
    np.testing.assert_array_equal(costly.predict_proba(X), chances)
    np.testing.assert_array_equal(costly.coef_, plain.coef_) if hasattr(plain, "coef_") else None
    expected = plain.classes_[(chances * [4.0, 0.5]).argmax(axis=1)]
    np.testing.assert_array_equal(costly.predict(X), expected)
    assert (costly.predict(X) == "ill").mean() > (plain.predict(X) == "ill").mean()
    # It is a decision, so that a fitted model takes it too.
    plain.set_params(class_weight=weights)
    np.testing.assert_array_equal(plain.predict(X), expected)


def test_it_agrees_with_training_on_weighted_rows(rare):
    """A logistic model that is right has the same decisions either way, up to its sample.

    Chance: rows near the boundary differ, 2 to 3 of 100 here.
    """
    X, y = rare
    weights = {"ill": 5.0, "well": 1.0}
    ours = sf.FactoredClassifier(class_weight=weights).fit(X, y)
    theirs = LogisticRegression(C=1e3, class_weight=weights).fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.9
    unweighted = LogisticRegression(C=1e3).fit(X, y)
    assert (ours.predict(X) == unweighted.predict(X)).mean() < 0.85


def test_balanced_weighs_against_proportions(rare):
    X, y = rare
    share = (y == "ill").mean()
    stated = {"ill": 0.5 / share, "well": 0.5 / (1 - share)}
    for learner in LEARNERS[:5]:
        balanced = clone(learner).set_params(class_weight="balanced").fit(X, y)
        explicit = clone(learner).set_params(class_weight=stated).fit(X, y)
        np.testing.assert_array_equal(balanced.predict(X), explicit.predict(X))
    twice = np.where(y == "ill", 4.0, 1.0)
    weighted = sf.FactoredClassifier(class_weight="balanced").fit(X, y, sample_weight=twice)
    near = 4 * share / (4 * share + 1 - share)
    chances = weighted.predict_proba(X) / [near, 1 - near]
    assert (weighted.predict(X) == weighted.classes_[chances.argmax(axis=1)]).all()


def releases_of(X, y):
    """Yield a learner and a release of each kind that tells class proportions."""
    classes = ("ill", "well")
    operator = sf.MeanOperator(epsilon=50.0, mechanism="laplace", classes=classes, map=None)
    yield sf.FactoredClassifier, operator.release(X, y, ledger=None), X
    labels = sf.MeanOperator(epsilon=9.0, mechanism="response", classes=classes)
    yield sf.FactoredClassifier, labels.release(X, y, ledger=None), X
    moments = sf.Moments(20.0, 1e-6, standardize=X[:100], classes=classes)
    yield sf.MomentClassifier, moments.release(X, y, ledger=None), None
    rados = sf.Rados(count=200, standardize=X[:100], classes=classes)
    yield sf.RadoRidge, rados.release(X, y, ledger=None, unprotected=True), None


def test_releases_tell_proportions(rare):
    """Within .1 of .2: the noise of each is below .02, five deviations away."""
    X, y = rare
    share = (y == "ill").mean()
    for learner, release, rows in releases_of(X, y):
        told = released_shares([release])
        assert told.sum() == pytest.approx(1)
        assert told[0] == pytest.approx(share, abs=0.1)
        model = fit(release, rows, class_weight="balanced")
        assert isinstance(model, learner)
        expected = (model.predict_proba(X) / told).argmax(axis=1)
        np.testing.assert_array_equal(model.predict(X), model.classes_[expected])


def test_three_classes_have_weights(rng):
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=300), [-0.5, 0.5])
    release = sf.MeanOperator(epsilon=50.0, classes=(0, 1, 2), map=None).release(X, y, ledger=None)
    model = sf.FactoredClassifier(class_weight={1: 1e9}).fit_release(release, X)
    assert (model.predict(X) == 1).all()
    told = released_shares([release])
    np.testing.assert_allclose(told, np.bincount(y) / 300, atol=0.1)


def test_noise_does_not_make_a_class_vanish(rng):
    """However large the noise, no weight is beyond one over the noise, or one row."""
    X = rng.normal(size=(50, 2))
    owner = sf.MeanOperator(epsilon=0.05, mechanism="laplace", map=None)
    for _ in range(5):
        release = owner.release(X, np.zeros(50, int), ledger=None)
        assert released_shares([release]).min() >= 0.5 / 50 / 1.5


def test_a_file_holds_no_class_weights(rare, tmp_path):
    X, y = rare
    owner = sf.MeanOperator(epsilon=50.0, classes=("ill", "well"), map=None)
    model = sf.FactoredClassifier().fit_release(owner.release(X, y, ledger=None), X)
    model.to_release().save(tmp_path / "m.suffice")
    loaded = sf.load(tmp_path / "m.suffice").model
    for fitted in (model, loaded):
        fitted.set_params(class_weight={"ill": 9.0})
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ParameterError, match="does not hold class_weight"):
        model.to_release()
    loaded.set_params(class_weight="balanced")
    with pytest.raises(ParameterError, match="proportions are not known"):
        loaded.predict(X)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"sick": 1.0}, "names sick, but the classes are ill, well"),
        ({"ill": -1.0}, "none below zero"),
        ({"ill": "much"}, "finite number"),
        ({"ill": 0, "well": 0}, "not all zero"),
    ],
)
def test_weights_that_make_no_sense_are_refused(rare, stated, words):
    X, y = rare
    model = sf.FactoredClassifier(class_weight=stated).fit(X, y)
    with pytest.raises(ParameterError, match=words):
        model.predict(X)
    with pytest.raises(ParameterError, match="class_weight"):
        sf.FactoredClassifier(class_weight="equal").fit(X, y)


def test_models_without_probabilities_have_no_class_weights(rare):
    X, y = rare
    model = sf.FactoredClassifier(loss="linear", class_weight={"ill": 2.0}).fit(X, y)
    with pytest.raises(ParameterError, match=r"multiplies probabilities. The linear loss"):
        model.predict(X)
    weak = FlippedLabels((y == "ill").astype(int), classes=(0, 1), rates=(0.0, 0.0))
    supervised = sf.FactoredClassifier(class_weight="balanced").fit(X, y).fit_weak(X, weak)
    with pytest.raises(ParameterError, match="proportions are not known"):
        supervised.predict(X)


def test_weights_are_searched_like_any_parameter(rare):
    X, y = rare
    grid = {"class_weight": [None, {"ill": 4.0}]}
    search = GridSearchCV(sf.FactoredClassifier(), grid, scoring="balanced_accuracy", cv=3)
    assert search.fit(X, y).best_params_["class_weight"] == {"ill": 4.0}
