"""What rados promise, from both sides: no pair of neighbours moves further, and some move as far.

Neighbours are compared under the same secret signs, which the seeded stream repeats. A test of the
law of noise holds for all seeds but one of 10^6 or fewer.
"""

import math
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import helmert

from builders import assert_noise
from seeds import seeded
from suffice.errors import ParameterError, PrivacyError, UnprotectedError
from suffice.owner.ledger import Ledger
from suffice.owner.rados import (
    ChosenSubsets,
    RadoProcedure,
    Rados,
    binomials,
    most_memberships,
    plan_rados,
)
from suffice.owner.scaling import SharedRowsWarning
from suffice.owner.source import Source
from suffice.privacy.binomial import edge_mass, shift_epsilon, truncation
from suffice.privacy.events import Gaussian, gaussian_epsilon, gaussian_multiplier
from suffice.privacy.guarantee import Budget, Protection, Scope, Unit
from suffice.releases.release import Release

ALARM = 1e-6
NAMES = ["x0", "x1", "x2"]
ASKED = {"epsilon": 1.0, "delta": 1e-6, "ranges": (-1, 1), "bound": 1.0}


@dataclass
class Summed:
    """A procedure, and the exact sums that it has made."""

    procedure: RadoProcedure
    state: tuple

    @property
    def noise(self):
        return self.procedure.noise


def sums_of(X, y, seed, **options) -> Summed:
    """Return the procedure of a release and its rows summed, under the signs of this seed."""
    mechanism = Rados(**{**ASKED, **options})
    rows = mechanism.private_rows(Source(np.asarray(X, dtype=float)))
    procedure = mechanism.procedure(rows, len(X))
    summed = Summed(procedure, procedure.begin())
    batch = pa.record_batch(list(np.asarray(X, dtype=float).T), NAMES)
    with seeded(seed):
        vectors = rows.vectors(batch, Counter())
        procedure.add_rows(summed.state, vectors, np.where(np.asarray(y) == 1, 1.0, -1.0))
        exact(summed)  # the last block is drawn here
    return summed


def exact(summed: Summed) -> np.ndarray:
    """Return the integers that noise would be added to."""
    return summed.state[0].result()


def moved(first, other) -> float:
    return float(np.linalg.norm((exact(first) - exact(other)).astype(float)))


def data(seed: int, rows: int = 40):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (rows, 3)), rng.integers(0, 2, rows)


# ------------------------------------------------------------------ labels: one shared vector


def test_labels_are_in_the_shared_vector_only():
    X, y = data(0)
    first, other = (sums_of(X, labels, 1, unit="label", count=8) for labels in (y, 1 - y))
    np.testing.assert_array_equal(exact(first), exact(other))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), index=st.integers(0, 39))
def test_one_label_moves_the_shared_vector_by_its_row_at_most(seed, index):
    X, y = data(seed)
    y2 = y.copy()
    y2[index] = 1 - y[index]
    first, other = (sums_of(X, labels, 1, unit="label", count=4) for labels in (y, y2))
    step = first.state[1].result() - other.state[1].result()
    assert np.linalg.norm(step) <= first.noise.sensitivity.l2
    assert np.abs(step).sum() <= first.noise.sensitivity.l1


def test_a_row_at_the_bound_moves_it_as_far_as_is_paid_for():
    X, y = data(3)
    X[5] = (1.0, 1.0, 1.0)  # longer than the bound: clipped to it
    y2 = y.copy()
    y2[5] = 1 - y[5]
    first, other = (sums_of(X, labels, 1, unit="label", count=4) for labels in (y, y2))
    step = np.linalg.norm(first.state[1].result() - other.state[1].result())
    assert step == pytest.approx(first.noise.sensitivity.l2, rel=1e-8)


def test_all_rados_carry_the_same_noise():
    X, y = data(4, 200)
    options = {**ASKED, "unit": "label", "count": 16, "signs": "iid"}
    with seeded(9):
        noisy = Rados(**options).release(X, y, ledger=None)
    free = sums_of(X, y, 9, unit="label", count=16, signs="iid")
    true = (exact(free) - free.state[1].result()) * free.procedure.step
    noise = noisy.arrays["rados"] - true
    assert np.ptp(noise, axis=0).max() < 1e-9
    assert (np.abs(noise[0]) > 0).all()
    assert np.abs(noise).max() < 8 * math.sqrt(noisy.noise.variance)


