"""A model that may be no better than a guess says so, in Python as on the command line."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import suffice
from suffice.learner.fit import report_of
from suffice.learner.moments import MomentNumbers
from suffice.learner.operator import NO_SIGNAL, is_majority_known, warnings_of
from suffice.learner.problem import NoiseWarning, Supervised
from suffice.learner.weak import OperatorEstimate
from suffice.releases.release import Covariance

ROWS = np.random.default_rng(2).normal(size=(200, 3))


def release_of(labels: np.ndarray, epsilon: float) -> suffice.Release:
    return suffice.MeanOperator(epsilon, map=None).release(ROWS, labels, ledger=None)


def warned_by(release: suffice.Release, **settings) -> tuple[suffice.FactoredClassifier, list]:
    """Return a model of a release, and the warnings of its fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = suffice.FactoredClassifier(**settings).fit_release(release, ROWS)
    return model, caught


# A release of this epsilon leaves no doubt in less than 1 of 100 cases, five of them never.
def test_python_warns_with_the_sentences_of_the_command_line():
    labels = (np.random.default_rng(0).random(200) < 0.4).astype(int)
    doubtful = 0
    for _ in range(5):
        model, caught = warned_by(release_of(labels, 0.05))
        doubts, report = warnings_of(model), report_of(model)
        assert [str(warning.message) for warning in caught] == [" ".join(doubts)] * bool(doubts)
        assert all(warning.category is NoiseWarning for warning in caught)
        assert all(warning.filename == __file__ for warning in caught)
        headings = [heading for heading, _ in report.lines]
        assert [text for heading, text in report.lines if heading == "warning"] == doubts
        assert report.values["majority_known"] == model.majority_known_
        if doubts:
            doubtful += 1
            assert headings.index("warning") < headings.index("risk")
    assert doubtful


@pytest.mark.parametrize(("signal", "doubted"), [(2.0, False), (0.6, True)])
def test_votes_warn_of_a_model_that_may_be_below_the_larger_class(rng, signal, doubted):
    """Seven of ten labels are 0. Found: 0.7740 of the labels right, where 0.7758 were 0."""
    X = rng.normal(size=(2500, 4))
    labels = (rng.random(2500) < 1 / (1 + np.exp(1.2 - signal * X[:, 0]))).astype(int)
    table = pa.table({f"x{j}": X[500:, j] for j in range(4)})
    table = table.append_column("label", pa.array(labels[500:]))
    table = table.append_column("party", pa.array([f"p{i // 20}" for i in range(2000)]))
    release = suffice.PrivateEnsemble(3.0, 1e-5).release(
        table, auxiliary=suffice.AuxiliaryRows.read(X[:500]), label="label", party="party",
        enrolled=100, ledger=None,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = suffice.FactoredClassifier().fit_release(release, X[:500])
    assert sum("worse than always" in str(warning.message) for warning in caught) == doubted
    assert sum("worse than always" in line for line in warnings_of(model)) == doubted
    assert (model.predict(X[:500]) == 1).any()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("owners", [1, 2])
def test_a_release_of_noise_says_so_with_any_number_of_classes_and_owners(rng, classes, owners):
    """Also where the larger class is known, so that nothing else warns."""
    X = rng.normal(size=(4000, 6))
    larger = (rng.random(4000) < 0.4) * rng.integers(classes, size=4000)
    signal = np.where(rng.random(4000) < 0.4, np.digitize(X[:, 0], np.arange(classes - 1)), 0)
    for labels, doubted in ((larger, True), (signal, False)):
        parts = np.array_split(np.arange(4000), owners)
        owner = suffice.MeanOperator(2.0, 1e-6, map=None, classes=list(range(classes)))
        pipeline = owner.release(X[parts[0]], labels[parts[0]], ledger=None).pipeline
        owner = suffice.MeanOperator(2.0, 1e-6, classes=list(range(classes)), pipeline=pipeline)
        releases = [owner.release(X[part], labels[part], ledger=None) for part in parts]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = suffice.FactoredClassifier().fit_release(releases, X)
        assert (NO_SIGNAL in warnings_of(model)) == doubted
        assert any(NO_SIGNAL in str(warning.message) for warning in caught) == doubted


@pytest.mark.parametrize("settings", [{"denoise": False}, {"denoise": False, "lam": 1e-3}])
def test_python_warns_also_where_nothing_was_restored(settings):
    """Once the command line warned of these models, and Python did not."""
    labels = np.random.default_rng(1).integers(2, size=200)
    cases = [warned_by(release_of(labels, 0.05), **settings) for _ in range(5)]
    for model, caught in cases:
        doubts = warnings_of(model)
        assert [str(warning.message) for warning in caught] == [" ".join(doubts)] * bool(doubts)
    assert any(caught for _, caught in cases)


@pytest.mark.parametrize("known", [True, False])
def test_moments_warn_exactly_where_the_majority_is_hidden(monkeypatch, known):
    monkeypatch.setattr(MomentNumbers, "majority_known", known)
    owner = suffice.Moments(epsilon=20.0, delta=1e-6, ranges=(-3, 3))
    release = owner.release(ROWS, np.arange(200) % 2, ledger=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = suffice.MomentClassifier().fit_release(release)
    warned = [text for heading, text in report_of(model).lines if heading == "warning"]
    assert len(warned) == (not known)
    assert [str(warning.message) for warning in caught] == warned
    assert all(warning.filename == __file__ for warning in caught)


def test_a_model_of_little_noise_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = suffice.FactoredClassifier().fit_release(
            release_of((ROWS[:, 0] > 0).astype(int), 20.0), ROWS
        )
    assert not warnings_of(model)


@pytest.mark.parametrize(("lead", "known"), [(0.6, True), (0.2, True), (0.15, False)])
def test_a_majority_is_known_beyond_the_noise_of_the_intercept(lead, known):
    noise = Covariance("identity", 0.01)
    for operator in (np.array([1.0, -lead]), np.array([[0.0] * 3, [0.1, 0.1 + lead * 1.5, 0.0]])):
        estimate = OperatorEstimate(operator, noise, tuple(range(max(operator.ndim * 2 - 1, 2))))
        supervision = Supervised(np.ones((5, 2)), estimate)
        assert is_majority_known(supervision, intercept=True) == known
        assert is_majority_known(supervision, intercept=False)
