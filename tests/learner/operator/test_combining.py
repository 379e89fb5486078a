"""Several owners' releases as one problem: weights by how sure each is, rows that are theirs."""

from dataclasses import replace

import numpy as np
import pytest

from suffice.errors import ForeignRowsError, ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import NoiseWarning, combine_releases
from suffice.learner.weak import Released, estimate_mean_operator
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.merge import merge
from suffice.releases.release import Covariance, Release

_rng = np.random.default_rng(9)
X = _rng.normal(size=(900, 4)) * [1, 2, 0.5, 1]
y = (X @ [1.0, -0.5, 0.0, 0.3] + 0.5 * _rng.normal(size=900) > 0).astype(int)
del _rng  # tests draw from the fixture
three = np.digitize(X[:, 0], [-0.5, 0.5])
PIPELINE = MeanOperator(epsilon=1.0, map=None).public_rows(X).pipeline
CUT = 300


def owner(part: slice, epsilon: float, mechanism: str = "laplace", labels=y, **more) -> Release:
    classes = tuple(range(int(labels.max()) + 1))
    options = {"mechanism": mechanism, "classes": classes, "pipeline": PIPELINE, **more}
    return MeanOperator(epsilon=epsilon, **options).release(X[part], labels[part], ledger=None)


FIRST, SECOND = slice(0, CUT), slice(CUT, None)


def owner_weights(supervision) -> np.ndarray:
    """Return the weight of each of the two owners."""
    return np.array([supervision.weights[:CUT].sum(), supervision.weights[CUT:].sum()])


def trace_of_error(rows: np.ndarray, release: Release, columns: int = 1) -> float:
    """Compute tr(C + S/m) per column the obvious way."""
    noise = estimate_mean_operator(rows, Released(release)).noise
    moment = rows.T @ rows / len(rows)
    return float(np.trace(noise.dense(rows.shape[1]) + moment / (len(rows) * columns)))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilons", [(0.1, 10.0), (10.0, 0.1), (1.0, 1.0)])
def test_weights_are_inverse_to_the_error(epsilons, classes):
    labels = y if classes == 2 else three
    pair = [owner(FIRST, epsilons[0], labels=labels), owner(SECOND, epsilons[1], labels=labels)]
    supervision = combine_releases(pair, X)
    blocks = supervision.rows[:CUT], supervision.rows[CUT:]
    columns = 1 if classes == 2 else 3
    errors = [trace_of_error(*each, columns) for each in zip(blocks, pair, strict=True)]
    expected = (1 / np.array(errors)) / np.sum(1 / np.array(errors))
    assert np.allclose(owner_weights(supervision), expected, rtol=1e-9)
    assert supervision.weights.sum() == pytest.approx(1)
    operators = [release.arrays["mean_operator"] for release in pair]
    mean = expected[0] * operators[0] + expected[1] * operators[1]
    assert np.allclose(supervision.estimate.operator, mean)
    variance = expected[0] ** 2 * pair[0].noise.dense(5) + expected[1] ** 2 * pair[1].noise.dense(5)
    assert np.allclose(supervision.estimate.noise.dense(5), variance)
    if epsilons[0] != epsilons[1]:
        assert owner_weights(supervision)[np.argmin(epsilons)] < 0.1


def test_no_other_weights_would_be_surer():
    """The error of a weighted mean of two independent operators is least at these weights."""
    pair = [owner(FIRST, 0.5), owner(SECOND, 2.0)]
    supervision = combine_releases(pair, X)
    errors = np.array(
        [
            trace_of_error(rows, release)
            for rows, release in zip(
                (supervision.rows[:CUT], supervision.rows[CUT:]), pair, strict=True
            )
        ]
    )
    chosen_error = owner_weights(supervision) ** 2 @ errors
    for weight in np.linspace(0, 1, 101):
        assert np.array([weight, 1 - weight]) ** 2 @ errors >= chosen_error * (1 - 1e-12)


def test_without_noise_it_is_the_merged_release():
    pair = [owner(FIRST, 1e9), owner(SECOND, 1e9)]
    supervision = combine_releases(pair, X)
    assert np.allclose(
        supervision.weights, 1 / 900, rtol=0.05
    )  # S differs a little between the owners
    exact = supervision.rows.T @ (2 * y - 1) / 900
    assert np.allclose(supervision.estimate.operator, exact, atol=0.01)
    apart = FactoredClassifier(lam=0.1).fit_release(pair, X)
    together = FactoredClassifier(lam=0.1).fit_release(merge(pair), X)
    assert np.allclose(apart.theta_, together.theta_, atol=0.02)


