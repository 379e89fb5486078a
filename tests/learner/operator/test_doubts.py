"""A model that may be no better than a guess says so, in Python as on the command line."""

import warnings

import numpy as np
import pytest

import suffice
from suffice.learner.operator.combining import Supervised
from suffice.learner.operator.doubts import NoiseWarning, doubts_of, is_majority_known
from suffice.learner.reports import report_of
from suffice.learner.weak.moments import OperatorEstimate
from suffice.release.covariance import Covariance

ROWS = np.random.default_rng(2).normal(size=(200, 3))


def release_of(labels: np.ndarray, epsilon: float) -> suffice.Release:
    return suffice.MeanOperator(epsilon).release(ROWS, labels, ledger=None)


@pytest.mark.usefixtures("seeded")
def test_python_warns_with_the_sentences_of_the_command_line():
    labels = (np.random.default_rng(0).random(200) < 0.4).astype(int)
    release = release_of(labels, 0.05)
    with pytest.warns(NoiseWarning) as caught:
        model = suffice.FactoredClassifier().fit_release(release, ROWS)
    (warning,) = caught
    assert warning.filename == __file__
    doubts = doubts_of(model)
    assert str(warning.message) == " ".join(doubts)
    report = report_of(model)
    headings = [heading for heading, _ in report.lines]
    assert [text for heading, text in report.lines if heading == "warning"] == doubts
    assert headings.index("warning") < headings.index("risk")
    assert report.values["majority_known"] == model.majority_known_


@pytest.mark.usefixtures("seeded")
def test_a_model_of_little_noise_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = suffice.FactoredClassifier().fit_release(
            release_of((ROWS[:, 0] > 0).astype(int), 20.0), ROWS
        )
    assert not doubts_of(model)


@pytest.mark.parametrize(("lead", "known"), [(0.4, True), (0.2, True), (0.15, False)])
def test_a_majority_is_known_beyond_the_noise_of_the_intercept(lead, known):
    noise = Covariance("identity", 0.01)
    for operator in (np.array([1.0, -lead]), np.array([[0.0] * 3, [0.1, 0.1 + lead * 1.5, 0.0]])):
        estimate = OperatorEstimate(operator, noise, tuple(range(max(operator.ndim * 2 - 1, 2))))
        supervision = Supervised(np.ones((5, 2)), estimate)
        assert is_majority_known(supervision, intercept=True) == known
        assert is_majority_known(supervision, intercept=False)
