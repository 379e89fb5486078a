"""What rados give away, on releases made as any owner makes them; and where attacks must fail.

Signs and noise of releases are seeded. Attacks that start from known signs, which no release holds,
work on rados of the same formula, drawn here.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import slow_rados
from suffice.errors import ParameterError
from suffice.learner.rados import rados_of_subsets
from suffice.owner.rados import Rados
from suffice.privacy.guarantee import Protection, Scope, Unit

sys.path.append(str(Path(__file__).parents[2] / "lab" / "attacks"))

from rado_attacks import (  # of the laboratory
    _Binary,
    another_data_set,
    block_rows,
    examples_of,
    hausdorff,
    invert,
    invert_signatures,
    joint_attack,
    joint_success,
    labels_from_differences,
    lone_members,
)


def data(rng, rows: int, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, the last coordinate an intercept, and labels -1 and +1."""
    X = np.column_stack([rng.normal(size=(rows, width - 1)), np.ones(rows)])
    return X, rng.choice([-1.0, 1.0], rows)


def released(X, y=None, **options):
    where = {"label": "sick"} if y is None else {}
    return Rados(**options).release(X, y, ledger=None, unprotected=True, **where)


def vectors(release, table: pa.Table) -> np.ndarray:
    return release.pipeline.transform(table.combine_chunks().to_batches()[0])


# ------------------------------------------------------------------ known signs: Lemma 9


def test_known_signs_give_all_examples_back(rng):
    X, y = data(rng, 40)
    signatures = rng.choice([-1, 1], (60, 40))
    rados = slow_rados(X, y, signatures)
    rows, labels = examples_of(invert(rados, signatures == y))
    assert rows.rate(X) == labels.rate(y) == 1.0
    assert invert_signatures(rados, signatures).rate(X) == 1.0


def test_it_is_the_formula_of_the_lemma(rng):
    X, y = data(rng, 10)
    signatures = rng.choice([-1, 1], (30, 10))
    Pi, GU = slow_rados(X, y, signatures).T, (signatures == y).T.astype(float)
    printed = Pi @ GU.T @ np.linalg.inv(GU @ GU.T)
    np.testing.assert_allclose(invert(Pi.T, GU.T).values, printed.T, atol=1e-9)


def test_fewer_rados_than_examples_leave_them_open(rng):
    X, y = data(rng, 40)
    signatures = rng.choice([-1, 1], (39, 40))
    recovered = invert(slow_rados(X, y, signatures), signatures == y)
    assert recovered.rate(y[:, None] * X) < 0.5
    assert not recovered.claimed.all()


def test_what_is_claimed_is_what_all_solutions_agree_about():
    """Example 0 is alone in a rado; 1 and 2 are always together."""
    edges, inside = np.array([[1.0], [2.0], [4.0]]), np.array([[1, 0, 0], [1, 1, 1]])
    recovered = invert(inside @ edges, inside)
    assert recovered.claimed.tolist() == [True, False, False]
    assert recovered.rate(edges) == pytest.approx(1 / 3)


def test_wrong_signs_recover_nothing(rng):
    X, y = data(rng, 40)
    rados = slow_rados(X, y, rng.choice([-1, 1], (60, 40)))
    assert invert(rados, rng.choice([0, 1], (60, 40))).rate(y[:, None] * X) == 0.0


# ------------------------------------------------------------------ categories with one member


def hospital(rng, rows: int, places: list[int]) -> pa.Table:
    """Return a table whose rows at ``places`` have a diagnosis that nobody else has."""
    rare = np.array(["common", "other"], dtype=object)[np.arange(rows) % 2]
    rare[places] = [f"rare{k}" for k in range(len(places))]
    sick = rng.integers(0, 2, rows)
    return pa.table({"age": rng.uniform(20, 80, rows), "rare": rare.astype(str), "sick": sick})


