"""Probabilities without labels: as a fit to labels would give them, or none."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from builders import labelled_examples, rado_release, slow_rados
from suffice.errors import ParameterError
from suffice.learner.calibration import (
    LabelMeans,
    gaussian_log_odds,
    log_odds_of_scores,
)
from suffice.learner.fit import fit, model_of
from suffice.learner.rados import RadoBoost, RadoRidge
from suffice.releases.codec import decode
from suffice.releases.release import Release, encode


def scores_and_labels(count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Return scores that are far from Gaussian, and labels -1, +1 of log odds 2 s - 1."""
    rng = np.random.default_rng(0)
    scores = rng.exponential(size=count) - 0.3
    return scores, np.where(rng.random(count) < expit(2 * scores - 1), 1.0, -1.0)


def test_unlabelled_rows_calibrate_scores_as_labels_would():
    scores, y = scores_and_labels()
    labels = LabelMeans(float(np.mean(y * scores)), 0.0, float(y.mean()))
    log_odds = log_odds_of_scores(scores, labels)
    platt = LogisticRegression(C=1e6).fit(scores[:, None], y)
    assert log_odds.slope == pytest.approx(platt.coef_[0, 0], rel=0.01)
    assert log_odds.offset == pytest.approx(platt.intercept_[0], abs=0.02)


def test_without_the_mean_of_labels_a_score_of_zero_stays_undecided():
    scores, y = scores_and_labels()
    log_odds = log_odds_of_scores(scores, LabelMeans(float(np.mean(y * scores)), 0.0, None))
    platt = LogisticRegression(C=1e6, fit_intercept=False).fit(scores[:, None], y)
    assert log_odds.offset == 0
    assert log_odds.slope == pytest.approx(platt.coef_[0, 0], rel=0.01)


def test_noise_in_what_labels_say_makes_probabilities_more_careful():
    scores, y = scores_and_labels(2000)
    slopes = [
        log_odds_of_scores(scores, LabelMeans(float(np.mean(y * scores)), error, 0.2)).slope
        for error in (0.0, 0.2, 1.0)
    ]
    assert slopes[0] > slopes[1] > slopes[2] > 0


@pytest.mark.parametrize("product", [-5.0, 0.0, 1e6])
def test_impossible_products_leave_finite_log_odds(product):
    scores, _ = scores_and_labels(500)
    for mean in (None, -1.5, 1.0):
        log_odds = log_odds_of_scores(scores, LabelMeans(product, 0.0, mean))
        assert np.isfinite([log_odds.slope, log_odds.offset]).all()
        assert log_odds.slope > 0
        gaussian = gaussian_log_odds(float(np.mean(scores**2)), float(scores.mean()),
                                     LabelMeans(product, 0.0, mean))  # fmt: skip
        assert np.isfinite([gaussian.slope, gaussian.offset]).all()


def test_equal_scores_have_the_odds_of_the_classes():
    labels = LabelMeans(0.0, 0.0, -0.5)
    for log_odds in (log_odds_of_scores(np.ones(9), labels), gaussian_log_odds(1.0, 1.0, labels)):
        assert log_odds.slope * 1.0 + log_odds.offset == pytest.approx(logit(0.25))


def test_gaussian_scores_have_the_log_odds_of_discriminant_analysis():
    """Class means 1.2 and -.4, variance .5 and shares .3, .7."""
    share, high, low, within = 0.3, 1.2, -0.4, 0.5
    mean = share * high + (1 - share) * low
    square = within + share * high**2 + (1 - share) * low**2
    product = share * high - (1 - share) * low
    log_odds = gaussian_log_odds(square, mean, LabelMeans(product, 0.0, 2 * share - 1))
    slope = (high - low) / within
    assert log_odds.slope == pytest.approx(slope, rel=0.03)
    assert log_odds.offset == pytest.approx(logit(share) - slope * (high + low) / 2, abs=0.05)
    noisy = gaussian_log_odds(square, mean, LabelMeans(product, 0.3, 2 * share - 1))
    assert 0 < noisy.slope < log_odds.slope


# --- learners


