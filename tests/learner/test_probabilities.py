"""Probabilities are those of fresh rows, or they are refused with the reason."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

import suffice as sf
from suffice.errors import ParameterError
from suffice.learner.noisy_labels.link import ChannelLink, fit_link, probability_error
from suffice.learner.scoring import calibration_bins
from suffice.learner.spread.likelihood import CleanFeatures, SpreadLikelihood
from suffice.learner.spread.selection import calibration_slope

CHANNEL = np.array([[0.75, 0.25], [0.25, 0.75]])


def labelled(rng, rows: int, strength: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, their labels, and the probability of the second class."""
    X = rng.normal(size=(rows, 4))
    probability = expit(strength * (X @ [1.5, -1.0, 0.5, 0.0]) - 0.5)
    return X, (rng.random(rows) < probability).astype(int), probability


def crowd_release(rng, method: str) -> tuple[np.ndarray, sf.Release]:
    """Return auxiliary rows and what 400 parties release about them."""
    X, y, _ = labelled(rng, 4000)
    auxiliary = rng.normal(size=(150, 4))
    table = {f"x{j}": X[:, j] for j in range(4)}
    table |= {"y": y, "party": [str(i % 400) for i in range(4000)]}
    ensemble = sf.PrivateEnsemble(epsilon=2.0, delta=1e-5, method=method, lam=0.1)
    release = ensemble.release(
        pa.table(table),
        label="y",
        party="party",
        auxiliary=sf.AuxiliaryRows.read(auxiliary),
        enrolled=400,
        ledger=None,
    )
    return auxiliary, release


@pytest.mark.parametrize("method", ["operator", "vote-table", "soft"])
def test_what_parties_teach_has_no_probabilities_but_a_ranking(rng, method, tmp_path):
    auxiliary, release = crowd_release(rng, method)
    if method == "soft":
        models = [sf.FactoredClassifier.from_release(release)]
    else:
        models = [sf.FactoredClassifier().fit_release(release, auxiliary)]
        models[0].to_release().save(tmp_path / "m.suffice")
        models.append(sf.load(tmp_path / "m.suffice").model)
    if method == "vote-table":
        models.append(sf.VoteClassifier().fit_release(release, auxiliary))
    for model in models:
        assert not model.gives_probabilities
        for ask in (model.predict_proba, model.predict_log_proba):
            with pytest.raises(ParameterError, match="not how probable it is"):
                ask(auxiliary)
        assert len(model.decision_function(auxiliary)) == len(model.predict(auxiliary)) == 150


def test_scores_of_a_model_that_is_too_sure_are_flattened(rng):
    """With ten times as many columns as tell anything, the likelihood's optimum overfits."""
    X, y, _ = labelled(rng, 600)
    wide = np.hstack([X, rng.normal(size=(600, 40)), np.ones((600, 1))])
    codes = np.where(rng.random(600) < 0.25, 1 - y, y)
    likelihood = SpreadLikelihood(CleanFeatures(wide), codes, CHANNEL)
    slope, _ = calibration_slope(likelihood, 1e-5, max_iter=1000)
    assert slope < 0.7
    careful, _ = calibration_slope(likelihood, 0.3, max_iter=1000)
    assert careful > 0.99  # too careful a model is left as it is


def test_the_error_of_the_slope_falls_with_the_records(rng):
    """Ten times as many records have sqrt(10) = 3.2 times less error; within a factor 1.5."""
    errors = []
    for rows in (1_000, 10_000):
        X, y, _ = labelled(rng, rows)
        codes = np.where(rng.random(rows) < 0.25, 1 - y, y)
        features = CleanFeatures(np.column_stack([X, np.ones(rows)]))
        likelihood = SpreadLikelihood(features, codes, CHANNEL)
        errors.append(calibration_slope(likelihood, 1e-4, max_iter=1000)[1])
    assert 2.1 < errors[0] / errors[1] < 4.8