def test_a_label_costs_what_was_asked_pure_or_not():
    X, y = data(5)
    for delta, event in ((0.0, None), (1e-6, Gaussian)):
        release = Rados(**{**ASKED, "delta": delta}, unit="label").release(X, y, ledger=None)
        guarantee = release.guarantee
        assert guarantee.unit is Unit.LABEL
        assert (guarantee.kind, guarantee.scope) == (Protection.GLOBAL, Scope.JOINT)
        assert 0.99 < guarantee.epsilon <= 1.0
        if event is not None and guarantee.delta:
            assert isinstance(guarantee.event, event)
        assert "nothing is promised about them" in str(guarantee)


def test_under_a_fixed_support_shared_noise_would_tell_labels():
    """Two examples, supports of one: equal and unequal labels have differences that never meet.

    The difference of two rados, in which shared noise cancels, is y_1 x_1 - y_2 x_2 or its negative
    half of the time.
    """
    x = np.array([[1.0, 0.0], [0.0, 1.0]])

    def differences(labels) -> Counter:
        edges = np.array(labels)[:, None] * x
        return Counter(tuple(edges[i] - edges[j]) for i in range(2) for j in range(2))

    first, other = differences((1, 1)), differences((1, -1))
    shared = sum(min(first[d], other[d]) for d in first)
    assert shared / 4 == 0.5  # only "both rados are the same" has a chance under either
    with pytest.raises(ParameterError, match="does not protect labels"):
        sums_of(*data(0), 0, unit="label", support=5)


# ------------------------------------------------------------------ records: the whole matrix


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    index=st.integers(0, 39),
    signs=st.sampled_from(["hadamard", "iid"]),
    count=st.sampled_from([4, 6, 8, 13]),
)
def test_one_record_never_moves_the_matrix_further_than_is_paid_for(seed, index, signs, count):
    X, y = data(seed)
    X2, y2 = X.copy(), y.copy()
    X2[index], y2[index] = np.random.default_rng(seed + 1).normal(size=3) * 9, seed % 2
    options = {"unit": "record", "signs": signs, "count": count}
    # The label may change: memberships are coupled, which is what weighting by labels does.
    first, other = sums_of(X, y, 7, **options), sums_of(X2, y2, 7, **options)
    assert moved(first, other) <= first.noise.sensitivity.l2


@pytest.mark.parametrize("count", [8, 32])
@pytest.mark.parametrize("other_label", [False, True])
def test_balanced_signs_attain_sqrt_two_n(count, other_label):
    """A row at the bound against its opposite, or against itself under the other label."""
    X, y = data(1)
    X[11] = (3.0, 0.0, 0.0)
    X2, y2 = X.copy(), y.copy()
    if other_label:
        y2[11] = 1 - y[11]
    else:
        X2[11] = -X[11]
    options = {"unit": "record", "count": count, "intercept": 0.0}
    first, other = sums_of(X, y, 5, **options), sums_of(X2, y2, 5, **options)
    reach = first.noise.sensitivity.l2
    assert moved(first, other) == pytest.approx(reach, rel=1e-8)
    assert reach * first.procedure.step == pytest.approx(math.sqrt(2 * count) * 1.0, rel=1e-8)


def test_free_signs_come_near_their_bound():
    """Of three rados an example is in all one time in eight: 2 sqrt(n) max ||x||."""
    X, y = data(1, 200)
    X[:] = (1.0, 0.0, 0.0)
    options = {"unit": "record", "count": 3, "signs": "iid", "intercept": 0.0}
    reach, largest = math.inf, 0.0
    for index in range(0, 200, 5):
        X2 = X.copy()
        X2[index] = -X[index]
        first, other = sums_of(X, y, 5, **options), sums_of(X2, y, 5, **options)
        reach, largest = first.noise.sensitivity.l2, max(largest, moved(first, other))
    assert largest == pytest.approx(reach, rel=1e-8)


