"""The kernels behind rados beside slow twins, and the two samplers beside their laws.

Samplers run on a fixed stream, so their tests do not raise false alarms; each also rejects a wrong
law of the same size.
"""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard

from suffice.engines import sums as engine
from suffice.engines.sums import HadamardSums, SubsetSums
from suffice.errors import ParameterError
from suffice.kernels import rados as kernel

ALARM = 1e-6


def stream(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)


def integer_rows(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, (width, rows)).astype(np.float64)


def fair_signs(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([-1.0, 1.0], count)


# --- transform


@pytest.mark.parametrize("power", range(12))
def test_transform_multiplies_by_the_sylvester_matrix(power):
    values = np.random.default_rng(power).integers(-99, 100, 2**power).astype(np.float64)
    got = kernel.transform(values.copy(), np.empty_like(values))
    np.testing.assert_array_equal(got, hadamard(2**power) @ values)


# --- hadamard_sums


def slow_hadamard(batch, step):
    """Return the subset sums by the matrix of memberships."""
    columns, first, weights, signs, orders = batch
    size = orders.shape[1]
    matrix = hadamard(size)
    values = (np.rint(columns / step) if step else columns) * weights
    total = np.zeros((size, len(columns)))
    for block, order in enumerate(orders):
        start = first + block * (size - 1)
        members = slice(start, min(start + size - 1, columns.shape[1]))
        part = values[:, members]
        sign = matrix[order][:, 1 : 1 + part.shape[1]] * signs[members]
        total += (sign > 0) @ part.T
    return total


@pytest.mark.parametrize("count", [2, 3, 7, 8, 33, 64])
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_structured_sums_equal_their_twin(count, first, step):
    size = 1 << (count - 1).bit_length()
    rows = first + 3 * (size - 1) - (size > 2)  # the last block lacks one row
    columns, weights, signs = integer_rows(rows, 5), fair_signs(rows, 1), fair_signs(rows, 2)
    orders = np.stack([np.random.default_rng(b).permutation(size) for b in range(3)])
    sums = HadamardSums(5, count, step)
    batch = (columns, first, weights, signs, orders.astype(np.int32))
    sums.update(batch)
    expected = slow_hadamard(batch, step)[:count]
    np.testing.assert_array_equal(sums.result(), expected)
    assert sums.result().dtype == (np.int64 if step else np.float64)


# --- subset_sums


def memberships(bits: np.ndarray, rows: int) -> np.ndarray:
    """Return a matrix (subsets, rows) of zeros and ones."""
    spread = np.unpackbits(bits[:, None, :], axis=1, bitorder="little")
    return spread.reshape(-1, bits.shape[1])[:rows].T


@pytest.mark.parametrize("rows", [1, 8, 15, 16, 100])
@pytest.mark.parametrize("width", [1, 5, 31, 32, 33, 70])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_subset_sums_equal_their_twin(rows, width, step):
    columns, weights = integer_rows(rows, width), fair_signs(rows)
    bits = stream(2 * -(-rows // 16) * 7).astype(np.uint8).reshape(-1, 7)
    sums = SubsetSums(width, 7, step)
    sums.update((columns, weights, bits))
    values = (np.rint(columns / step) if step else columns) * weights
    np.testing.assert_array_equal(sums.result(), memberships(bits, rows) @ values.T)


@pytest.mark.parametrize("kind", [HadamardSums, SubsetSums])
def test_integers_stay_exact_through_flushes_and_merges(kind, monkeypatch):
    """Codes of 2^30 in 3,000 rows, moved to integers every 700: as Python adds them."""
    monkeypatch.setattr(engine, "_EXACT_RADO_ROWS", 700)
    rng = np.random.default_rng(0)
    halves = [kind(2, 4, 1.0), kind(2, 4, 1.0)]
    expected = np.zeros((4, 2), dtype=object)
    for part in range(10):
        columns = rng.integers(2**30 - 99, 2**30, (2, 300)).astype(np.float64)
        ones, signs = np.ones(300), fair_signs(300, part)
        if kind is SubsetSums:
            bits = rng.integers(0, 256, (38, 4)).astype(np.uint8)
            halves[part % 2].update((columns, ones, bits))
            inside = memberships(bits, 300)
        else:
            orders = np.stack([rng.permutation(4) for _ in range(100)]).astype(np.int32)
            halves[part % 2].update((columns, 0, ones, signs, orders))
            matrix = np.vstack([hadamard(4)[order][:, 1:].T for order in orders])
            inside = ((matrix * signs[:, None]) > 0).T.astype(int)
        expected += inside.astype(object) @ columns.T.astype(np.int64).astype(object)
    halves[0].merge(halves[1])
    assert halves[0].result().tolist() == expected.tolist()


def test_sums_beyond_what_floats_hold_stay_exact(monkeypatch):
    """2^53 + 1 is no float: what was added moves to integers before that."""
    monkeypatch.setattr(engine, "_EXACT_RADO_ROWS", 1)
    sums, bits = engine.SubsetSums(1, 1, 1.0), np.array([[1], [0]], dtype=np.uint8)
    for value in (2.0**53 - 1, 1.0, 1.0):
        sums.update((np.array([[value]]), np.ones(1), bits))
    assert sums.result().tolist() == [[2**53 + 1]]


def test_a_batch_too_large_to_add_exactly_is_refused(monkeypatch):
    monkeypatch.setattr(engine, "_EXACT_RADO_ROWS", 10)
    with pytest.raises(ParameterError, match="smaller"):
        SubsetSums(1, 2, 1.0).update((np.ones((1, 11)), np.ones(11), np.zeros((2, 2), np.uint8)))


# --- shuffle


def shuffled(count: int) -> np.ndarray:
    orders = np.empty((count, 4), dtype=np.int32)
    assert kernel.shuffle(stream(4 * count), orders)
    return orders


def chance_of_uniform(counts: Counter, outcomes: list) -> float:
    assert set(counts) <= set(outcomes)
    return float(stats.chisquare([counts[o] for o in outcomes]).pvalue)


def test_all_permutations_are_equally_likely():
    outcomes = list(permutations(range(4)))
    counts = Counter(map(tuple, shuffled(24_000).tolist()))
    assert chance_of_uniform(counts, outcomes) > ALARM


def test_a_shuffle_that_swaps_with_any_place_would_be_noticed():
    rng, counts = np.random.default_rng(0), Counter()
    for places in rng.integers(0, 4, (24_000, 4)):
        order = list(range(4))
        for i, j in enumerate(places):
            order[i], order[j] = order[j], order[i]
        counts[tuple(order)] += 1
    assert chance_of_uniform(counts, list(permutations(range(4)))) < ALARM


def test_a_word_that_would_favour_a_place_is_thrown_away():
    orders = np.empty((1, 3), dtype=np.int32)
    words = np.array([0, 2**31, 2**31], dtype=np.uint32)  # 2^32 mod 3 = 1: zero is one too many
    assert kernel.shuffle(words, orders)
    with_zero = orders.copy()
    assert kernel.shuffle(words[1:], orders)
    np.testing.assert_array_equal(with_zero, orders)
    assert not kernel.shuffle(words[:2], orders)


# --- choose


def chosen(words, sizes, rows, cuts):
    """Return memberships drawn part by part."""
    needs, total, parts = np.array(sizes), rows, []
    for count in cuts:
        bits = np.empty((2 * -(-count // 16), len(sizes)), dtype=np.uint8)
        need = count * len(sizes) + 8
        assert kernel.choose(words[:need], needs, total, count, bits)
        words, total = words[need:], total - count
        parts.append(memberships(bits, count))
    assert not needs.any()
    return np.hstack(parts)


@pytest.mark.parametrize("cuts", [[5], [1, 4], [2, 2, 1]])
def test_supports_of_a_size_are_equally_likely(cuts):
    count = 20_000
    inside = chosen(stream(6 * count + 99), [2] * count, 5, cuts)
    counts = Counter(tuple(np.flatnonzero(row)) for row in inside)
    assert chance_of_uniform(counts, list(combinations(range(5), 2))) > ALARM


def test_sizes_are_kept_to_the_letter():
    sizes = [0, 1, 17, 99, 100]
    np.testing.assert_array_equal(chosen(stream(900), sizes, 100, [64, 36]).sum(axis=1), sizes)


def test_a_word_on_the_line_is_decided_by_the_next():
    """One of three: 3 w <= 2^32 < 3 (w + 1) leaves a third of the last word's interval."""
    line = 2**32 // 3
    bits = np.empty((2, 1), dtype=np.uint8)
    for after, expected in ((0, 1), (line - 1, 1), (line + 1, 0), (2**32 - 1, 0)):
        needs = np.array([1])
        assert kernel.choose(np.array([line, after], dtype=np.uint32), needs, 3, 1, bits)
        assert bits[0, 0] == expected
    assert not kernel.choose(np.array([line], dtype=np.uint32), np.array([1]), 3, 1, bits)
