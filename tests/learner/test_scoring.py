"""The figures of `suffice score` are those of scikit-learn, and absent where they mean nothing."""

import numpy as np
import pytest
from sklearn import metrics

from suffice import FactoredClassifier
from suffice.learner.scoring import Predictions, calibration_bins, predictions_of
from suffice.pages.plots import draw_scores


def random_predictions(rng, classes: int, rows: int = 300) -> Predictions:
    probabilities = rng.dirichlet(np.ones(classes), rows).round(2)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(classes, p=p) for p in probabilities])
    predicted = probabilities.argmax(axis=1)
    return Predictions(tuple(range(classes)), truth, predicted, probabilities, probabilities)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_figures_are_those_of_scikit_learn(rng, classes):
    made = random_predictions(rng, classes)
    truth, predicted, probabilities = made.truth, made.predicted, made.probabilities
    assert made.accuracy == pytest.approx(metrics.accuracy_score(truth, predicted))
    balanced = metrics.balanced_accuracy_score(truth, predicted)
    assert made.balanced_accuracy == pytest.approx(balanced)
    assert (made.confusion == metrics.confusion_matrix(truth, predicted)).all()
    precision, recall, _, _ = metrics.precision_recall_fscore_support(truth, predicted)
    assert made.precision == pytest.approx(precision)
    assert made.recall == pytest.approx(recall)
    assert made.log_loss == pytest.approx(metrics.log_loss(truth, probabilities))
    positive = probabilities[:, 1] if classes == 2 else probabilities
    area = metrics.roc_auc_score(truth, positive, multi_class="ovr")
    assert made.auc == pytest.approx(area)
    expected = (positive - (truth if classes == 2 else np.eye(classes)[truth])) ** 2
    assert made.brier == pytest.approx(expected.reshape(len(truth), -1).sum(axis=1).mean())
    constant = np.tile(made.shares, (len(truth), 1))
    assert made.constant_log_loss == pytest.approx(metrics.log_loss(truth, constant))
    assert made.to_json()["larger_class"] == np.bincount(truth).max() / len(truth)


def test_right_probabilities_lie_within_chance_and_wrong_ones_do_not(rng):
    """Bins of few rows too: 600 intervals at 95 %, whose ends lie on whole rows."""
    inside, off = [], []
    for _ in range(40):
        stated = rng.beta(0.5, 2.0, size=120)
        outcomes = (rng.random(120) < stated).astype(int)
        for values, kept in ((stated, inside), (stated**0.3, off)):
            bins = calibration_bins(values, outcomes)
            low, high = bins.chance_interval()
            kept.extend((low <= bins.observed) & (bins.observed <= high))
    assert 0.94 < np.mean(inside) < 1
    assert np.mean(off) < 0.8


def test_the_calibration_error_is_small_for_true_probabilities_and_large_for_others(rng):
    stated = rng.random(20_000)
    outcomes = rng.random(20_000) < stated
    assert calibration_bins(stated, outcomes).error < 0.015
    assert calibration_bins(stated**2, outcomes).error > 0.1
    sharp = np.clip(2 * stated - 0.5, 0, 1)
    assert calibration_bins(sharp, outcomes).error > 0.05


def test_bins_hold_every_row_once_with_their_means():
    bins = calibration_bins(np.array([0.0, 1.0, 1.0, 0.5]), np.array([0, 1, 0, 1]))
    assert bins.rows.tolist() == [1, 1, 2]
    assert bins.stated.tolist() == [0.0, 0.5, 1.0]
    assert bins.observed.tolist() == [0.0, 1.0, 0.5]
    assert bins.error == pytest.approx((0.5 + 2 * 0.5) / 4)


def test_a_class_that_never_occurs_or_is_never_predicted_has_no_figure():
    probabilities = np.tile([0.7, 0.2, 0.1], (10, 1))
    truth = np.array([0, 1] * 5)
    made = Predictions((0, 1, 2), truth, np.zeros(10, int), probabilities, probabilities)
    written = made.to_json()
    assert [item["precision"] for item in written["classes"]] == [0.5, None, None]
    assert [item["recall"] for item in written["classes"]] == [1.0, 0.0, None]
    assert written["balanced_accuracy"] == 0.5
    assert written["auc"] == 0.5
    same = Predictions((0, 1), np.zeros(4, int), np.zeros(4, int), np.full((4, 2), 0.5))
    assert "auc" not in same.to_json()


def test_a_model_without_probabilities_says_why_and_still_ranks(rng):
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = FactoredClassifier(loss="linear").fit(X, y)
    made = predictions_of(model, X, (y == "yes").astype(int))
    written = made.to_json()
    assert {"log_loss", "brier", "ece"}.isdisjoint(written)
    assert "linear loss gives scores but no probabilities" in written["no_probabilities"]
    assert written["auc"] > 0.95
    assert written["accuracy"] == model.score(X, y)


def test_the_picture_shows_what_there_is(tmp_path, rng):
    for number, made in enumerate((random_predictions(rng, 2), random_predictions(rng, 3))):
        path = tmp_path / f"{number}.svg"
        draw_scores(made, path)
        assert path.read_text().count('id="axes_') == 2
    bare = Predictions(("a$b", "c$d"), np.array([0, 1]), np.array([0, 1]), refusal="none")
    draw_scores(bare, tmp_path / "bare.svg")
    ranked = Predictions(("a$b", "c$d"), np.array([0, 1]), np.array([0, 1]), ranking=np.eye(2))
    draw_scores(ranked, tmp_path / "ranked.svg")