@pytest.mark.parametrize(("count", "most"), [(2, 1), (5, 4), (8, 4), (9, 8), (1000, 512)])
def test_structured_signs_bound_memberships_by_half_a_block(count, most):
    assert most_memberships(count, "hadamard") == most
    assert most_memberships(count, "iid") == count


def test_records_have_independent_noise():
    """Of one half of the rados and the other; six standard errors: not so for one seed of 10^8."""
    X, y = data(2, 100)
    release = Rados(**ASKED, unit="record", count=512).release(X, y, ledger=None)
    guarantee = release.guarantee
    assert guarantee.unit is Unit.RECORD
    assert 0.99 < guarantee.epsilon <= 1.0
    noise = release.arrays["rados"]  # 100 rows are nothing beside it
    correlation = np.corrcoef(noise[:256].ravel(), noise[256:].ravel())[0, 1]
    assert abs(correlation) < 6 / math.sqrt(noise.size / 2)


def test_edges_have_noise_of_their_own_whatever_the_support():
    X, y = data(2, 300)
    options = {**ASKED, "unit": "record", "noise_on": "records", "count": 4}
    release = Rados(**options).release(X, y, ledger=None)
    (guarantee,) = release.guarantees
    assert guarantee.unit is Unit.RECORD
    assert 0.99 < guarantee.epsilon <= 1.0
    small = Rados(**options, support=3).release(X, y, ledger=None)
    assert small.guarantee == guarantee
    assert release.noise.variance == pytest.approx(50 * small.noise.variance)  # 150 edges for 3


# ------------------------------------------------------------------ the noise of every way

MULTIPLIER = gaussian_multiplier(ASKED["epsilon"], ASKED["delta"])


def rados_of_nothing(rows: int, width: int, **options) -> Release:
    """Return rados of rows that are zero, within a norm bound of one: they are all noise."""
    mechanism = Rados(**{**ASKED, "intercept": 0.0, **options})
    return mechanism.release(np.zeros((rows, width)), np.arange(rows) % 2, ledger=None)


@pytest.mark.parametrize(
    ("delta", "law", "scale", "variance", "releases"),
    [(0.0, "knorm", 1.0, 200 + 1, 42), (1e-6, "gaussian", MULTIPLIER, MULTIPLIER**2, 21)],
)
def test_the_vector_that_rados_share_has_all_of_its_noise(delta, law, scale, variance, releases):
    """One label moves it by its row: the scale is 1 / epsilon, or the multiplier, times the bound.

    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    releases_made = [
        rados_of_nothing(9, 200, unit="label", count=2, delta=delta) for _ in range(releases)
    ]
    assert all(np.ptp(release.arrays["rados"], axis=0).max() == 0 for release in releases_made)
    assert releases_made[0].noise.variance == pytest.approx(variance, rel=1e-6)
    assert_noise(np.array([release.arrays["rados"][0] for release in releases_made]), scale, law)


@pytest.mark.parametrize(("signs", "reach"), [("hadamard", math.sqrt(2 * 256)), ("iid", 2 * 16.0)])
def test_the_whole_matrix_has_all_of_its_noise(signs, reach):
    """Of 256 rados one record moves them by sqrt(2 n) bounds, or by 2 sqrt(n) with free signs.

    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    release = rados_of_nothing(9, 16, unit="record", count=256, signs=signs)
    assert release.noise.variance == pytest.approx((MULTIPLIER * reach) ** 2, rel=1e-6)
    assert_noise(release.arrays["rados"], MULTIPLIER * reach, "gaussian")


