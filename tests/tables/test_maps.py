"""Public feature maps: equal to the field's own, carried as data, refused when they do not fit."""

import math

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures

from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.factored import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.release.codec import decode, encode
from suffice.tables.maps import MAPS, FeatureMap, _median_gamma, fit_map

SPECS = ("polynomial:3", "rff:64", "nystroem:40", "pca:2", "whiten:3")
rng = np.random.default_rng(3)
COLUMNS = rng.normal(size=(4, 300)) * [[1], [10], [0.1], [3]] + 5
CENTRED = (COLUMNS - COLUMNS.mean(axis=1)[:, None]) / COLUMNS.std(axis=1)[:, None]


def test_every_kind_is_tried_here():
    assert {spec.partition(":")[0] for spec in SPECS} == set(MAPS)


def test_polynomials_are_those_of_scikit_learn():
    ours = fit_map("polynomial:3", COLUMNS).apply(COLUMNS)
    theirs = PolynomialFeatures(3, include_bias=False).fit_transform(CENTRED.T).T
    assert np.allclose(np.sort(ours, axis=0), np.sort(theirs, axis=0))


@pytest.mark.parametrize(("spec", "whiten"), [("pca:3", False), ("whiten:3", True)])
def test_components_are_those_of_scikit_learn(spec, whiten):
    ours = fit_map(spec, COLUMNS).apply(COLUMNS)
    theirs = PCA(3, whiten=whiten).fit_transform(CENTRED.T).T
    assert np.allclose(np.abs(ours), np.abs(theirs), rtol=0.01)  # it divides by m - 1


def test_nystroem_gives_the_kernel_of_its_landmarks():
    ours = fit_map("nystroem:300", COLUMNS).apply(COLUMNS)
    gamma = _median_gamma(CENTRED)
    assert np.allclose(ours.T @ ours, rbf_kernel(CENTRED.T, gamma=gamma), atol=1e-6)
    theirs = Nystroem(gamma=gamma, n_components=300).fit_transform(CENTRED.T)
    assert np.allclose(ours.T @ ours, theirs @ theirs.T, atol=1e-6)


def test_fourier_features_approach_the_gaussian_kernel():
    kernel = rbf_kernel(CENTRED.T, gamma=_median_gamma(CENTRED))
    errors = []
    for size in (100, 10_000):
        ours = fit_map(f"rff:{size}", COLUMNS).apply(COLUMNS)
        errors.append(np.sqrt(np.mean((ours.T @ ours - kernel) ** 2)))
    assert errors[1] < 0.02 < errors[0]


@pytest.mark.parametrize("spec", SPECS)
def test_a_release_carries_its_map_and_the_learner_repeats_it(spec):
    X, y = make_moons(800, noise=0.2, random_state=0)
    release = MeanOperator(epsilon=20.0, map=spec).release(X, y, ledger=None)
    again = decode(encode(release))
    assert again.pipeline == release.pipeline
    batch = pa.record_batch({"x0": X[:, 0], "x1": X[:, 1]})
    assert np.array_equal(again.pipeline.transform(batch), release.pipeline.transform(batch))
    accuracy = FactoredClassifier(lam=0.003).fit_release(again, X).score(X, y)
    assert accuracy > (0.92 if spec[:3] in ("pol", "rff", "nys") else 0.8)


@pytest.mark.parametrize("spec", SPECS)
def test_the_same_public_rows_give_the_same_map(spec):
    one, two = fit_map(spec, COLUMNS), fit_map(spec, COLUMNS)
    assert all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)
    assert len(one.outputs) == len(one.apply(COLUMNS))


@pytest.mark.parametrize(
    "spec", ["rff", "rff:", "rff:0", "rff:-1", "rff:x", "fly:3", "rff:9999999", "polynomial:60"]
)
def test_a_map_that_cannot_be_is_refused(spec):
    with pytest.raises(ParameterError, match=r"KIND:SIZE|products"):
        fit_map(spec, COLUMNS)


def test_a_strangers_map_is_checked_before_it_is_used():
    good = fit_map("rff:8", COLUMNS)
    for change in (
        {"phases": np.zeros(7)},
        {"phases": np.full(8, math.nan)},
        {"frequencies": np.zeros((8, 3))},
        {"spread": np.zeros(4)},
        {"centre": np.zeros((4, 1))},
        {"more": np.zeros(1)},
    ):
        with np.errstate(all="ignore"), pytest.raises(ParameterError):
            FeatureMap("rff", 8, {**good.arrays, **change})
    with pytest.raises(ParameterError, match="products"):
        FeatureMap("polynomial", 99_999, {"centre": np.zeros(50), "spread": np.ones(50)})
    for data in (None, {}, {"kind": "rff", "size": 0}, {"kind": "rff", "size": 1.5}, {"kind": 3}):
        with pytest.raises(CorruptFileError):
            FeatureMap.from_json(data, good.named_arrays())


def test_missing_values_are_named_before_they_are_mapped():
    table = pa.table({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 4.0], "y": [0, 1, 0]})
    operator = MeanOperator(epsilon=1.0, map="rff:8", missing="mean")
    pipeline = operator.release(table, label="y", ledger=None).pipeline
    assert len(pipeline.outputs) == 9
    strict = MeanOperator(epsilon=1.0, map="rff:8").release(table.slice(2), label="y", ledger=None)
    with pytest.raises(TableError, match="'a' has 1 missing"):
        strict.pipeline.transform(table.to_batches()[0])
