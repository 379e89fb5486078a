"""Merged statistics equal the statistic of all rows, with noise of the right size."""

from dataclasses import replace

import numpy as np
import pytest

from builders import make_release, rado_release
from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.merge import merge
from suffice.releases.release import Covariance
from suffice.tables.pipeline import DECLARED, PRIVATE_ROWS, UNKNOWN, public_rows

rng = np.random.default_rng(5)
X = rng.normal(size=(3000, 3))
y = (X[:, 0] > 0).astype(int)
CUT = 1000


def test_two_owners_together_are_as_good_as_one():
    whole = MeanOperator(epsilon=50.0, map=None).release(X, y, ledger=None)
    mechanism = MeanOperator(epsilon=50.0, pipeline=whole.pipeline)
    first = mechanism.release(X[:CUT], y[:CUT], ledger=None)
    second = mechanism.release(X[CUT:], y[CUT:], ledger=None)
    both = merge([first, second])
    deviation = np.sqrt(both.noise.variance + whole.noise.variance)
    gap = both.arrays["mean_operator"] - whole.arrays["mean_operator"]
    assert np.abs(gap).max() < 15 * deviation
    weights = np.array([CUT, len(X) - CUT]) / len(X)
    expected = weights[0] ** 2 * first.noise.variance + weights[1] ** 2 * second.noise.variance
    assert both.noise.variance == pytest.approx(expected)
    model = FactoredClassifier().fit_release([first, second], X)
    assert model.score(X, y) > 0.97


def test_noise_that_is_shaped_for_one_owner_is_told(recwarn):
    first = make_release()
    second = make_release(seed=1, pipeline=first.pipeline)
    merge([first, second])
    assert not recwarn.list
    shape = Covariance("factor", 1.0, np.diag(np.arange(1.0, 1 + len(first.pipeline.outputs))))
    with pytest.warns(UserWarning, match="Ask their owners to release with the pipeline"):
        merge([first, replace(second, noise=shape)])


def test_owners_with_other_classes_do_not_merge():
    whole = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None)
    other = MeanOperator(epsilon=1.0, classes=(1, 0), pipeline=whole.pipeline)
    with pytest.raises(ParameterError, match="classes"):
        merge([whole, other.release(X[:CUT], y[:CUT], ledger=None)])


def test_mechanisms_may_differ_and_the_release_says_so():
    whole = MeanOperator(epsilon=1.0, map=None).release(X[:CUT], y[:CUT], ledger=None)
    other = MeanOperator(epsilon=1.0, delta=1e-6, mechanism="gaussian", pipeline=whole.pipeline)
    both = merge([whole, other.release(X[CUT:], y[CUT:], ledger=None)])
    assert both.details["mechanism"] == "mixed"
    assert [g.delta for g in both.guarantees] == [0.0, 1e-6]


@pytest.mark.parametrize("form", ["identity", "diagonal", "factor"])
@pytest.mark.parametrize("other", ["identity", "diagonal", "factor"])
def test_covariances_add_as_matrices(form, other):
    def covariance(name: str, seed: int) -> tuple[Covariance, np.ndarray]:
        local = np.random.default_rng(seed)
        if name == "identity":
            return Covariance("identity", 2.0), 2.0 * np.eye(4)
        if name == "diagonal":
            entries = local.uniform(1, 2, 4)
            return Covariance("diagonal", 3.0, entries), 3.0 * np.diag(entries)
        factor = local.normal(size=(4, 2))
        return Covariance("factor", 0.5, factor), 0.5 * factor @ factor.T

    (a, dense_a), (b, dense_b) = covariance(form, 0), covariance(other, 1)
    total = a + b
    root = np.eye(4) if total.array is None else total.array
    assert np.allclose(total.variance * root @ root.T, dense_a + dense_b)
    assert (a + Covariance("none")).form == "none"


def test_a_negative_variance_is_refused_and_the_diagonal_is_that_of_the_matrix(rng):
    with pytest.raises(ParameterError, match="negative"):
        Covariance("diagonal", 1.0, np.array([1.0, -1.0]))
    for noise in (
        Covariance("identity", 2.0),
        Covariance("diagonal", 2.0, rng.random(4)),
        Covariance("factor", 2.0, rng.normal(size=(4, 2))),
    ):
        np.testing.assert_allclose(noise.diagonal(4), np.diag(noise.dense(4)))


def test_what_is_merged_rests_on_being_about_different_people():
    """Hashes of private rows are those of the output: two releases of one table look different."""
    pipeline = make_release().pipeline
    first, two, three = (make_release(seed=s, pipeline=pipeline) for s in range(3))
    told = [a.statement for a in merge([first, two]).guarantees[0].assumptions]
    assert sum("different people" in statement for statement in told) == 1
    assert "different people" not in str(first.guarantee)
    again = merge([merge([first, two]), three])
    assert str(again.guarantees[0]).count("different people") == 1


def test_rows_are_merged_once():
    """Fresh noise does not make other rows of them, and rows that were merged before count too."""
    pipeline = make_release().pipeline
    first, again, other = (make_release(seed=s, pipeline=pipeline) for s in (0, 0, 1))
    assert first != again
    for releases in ([first, first], [first, again], [merge([first, other]), again]):
        with pytest.raises(ParameterError, match="about the same rows"):
            merge(releases)


ONE, TWO = (public_rows(f"sha256:{digit * 64}") for digit in "12")


@pytest.mark.parametrize(
    ("origins", "merged"),
    [
        ((DECLARED, PRIVATE_ROWS), PRIVATE_ROWS),
        ((UNKNOWN, PRIVATE_ROWS), PRIVATE_ROWS),
        ((DECLARED, UNKNOWN), UNKNOWN),
        ((DECLARED, ONE), ONE),
        ((ONE, TWO), replace(ONE, rows=ONE.rows + TWO.rows)),
    ],
)
def test_a_merged_pipeline_comes_from_the_weakest_place(origins, merged):
    pipeline = make_release().pipeline
    releases = [
        replace(make_release(seed=s, pipeline=pipeline), pipeline=replace(pipeline, origin=origin))
        for s, origin in enumerate(origins)
    ]
    assert merge(releases).pipeline.origin == merged
    assert merge(releases[::-1]).pipeline.origin == merged


def test_only_releases_of_one_kind_and_one_pipeline_merge():
    first, other = make_release(), make_release(seed=1)
    with pytest.raises(ParameterError, match="pipelines differ"):
        merge([first, other])
    labels = make_release(seed=1, mechanism="response", pipeline=first.pipeline)
    with pytest.raises(ParameterError, match="of one kind"):
        merge([first, labels])


def test_details_of_several_owners_are_those_of_the_coarsest(rng):
    """The largest rounding step; supports add up, or nobody has one."""
    some = [rado_release(rng.normal(size=(4, 3)), 10, step=s, support=5) for s in (0.5, 2.0, 1.0)]
    both = merge(some)
    assert both.details["step"] == 2.0
    assert both.details["support"] == 15
    with pytest.raises(ParameterError, match="Some owners have support"):
        merge([some[0], rado_release(rng.normal(size=(4, 3)), 10)])