def test_every_edge_has_all_of_its_noise(monkeypatch):
    """256 rados of 255 rows are, but for their mean, the 255 edges in a turned frame.

    Whatever the secret signs: twice the membership of a row, less one, is a column of a Hadamard
    matrix with its rows in some order. One record moves its edge by two bounds.
    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    monkeypatch.setattr("suffice.owner.rados._EDGES_AT_ONCE", 100)  # and in every part of them
    release = rados_of_nothing(255, 16, unit="record", noise_on="records", count=256)
    edges = 2 / math.sqrt(256) * helmert(256) @ release.arrays["rados"]
    assert release.noise.variance == pytest.approx(255 / 2 * (2 * MULTIPLIER) ** 2, rel=1e-6)
    assert_noise(edges, 2 * MULTIPLIER, "gaussian")


def test_every_coordinate_of_a_protected_attribute_has_all_of_its_noise():
    """One value moves its column in half of 4,096 rados: by its range, or sqrt(2) for a category.

    Two rows are nothing beside the noise: they add 10^-5 to its variance. Other columns have none.
    So for all seeds but four of 10^7; noise that is 10 % off is rejected.
    """
    table = pa.table({"age": [7.0, 9.0], "size": [0.5, 0.5], "ward": ["a", "c"], "sick": [0, 1]})
    mechanism = Rados(
        count=4096,
        epsilon=1.0,
        delta=1e-6,
        unit="attribute",
        attributes=["age", "ward"],
        ranges={"age": (0, 30), "size": (0, 1)},
        categories={"ward": ["a", "b", "c"]},
        standardize="none",
    )
    release = mechanism.release(table, label="sick", ledger=None)
    names, rados = release.pipeline.outputs, release.arrays["rados"]
    scales = {"age": 30.0} | dict.fromkeys(("ward=a", "ward=b", "ward=c"), math.sqrt(2))
    for name, column, variance in zip(names, rados.T, release.noise.diagonal(6), strict=True):
        if name in scales:
            scale = MULTIPLIER * math.sqrt(4096 / 2) * scales[name]
            assert variance == pytest.approx(scale**2, rel=1e-6)
            assert_noise(column, scale, "gaussian")
        else:
            assert variance == 0
            assert len(np.unique(column)) == 3  # one row, the other, or both or none


# ------------------------------------------------------------------ attributes


@pytest.mark.parametrize("signs", ["hadamard", "iid"])
def test_one_value_moves_its_own_coordinates_by_its_range(signs):
    X, y = data(6)
    X2 = X.copy()
    X[4, 1], X2[4, 1] = -5.0, 5.0  # held to -1 and 1
    options = {"unit": "attribute", "attributes": ["x1"], "bound": None, "signs": signs}
    first, other = (sums_of(rows, y, 3, count=8, **options) for rows in (X, X2))
    difference = exact(first) - exact(other)
    assert not difference[:, [0, 2, 3]].any()
    reach = first.procedure._noises["x1"].sensitivity.l2
    assert np.linalg.norm(difference.astype(float)) <= reach
    if signs == "hadamard":
        assert np.linalg.norm(difference.astype(float)) == pytest.approx(reach, rel=1e-8)
        assert reach * first.procedure.step == pytest.approx(2 * math.sqrt(4), rel=1e-8)


def test_attributes_have_noise_on_their_coordinates_and_a_promise_each():
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "age": rng.uniform(0, 100, 100),
            "ward": rng.choice(["a", "b", "c"], 100),
            "size": rng.uniform(0, 1, 100),
            "sick": rng.integers(0, 2, 100),
        }
    )
    mechanism = Rados(
        count=8,
        epsilon=1.0,
        delta=1e-6,
        unit="attribute",
        attributes=["ward", "age"],
        ranges={"age": (0, 100), "size": (0, 1)},
        categories={"ward": ["a", "b", "c"]},
        standardize="none",
    )
    release = mechanism.release(table, label="sick", ledger=None)
    assert [g.columns for g in release.guarantees] == [("ward",), ("age",)]
    assert all(g.unit is Unit.ATTRIBUTE and 0.99 < g.epsilon <= 1 for g in release.guarantees)
    assert (release.noise.array > 0).tolist() == [True] * 4 + [False] * 2
    deviations = np.sqrt(release.noise.variance * release.noise.array)
    assert deviations[0] / deviations[1] == pytest.approx(100 / math.sqrt(2), rel=1e-6)


def test_a_record_may_be_replaced_but_not_its_box():
    """Rows are never clipped where an attribute is protected: one value would move the others."""
    X, y = data(6)
    options = {"unit": "attribute", "attributes": ["x1"], "bound": None, "count": 4}
    pipeline = sums_of(X, y, 3, **options).procedure.rows.pipeline
    corners = np.array(list(product((-9, 9), repeat=3)), dtype=float)
    batch = pa.record_batch(list(np.clip(corners, -1, 1).T), NAMES)
    np.testing.assert_array_equal(np.abs(pipeline.transform(batch)[:, :3]), 1.0)


# ------------------------------------------------------------------ DP-Feat: the marginal


def feature_laws(v: np.ndarray) -> Counter:
    """Return the exact law of a rado's protected coordinate over all signatures, in 2^m-ths."""
    return Counter(int(np.dot(bits, v)) for bits in product((0, 1), repeat=len(v)))


