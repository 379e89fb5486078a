"""Probabilities are those of fresh rows, or they are refused with the reason."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

import suffice as sf
from suffice.errors import ParameterError
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