@pytest.mark.parametrize("signs", ["hadamard", "iid"])
@pytest.mark.parametrize("scaled", [{"standardize": "none"}, {}])
def test_a_lone_category_shows_its_members_label_and_rados(rng, signs, scaled):
    """For all seeds but 1 in 10^6: two members look like one with probability (3/4)^64 at most."""
    table = hospital(rng, 200, [3, 50])
    declared = {"rare": ["common", "other", "rare0", "rare1", "nobody"]}
    scaled = {**scaled, "categories": declared} if scaled else {}
    members = lone_members(released(table, count=64, signs=signs, **scaled))
    truth = dict.fromkeys(members.names, 0.0)
    for k, place in enumerate([3, 50]):
        truth[f"rare=rare{k}"] = 2.0 * table["sick"][place].as_py() - 1
    assert ("rare=nobody" in members.names) == bool(
        scaled
    )  # else the list itself says who is there
    assert members.labels.rate(np.array(list(truth.values()))) == 1.0
    share = members.inside[:, members.labels.values != 0].mean(axis=0)
    np.testing.assert_allclose(share, 0.5, atol=0 if signs == "hadamard" else 6 * 0.5 / 8)


def test_one_lone_category_in_a_block_of_structured_signs_gives_that_whole_record_away(rng):
    table = hospital(rng, 60, [17])
    release = released(table, count=64, signs="hadamard")
    members = lone_members(release)
    (k,) = np.flatnonzero(members.labels.values)
    record = members.edges[k] * members.labels.values[k]
    np.testing.assert_allclose(record, vectors(release, table)[17], atol=1e-9)


def test_independent_signs_give_only_an_estimate_of_it(rng):
    table = hospital(rng, 60, [17])
    release = released(table, count=64, signs="iid")
    members = lone_members(release)
    (k,) = np.flatnonzero(members.labels.values)
    record = members.edges[k] * members.labels.values[k]
    assert abs(record - vectors(release, table)[17])[0] > 1e-3  # the age


@pytest.mark.parametrize("signs", ["hadamard", "iid"])
def test_a_column_of_names_gives_all_records_away(rng, signs):
    """The attacker holds the release alone: categories show the signs, and signs invert."""
    names = [f"person {i}" for i in range(30)]
    sick = rng.integers(0, 2, 30)
    table = pa.table({"age": rng.uniform(20, 80, 30), "name": names, "sick": sick})
    release = released(table, count=64, signs=signs)
    members = lone_members(release)
    rows, labels = examples_of(invert(release.arrays["rados"], members.inside))
    order = [names.index(name.removeprefix("name=")) for name in members.names]
    assert rows.rate(vectors(release, table)[order]) == 1.0
    assert labels.rate(2.0 * sick[order] - 1) == 1.0


def test_four_lone_categories_give_fifteen_records_away(rng):
    """log2 16 members show the order of a block; see docs/known-holes.md."""
    table = hospital(rng, 15, [0, 1, 3, 7])
    release = released(table, count=16, signs="hadamard")
    members = lone_members(release)
    lone = [k for k, name in enumerate(members.names) if name.startswith("rare=rare")]
    rows = block_rows(release.arrays["rados"], members.inside[:, lone])
    assert len(rows) == 15
    np.testing.assert_allclose(
        rows[np.argsort(rows[:, 0])],
        vectors(release, table)[np.argsort(table["age"].to_numpy())],
        atol=1e-9,
    )


def test_members_whose_signs_are_products_are_not_enough(rng):
    table = hospital(rng, 15, [0, 1, 2, 7])  # columns 1, 2 and 3 = 1 xor 2
    release = released(table, count=16, signs="hadamard")
    members = lone_members(release)
    lone = [k for k, name in enumerate(members.names) if name.startswith("rare=rare")]
    with pytest.raises(ParameterError, match="products"):
        block_rows(release.arrays["rados"], members.inside[:, lone])


def test_noise_for_records_hides_the_lone_member(rng):
    declared = {"rare": ["common", "other", "rare0"]}
    release = released(
        hospital(rng, 60, [17]), count=64, unit="record", epsilon=1.0, delta=1e-6,
        categories=declared, ranges={"age": (20, 80)},
    )  # fmt: skip
    assert not lone_members(release).labels.claimed.any()