def test_the_protected_coordinate_is_a_binomial_less_a_count():
    for v in ([1, 1, -1, 1, -1, -1, -1], [-1] * 6, [1, -1, 1]):
        q = v.count(-1)
        law = {k - q: math.comb(len(v), k) for k in range(len(v) + 1)}
        assert feature_laws(np.array(v)) == law


@contextmanager
def protected(rows: int, **options):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=rows), rng.integers(0, 2, rows)])
    y = rng.integers(0, 2, rows)
    mechanism = Rados(standardize="none", protect=["x1"], **options)
    yield mechanism.release(X, y, ledger=None, unprotected=True), X, y


def test_a_truncation_that_leaves_edges_only_is_refused():
    with pytest.raises(ParameterError, match="probability 1, more than delta"):
        protected(20, count=4, delta=0.01, truncate=0.25).__enter__()


@pytest.mark.parametrize("truncate", [None, 0.9])
def test_dp_feat_states_a_marginal_promise_composed_over_all_rados(truncate):
    with protected(400, count=20, delta=1e-3, truncate=truncate) as (release, _, _):
        (guarantee,) = release.guarantees
        low = 0 if truncate is None else truncation(400, truncate)
        assert guarantee.scope is Scope.MARGINAL
        assert (guarantee.unit, guarantee.kind, guarantee.columns) == (
            Unit.ATTRIBUTE, Protection.GLOBAL, ("x1",),
        )  # fmt: skip
        assert guarantee.epsilon == pytest.approx(shift_epsilon(400, 20, 1e-3, low))
        assert guarantee.epsilon > gaussian_epsilon(1e-3, 1 / (2 * math.sqrt(20 / 400)))
        assert "with other columns may recover its values exactly" in str(guarantee)
        assert release.details["mechanism"] == "dp-feat" + "-truncated" * (truncate is not None)
        assert release.details["protect"] == ["x1"]
        sums = release.arrays["rados"][:, 1]
        np.testing.assert_array_equal(sums, np.rint(sums))


def test_requested_is_never_exceeded_and_the_refusal_says_what_fits():
    with pytest.raises(ParameterError, match=r"20 rados of 400 rows need .* allows (\d+)"):
        protected(400, count=20, delta=1e-3, epsilon=0.5).__enter__()
    with protected(400, count=4, delta=1e-3, epsilon=0.9) as (release, _, _):
        assert release.guarantee.epsilon <= 0.9


def test_edges_that_weigh_more_than_delta_are_refused():
    assert 1 - (1 - edge_mass(1000, truncation(1000, 0.1))) ** 10 > 0.2
    with pytest.raises(ParameterError, match="The most extreme sums"):
        protected(1000, count=10, delta=0.05, truncate=0.1).__enter__()
    with pytest.raises(ParameterError, match="leaves no subset sums"):
        protected(1000, count=10, delta=0.05, truncate=1e-3).__enter__()
    with pytest.raises(ParameterError, match="too few"):
        protected(10, count=10, delta=1e-6).__enter__()


def allowed(v: np.ndarray, low: int) -> list[tuple[int, ...]]:
    """Return the memberships whose sum eq. (16) keeps."""
    m, q = len(v), int((v < 0).sum())
    return [
        bits for bits in product((0, 1), repeat=m) if low <= int(np.dot(bits, v)) + q <= m - low
    ]


