"""Any classifier on randomised labels: the link, the choice of settings, honest figures."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import suffice as sf
from suffice.cli.main import app
from suffice.errors import ForeignRowsError, ParameterError
from suffice.learner import noisy_labels as module
from suffice.learner.calibration import Calibration, calibrate_by_labels
from suffice.learner.noisy_labels import label_losses

ROWS = 3000


def response_of(X, y, epsilon, **options):
    mechanism = sf.MeanOperator(epsilon=epsilon, mechanism="response", **options)
    return mechanism.release(X, y, ledger=None)


def randomise(codes, channel, rng):
    """Return one randomised label a row."""
    ends = np.cumsum(channel, axis=0)[:, codes]
    return (rng.random(len(codes)) > ends).sum(axis=0)


def channel_of(count: int, keep: float) -> np.ndarray:
    return np.full((count, count), (1 - keep) / (count - 1)) + np.eye(count) * (
        keep - (1 - keep) / (count - 1)
    )


# --- the link


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_link_is_found_again_from_randomised_labels(count, rng):
    """Slope and shift of the true model, within four standard errors of 200,000 labels."""
    scores = rng.normal(size=(200_000, count))
    true = Calibration(2.5, np.append(0.0, rng.normal(size=count - 1)))
    logs = log_softmax(scores, axis=1)
    p = true.apply(logs)
    codes = (rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    channel = channel_of(count, 0.7)
    labels = randomise(codes, channel, rng)
    estimate = calibrate_by_labels(logs, labels, channel)
    assert abs(estimate.slope - true.slope) < 0.12
    np.testing.assert_allclose(estimate.shift, true.shift, atol=0.12)


def test_unequal_channels_are_inverted_too(rng):
    """Of two classes, flipped at .1 and at .4."""
    scores = rng.normal(size=200_000)
    codes = (rng.random(len(scores)) < expit(2 * scores - 1)).astype(int)
    channel = np.array([[0.9, 0.4], [0.1, 0.6]])
    logs = log_softmax(np.column_stack([np.zeros_like(scores), scores]), axis=1)
    estimate = calibrate_by_labels(logs, randomise(codes, channel, rng), channel)
    p = estimate.apply(logs)[:, 1]
    np.testing.assert_allclose(p, expit(2 * scores - 1), atol=0.03)


def test_labels_that_the_rows_do_not_tell_get_the_prior(rng):
    logs = log_softmax(rng.normal(size=(100_000, 2)), axis=1)
    channel = channel_of(2, 0.75)
    labels = randomise((rng.random(100_000) < 0.2).astype(int), channel, rng)
    link = calibrate_by_labels(logs, labels, channel)
    assert link.slope < 0.05
    np.testing.assert_allclose(link.apply(logs)[:, 1], 0.2, atol=0.03)


def test_losses_are_those_of_the_randomised_labels():
    p = np.array([[0.2, 0.8], [1.0, 0.0]])
    channel = np.array([[0.9, 0.3], [0.1, 0.7]])
    expected = [-np.log(0.1 * 0.2 + 0.7 * 0.8), -np.log(0.9)]
    np.testing.assert_allclose(label_losses(p, np.array([1, 0]), channel), expected)


# --- the learner


@pytest.fixture(scope="module")
def ring():
    """Return rows whose class no linear model can tell, and their labels."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 3))
    y = ((X[:, :2] ** 2).sum(axis=1) < 1.4).astype(int)
    return X, y


def test_trees_learn_from_randomised_labels_what_no_linear_model_can(ring):
    X, y = ring
    release = response_of(X[:2000], y[:2000], epsilon=2.0)
    trees = sf.NoisyLabelClassifier().fit_release(release, X[:2000])
    linear = sf.FactoredClassifier().fit_release(release, X[:2000])
    assert trees.score(X[2000:], y[2000:]) > 0.85
    assert linear.score(X[2000:], y[2000:]) < 0.7