@pytest.mark.filterwarnings("ignore::suffice.learner.problem.NoiseWarning")
def test_a_noisy_owner_does_little_harm_where_merging_would():
    """Ten times: rows beyond count, labels hardly known."""
    both, merged_scores = [], []
    for _ in range(10):
        pair = [owner(FIRST, 10.0), owner(SECOND, 0.02)]
        exact_score = FactoredClassifier().fit_release(pair[0], X[FIRST]).score(X, y)
        both.append(FactoredClassifier().fit_release(pair, X).score(X, y) - exact_score)
        merged_scores.append(
            FactoredClassifier().fit_release(merge(pair), X).score(X, y) - exact_score
        )
    assert np.mean(both) > -0.02
    assert np.mean(merged_scores) < np.mean(both) - 0.02


@pytest.mark.parametrize("labels", [y, three], ids=["two", "three"])
def test_kinds_may_be_mixed(labels):
    pair = [owner(FIRST, 5.0, labels=labels), owner(SECOND, 5.0, "response", labels=labels)]
    supervision = combine_releases(pair, X)
    assert supervision.estimate.noise.form == "factor"
    assert supervision.rows.shape == (900, 5)
    model = FactoredClassifier().fit_release(pair, X)
    assert model.score(X, labels) > (0.85 if labels is y else 0.7)
    model_guarantees, owner_guarantees = (
        model.to_release().guarantees,
        pair[0].guarantees + pair[1].guarantees,
    )
    assert [(g.unit, g.event) for g in model_guarantees] == [
        (g.unit, g.event) for g in owner_guarantees
    ]
    assert all("different people" in str(g) for g in model_guarantees)
    with pytest.raises(ForeignRowsError):
        combine_releases(pair[::-1], X)


def shaped(release: Release, *directions: float) -> Release:
    """Return a release whose noise has these variances, times its own, along random directions."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))
    noise = Covariance("factor", release.noise.variance, turn * np.sqrt(directions))
    return replace(release, noise=noise)


@pytest.mark.parametrize("labels", [y, three], ids=["two", "three"])
def test_where_noise_is_shaped_owners_are_weighted_by_direction(labels):
    """By the least squares of two measurements with known errors, worked out the obvious way."""
    pair = [owner(FIRST, 1.0, labels=labels), owner(SECOND, 1.0, labels=labels)]
    pair[0] = shaped(pair[0], 1e-3, 1.0, 1.0, 1e2, 1e6)
    with pytest.warns(NoiseWarning, match="shaped for their own rows"):
        supervision = combine_releases(pair, X)
    columns = 1 if labels is y else 3
    blocks = supervision.rows[:CUT], supervision.rows[CUT:]
    errors = [
        release.noise.dense(5) + np.eye(5) * np.mean(rows**2) / (len(rows) * columns)
        for rows, release in zip(blocks, pair, strict=True)
    ]
    gain = errors[0] @ np.linalg.inv(errors[0] + errors[1])  # of the second over the first
    first, second = (release.arrays["mean_operator"] for release in pair)
    assert np.allclose(supervision.estimate.operator, first + gain @ (second - first))
    rest = np.eye(5) - gain
    noise = rest @ pair[0].noise.dense(5) @ rest.T + gain @ pair[1].noise.dense(5) @ gain.T
    assert np.allclose(supervision.estimate.noise.dense(5), noise)
    assert np.allclose(owner_weights(supervision), [np.trace(rest) / 5, np.trace(gain) / 5])
    # No direction is noisier than with the second owner alone, but for sampling.
    assert np.linalg.eigvalsh(errors[1] - noise).min() > 0


def test_a_shape_that_is_even_changes_nothing():
    pair = [owner(FIRST, 0.5), owner(SECOND, 2.0)]
    even = combine_releases(pair, X)
    with pytest.warns(NoiseWarning):
        by_direction = combine_releases([shaped(pair[0], 1, 1, 1, 1, 1), pair[1]], X)
    assert np.allclose(even.estimate.operator, by_direction.estimate.operator)
    assert np.allclose(even.estimate.noise.dense(5), by_direction.estimate.noise.dense(5))
    assert np.allclose(owner_weights(even), owner_weights(by_direction))


def test_one_release_has_no_weights():
    release = owner(slice(None), 1.0)
    supervision = combine_releases([release], X)
    assert supervision.weights is None
    assert np.array_equal(supervision.estimate.operator, release.arrays["mean_operator"])


@pytest.mark.parametrize("mechanisms", [("laplace", "laplace"), ("laplace", "response")])
def test_the_same_rows_twice_are_refused(mechanisms):
    """Two looks at one label are not two labels."""
    pair = [owner(FIRST, 1.0, mechanism) for mechanism in mechanisms]
    with pytest.raises(ParameterError, match="same rows"):
        combine_releases(pair, np.vstack([X[FIRST], X[FIRST]]))


def test_owners_who_did_not_agree_are_refused():
    first = owner(FIRST, 1.0)
    with pytest.raises(ParameterError, match="pipelines of the owners differ"):
        combine_releases([first, owner(SECOND, 1.0, pipeline=None)], X)
    with pytest.raises(ParameterError, match="classes"):
        combine_releases([first, owner(SECOND, 1.0, classes=(1, 0))], X)
    with pytest.raises(ParameterError, match="no release"):
        combine_releases([], X)