def test_direct_sampling_is_the_law_that_rejection_has():
    """Six examples, edges 1: memberships are uniform over those that eq. (16) keeps."""
    v, low, count = np.array([1.0, -1, -1, 1, -1, -1]), 2, 20_000
    sizes = binomials(6, count, low)
    subsets = ChosenSubsets(6, sizes, 0.0, 6)
    subsets.update(np.eye(6), np.ones(6), v < 0)
    frequencies = Counter(map(tuple, subsets.result().astype(int).tolist()))
    outcomes = allowed(v, low)
    assert set(frequencies) == set(outcomes)
    assert stats.chisquare([frequencies[o] for o in outcomes]).pvalue > ALARM
    free = np.random.default_rng(0).integers(0, 2, (4 * count, 6))  # the reference: reject
    sums = free @ v + (v < 0).sum()
    within = free[(sums >= low) & (sums <= 6 - low)][:count]
    rejected = Counter(map(tuple, within.tolist()))
    tables = [[table[o] for o in outcomes] for table in (frequencies, rejected)]
    assert stats.chi2_contingency(tables).pvalue > ALARM


def test_sizes_alone_without_turning_edges_would_be_noticed():
    v, low, count = np.array([1.0, -1, -1, 1, -1, -1]), 2, 20_000
    subsets = ChosenSubsets(6, binomials(6, count, low), 0.0, 6)
    subsets.update(np.eye(6), np.ones(6), None)
    frequencies = Counter(map(tuple, subsets.result().astype(int).tolist()))
    assert set(frequencies) != set(allowed(v, low))


@pytest.mark.parametrize(("trials", "low"), [(5, 0), (64, 0), (65, 30), (70, 33)])
def test_counted_bits_are_binomial_and_held(trials, low):
    frequencies = Counter(binomials(trials, 4000, low).tolist())
    support = range(low, trials - low + 1)
    weights = np.array([math.comb(trials, k) for k in support], dtype=float)
    assert set(frequencies) <= set(support)
    expected = 4000 * weights / weights.sum()
    often = expected > 5
    observed = np.array([frequencies[k] for k in support])
    pooled = (
        np.append(observed[often], observed[~often].sum()),
        np.append(expected[often], expected[~often].sum()),
    )
    keep = pooled[1] > 0
    assert stats.chisquare(pooled[0][keep], pooled[1][keep]).pvalue > ALARM


def test_truncated_rados_stay_within_eq_16():
    with protected(300, count=36, delta=0.09, truncate=0.6) as (release, X, y):
        v = (2 * X[:, 1] - 1) * (2 * y - 1)
        K = release.arrays["rados"][:, 1] + (v < 0).sum()
        low = truncation(300, 0.6)
        assert (low <= K).all()
        assert (300 - low >= K).all()


def test_the_sum_of_a_protected_column_is_the_number_that_was_drawn_for_it():
    """K itself, rado by rado: whichever subset of that size it is, whatever the labels are."""
    with (
        seeded(4),
        protected(300, count=36, delta=0.09, truncate=0.6) as second,
    ):
        release, X, y = second
    with seeded(4):
        sizes = binomials(300, 36, truncation(300, 0.6))
    v = (2 * X[:, 1] - 1) * (2 * y - 1)
    assert (release.arrays["rados"][:, 1] + (v < 0).sum()).tolist() == sizes.tolist()


def test_several_columns_are_protected_each_on_its_own():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 2)).astype(float)
    mechanism = Rados(count=4, protect=["x0", "x1"], delta=1e-3, standardize="none")
    y = rng.integers(0, 2, 300)
    with pytest.raises(UnprotectedError, match=r"column x0, x1 shows when read alone; .*--unprot"):
        mechanism.release(X, y, ledger=None)
    release = mechanism.release(X, y, ledger=None, unprotected=True)
    assert [g.columns for g in release.guarantees] == [("x0",), ("x1",)]
    assert all(g.scope is Scope.MARGINAL for g in release.guarantees)


def test_other_ranges_are_another_request(tmp_path, rng):
    """Ranges clip cells also where the pipeline does not show them."""
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    ledger = Ledger(tmp_path / "l", {"d": {"record": Budget(4.0, 1e-5)}})
    settings = {
        "unit": "record",
        "epsilon": 1.0,
        "delta": 1e-6,
        "standardize": "none",
        "bound": 1.0,
    }
    for limits in ((-1.0, 1.0), (-0.1, 0.1)):
        Rados(count=8, ranges=limits, **settings).release(X, y, ledger=ledger, dataset="d")
    assert ledger.balances()[0].debits == 2


