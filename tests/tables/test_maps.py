"""Public feature maps: equal to the field's own, carried as data, refused when they do not fit."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import rankdata
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures

from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.learner.operator import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.codec import decode
from suffice.releases.release import encode
from suffice.strict_json import read
from suffice.tables.pipeline import MAPS, FeatureMap, StatedMap, _median_gamma, fit_map, mid_ranks

SPECS = (
    "polynomial:3", "rff:64", "nystroem:40", "pca:2", "whiten:3", "ranks:50", "ranks+polynomial:2",
    "components:2", "ranks+components:2", "ranks+kernel:20",
)  # fmt: skip
rng = np.random.default_rng(3)
COLUMNS = rng.normal(size=(4, 300)) * [[1], [10], [0.1], [3]] + 5
ONES = np.ones(300, dtype=np.int64)
CENTRED = (COLUMNS - COLUMNS.mean(axis=1)[:, None]) / COLUMNS.std(axis=1)[:, None]


def test_every_kind_is_tried_here():
    assert {spec.partition(":")[0] for spec in SPECS} == set(MAPS)


def test_polynomials_are_those_of_scikit_learn():
    mapped = fit_map("polynomial:3", COLUMNS, ONES).apply(COLUMNS)
    theirs = PolynomialFeatures(3, include_bias=False).fit_transform(CENTRED.T).T
    assert np.allclose(np.sort(mapped, axis=0), np.sort(theirs, axis=0))


@pytest.mark.parametrize(("spec", "whiten"), [("pca:3", False), ("whiten:3", True)])
def test_components_are_those_of_scikit_learn(spec, whiten):
    mapped = fit_map(spec, COLUMNS, ONES).apply(COLUMNS)
    theirs = PCA(3, whiten=whiten).fit_transform(CENTRED.T).T
    assert np.allclose(np.abs(mapped), np.abs(theirs), rtol=0.01)  # it divides by m - 1


def test_ranks_are_the_share_of_public_values_below():
    mapped = fit_map("ranks:300", COLUMNS, ONES).apply(COLUMNS)
    expected = (rankdata(COLUMNS, axis=1) - 0.5) / 300 - 0.5  # its ranks begin with 1
    assert np.allclose(mapped, expected)
    assert len(fit_map("ranks", COLUMNS, ONES).arrays["grid"][0]) == 200


def test_values_that_repeat_get_the_middle_of_their_ranks():
    columns = np.repeat([0.0, 1.0], [75, 25])[None, :]
    mapped = fit_map("ranks:100", columns, np.ones(100, dtype=np.int64)).apply(columns)
    assert np.unique(mapped).tolist() == [0.375 - 0.5, 0.875 - 0.5]
    assert abs(mapped.mean()) < 1e-12


def test_rows_that_occur_several_times_count_as_often():
    weights = np.arange(1, 301)
    whole = fit_map("ranks:77", np.repeat(COLUMNS, weights, axis=1), np.ones(weights.sum(), int))
    few = fit_map("ranks:77", COLUMNS, weights)
    back = [m.arrays["grid"] * m.arrays["spread"][:, None] for m in (whole, few)]
    assert np.allclose(*back)


def test_the_polynomial_of_ranks_is_that_of_ranks():
    ranks = fit_map("ranks:200", COLUMNS, ONES).apply(COLUMNS) * math.sqrt(12)
    mapped = fit_map("ranks+polynomial:2", COLUMNS, ONES).apply(COLUMNS)
    theirs = PolynomialFeatures(2, include_bias=False).fit_transform(ranks.T).T
    assert np.allclose(np.sort(mapped, axis=0), np.sort(theirs, axis=0))


def test_the_components_of_ranks_are_those_of_scikit_learn():
    ranks = fit_map("ranks:200", COLUMNS, ONES).apply(COLUMNS)
    standard = (ranks - ranks.mean(axis=1)[:, None]) / ranks.std(axis=1)[:, None]
    mapped = fit_map("ranks+components:3", COLUMNS, ONES).apply(COLUMNS)
    mapped -= mapped.mean(axis=1)[:, None]  # the pipeline does this
    theirs = PCA(3).fit_transform(standard.T).T
    assert np.allclose(np.abs(mapped), np.abs(theirs), rtol=0.01)


def test_kernel_components_are_those_of_scikit_learn():
    """`Nystroem` at our landmarks and width, then its `PCA`, on the same ranks."""
    fitted = fit_map("ranks+kernel:6", COLUMNS, ONES)
    ranks = np.empty_like(COLUMNS)
    centre, spread = (fitted.arrays[name][:, None] for name in ("centre", "spread"))
    mid_ranks(fitted.arrays["grid"], (COLUMNS - centre) / spread, ranks)
    ranks *= np.sqrt(12)
    landmarks = np.unique(fitted.arrays["landmarks"].T, axis=0)
    assert all((np.abs(ranks.T - row).max(axis=1) < 1e-12).any() for row in landmarks)
    values, vectors = np.linalg.eigh(rbf_kernel(landmarks, gamma=fitted.arrays["gamma"][0]))
    root = vectors / np.sqrt(np.maximum(values, 1e-9)) @ vectors.T
    theirs = PCA(6).fit_transform(
        rbf_kernel(ranks.T, landmarks, gamma=fitted.arrays["gamma"][0]) @ root
    )
    mapped = fitted.apply(COLUMNS)
    mapped -= mapped.mean(axis=1)[:, None]  # the pipeline does this
    assert np.allclose(np.abs(mapped), np.abs(theirs.T), atol=0.01)
    assert (np.diff(mapped.std(axis=1)) < 0).all()  # lengths are kept


def test_a_kernel_of_ranks_has_at_most_as_many_components_as_landmarks():
    assert len(fit_map("ranks+kernel:700", COLUMNS, ONES).outputs) <= 500


@pytest.mark.parametrize("kind", ["components", "ranks+components"])
def test_components_keep_their_lengths_and_those_of_pca_lose_them(kind):
    """Whitened components would all have as much noise as the first; these have as much signal."""
    X = rng_rows() @ np.diag([3.0, 1.0, 1.0, 0.2])
    X[:, 1] += X[:, 0]
    scaled = {}
    for spec in (f"{kind}:4", "pca:4"):
        pipeline = MeanOperator(1.0, map=spec, intercept=0.0).public_rows(X).pipeline
        scaled[spec] = pipeline.scale
        assert len(pipeline.outputs) == 4
    assert (scaled[f"{kind}:4"] == 1).all()
    assert np.ptp(scaled["pca:4"]) > 0.1


def rng_rows() -> np.ndarray:
    return np.random.default_rng(8).normal(size=(500, 4))


def test_quantiles_out_of_order_are_refused():
    fitted = fit_map("ranks:9", COLUMNS, ONES)
    with pytest.raises(ParameterError, match="in order"):
        FeatureMap("ranks", 9, {**fitted.arrays, "grid": fitted.arrays["grid"][:, ::-1]})


def test_nystroem_gives_the_kernel_of_its_landmarks():
    mapped = fit_map("nystroem:300", COLUMNS, ONES).apply(COLUMNS)
    gamma = _median_gamma(CENTRED, ONES)
    assert np.allclose(mapped.T @ mapped, rbf_kernel(CENTRED.T, gamma=gamma), atol=1e-6)
    theirs = Nystroem(gamma=gamma, n_components=300).fit_transform(CENTRED.T)
    assert np.allclose(mapped.T @ mapped, theirs @ theirs.T, atol=1e-6)


def test_fourier_features_approach_the_gaussian_kernel():
    kernel = rbf_kernel(CENTRED.T, gamma=_median_gamma(CENTRED, ONES))
    errors = []
    for size in (100, 10_000):
        mapped = fit_map(f"rff:{size}", COLUMNS, ONES).apply(COLUMNS)
        errors.append(np.sqrt(np.mean((mapped.T @ mapped - kernel) ** 2)))
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
    first, second = fit_map(spec, COLUMNS, ONES), fit_map(spec, COLUMNS, ONES)
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)
    assert len(first.outputs) == len(first.apply(COLUMNS))


@pytest.mark.parametrize(
    "spec", ["rff", "rff:", "rff:0", "rff:-1", "rff:x", "fly:3", "rff:9999999", "polynomial:60"]
)
def test_a_map_that_cannot_be_is_refused(spec):
    with pytest.raises(ParameterError, match=r"KIND:SIZE|must lie between"):
        fit_map(spec, COLUMNS, ONES)


def test_a_strangers_map_is_checked_before_it_is_used():
    good = fit_map("rff:8", COLUMNS, ONES)
    for change in (
        {"phases": np.zeros(7)},
        {"phases": np.full(8, math.nan)},
        {"frequencies": np.zeros((8, 3))},
        {"spread": np.zeros(4)},
        {"centre": np.zeros((4, 1))},
        {"more": np.zeros(1)},
        {"centre": np.zeros(0), "spread": np.zeros(0), "frequencies": np.zeros((8, 0))},
    ):
        with np.errstate(all="ignore"), pytest.raises(ParameterError):
            FeatureMap("rff", 8, {**good.arrays, **change})
    wide = {"centre": np.zeros(200), "spread": np.ones(200)}
    for degree, match in ((11, "between 1 and 10"), (3, "at most 20000 coordinates")):
        with pytest.raises(ParameterError, match=match):
            FeatureMap("polynomial", degree, wide)
    for data in (None, {}, {"kind": "rff", "size": 0}, {"kind": "rff", "size": 1.5}, {"kind": 3}):
        with pytest.raises(CorruptFileError):
            FeatureMap(arrays=good.arrays, **vars(read(StatedMap, data)))


@pytest.mark.parametrize("kind", ["pca", "nystroem"])
def test_a_map_without_coordinates_is_refused_before_it_is_applied(kind):
    """Arrays of no size weigh nothing in a file and could ask for any amount of memory."""
    own = {"centre": np.zeros(2), "spread": np.ones(2)}
    empty = {
        "pca": {"components": np.zeros((0, 2))},
        "nystroem": {
            "landmarks": np.zeros((2, 0)), "whitening": np.zeros((2**40, 0)), "gamma": np.ones(1)
        },
    }  # fmt: skip
    with pytest.raises(ParameterError):
        FeatureMap(kind, 4, own | empty[kind])


@pytest.mark.parametrize("spec", SPECS)
def test_rows_that_occur_twice_count_twice(spec):
    some, weights = COLUMNS[:, :60], np.arange(1, 61) % 4 + 1
    repeated = np.repeat(some, weights, axis=1)
    weighted = fit_map(spec, some, weights)
    two = fit_map(spec, repeated, np.ones(repeated.shape[1], dtype=np.int64))
    if spec.startswith("nystroem"):  # the same landmarks, once each
        np.testing.assert_allclose(
            np.unique(weighted.arrays["landmarks"][0]), np.unique(two.arrays["landmarks"][0])
        )
        return
    np.testing.assert_allclose(np.abs(weighted.apply(some)), np.abs(two.apply(some)), rtol=1e-6)


def test_missing_values_are_named_before_they_are_mapped():
    table = pa.table({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 4.0], "y": [0, 1, 0]})
    operator = MeanOperator(epsilon=1.0, map="rff:8", missing="mean")
    pipeline = operator.release(table, label="y", ledger=None).pipeline
    assert len(pipeline.outputs) == 9
    strict = MeanOperator(epsilon=1.0, map="rff:8").release(table.slice(2), label="y", ledger=None)
    with pytest.raises(TableError, match="'a' has 1 missing"):
        strict.pipeline.transform(table.to_batches()[0])
