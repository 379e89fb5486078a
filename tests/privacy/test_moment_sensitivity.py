"""One record moves weighted moments by no more than is stated, and by as much."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from suffice.engines.sums import LONGEST_CODE, MomentSums, RowCodes, inner_length
from suffice.errors import ParameterError
from suffice.privacy.moments import BlockWeights, default_weights, free_proportions_weight
from suffice.tables.pipeline import Column, Pipeline


def weighted(row: np.ndarray, label: int, weights: BlockWeights) -> np.ndarray:
    """Return the weighted blocks of one record; a label of -1 is of no class."""
    classes = weights.classes
    if classes == 2:
        sign = np.array([-1.0, 1.0, 0.0])[label]
        by_class, count = sign * row, np.array([sign])
    else:
        member = (np.arange(classes) == label).astype(float)
        by_class = np.outer(member - 1 / classes if label >= 0 else 0 * member, row).ravel()
        count = member
    return np.concatenate([
        np.outer(row, row).ravel(),
        weights.mean * row,
        weights.operator * by_class,
        weights.proportions * count,
    ])  # fmt: skip


def farthest(weights: BlockWeights, rng: np.random.Generator, width: int) -> float:
    """Return the largest change that a gradient search over pairs of records finds."""

    def unit(row):
        return row / max(1.0, float(np.linalg.norm(row)))

    def apart(both, labels):
        one, two = unit(both[:width]), unit(both[width:])
        change = weighted(one, labels[0], weights) - weighted(two, labels[1], weights)
        return -float(change @ change)

    found = 0.0
    for labels in ((0, 0), (0, 1), (0, -1)):
        starts = [rng.normal(size=2 * width) for _ in range(2)]
        starts += [np.concatenate([s[:width], -s[:width]]) for s in starts]
        for start in starts:
            found = max(found, -minimize(apart, start, args=(labels,)).fun)
    return math.sqrt(found)


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_a_search_reaches_the_bound_and_never_passes_it(classes, rng):
    for _ in range(15):
        sizes = np.sqrt(rng.exponential(1.5, 3) * rng.choice([0.1, 1.0, 3.0], 3))
        weights = BlockWeights(classes, *sizes)
        reached = farthest(weights, rng, int(rng.integers(2, 4))) / weights.sensitivity
        assert 0.999 <= reached <= 1 + 1e-9


def test_targets_move_moments_no_farther_than_labels(rng):
    """The square of a target is free at its weight: no pair of records passes the bound."""
    weightings = [default_weights(0, 20.0, rows) for rows in (100, 10_000)]
    sizes = np.sqrt(rng.uniform(0.05, 2.5, (6, 3)))
    weightings += [BlockWeights(0, *three) for three in sizes]
    for weights in weightings:
        assert (
            weights.sensitivity
            == BlockWeights(2, weights.mean, weights.operator, weights.proportions).sensitivity
        )

        def apart(both, weights=weights):
            found = []
            for part in (both[:4], both[4:]):
                row, target = part[:3] / max(1.0, float(np.linalg.norm(part[:3]))), np.sin(part[3])
                numbers = [weights.proportions * target, weights.square * target**2]
                rows = [weights.mean * row, weights.operator * target * row]
                found.append(np.concatenate([np.outer(row, row).ravel(), *rows, numbers]))
            return -float(np.sum((found[0] - found[1]) ** 2))

        # Searches start everywhere, and at targets of 1 and 0, where squares differ most.
        starts = [rng.normal(size=8) * 2 for _ in range(12)]
        worst = math.acos(-(weights.mean**2) / 2) if weights.mean**2 <= 2 else math.pi
        starts.append([1, 0, 0, math.pi / 2, math.cos(worst), math.sin(worst), 0, 0])
        reached = max(math.sqrt(-minimize(apart, start).fun) for start in starts)
        assert 0.999 <= reached / weights.sensitivity <= 1 + 1e-9


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_default_weights_are_tight_too(classes, rng):
    for rows in (100, 10_000):
        weights = default_weights(classes, 20.0, rows)
        assert 0.999 <= farthest(weights, rng, 3) / weights.sensitivity <= 1 + 1e-9


def test_class_counts_are_free_up_to_a_weight_and_cost_beyond():
    mean, operator = math.sqrt(0.3), math.sqrt(1.2)
    free = free_proportions_weight(2, mean, operator)
    assert free**2 == pytest.approx(0.18)
    bare = BlockWeights(2, mean, operator, 1e-9).sensitivity
    assert BlockWeights(2, mean, operator, free).sensitivity == pytest.approx(bare, rel=1e-12)
    assert BlockWeights(2, mean, operator, 1.01 * free).sensitivity > bare * (1 + 1e-4)
    raised = default_weights(2, multiplier=1000.0, rows=100)
    assert raised.proportions**2 == pytest.approx(8 * 0.18)
    assert raised.sensitivity == pytest.approx(3.3414, abs=1e-4)
    for classes in (2, 3, 7):
        for sizes in ((3.0, 0.2), (0.2, 3.0), (1.0, 1.0), (2.5, 2.5)):
            assert free_proportions_weight(classes, *sizes) > 0  # another label never costs more


def test_weights_must_be_positive_numbers():
    for wrong in ((1, 1.0, 1.0, 1.0), (2, 0.0, 1.0, 1.0), (2, 1.0, math.inf, 1.0)):
        with pytest.raises(ParameterError, match="positive weights"):
            BlockWeights(*wrong)


CELLS = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 1e-320])
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.data())
def test_no_two_rows_on_the_lattice_pass_the_bound(width, classes, data):
    """The integers that noise is added to, of any two records, in the code of a release."""
    cells = data.draw(st.lists(CELLS, min_size=2 * width, max_size=2 * width))
    bound = data.draw(st.sampled_from([0.5, 1.0, 1.7, 1e-3, 1e6]))
    labels = data.draw(st.lists(st.integers(-1, classes - 1), min_size=2, max_size=2))
    columns = tuple(Column(f"x{j}") for j in range(width))
    zero, one = np.zeros(width), np.ones(width)
    pipeline = Pipeline(columns, "mean", zero, one, bound, 0.0, zero)
    codes = RowCodes(pipeline).of(np.array(cells).reshape(width, 2))
    assert (codes == np.rint(codes)).all()
    assert (np.sum(codes.astype(np.int64) ** 2, axis=0) <= LONGEST_CODE**2).all()
    weights = default_weights(classes, 10.0, 50)
    totals = []
    for row, label in zip(codes.T, labels, strict=True):
        sums = MomentSums(width, classes)
        sums.update((np.ascontiguousarray(row[:, None]), np.array([label])))
        totals.append(sums.result())
    a, b = totals
    times = 1 if classes == 2 else classes
    change = np.concatenate([
        (a.second - b.second).ravel() / LONGEST_CODE**2,
        weights.mean * (a.mean - b.mean) / LONGEST_CODE,
        weights.operator * (a.operator - b.operator).ravel() / (LONGEST_CODE * times),
        weights.proportions * (a.counts - b.counts),
    ])  # fmt: skip
    assert np.linalg.norm(change) <= weights.sensitivity * (1 + 1e-12)


def test_a_row_of_codes_that_is_too_long_is_shortened_silently():
    from suffice.kernels.sums import code_columns

    width = 400
    columns = np.full((width, 1), 1.0)
    affine = (np.zeros(width), np.ones(width), 1e9, np.zeros(width))
    out = np.empty_like(columns)
    code_columns(columns, affine, 1e9 * 100.4, 1000.0, out)  # rint(100.4) = 100: length 2000
    assert np.sum(out.astype(np.int64) ** 2) <= 1000**2
    assert np.sum(out**2) > 0.9 * 1000**2
    assert inner_length(width) == LONGEST_CODE - 10


def test_rounded_rows_are_no_longer_than_is_paid_for(rng):
    """Rows at the bound, of many coordinates: half of them are rounded away from zero."""
    width = 300
    columns = tuple(Column(f"x{j}") for j in range(width))
    zero, one = np.zeros(width), np.ones(width)
    pipeline = Pipeline(columns, "mean", zero, one, 1.0, 0.0, zero)
    rows = rng.choice([-1.0, 1.0], (width, 400)) * rng.uniform(1.0, 1.001, (1, 400))
    codes = RowCodes(pipeline).of(rows)
    lengths = np.sqrt(np.sum(codes.astype(np.int64) ** 2, axis=0))
    assert lengths.max() <= LONGEST_CODE
    for size in range(1, width):  # equal coordinates are all rounded to the same side
        part = slice(size)
        equal = Pipeline(columns[part], "mean", zero[part], one[part], 1.0, 0.0, zero[part])
        (length,) = np.sum(RowCodes(equal).of(np.ones((size, 1))).astype(np.int64) ** 2, axis=0)
        assert length <= LONGEST_CODE**2