def test_one_protected_column_is_not_paid_from_a_budget_per_attribute(tmp_path, rng):
    X, y = rng.uniform(-1, 1, size=(30, 2)), rng.integers(0, 2, 30)
    ledger = Ledger(tmp_path / "l", {"d": {"attribute": Budget(4.0, 1e-5)}})
    mechanism = Rados(
        count=8, unit="attribute", attributes=["x0"], epsilon=1.0, delta=1e-6, ranges=(-1, 1)
    )
    with pytest.raises(PrivacyError, match="protects only x0"):
        mechanism.release(X, y, ledger=ledger, dataset="d")
    assert "all other columns: nothing is promised" in str(
        mechanism.release(X, y, ledger=None).guarantee
    )


def test_a_given_pipeline_of_private_rows_is_data_dependent(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    unprotected_release = Rados(clip=0.95).release(X, y, ledger=None, unprotected=True)
    again = Rados(pipeline=unprotected_release.pipeline, unit="record", epsilon=1.0, delta=1e-6)
    with pytest.raises(UnprotectedError, match="the scaling of its columns comes from private"):
        again.release(X, y, ledger=None)
    guarantee = again.release(X, y, ledger=None, unprotected=True).guarantee
    assert guarantee.kind is Protection.DATA_DEPENDENT
    assert "comes from private rows (said by the owner)" in str(guarantee)


def test_numbers_that_a_given_pipeline_takes_for_categories_have_no_range():
    """A range was once put on the first of their coordinates: one value then clipped its row."""
    table = pa.table({"grp": [0, 1, 2, 0], "age": [7.5, 6.0, 8.0, 7.0], "z": [6.5, 7.0, 9.0, 5.5]})
    settings = {
        "epsilon": 0.1,
        "delta": 1e-6,
        "unit": "attribute",
        "attributes": ("age",),
        "count": 4,
    }
    first = Rados(**settings, ranges=(5, 10), categories={"grp": [0, 1, 2]})
    pipeline = first.release(table, np.array([1, 0, 1, 0]), ledger=None).pipeline
    rows = Rados(**settings, ranges=(5, 10), pipeline=pipeline).private_rows(Source(table))
    assert set(rows.ranges) == {"age", "z"}
    (batch,) = table.to_batches()
    groups = [rows.pipeline.outputs.index(f"grp={g}") for g in range(3)]
    assert set(rows.encoded(batch, Counter())[groups].ravel()) == {0.0, 1.0}
    with pytest.raises(ParameterError, match="no feature column of numbers"):
        Rados(**settings, ranges={"grp": (0, 2)}, pipeline=pipeline).private_rows(Source(table))


@pytest.mark.parametrize("reversed_rows", [False, True])
def test_a_public_table_of_the_private_rows_is_told_to_the_owner_alone(rng, reversed_rows):
    """It was an error once, and so an answer that depended on private rows."""
    X = rng.normal(size=(40, 3))
    again = X[::-1].copy() if reversed_rows else X
    y = rng.integers(0, 2, 40)
    settings = {"epsilon": 1.0, "delta": 1e-6, "unit": "record", "count": 8}
    with pytest.warns(SharedRowsWarning, match="40 of the 40 rows that were used for scaling"):
        same = Rados(**settings, standardize=again).release(X, y, ledger=None)
    other = rng.normal(size=(40, 3))
    with warnings.catch_warnings(record=True) as warned:
        apart = Rados(**settings, standardize=other).release(X, y, ledger=None)
    assert not warned
    assert str(same.guarantee) == str(apart.guarantee)
    assert apart.guarantee.kind is Protection.GLOBAL


def test_a_plan_reads_no_private_row(rng):
    with pytest.raises(ParameterError, match="reads no private row"):
        plan_rados(rng.normal(size=(60, 2)), 1.0, 1e-6, standardize="rows")
