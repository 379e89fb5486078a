"""The factored classifier: scikit-learn's own checks, and learning without labels."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from suffice.errors import ForeignRowsError, OptimisationError, ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.models.problem import LOSSES, FactoredProblem
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.codec import decode
from suffice.releases.release import encode

_rng = np.random.default_rng(2)
X = _rng.normal(size=(400, 4))
y = (X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * _rng.normal(size=400) > 0).astype(int)
del _rng  # tests draw from the fixture
three = np.digitize(X[:, 0], [-0.5, 0.5])


def test_the_factored_risk_is_the_plain_one_for_two_classes(rng):
    """Theorem 3 of Patrini et al. 2016, to 1e-12."""
    theta, signs = rng.normal(size=4), 2 * y - 1
    exact_risk = np.logaddexp(0, -signs * (X @ theta)).mean() + 0.05 * theta @ theta
    factored, _ = FactoredProblem(X, X.T @ signs / len(X), LOSSES["logistic"]).risk(theta, 0.1)
    assert factored == pytest.approx(exact_risk, abs=1e-12)


def test_the_factored_risk_is_the_plain_one_for_three_classes(rng):
    W = rng.normal(size=(4, 3))
    scores = X @ W
    log_sum = np.log(np.exp(scores).sum(axis=1))
    exact_risk = (log_sum - scores[np.arange(400), three]).mean() + 0.05 * (W**2).sum()
    factored, _ = FactoredProblem(X, X.T @ np.eye(3)[three] / len(X), None).risk(W, 0.1)
    assert factored == pytest.approx(exact_risk, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_is_that_of_the_risk(classes, rng):
    shape = (4,) if classes == 2 else (4, 3)
    operator, theta = rng.normal(size=shape), rng.normal(size=shape)
    problem = FactoredProblem(X, operator, LOSSES["logistic"] if classes == 2 else None)
    _, gradient = problem.risk(theta, 0.3)
    step = rng.normal(size=shape)
    ahead, _ = problem.risk(theta + 1e-6 * step, 0.3)
    behind, _ = problem.risk(theta - 1e-6 * step, 0.3)
    assert (ahead - behind) / 2e-6 == pytest.approx(np.vdot(gradient, step), rel=1e-6)


def test_plain_labels_give_the_model_of_logistic_regression():
    model = FactoredClassifier(lam=0.1, tol=1e-9).fit(X, y)
    rows = design_matrix(X, model.pipeline_)
    peer = LogisticRegression(C=1 / (0.1 * len(X)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    assert np.allclose(model.theta_, peer.fit(rows, y).coef_[0], atol=1e-5)


@pytest.mark.parametrize("labels", [y, three], ids=["two", "three"])
def test_a_release_with_hardly_any_noise_gives_the_model_of_plain_labels(labels):
    classes = tuple(range(labels.max() + 1))
    operator = MeanOperator(epsilon=1e7, mechanism="laplace", classes=classes, map=None)
    release = operator.release(X, labels, ledger=None)
    from_release = FactoredClassifier(lam=0.01).fit_release(release, X)
    from_labels = FactoredClassifier(lam=0.01).fit(X, labels)
    assert np.allclose(from_release.theta_, from_labels.theta_, atol=1e-3)
    assert from_release.score(X, labels) > 0.9


def test_a_model_travels_as_a_file_with_the_guarantees_it_learnt_under():
    release = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None)
    model = FactoredClassifier(lam=0.1).fit_release(release, X)
    file = decode(encode(model.to_release()))
    assert file.guarantees == release.guarantees
    again = FactoredClassifier.from_release(file)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ParameterError, match="not a model"):
        FactoredClassifier.from_release(release)
    with pytest.raises(ParameterError, match="no mean operator"):
        FactoredClassifier().fit_release(file, X)
    with pytest.raises(ParameterError, match="no guarantee"):
        FactoredClassifier().fit(X, y).to_release()


def test_other_rows_are_an_error_and_not_a_bad_model():
    release = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None)
    changed = X.copy()
    changed[7, 2] += 1e-9
    with pytest.raises(ForeignRowsError, match="do not match the release"):
        FactoredClassifier().fit_release(release, changed)
    with pytest.raises(ForeignRowsError, match="400 rows"):
        FactoredClassifier().fit_release(release, X[:-1])


def test_a_solver_that_stops_short_says_so():
    with pytest.raises(OptimisationError, match="max_iter"):
        FactoredClassifier(lam=1e-9, tol=1e-12, max_iter=2).fit(X, y)


def test_clone_grid_search_and_pipelines_work():
    search = GridSearchCV(FactoredClassifier(), {"lam": [0.01, 0.1]}, cv=3).fit(X, y)
    assert clone(search.best_estimator_).get_params()["lam"] in (0.01, 0.1)
    assert make_pipeline(StandardScaler(), FactoredClassifier()).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("settings", [{}, {"lam": 1e-4}, {"denoise": False}])
def test_noise_where_no_row_has_a_part_changes_no_model_and_no_figure(settings):
    """Indicators of categories add up to one. Once their noise made risks of 0.3 [0, 0.8]."""
    local = np.random.default_rng(6)
    wards = np.eye(3)[local.integers(3, size=600)]
    rows = np.column_stack([local.normal(size=600), wards])
    labels = (rows[:, 0] + wards[:, 0] > 0.3).astype(int)
    release = MeanOperator(epsilon=5.0, mechanism="laplace", map=None).release(
        rows, labels, ledger=None
    )
    model = FactoredClassifier(**settings).fit_release(release, rows)
    coordinates = design_matrix(rows, release.pipeline)
    values, vectors = np.linalg.eigh(coordinates.T @ coordinates)
    empty = vectors[:, values < 1e-9 * values[-1]]
    assert empty.shape[1] == 1
    assert np.abs(empty.T @ model.theta_).max() < 1e-9
    assert np.abs(empty.T @ release.arrays["mean_operator"]).max() > 1e-9
