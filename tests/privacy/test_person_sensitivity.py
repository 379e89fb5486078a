"""What one person moves, by number: every claim of proofs/person.md, in the code of a release."""

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from suffice.engines.sums import LONGEST_CODE, MomentSums, PersonSums, PersonWeights
from suffice.owner.mean_operator import MeanOperator, people_reach
from suffice.owner.moments import calibrated_moments, moments_noise
from suffice.owner.proportions import count_reach
from suffice.privacy.moments import BlockWeights, default_weights
from suffice.tables.bags import read_bags
from suffice.tables.columns import person_codes
from suffice.tables.sources import open_table


def weighted(rows: np.ndarray, labels: np.ndarray, classes: int, weights) -> np.ndarray:
    """Return the blocks of one person's rows, in rows of length 1, each with its weight."""
    block = default_weights(classes, 1.0, 10**6)
    sums = MomentSums(rows.shape[1], classes)
    codes = np.rint(rows.T * (LONGEST_CODE - 2))
    sums.update_weighted(codes, labels, np.full(len(rows), weights, dtype=np.int64))
    total, one, times = sums.result(), PersonWeights.one, 1 if classes == 2 else classes
    return np.concatenate([
        total.second.ravel() / LONGEST_CODE**2,
        block.mean * total.mean / (LONGEST_CODE * one),
        block.operator * total.operator.ravel() / (LONGEST_CODE * one * times),
        block.proportions * total.counts / one,
    ])  # fmt: skip


def someone(rng, width, classes):
    rows = rng.normal(size=(int(rng.integers(1, 40)), width))
    if rng.random() < 0.3:
        rows[:] = rows[0]  # the worst person has equal rows
    rows /= np.linalg.norm(rows, axis=1)[:, None] * rng.choice([1.0, 1.0, 3.0])
    labels = rng.integers(-1, classes, len(rows))
    return rows, labels if rng.random() < 0.5 else np.full(len(rows), labels[0])


def with_targets(rng, rows: np.ndarray, block: BlockWeights) -> np.ndarray:
    """Return the blocks of one person's rows with targets, each with its weight."""
    targets = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], len(rows))
    if rng.random() < 0.5:
        targets[:] = targets[0]
    sums = MomentSums(rows.shape[1] + 1, 0)
    codes = np.rint(np.vstack([rows.T * (LONGEST_CODE - 2), targets * LONGEST_CODE]))
    weights = np.full(len(rows), PersonWeights.one // len(rows), dtype=np.int64)
    sums.update_weighted(codes, np.zeros(len(rows), dtype=int), weights)
    total, one = sums.result(), PersonWeights.one
    return np.concatenate([
        total.second.ravel() / LONGEST_CODE**2,
        block.mean * total.mean / (LONGEST_CODE * one),
        block.operator * total.operator.ravel() / LONGEST_CODE**2,
        block.proportions * total.counts / (LONGEST_CODE * one),
        block.square * total.squares / LONGEST_CODE**2,
    ])  # fmt: skip


BLOCKS = (default_weights(0, 1.0, 10**6), BlockWeights(0, 0.2, 1.3, 0.4),
          BlockWeights(0, 0.3, 2.0, 0.2), BlockWeights(0, 1.9, 0.4, 1.0))  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.mean:.1f}, {b.operator:.1f}")