# ------------------------------------------------------------------ DP-Feat: the joint attack


def people(rng, width: int = 1):
    """Return what draws tables: measurements, and last the protected column."""

    def draw(rows: int):
        measurements = rng.normal(size=(rows, width))
        return np.column_stack([measurements, rng.integers(0, 2, rows)]), rng.integers(0, 2, rows)

    return draw


def test_the_joint_attack_recovers_the_protected_column_of_50_in_50(rng):
    """Of 20 rows one measurement is known; the guarantee says marginal, and this is why.

    A table fails if two sets of examples of equal sums exist, mostly two in the same rados: 190
    pairs, of other values in half the cases, 2^-20 each. All 50 pass but with probability .005.
    """
    (row,) = joint_success([20], [20], people(rng), trials=50)
    assert (row.tables, row.values) == (1.0, 1.0)


@pytest.mark.parametrize("truncate", [None, 3.5])
def test_the_guarantee_of_what_was_recovered_says_marginal(rng, truncate):
    X, y = people(rng)(24)
    options = {"count": 24, "protect": ["x1"], "delta": 0.05, "truncate": truncate}
    release = released(X, y, standardize="none", **options)
    (guarantee,) = release.guarantees
    stated = (guarantee.scope, guarantee.unit, guarantee.kind, guarantee.columns)
    assert stated == (Scope.MARGINAL, Unit.ATTRIBUTE, Protection.GLOBAL, ("x1",))
    assert "with other columns may recover its values exactly" in str(guarantee)
    rows = np.column_stack([X[:, 0], np.full(24, np.nan), np.ones(24)])
    recovered = joint_attack(release.arrays["rados"], 1, rows, 2.0 * y - 1)
    assert recovered.rate(2 * X[:, 1] - 1) == 1.0


def test_success_grows_with_the_number_of_rados(rng):
    table = list(joint_success([16, 20], [1, 5, 16], people(rng), trials=8, delta=1e-2))
    by_size = {size: [row.tables for row in table if row.rows == size] for size in (16, 20)}
    for shares in by_size.values():
        assert shares[0] == 0.0  # one sum of 16 signs does not tell them
        assert shares[-1] == 1.0
        assert shares == sorted(shares)
    assert all(row.epsilon > 0 for row in table)
    few = [row.epsilon for row in table if row.rows == 20]
    assert few == sorted(few)


def test_one_unknown_value_falls_to_two_rados_of_small_epsilon(rng):
    """The adversary of differential privacy: 100 rows, 80 known columns, 99 known values.

    Linear programming finds the members. It stays unknown if the person is in no rado.
    """
    X, y = people(rng, 80)(100)
    release = released(X, y, count=2, protect=["x80"], delta=1e-3, standardize="none")
    assert release.guarantees[0].epsilon < 0.7
    truth = 2 * X[:, -1] - 1
    rows = np.column_stack([X, np.ones(100)])
    right = wrong = 0
    for person in range(0, 100, 10):
        known_values = truth.copy()
        known_values[person] = np.nan
        recovered = joint_attack(release.arrays["rados"], 80, rows, 2.0 * y - 1, known_values)
        right += recovered.values[person] == truth[person]
        wrong += recovered.values[person] == -truth[person]
    assert wrong == 0
    assert right >= 3  # of 10, each with probability 3/4: so for all seeds but 4 of 10,000


def test_two_records_that_agree_in_all_known_columns_stay_open(rng):
    """Nobody can tell whose value is whose; the ten others are recovered."""
    X, y = people(rng)(12)
    X[1], y[1] = X[0], y[0]
    X[1, 1] = 1 - X[0, 1]
    release = released(X, y, count=60, protect=["x1"], delta=0.09, standardize="none")
    rows = np.column_stack([X, np.ones(12)])
    recovered = joint_attack(release.arrays["rados"], 1, rows, 2.0 * y - 1)
    assert recovered.claimed.tolist() == [False] * 2 + [True] * 10
    assert recovered.rate(2 * X[:, 1] - 1) == pytest.approx(10 / 12)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), unknowns=st.integers(1, 10), equations=st.integers(1, 3))