def record_release(deviation: float, seed: int = 0) -> Release:
    """Return 300 rados of 2,000 records with noise of their own, of rows 4 long at most."""
    X, y = labelled_examples(2000, seed)
    rows = np.column_stack([X, np.ones(2000)])
    rng = np.random.default_rng(seed + 1)
    rados = slow_rados(rows, y, rng.choice([-1, 1], (300, 2000)))
    rados += deviation * rng.normal(size=rados.shape)
    release = rado_release(rados, 2000, variance=deviation**2, mechanism="matrix")
    return replace(release, pipeline=replace(release.pipeline, bound=4.0))


@pytest.mark.parametrize("learner", [RadoRidge(), RadoBoost(rounds=50)])
def test_noise_per_record_leaves_probabilities_to_rows_or_refuses(learner):
    X, _ = labelled_examples(3000, seed=9)
    release = record_release(500.0)  # rados vary by about 22
    model = learner.fit_release(release)
    assert not model.gives_probabilities
    assert set(model.predict(X)) <= {"no", "yes"}
    with pytest.raises(ParameterError, match="rows"):
        model.predict_proba(X)
    again = model_of(decode(encode(model.to_release())))
    assert not again.gives_probabilities
    with pytest.raises(ParameterError, match="rows"):
        again.predict_proba(X)


def test_rows_without_labels_give_probabilities_that_are_calibrated():
    """Ten bins of 400 rows: a calibrated model has an error of about .02, a constant .5 on half."""
    rows, _ = labelled_examples(1000, seed=5)
    X, y = labelled_examples(4000, seed=9)
    model = RadoRidge().fit_release(record_release(500.0), rows)
    p = model.predict_proba(X)[:, 1]
    bins = np.minimum((10 * p).astype(int), 9)
    error = np.abs(np.bincount(bins, (y > 0) - p, minlength=10)).sum() / len(p)
    assert error < 0.08
    loss = -np.mean(np.log(np.where(y > 0, p, 1 - p)))
    assert loss < 0.45
    assert np.array_equal(model.predict(X) == "yes", p > 0.5)
    again = model_of(decode(encode(model.to_release())))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))


def test_the_risk_with_rows_is_about_that_on_fresh_labels():
    """Over 10 releases; a mean error of .05 is about five of its deviations."""
    rows, _ = labelled_examples(1000, seed=5)
    X, y = labelled_examples(4000, seed=9)
    gaps = []
    for seed in range(10):
        model = RadoRidge().fit_release(record_release(500.0, seed), rows)
        scores = np.column_stack([X, np.ones(4000)]) @ model.minimiser_
        gaps.append(model.risk_ - 1 + np.mean(y * scores) ** 2 / np.mean(scores**2))
    assert abs(np.mean(gaps)) < 0.05


def test_probabilities_of_a_row_do_not_depend_on_those_beside_it():
    rows, _ = labelled_examples(1000, seed=5)
    model = RadoRidge().fit_release(record_release(500.0), rows)
    np.testing.assert_allclose(model.predict_proba(rows)[:3], model.predict_proba(rows[:3]))


def test_little_noise_per_record_needs_no_rows():
    model = RadoRidge().fit_release(record_release(2.0))
    X, y = labelled_examples(4000, seed=9)
    p = model.predict_proba(X)[:, 1]
    assert -np.mean(np.log(np.where(y > 0, p, 1 - p))) < 0.45


def test_a_constant_has_the_proportions_of_the_classes():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 4)), np.where(np.arange(400) < 360, 1.0, -1.0)
    rados = slow_rados(np.column_stack([X, np.ones(400)]), y, rng.choice([-1, 1], (100, 400)))
    rados += 40 * rng.normal(size=5)
    model = RadoRidge().fit_release(rado_release(rados, 400, variance=1600.0, mechanism="shared"))
    assert model.intercept_only_
    share = model.predict_proba(X)[:, 1]
    assert np.ptp(share) == 0
    assert 0.5 < share[0] < 1


def test_fit_takes_rows_or_none():
    rows, _ = labelled_examples(500, seed=5)
    release = record_release(500.0)
    assert fit(release, rows).gives_probabilities
    assert not fit(release).gives_probabilities
    assert fit(release, rows, loss="logistic").gives_probabilities
