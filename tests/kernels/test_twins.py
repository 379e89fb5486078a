"""Each compiled kernel against the plainest numpy or Python integers that say the same."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import CPUDispatcher

from suffice.kernels import maps, models, response, sums
from suffice.kernels.maps import SUM_TILE

SIZES = (0, 1, SUM_TILE - 1, SUM_TILE, SUM_TILE + 1, 5 * SUM_TILE + 3)
FLOATS = (np.float32, np.float64)
WORD = 2**64 - 1
HALF = 2**32 - 1

sized = pytest.mark.parametrize("rows", SIZES)
typed = pytest.mark.parametrize("dtype", FLOATS)
weighted = pytest.mark.parametrize("count", [1, 3])


def eighths(width: int, rows: int, dtype: type, seed: int = 0) -> np.ndarray:
    """Return numbers that every float holds exactly, many of them halfway between two codes."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-4000, 4000, (width, rows)) / 8).astype(dtype)


def whole_weights(count: int, rows: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, (count, rows)).astype(np.float64)


def exact_codes(columns: np.ndarray, inverse_step: float) -> list[list[int]]:
    """Return rint(x / step) in rational arithmetic, half to even."""
    return [
        [round(Fraction(float(x)) * Fraction(inverse_step)) for x in column] for column in columns
    ]


def exact_sums(codes: list[list[int]], weights: np.ndarray) -> list[list[int]]:
    integers = [[int(w) for w in row] for row in weights]
    return [
        [sum(w * c for w, c in zip(row, column, strict=True)) for column in codes]
        for row in integers
    ]


# --- the cache of compiled code


@pytest.mark.parametrize(
    "module",
    [maps, sums, response, models],
    ids=lambda m: m.__name__,
)
def test_no_cached_kernel_builds_on_a_kernel_of_another_file(module):
    """Numba dates one file per cached kernel: a change in the other file would go unnoticed."""
    kernels = [item for item in vars(module).values() if isinstance(item, CPUDispatcher)]
    assert kernels
    assert [k.__name__ for k in kernels if k.__module__ != module.__name__] == []


# --- mapping.py


def slow_map(columns, mean, inverse_scale, bound):
    centred = (columns.astype(np.float64) - mean[:, None]) * inverse_scale[:, None]
    norms = np.linalg.norm(centred, axis=0)
    return centred * np.where(norms > bound, bound / np.maximum(norms, bound), 1.0)


@sized
@typed
def test_map_columns_equals_its_twin(rows, dtype):
    rng = np.random.default_rng(rows)
    columns = rng.normal(size=(4, rows)).astype(dtype)
    mean, inverse_scale = rng.normal(size=4), rng.uniform(0.5, 2.0, 4)
    out = np.full((4, rows), np.nan)
    assert maps.map_columns(columns, mean, inverse_scale, 1.5, out) == 0
    np.testing.assert_allclose(out, slow_map(columns, mean, inverse_scale, 1.5), rtol=1e-13)
    assert rows < 2 or (np.linalg.norm(out, axis=0) < 1.4).any()  # the bound does not bind them all


def test_map_columns_leaves_a_further_row_of_its_output_alone():
    out = np.full((3, 5), 7.0)
    maps.map_columns(np.ones((2, 5)), np.zeros(2), np.ones(2), 9.0, out)
    np.testing.assert_array_equal(out, [[1.0] * 5, [1.0] * 5, [7.0] * 5])


@typed
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_map_columns_counts_each_row_that_is_not_finite_once(dtype, wrong):
    columns = np.ones((3, 3 * SUM_TILE), dtype=dtype)
    for row in (0, SUM_TILE - 1, SUM_TILE, 2 * SUM_TILE + 5):
        columns[row % 3, row] = wrong
    columns[:, 17] = wrong
    out = np.empty((3, 3 * SUM_TILE))
    assert maps.map_columns(columns, np.zeros(3), np.ones(3), 1.0, out) == 5


