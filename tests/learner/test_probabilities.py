"""Probabilities are those of fresh rows, or they are refused with the reason."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

import suffice as sf
from suffice.errors import ParameterError
from suffice.learner.calibration import calibrate_by_labels
from suffice.learner.noisy_labels import WITHOUT_PROBABILITIES
from suffice.learner.scoring import calibration_bins
from suffice.learner.spread_likelihood import CleanFeatures, SpreadLikelihood, held_out_link

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
    assert held_out_link(likelihood, 1e-5, max_iter=1000).slope < 0.7
    assert held_out_link(likelihood, 0.3, max_iter=1000).slope > 0.99  # too careful a model


def test_what_held_out_labels_leave_open_falls_with_the_records(rng):
    """Ten times as many records have sqrt(10) = 3.2 times less error; within a factor 1.6."""
    errors = []
    for rows in (1_000, 10_000):
        X, y, _ = labelled(rng, rows)
        codes = np.where(rng.random(rows) < 0.25, 1 - y, y)
        features = CleanFeatures(np.column_stack([X, np.ones(rows)]))
        likelihood = SpreadLikelihood(features, codes, CHANNEL)
        errors.append(held_out_link(likelihood, 1e-4, max_iter=1000).error)
    assert 2 < errors[0] / errors[1] < 5.1


def test_randomised_labels_give_calibrated_probabilities(rng, tmp_path):
    X, y, probability = labelled(rng, 6_000)
    owner = sf.MeanOperator(epsilon=1.0, mechanism="response")
    model = sf.SpreadClassifier().fit_release(owner.release(X, y, ledger=None), X)
    stated = model.predict_proba(X)[:, 1]
    assert calibration_bins(stated, probability).error < 0.06
    assert ((stated > 0.5) == model.predict(X)).all()
    model.to_release().save(tmp_path / "m.suffice")
    again = sf.load(tmp_path / "m.suffice").model
    np.testing.assert_allclose(again.predict_proba(X)[:, 1], stated, rtol=1e-12)


def test_labels_that_tell_nothing_give_flat_probabilities(rng):
    """60 labels at epsilon 0.01 know no slope: nobody is sure of a row."""
    X, y, _ = labelled(rng, 60)
    codes = np.where(rng.random(60) < 0.4975, 1 - y, y)
    channel = np.array([[0.5025, 0.4975], [0.4975, 0.5025]])
    features = CleanFeatures(np.column_stack([X, np.ones(60)]))
    link = held_out_link(SpreadLikelihood(features, codes, channel), 0.1, max_iter=1000)
    assert link.error > 0.05


def test_a_file_without_probabilities_refuses(rng, tmp_path):
    X, y, _ = labelled(rng, 300)
    release = sf.MeanOperator(epsilon=2.0, mechanism="response").release(X, y, ledger=None)
    stored = sf.NoisyLabelClassifier("logistic").fit_release(release, X).to_release()
    details = {**stored.details, "loss": WITHOUT_PROBABILITIES}
    replace(stored, details=details).save(tmp_path / "m.suffice")
    with pytest.raises(ParameterError, match="tell too little"):
        sf.load(tmp_path / "m.suffice").predict_proba(X)


def test_exact_labels_keep_the_model_s_own_probabilities(rng):
    X, y, _ = labelled(rng, 300)
    model = sf.SpreadClassifier().fit(X, y)
    assert (model.slope_, model.probability_error_) == (1.0, 0.0)


def test_the_square_loss_calls_no_class_impossible(rng):
    X, y, _ = labelled(rng, 500, strength=5.0)
    model = sf.FactoredClassifier(loss="square", lam=1e-4).fit(X, y)
    assert np.abs(model.decision_function(X)).max() > 1
    stated = model.predict_proba(X)
    assert stated.min() == 1e-3
    assert stated.sum(axis=1) == pytest.approx(1)
    assert (model.classes_[stated.argmax(axis=1)] == model.predict(X)).all()


@pytest.mark.parametrize("estimator", ["logistic", "hist-gradient-boosting"])
def test_a_link_that_held_out_labels_leave_open_is_flat(rng, estimator, tmp_path):
    X, y, _ = labelled(rng, 600)
    settings = [{"C": 1.0}] if estimator == "logistic" else [{"max_iter": 5}]
    errors = {}
    for epsilon in (0.05, 4.0):
        owner = sf.MeanOperator(epsilon=epsilon, mechanism="response")
        learner = sf.NoisyLabelClassifier(estimator, settings=settings, folds=2)
        model = learner.fit_release(owner.release(X, y, ledger=None), X)
        model.to_release().save(tmp_path / f"{epsilon}.suffice")
        again = sf.load(tmp_path / f"{epsilon}.suffice").model
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)
        errors[epsilon] = model.link_error_
    assert errors[4.0] < 0.05 < errors[0.05]


def test_rows_of_which_none_can_be_held_out_have_no_probabilities(rng):
    X, y, _ = labelled(rng, 40)
    release = sf.MeanOperator(epsilon=2.0, mechanism="response").release(X, y, ledger=None)
    model = sf.NoisyLabelClassifier("logistic").fit_release(release, X)
    with pytest.raises(ParameterError, match="tell too little"):
        model.predict_proba(X)


def test_the_error_of_a_link_falls_with_the_held_out_labels(rng):
    """Nine times as many labels have a third of the error; within a factor 1.7."""
    errors = []
    for rows in (1_000, 9_000):
        _, y, probability = labelled(rng, rows)
        codes = np.where(rng.random(rows) < 0.25, 1 - y, y)
        logs = np.log(np.column_stack([1 - probability, probability]))
        errors.append(calibrate_by_labels(logs, codes, CHANNEL).error)
    assert 1.8 < errors[0] / errors[1] < 5


def test_a_steep_link_of_classes_that_are_apart_has_no_error(rng):
    """Twice or half the scale gives the same probabilities: nothing is left open."""
    y = rng.integers(0, 2, 2_000)
    codes = np.where(rng.random(2_000) < 0.05, 1 - y, y)
    channel = np.array([[0.95, 0.05], [0.05, 0.95]])
    logs = np.where(y[:, None] == [0, 1], 0.0, -20.0)
    assert calibrate_by_labels(logs, codes, channel).error < 0.02


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