def test_no_two_people_with_targets_are_farther_apart_than_two_records(block, rng):
    for _ in range(300):
        width = int(rng.integers(1, 5))
        apart = [with_targets(rng, someone(rng, width, 2)[0], block) for _ in range(2)]
        rounded = (width + block.operator * np.sqrt(width) + block.square) / LONGEST_CODE**2
        assert np.linalg.norm(apart[0] - apart[1]) <= block.sensitivity + rounded
        assert max(map(np.linalg.norm, apart)) <= block.sensitivity  # of nobody


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_no_two_people_are_farther_apart_than_two_records(classes, rng):
    bound = default_weights(classes, 1.0, 10**6).sensitivity
    for _ in range(300):
        width = int(rng.integers(1, 5))
        apart = []
        for _ in range(2):
            rows, labels = someone(rng, width, classes)
            apart.append(weighted(rows, labels, classes, PersonWeights.one // len(rows)))
        rounded = width / LONGEST_CODE**2
        assert np.linalg.norm(apart[0] - apart[1]) <= bound + rounded
        assert max(map(np.linalg.norm, apart)) <= bound  # of nobody


def test_a_person_of_many_equal_rows_reaches_the_bound():
    block = default_weights(2, 1.0, 10**6)
    share = (block.mean**2 + block.operator**2) / 2
    half = np.arccos(-share) / 2
    people = [np.tile([np.cos(a), np.sin(a)], (20, 1)) for a in (half, -half)]
    labels = np.ones(20, dtype=int)
    apart = [weighted(rows, labels, 2, PersonWeights.one // 20) for rows in people]
    assert np.linalg.norm(apart[0] - apart[1]) >= 0.999 * block.sensitivity


def test_weighted_sums_are_exact_and_rounded_once(rng):
    width, n = 4, 500
    codes = rng.integers(-(2**14), 2**14, (width, n)).astype(float)
    labels, counts = rng.integers(-1, 3, n), rng.integers(1, 30, n)
    weights = PersonWeights.one // counts
    sums, halves = MomentSums(width, 3), [MomentSums(width, 3) for _ in range(2)]
    sums.update_weighted(codes, labels, weights)
    for half, rows in zip(halves, (slice(0, 123), slice(123, n)), strict=True):
        half.update_weighted(codes[:, rows], labels[rows], weights[rows])
    halves[0].merge(halves[1])
    whole = [[int(v) for v in row] for row in codes]
    for i, j in product(range(width), repeat=2):
        exact = sum(int(w) * a * b for w, a, b in zip(weights, whole[i], whole[j], strict=True))
        assert sums.result().second[i, j] == exact // PersonWeights.one
    for name in ("second", "mean", "operator", "counts"):
        assert np.array_equal(getattr(sums.result(), name), getattr(halves[0].result(), name))
    assert sums.result().counts.sum() == weights[labels >= 0].sum()


@pytest.mark.parametrize("classes", [0, 2])
def test_the_noise_of_people_allows_for_the_last_rounding(classes):
    weights = default_weights(classes, 4.0, 1000)
    plain = moments_noise(10, 1000, weights, 4.0)
    people = moments_noise(10, 1000, weights, 4.0, PersonWeights.one)
    rounded = 10 if classes else 10 + weights.operator * np.sqrt(10) + weights.square
    for name, block in people.blocks.items():
        same = plain.blocks[name].deviation
        more = 1 + rounded / LONGEST_CODE**2 / weights.sensitivity
        assert same * more * (1 - 1e-7) <= block.deviation <= same * (1 + 1e-6)
    assert people.blocks["diagonal"].deviation > plain.blocks["diagonal"].deviation
    noise = calibrated_moments(10, 2, 1000, 1.0, 1e-6, steps=PersonWeights.one)
    assert noise.event.epsilon(1e-6) <= 1.0


def test_weights_of_a_person_never_exceed_one():
    rows = np.array([1, 2, 3, 7, 19, 20, 1000, 2**18, 2**18 + 1, 2**40])
    people = PersonWeights("id", np.arange(len(rows)), rows)
    batch = pa.record_batch({"id": pa.array([*range(len(rows)), None, 99], pa.int64())})
    weights, seen = people.of(batch)
    assert (weights[: len(rows)] * rows <= people.one).all()
    assert weights.tolist()[0] == people.one
    assert weights[-4:].tolist() == [0, 0, 0, 0]  # too many rows, too many, no id, nobody counted
    assert seen[0] == len(rows) + 1


SPELLINGS = (
    pa.array([1, 2, None]),
    pa.array([1.0, 2.0, float("nan")]),
    pa.array(["1", "2.0", ""]),
    pa.array([" 1.00 ", "002", None]),
    pa.array(["1", "2", "1"]).dictionary_encode().take(pa.array([0, 1, None])),
)


def test_one_id_has_one_code_however_it_is_spelt():
    for column in SPELLINGS:
        codes, held = person_codes(column)
        assert codes[:2].tolist() == [1, 2]
        assert held.tolist() == [True, True, False]
    long = pa.array(["110101199003071234", "110101199003071235", "110101199003071234.0"])
    codes, _ = person_codes(long)  # beyond what a float tells apart
    assert codes[0] == codes[2] != codes[1]


def test_rows_are_counted_alike_however_they_are_cut(rng):
    ids = pa.array([f"p{k}" for k in rng.integers(0, 200, 3000)])
    whole = PersonSums("id")
    whole.update(pa.record_batch({"id": ids}))
    for cuts in ([17, 18, 1500], range(7, 3000, 7)):
        parts = [PersonSums("id") for _ in range(3)]
        for k, (a, b) in enumerate(zip([0, *cuts], [*cuts, 3000], strict=True)):
            parts[k % 3].update(pa.record_batch({"id": ids.slice(a, b - a)}))
        parts[2].merge(parts[1])
        parts[0].merge(parts[2])
        for mine, theirs in zip(whole.result(), parts[0].result(), strict=True):
            assert np.array_equal(mine, theirs)
    codes, (rows,) = whole.result()
    assert rows.sum() == 3000
    assert len(codes) == len(ids.unique())


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_of_a_person_move_the_sums_no_farther_than_is_paid_for(classes, rng):
    for _ in range(5):
        n = 12
        frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
        frame["id"] = rng.integers(0, 4, n)
        names = tuple(range(classes))
        operator = MeanOperator(1.0, classes=names, clip=1.0)
        public = operator.public_rows(frame, features=["a", "b"])
        table = open_table(frame, text=["id"])
        rows = type(public)(table, public.roles, public.pipeline, public.summary)
        reach = people_reach(rows, "id", classes)
        step = 2.0 ** (np.ceil(np.log2(public.pipeline.norm_bound)) - 30)
        vectors = public.pipeline.transform(pa.record_batch(frame[["a", "b"]])) / step
        farthest = np.zeros(2)
        for own in frame.groupby("id").groups.values():
            mine = vectors[np.asarray(own)]
            for _ in range(4000 if classes == 3 else 1):
                if classes == 2:
                    signs = np.array([*product([1.0], *[(-1.0, 1.0)] * (len(mine) - 1))])
                    moved = (signs @ mine)[:, None, :]
                    lengths = np.abs(moved).sum((1, 2)).max(), np.linalg.norm(moved, axis=2).max()
                else:
                    was, now = rng.integers(0, 3, (2, len(mine)))
                    moved = (np.eye(3)[now] - np.eye(3)[was]).T @ mine
                    lengths = np.abs(moved).sum() / 2, np.linalg.norm(moved) / np.sqrt(2)
                farthest = np.maximum(farthest, lengths)
        assert farthest[0] <= reach.l1
        assert farthest[1] <= reach.l2
        if classes == 2:  # all signs are tried: the bound is that person's own
            assert reach.l1 <= farthest[0] * (1 + 1e-6)
            assert reach.l2 <= farthest[1] * (1 + 1e-6)
        assert reach.rows == frame["id"].value_counts().max()


def test_people_of_many_rows_have_added_lengths(rng):
    frame = pd.DataFrame(rng.normal(size=(13, 2)), columns=["a", "b"]).assign(id="one")
    operator = MeanOperator(1.0, clip=1.0)
    public = operator.public_rows(frame, features=["a", "b"])
    rows = type(public)(open_table(frame), public.roles, public.pipeline, public.summary)
    reach = people_reach(rows, "id", 2)
    step = 2.0 ** (np.ceil(np.log2(public.pipeline.norm_bound)) - 30)
    vectors = public.pipeline.transform(pa.record_batch(frame[["a", "b"]])) / step
    assert reach.l2 == pytest.approx(np.linalg.norm(vectors, axis=1).sum(), rel=1e-6)
    assert reach.l1 == pytest.approx(np.abs(vectors).sum(), rel=1e-6)


def test_signs_are_no_bound_for_three_classes():
    rows = np.array([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])
    by_signs = max(np.linalg.norm(np.array(s) @ rows) for s in product([-1, 1], repeat=3))
    was, now = [0, 1, 2], [1, 2, 0]
    moved = (np.eye(3)[now] - np.eye(3)[was]).T @ rows
    assert np.linalg.norm(moved) > np.sqrt(2) * by_signs * 1.05
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(id="one")
    public = MeanOperator(1.0, classes=(0, 1, 2), clip=1.0).public_rows(frame, features=["a", "b"])
    table = type(public)(open_table(frame), public.roles, public.pipeline, public.summary)
    reach = people_reach(table, "id", 3)
    vectors = public.pipeline.transform(pa.record_batch(frame[["a", "b"]]))
    step = 2.0 ** (np.ceil(np.log2(public.pipeline.norm_bound)) - 30)
    shift = (np.eye(3)[now] - np.eye(3)[was]).T @ vectors / step
    assert np.linalg.norm(shift) <= np.sqrt(2) * reach.l2


def test_labels_of_a_person_move_counts_no_farther_than_is_paid_for(rng):
    for _ in range(20):
        n = 15
        frame = pd.DataFrame({"ward": rng.integers(0, 3, n), "id": rng.integers(0, 4, n)})
        table = open_table(frame)
        bags = read_bags(table, "ward")
        units, squares = count_reach(table, bags, "id")
        l1, l2 = 0.0, 0.0
        for _, own in frame.groupby("id"):
            counts = own["ward"].value_counts().to_numpy()
            l1, l2 = max(l1, 2 * counts.sum()), max(l2, np.sqrt(2 * (counts**2).sum()))
            for _ in range(50):
                was, now = rng.integers(0, 3, (2, len(own)))
                moved = np.zeros((3, 3))
                np.add.at(moved, (own["ward"].to_numpy(), was), -1)
                np.add.at(moved, (own["ward"].to_numpy(), now), 1)
                assert np.abs(moved).sum() <= 2 * units
                assert np.linalg.norm(moved) <= np.sqrt(2 * squares) + 1e-9
        assert (l1, l2) == (2 * units, pytest.approx(np.sqrt(2 * squares)))
    assert count_reach(table, bags, None) == (1, None)