def test_map_columns_counts_a_row_whose_norm_overflows():
    columns = np.array([[1.0, 1e200, 2.0]])
    out = np.empty((1, 3))
    assert maps.map_columns(columns, np.zeros(1), np.ones(1), 1.0, out) == 1


@sized
def test_map_rows_equals_map_columns_to_the_last_bit(rows):
    rng = np.random.default_rng(rows)
    columns = rng.normal(size=(4, rows))
    affine = rng.normal(size=4), rng.uniform(0.5, 2.0, 4), 1.5
    by_columns, by_rows = np.empty((4, rows)), np.full((rows, 5), 7.0)
    maps.map_columns(columns, *affine, by_columns)
    assert maps.map_rows(np.ascontiguousarray(columns.T), *affine, by_rows) == 0
    np.testing.assert_array_equal(by_rows[:, :4], by_columns.T)
    np.testing.assert_array_equal(by_rows[:, 4], 7.0)  # the place of an intercept


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e200])
def test_map_rows_counts_each_row_that_is_not_finite_once(wrong):
    rows = np.ones((9, 3))
    rows[4], rows[7, 1] = wrong, wrong
    assert maps.map_rows(rows, np.zeros(3), np.ones(3), 1.0, np.empty((9, 3))) == 2


@typed
def test_map_tile_writes_only_the_rows_it_was_asked_for(dtype):
    columns = eighths(2, SUM_TILE + 40, dtype)
    tile, factors = np.full((2, SUM_TILE), -1.0), np.empty(SUM_TILE)
    mean, inverse_scale = np.array([1.0, 2.0]), np.array([0.5, 0.25])
    bad = maps._map_tile(columns, SUM_TILE, SUM_TILE + 40, mean, inverse_scale, 1e9, tile, factors)
    assert bad == 0
    np.testing.assert_array_equal(
        tile[:, :40], slow_map(columns[:, SUM_TILE:], mean, inverse_scale, 1e9)
    )
    assert (tile[:, 40:] == -1.0).all()


# --- sums.py


def run_mapped(columns, weights, *, constant=0.0, inverse_step=2.0, bound=1e9, affine=None):
    mean, inverse_scale = affine or (np.zeros(len(columns)), np.ones(len(columns)))
    totals = np.zeros((len(weights), len(columns)), dtype=np.int64)
    reach = np.zeros(2)
    bad = maps.mapped_sums(
        columns, weights, (mean, inverse_scale, bound), constant, inverse_step, totals, reach
    )
    return bad, totals, reach


@sized
@typed
@weighted
def test_mapped_sums_are_the_sums_of_python_integers(rows, dtype, count):
    columns, weights = eighths(3, rows, dtype), whole_weights(count, rows)
    affine = (np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 2.0]))
    bad, totals, reach = run_mapped(columns, weights, constant=-5.0, affine=affine)
    codes = exact_codes(slow_map(columns, *affine, 1e9), 2.0)
    assert bad == 0
    assert totals.tolist() == exact_sums(codes, weights)
    by_row = list(zip(*codes, strict=True))
    assert reach[0] == max((5 + sum(map(abs, row)) for row in by_row), default=0)
    assert reach[1] == max((25 + sum(c * c for c in row) for row in by_row), default=0)


@typed
def test_mapped_sums_put_clipped_rows_on_the_lattice_as_map_columns_gives_them(dtype):
    rng = np.random.default_rng(3)
    columns = rng.normal(size=(4, 3 * SUM_TILE + 1)).astype(dtype)
    weights = whole_weights(2, columns.shape[1])
    affine = (rng.normal(size=4), rng.uniform(0.5, 2.0, 4))
    mapped = np.empty(columns.shape)
    maps.map_columns(columns, *affine, 1.0, mapped)
    _, totals, _ = run_mapped(columns, weights, inverse_step=2.0**29, bound=1.0, affine=affine)
    assert totals.tolist() == exact_sums(exact_codes(mapped, 2.0**29), weights)