def test_randomised_labels_give_calibrated_probabilities_or_a_reason(rng, tmp_path):
    X, y, probability = labelled(rng, 6_000)
    owner = sf.MeanOperator(epsilon=1.0, mechanism="response")
    model = sf.SpreadClassifier().fit_release(owner.release(X, y, ledger=None), X)
    assert model.slope_error_ < 0.25
    stated = model.predict_proba(X)[:, 1]
    assert calibration_bins(stated, probability).error < 0.06
    model.to_release().save(tmp_path / "m.suffice")
    again = sf.load(tmp_path / "m.suffice").model
    np.testing.assert_allclose(again.predict_proba(X)[:, 1], stated, rtol=1e-12)
    weak = sf.MeanOperator(epsilon=0.05, mechanism="response").release(X, y, ledger=None)
    refused = sf.SpreadClassifier().fit_release(weak, X)
    assert refused.slope_error_ > 0.25
    with pytest.raises(ParameterError, match="tell too little"):
        refused.predict_proba(X)
    refused.to_release().save(tmp_path / "w.suffice")
    with pytest.raises(ParameterError, match="tell too little"):
        sf.load(tmp_path / "w.suffice").predict_proba(X)


def test_exact_labels_keep_the_model_s_own_probabilities(rng):
    X, y, _ = labelled(rng, 300)
    model = sf.SpreadClassifier().fit(X, y)
    assert (model.slope_, model.slope_error_) == (1.0, 0.0)


def test_the_square_loss_calls_no_class_impossible(rng):
    X, y, _ = labelled(rng, 500, strength=5.0)
    model = sf.FactoredClassifier(loss="square", lam=1e-4).fit(X, y)
    assert np.abs(model.decision_function(X)).max() > 1
    stated = model.predict_proba(X)
    assert stated.min() == 1e-3
    assert stated.sum(axis=1) == pytest.approx(1)
    assert (model.classes_[stated.argmax(axis=1)] == model.predict(X)).all()


@pytest.mark.parametrize("estimator", ["logistic", "hist-gradient-boosting"])
def test_a_link_that_held_out_labels_leave_open_gives_no_probabilities(rng, estimator, tmp_path):
    X, y, _ = labelled(rng, 600)
    settings = [{"C": 1.0}] if estimator == "logistic" else [{"max_iter": 5}]
    models = {}
    for epsilon in (0.05, 4.0):
        owner = sf.MeanOperator(epsilon=epsilon, mechanism="response")
        learner = sf.NoisyLabelClassifier(estimator, settings=settings, folds=2)
        models[epsilon] = learner.fit_release(owner.release(X, y, ledger=None), X)
        models[epsilon].to_release().save(tmp_path / f"{epsilon}.suffice")
        again = sf.load(tmp_path / f"{epsilon}.suffice").model
        assert again.gives_probabilities == models[epsilon].gives_probabilities == (epsilon > 1)
        assert (again.predict(X) == models[epsilon].predict(X)).all()
    with pytest.raises(ParameterError, match="tell too little"):
        models[0.05].predict_proba(X)
    assert models[4.0].link_error_ < 0.05 < models[0.05].link_error_


def test_the_error_of_a_link_falls_with_the_held_out_labels(rng):
    """Nine times as many labels have a third of the error; the grid of scales has steps of .02."""
    errors = []
    for rows in (1_000, 9_000):
        _, y, probability = labelled(rng, rows)
        codes = np.where(rng.random(rows) < 0.25, 1 - y, y)
        logs = np.log(np.column_stack([1 - probability, probability]))
        link = fit_link(logs, codes, CHANNEL)
        errors.append(probability_error(link, logs, codes, CHANNEL))
    assert 1.8 < errors[0] / errors[1] < 5


def test_a_steep_link_of_classes_that_are_apart_has_no_error(rng):
    """Twice or half the scale gives the same probabilities: nothing is left open."""
    y = rng.integers(0, 2, 2_000)
    codes = np.where(rng.random(2_000) < 0.05, 1 - y, y)
    channel = np.array([[0.95, 0.05], [0.05, 0.95]])
    logs = np.where(y[:, None] == [0, 1], 0.0, -20.0)
    assert probability_error(ChannelLink(1.0, np.zeros(2)), logs, codes, channel) < 0.02


@pytest.mark.parametrize("loss", ["square", "matsushita"])
def test_one_model_per_class_gives_no_probabilities(rng, loss):
    """On softmax data the least squares of each class were off by .1 on average."""
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = sf.FactoredClassifier(loss=loss).fit(X, y)
    assert not model.gives_probabilities
    with pytest.raises(ParameterError, match="one model for each class"):
        model.predict_proba(X)
    assert sf.FactoredClassifier(loss=loss).fit(X, y > 0).gives_probabilities
    assert sf.FactoredClassifier().fit(X, y).gives_probabilities