def test_binary_solutions_are_found_where_they_are_the_only_ones(seed, unknowns, equations):
    """Against all 2^m vectors; small integers, so that many targets have several solutions."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, (equations, unknowns)).astype(float)
    u = rng.integers(0, 2, unknowns)
    every = (np.arange(1 << unknowns)[:, None] >> np.arange(unknowns) & 1).astype(float)
    solutions = every[(every @ A.T == A @ u).all(axis=1)]
    recovered = _Binary(A).solve(A @ u)
    if len(solutions) == 1:
        np.testing.assert_array_equal(recovered, u)
    else:
        assert recovered is None
    assert _Binary(A).solve(A @ u + 0.5) is None


# ------------------------------------------------------------------ two data sets, the same rados


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), width=st.integers(3, 70), rows=st.integers(1, 7))
def test_another_data_set_far_away_has_the_same_rados(seed, width, rows):
    rng = np.random.default_rng(seed)
    edges, inside = rng.normal(size=(rows, width)), rng.integers(0, 2, (12, rows))
    others, within = another_data_set(edges, inside)
    np.testing.assert_array_equal(within @ others, inside @ edges)
    radius = np.linalg.norm(edges, axis=1).max()
    assert np.linalg.norm(others, axis=1).max() <= radius * (1 + 1e-12)
    assert hausdorff(edges, others) >= radius / np.sqrt(width) * (1 - 1e-12)


def test_the_distance_of_the_lemma_is_attained():
    """All corners but one are taken: the last one is at distance 2 R / sqrt(d) of the nearest."""
    corners = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1], [-1, 1, 1], [-1, 1, -1]])
    edges = np.vstack([corners, [[-1, -1, 1]]]).astype(float)
    others, _ = another_data_set(edges, np.ones((2, 7)))
    assert others[-1].tolist() == pytest.approx([-1.0, -1.0, -1.0])
    assert hausdorff(edges, others) == pytest.approx(2.0)
    with pytest.raises(ParameterError, match="2\\^d"):
        another_data_set(np.vstack([edges, others[-1:]]), np.ones((2, 8)))


# ------------------------------------------------------------------ fixed support, shared noise


def fixed_support(rng, X, y, *, count: int, support: int, noise: float) -> np.ndarray:
    """Return what `Rados` refuses to make: rados of equal supports, one noise vector for all."""
    inside = np.argsort(rng.random((count, len(X))), axis=1) < support
    return rados_of_subsets(y[:, None] * X, inside) + noise * rng.normal(size=X.shape[1])


@pytest.mark.parametrize("noise", [1.0, 1e6])
def test_shared_noise_does_not_protect_labels_with_a_fixed_support(rng, noise):
    X, y = data(rng, 12, 14)
    rados = fixed_support(rng, X, y, count=40, support=6, noise=noise)
    assert labels_from_differences(rados, X).rate(y * y[0]) == 1.0


def test_two_examples_and_a_support_of_one_tell_whether_their_labels_agree(rng):
    for y in np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]):
        rados = fixed_support(rng, np.eye(2), y, count=20, support=1, noise=100.0)
        assert labels_from_differences(rados, np.eye(2)).rate(y * y[0]) == 1.0


def test_such_a_release_is_refused_and_uniform_signs_resist(rng):
    X, y = data(rng, 12, 14)
    options = {"unit": "label", "epsilon": 1.0, "count": 40, "bound": 10.0, "standardize": "none"}
    with pytest.raises(ParameterError, match="differences of rados would carry no noise"):
        released(X, (y > 0).astype(int), support=6, **options)
    release = released(X, (y > 0).astype(int), intercept=0.0, signs="iid", **options)
    recovered = labels_from_differences(release.arrays["rados"], X)
    assert not recovered.claimed.any()