@typed
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_mapped_sums_count_the_bad_rows_of_the_first_tile_that_has_some(dtype, wrong):
    columns = np.ones((2, 3 * SUM_TILE), dtype=dtype)
    columns[0, [SUM_TILE + 1, 2 * SUM_TILE - 1]] = wrong
    assert run_mapped(columns, np.ones((1, 3 * SUM_TILE)))[0] == 2


@sized
@typed
@weighted
def test_sums_of_column_are_the_sums_of_python_integers(rows, dtype, count):
    columns, weights = eighths(1, rows, dtype), whole_weights(count, rows)
    totals = np.full((count, 2), 11, dtype=np.int64)
    sums.sums_of_column(columns[0], weights, 2.0, totals[:, 1])
    expected = exact_sums(exact_codes(columns, 2.0), weights)
    assert totals.tolist() == [[11, 11 + row[0]] for row in expected]


@sized
@typed
@weighted
def test_sums_of_rows_are_the_sums_of_python_integers(rows, dtype, count):
    columns, weights = eighths(3, rows, dtype), whole_weights(count, rows)
    totals = np.zeros((count, 3), dtype=np.int64)
    sums.sums_of_rows(np.ascontiguousarray(columns.T), weights, 2.0, totals)
    assert totals.tolist() == exact_sums(exact_codes(columns, 2.0), weights)


@pytest.mark.parametrize("rows", [1024, 1025, 20_000])
def test_the_largest_codes_and_weights_still_add_exactly(rows):
    codes = np.random.default_rng(rows).integers(2**31 - 99, 2**31 + 1, rows)
    columns, weights = codes[None, :].astype(np.float64), np.full((1, rows), 1023.0)
    expected = [[1023 * sum(codes.tolist())]]
    by_column, by_row = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    sums.sums_of_column(columns[0], weights, 1.0, by_column[:, 0])
    sums.sums_of_rows(columns.T.copy(), weights, 1.0, by_row)
    assert by_column.tolist() == expected
    assert by_row.tolist() == expected
    assert run_mapped(columns, weights, inverse_step=1.0, bound=1e30)[1].tolist() == expected


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 3 * SUM_TILE))
def test_neither_the_order_nor_a_cut_changes_a_sum(seed, cut):
    rng = np.random.default_rng(seed)
    rows = 3 * SUM_TILE
    columns, weights = rng.normal(size=(3, rows)), whole_weights(2, rows, seed)
    order = rng.permutation(rows)
    mixed, with_them = np.ascontiguousarray(columns[:, order]), weights[:, order]
    _, totals, reach = run_mapped(columns, weights, inverse_step=2.0**20)
    parts = [
        run_mapped(mixed[:, part].copy(), with_them[:, part].copy(), inverse_step=2.0**20)
        for part in (slice(None, cut), slice(cut, None))
    ]
    np.testing.assert_array_equal(totals, parts[0][1] + parts[1][1])
    np.testing.assert_array_equal(reach, np.maximum(parts[0][2], parts[1][2]))
    by_row = np.zeros((2, 3), dtype=np.int64)
    for part in (slice(None, cut), slice(cut, None)):
        sums.sums_of_rows(mixed[:, part].T.copy(), with_them[:, part].copy(), 2.0**20, by_row)
    np.testing.assert_array_equal(totals, by_row)


# --- digests.py


def word_of(x: float) -> int:
    if np.isnan(x):
        return 0x7FF8000000000000
    return int(np.float64(0.0 if x == 0 else x).view(np.uint64))


