"""Sums of numbers and of squares against rational arithmetic: exact, so that no order shows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.engines.summary import ColumnMoments, _integer
from suffice.kernels import sums as kernel

BLOCK = kernel._BLOCK
LARGEST = 2.0**510


def exact(columns: np.ndarray) -> list[tuple[int, Fraction, Fraction]]:
    """Return count, sum and sum of squares of each column, one number after the other."""
    fractions = [[Fraction(float(x)) for x in column if not np.isnan(x)] for column in columns]
    return [(len(c), sum(c, Fraction(0)), sum((x * x for x in c), Fraction(0))) for c in fractions]


def added(*batches: np.ndarray) -> list[tuple[int, Fraction, Fraction]]:
    """Return the same as the kernel has it."""
    width = len(batches[0])
    counts, wrong = np.zeros(width, dtype=np.int64), np.zeros(width, dtype=np.int64)
    sums = np.zeros((width, kernel.SUM_WORDS), dtype=np.int64)
    squares = np.zeros((width, kernel.SQUARE_WORDS), dtype=np.int64)
    for columns in batches:
        kernel.add_moments(columns, counts, sums, squares, wrong)
    assert not wrong.any()
    return [
        (int(n), Fraction(_integer(total), 2**1074), Fraction(_integer(square), 2**2148))
        for n, total, square in zip(counts, sums, squares, strict=True)
    ]


@pytest.mark.parametrize("rows", [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_moments_are_those_of_rational_arithmetic(rows, dtype):
    rng = np.random.default_rng(rows)
    columns = (rng.normal(5.0, 1e3, (3, rows))).astype(dtype)
    if dtype != np.int64:
        columns[1, ::3] = np.nan
        columns[2, ::2] = 0.0
    assert added(columns) == exact(columns)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.floats(-LARGEST, LARGEST) | st.floats(-1, 1) | st.just(float("nan")),
        min_size=1,
        max_size=40,
    )
)
def test_any_floats_are_added_exactly(values):
    """Subnormal and enormous numbers side by side: blocks that cannot be cut into integers."""
    columns = np.array([values])
    assert added(columns) == exact(columns)


@pytest.mark.parametrize("gap", [26, 27, 28, 29, 30, 60, 500])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_far_apart_in_size_are_added_exactly(gap, sign):
    """A block is cut into integers down to 2^-28 of its largest number, and no further."""
    small = sign * (1 + 2.0**-52) * 2.0**-gap
    columns = np.array([[1.75, small, -1.0, 3 * small]])
    assert added(columns) == exact(columns)


@pytest.mark.parametrize("small", [2.0**-600, -(2.0**-590), 5e-324])
def test_a_number_that_vanishes_beside_an_enormous_one_is_added(small):
    """Scaled to the largest of its block it is zero, without a rest that would be seen."""
    columns = np.array([[LARGEST, -LARGEST, small]])
    assert small * 2.0**-485 == 0  # 2^(26 - E), E = 511
    assert added(columns) == exact(columns) == added(columns[:, :2].copy(), columns[:, 2:].copy())


def test_both_ways_of_adding_are_in_use_above():
    def is_cut(values):
        total, square = np.zeros(kernel.SUM_WORDS, int), np.zeros(kernel.SQUARE_WORDS, int)
        return kernel._add_cut(np.array(values), 1023, total, square)

    assert is_cut([1.75, (1 + 2.0**-52) * 2.0**-26])
    assert not is_cut([1.75, (1 + 2.0**-52) * 2.0**-30])


def test_any_split_and_any_order_give_the_same_words():
    rng = np.random.default_rng(0)
    columns = rng.standard_cauchy((2, 5000)) * 10.0 ** rng.integers(-9, 9, (2, 5000))
    in_one_pass = added(columns)
    for _ in range(5):
        shuffled = np.ascontiguousarray(columns[:, rng.permutation(5000)])
        cuts = np.sort(rng.integers(0, 5000, 7))
        parts = [np.ascontiguousarray(p) for p in np.split(shuffled, cuts, axis=1)]
        assert added(*parts) == in_one_pass


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200, -1e200])
def test_values_without_a_finite_square_are_counted(value):
    moments = ColumnMoments(1)
    moments.update(np.array([[1.0, value, np.nan]]))
    assert moments.result().wrong.tolist() == [1]


def test_mean_and_deviation_are_rounded_once():
    rng = np.random.default_rng(1)
    columns = 1e9 + rng.normal(size=(1, 2000))
    moments, (other,) = ColumnMoments(1), [ColumnMoments(1)]
    moments.update(np.ascontiguousarray(columns[:, :777]))
    other.update(np.ascontiguousarray(columns[:, 777:]))
    moments.merge(other)
    count, total, squares = exact(columns)[0]
    mean = total / count
    variance = squares / count - mean * mean
    result = moments.result()
    assert result.mean[0] == float(mean)
    assert abs(Fraction(result.deviation[0]) ** 2 / variance - 1) < Fraction(1, 2**51)


@pytest.mark.parametrize("scale", [1e-300, 5e-324, 1e-160, 1.0, 1e150])
def test_deviations_of_any_size_are_found(scale):
    moments = ColumnMoments(1)
    values = np.array([[0.0, 2.0]]) * scale
    moments.update(values)
    assert moments.result().deviation[0] == pytest.approx(values[0, 1] / 2, rel=1e-12, abs=5e-324)


def test_columns_of_zeros_and_of_nothing_have_no_moments():
    moments = ColumnMoments(2)
    moments.update(np.array([[0.0, -0.0], [np.nan, np.nan]]))
    result = moments.result()
    assert result.count.tolist() == [2, 0]
    assert np.signbit([*result.mean, *result.deviation]).tolist() == [False] * 4