def test_probabilities_are_of_true_labels_not_of_randomised_ones(ring):
    """A label is kept with probability .73 at epsilon 1: nobody is surer than that of z."""
    X, y = ring
    release = response_of(X, y, epsilon=1.0)
    model = sf.NoisyLabelClassifier().fit_release(release, X)
    p = model.predict_proba(X)[:, 1]
    inside = (X[:, :2] ** 2).sum(axis=1) < 0.5
    assert p[inside].mean() > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_accuracy_interval_covers_held_out_accuracy(epsilon):
    """At least 33 of 40: if each covers with 95 %, not so for 1 seed in 1,000 at most."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(40):
        X = rng.normal(size=(1000, 2))
        y = (X[:, 0] + rng.normal(size=1000) > 0).astype(int)
        new = rng.normal(size=(4000, 2))
        truth = (new[:, 0] + rng.normal(size=4000) > 0).astype(int)
        model = sf.NoisyLabelClassifier("logistic", settings=[{"C": 0.1}])
        model.fit_release(response_of(X, y, epsilon), X)
        low, high = model.accuracy_interval_
        covered += low <= model.score(new, truth) <= high
    assert covered >= 33


def test_any_classifier_with_probabilities_can_be_trained(ring):
    X, y = ring
    release = response_of(X, y, epsilon=2.0)
    forest = RandomForestClassifier(30, min_samples_leaf=20, random_state=0)
    for estimator in (forest, GaussianNB()):
        model = sf.NoisyLabelClassifier(estimator).fit_release(release, X)
        assert type(model.estimator_) is type(estimator)
        assert model.score(X, y) > 0.75
    assert not hasattr(forest, "estimators_")  # it was cloned


def test_settings_are_chosen_on_held_out_randomised_labels(ring):
    X, y = ring
    release = response_of(X, y, epsilon=2.0)
    settings = [{"max_depth": 1, "max_iter": 1}, {"max_iter": 60, "min_samples_leaf": 50}]
    model = sf.NoisyLabelClassifier(settings=settings).fit_release(release, X)
    assert model.settings_ == settings[1]


def test_half_of_the_settings_go_on_after_each_fold(ring):
    X, y = ring
    depths = []

    class Counted(RandomForestClassifier):
        def fit(self, X, y):
            depths.append(self.max_depth)
            return super().fit(X, y)

    release = response_of(X, y, epsilon=2.0)
    settings = [{"max_depth": depth} for depth in (1, 2, 7, 8)]
    forest = Counted(n_estimators=5, random_state=0)
    model = sf.NoisyLabelClassifier(forest, settings=settings).fit_release(release, X)
    best = model.settings_["max_depth"]
    assert depths[:4] == [1, 2, 7, 8]
    assert {*depths[4:6]} == {7, 8}
    assert depths[6:] == [best, best, best]  # two more folds, and all rows


def test_more_detail_is_not_tried_where_some_is_worse(ring, monkeypatch):
    X, y = ring
    tried, losses, fit = [], itertools.count(), LogisticRegression.fit
    monkeypatch.setattr(
        module, "label_losses", lambda _, labels, __: np.full(len(labels), next(losses))
    )
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, *args: (tried.append(self.C), fit(self, *args))[1]
    )
    release = response_of(X, y, epsilon=2.0)
    weak, strong = 1e-2, 1e-3
    sf.NoisyLabelClassifier("logistic").fit_release(release, X)
    assert tried == [strong, weak, strong, strong, strong, strong]  # four folds, and all rows


def test_several_classes(rng):
    centres = rng.normal(size=(4, 3)) * 2
    codes = rng.integers(0, 4, ROWS)
    X = centres[codes] + rng.normal(size=(ROWS, 3))
    y = np.array(["a", "b", "c", "d"])[codes]
    release = response_of(X, y, epsilon=3.0, classes=("a", "b", "c", "d"))
    model = sf.NoisyLabelClassifier("logistic").fit_release(release, X)
    exact = sf.NoisyLabelClassifier("logistic").fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.score(X, y) > exact.score(X, y) - 0.03


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("estimator", ["logistic", "hist-gradient-boosting"])
def test_a_stored_model_predicts_as_it_did(estimator, count, rng, tmp_path):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int) + (count == 3) * (X[:, 1] > 0)
    release = response_of(X, y, epsilon=3.0, classes=tuple(range(count)))
    model = sf.NoisyLabelClassifier(estimator).fit_release(release, X)
    model.to_release().save(tmp_path / "model.suffice")
    loaded = sf.load(tmp_path / "model.suffice")
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.guarantee == release.guarantee
    assert loaded.model.to_release() == model.to_release()  # stored again as it was
    kind = {"logistic": "model", "hist-gradient-boosting": "tree-model"}[estimator]
    assert loaded.kind == kind


def test_estimators_that_are_no_plain_arrays_stay_in_python(ring):
    X, y = ring
    model = sf.NoisyLabelClassifier(GaussianNB()).fit_release(response_of(X, y, 2.0), X)
    with pytest.raises(ParameterError, match="GaussianNB cannot be stored"):
        model.to_release()
    with pytest.raises(ParameterError, match="exact data"):
        sf.NoisyLabelClassifier("logistic").fit(X, y).to_release()


def test_labels_of_one_class_leave_nothing_to_store(rng):
    """At epsilon 30 a label of sixty is changed with a probability below 1e-11."""
    X = rng.normal(size=(60, 2))
    model = sf.NoisyLabelClassifier().fit_release(response_of(X, np.zeros(60, int), 30.0), X)
    assert (model.predict(X) == 0).all()
    with pytest.raises(ParameterError, match="All randomised labels are of one class"):
        model.to_release()


def test_the_command_line_trains_what_is_named(ring, tmp_path, monkeypatch):
    X, y = ring
    monkeypatch.chdir(tmp_path)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y})
    pq.write_table(table, "rows.parquet")
    run = CliRunner().invoke
    words = "release mean-operator rows.parquet --label y --epsilon 2 --noise response"
    assert not run(app, [*words.split(), "--no-ledger", "-o", "r.suffice"]).exit_code
    fit = "fit r.suffice --rows rows.parquet --estimator hist-gradient-boosting -o m.suffice"
    printed = run(app, fit.split())
    assert not printed.exit_code, printed.output
    assert "estimated from randomised labels" in printed.output
    assert "boosted trees" in run(app, ["inspect", "m.suffice"]).output
    scored = run(app, ["score", "m.suffice", "rows.parquet", "--label", "y", "--json"])
    assert json.loads(scored.stdout)["accuracy"] > 0.8


def test_clipping_is_left_to_the_sums(ring):
    """The estimator sees rows as they are, not shortened to the release's norm bound."""
    X, y = ring
    release = response_of(X, y, epsilon=1.0, clip=0.1)
    model = sf.NoisyLabelClassifier("logistic").fit_release(release, X)
    np.testing.assert_allclose(model._mapped(X).std(axis=0), 1.0, atol=1e-6)


def test_other_rows_and_other_kinds_are_refused(ring):
    X, y = ring
    release = response_of(X, y, epsilon=1.0)
    with pytest.raises(ForeignRowsError):
        sf.NoisyLabelClassifier().fit_release(release, X[::-1])
    sums = sf.MeanOperator(epsilon=1.0, mechanism="laplace", map=None).release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="holds no randomised labels"):
        sf.NoisyLabelClassifier().fit_release(sums, X)


def test_few_rows_are_learnt_from_without_holding_any_out(rng):
    X = rng.normal(size=(20, 2))
    y = (X[:, 0] > 0).astype(int)
    model = sf.NoisyLabelClassifier("logistic").fit(X, y)
    assert model.accuracy_ is None
    assert model.accuracy_interval_ is None
    np.testing.assert_allclose(
        model.predict_proba(X),
        softmax(model.estimator_.predict_log_proba(model._mapped(X)), axis=1),
    )