def slow_lanes(words: list[list[int]], keys: np.ndarray) -> list[list[int]]:
    """Return both lanes of each row, from columns of 64-bit words."""
    lanes = [[0] * len(words[0]), [0] * len(words[0])]
    for column, key in zip(words, keys.tolist(), strict=True):
        for i, word in enumerate(column):
            low, high = word & HALF, word >> 32
            for lane in (0, 1):
                term = ((low + key[2 * lane]) & HALF) * ((high + key[2 * lane + 1]) & HALF)
                lanes[lane][i] = (lanes[lane][i] + term) & WORD
    return lanes


def slow_mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def some_keys(width: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 2**32, (width, 4)).astype(np.uint64)


@sized
@typed
def test_add_numbers_equals_its_twin(rows, dtype):
    columns = np.random.default_rng(rows).normal(size=(3, rows)).astype(dtype)
    columns[0, ::5], columns[1, ::7], columns[2, ::3] = np.nan, -0.0, np.inf
    lanes = np.zeros((2, rows), dtype=np.uint64)
    sums.add_numbers(columns, some_keys(3), lanes)
    words = [[word_of(x) for x in column.tolist()] for column in columns]
    assert lanes.tolist() == slow_lanes(words, some_keys(3))


@sized
def test_add_words_equals_its_twin_and_adds_to_what_is_there(rows):
    words = np.random.default_rng(rows).integers(0, 2**64, rows, dtype=np.uint64)
    lanes = np.full((2, rows), 2**64 - 1, dtype=np.uint64)
    sums.add_words(words, some_keys(1)[0], lanes)
    expected = slow_lanes([words.tolist()], some_keys(1))
    assert lanes.tolist() == [[(value - 1) & WORD for value in lane] for lane in expected]


@sized
def test_fold_lanes_equals_its_twin(rows):
    lanes = np.random.default_rng(rows).integers(0, 2**64, (2, rows), dtype=np.uint64)
    folded = np.array([1, 2], dtype=np.uint64)
    sums.fold_lanes(lanes, folded)
    expected = [1, 2]
    for first, second in zip(*lanes.tolist(), strict=True):
        mixed = slow_mix(second ^ slow_mix(first))
        expected = [(expected[0] + mixed) & WORD, (expected[1] + slow_mix(mixed ^ first)) & WORD]
    assert folded.tolist() == expected


@settings(max_examples=50)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_fold_of_numbers_does_not_depend_on_order_or_float_width(values, random):
    shuffled = random.sample(values, len(values))
    folded = []
    for column in (np.array([values]), np.array([shuffled], dtype=np.float32)):
        lanes, total = np.zeros((2, len(values)), dtype=np.uint64), np.zeros(2, dtype=np.uint64)
        sums.add_numbers(column, some_keys(1), lanes)
        sums.fold_lanes(lanes, total)
        folded.append(total.tolist())
    assert folded[0] == folded[1]


# --- margins.py


def mixed_scores(shape: tuple[int, ...]) -> np.ndarray:
    """Return scores around zero and some that overflow an exponential."""
    scores = np.random.default_rng(3).normal(size=shape)
    scores[::7] *= 1000
    return scores


@sized
def test_logistic_slopes_equal_their_twin(rows):
    scores, weights = mixed_scores((rows,)), np.random.default_rng(4).random(rows)
    even, slopes = np.logaddexp(scores / 2, -scores / 2), np.tanh(scores / 2) / 2
    total = models.logistic_slopes(scores, weights)
    assert total == pytest.approx(float(weights @ even), rel=1e-13)
    np.testing.assert_allclose(scores, weights * slopes, rtol=1e-13, atol=1e-16)


@sized
def test_softmax_slopes_equal_their_twin(rows):
    scores, weights = mixed_scores((rows, 4)), np.random.default_rng(4).random(rows)
    even = np.logaddexp.reduce(scores, axis=1)
    shares = np.exp(scores - even[:, None])
    total = models.softmax_slopes(scores, weights)
    assert total == pytest.approx(float(weights @ even), rel=1e-13)
    np.testing.assert_allclose(scores, weights[:, None] * shares, rtol=1e-11, atol=1e-16)
