"""Feature maps row by row: what a plain loop gives, and the same bits wherever a row stands."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.kernels import maps
from suffice.tables.pipeline import _product_plan

TILE = maps.TILE
SIZES = (1, 3, TILE - 1, TILE, TILE + 1, 3 * TILE + 5)


def fused(a: float, b: float, c: float) -> float:
    """Return a b + c rounded once, in rational arithmetic."""
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


def slow_linear(matrix, columns):
    out = np.zeros((len(matrix), columns.shape[1]))
    for k, i in np.ndindex(*out.shape):
        for weight, value in zip(matrix[k], columns[:, i], strict=True):
            out[k, i] = fused(weight, value, out[k, i])
    return out


@pytest.mark.parametrize("outputs", [1, 2, 5, 8])
@pytest.mark.parametrize("width", [1, 3, 4, 6])
def test_products_are_summed_in_order_and_rounded_once_a_term(outputs, width):
    rng = np.random.default_rng(outputs * 10 + width)
    matrix, columns = rng.normal(size=(outputs, width)), rng.normal(size=(width, 11))
    out = np.empty((outputs, 11))
    maps.linear(matrix, columns, out)
    np.testing.assert_array_equal(out, slow_linear(matrix, columns))


@pytest.mark.parametrize("rows", SIZES)
def test_fourier_features_are_cosines(rows):
    rng = np.random.default_rng(rows)
    frequencies, phases = 3 * rng.normal(size=(9, 5)), rng.uniform(0, 6, 9)
    columns, out = rng.normal(size=(5, rows)), np.empty((9, rows))
    maps.fourier(frequencies, phases, columns, out)
    expected = math.sqrt(2 / 9) * np.cos(frequencies @ columns + phases[:, None])
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rows", SIZES)
def test_nystroem_features_are_whitened_kernels(rows):
    rng = np.random.default_rng(rows)
    landmarks, whitening = rng.normal(size=(5, 7)), rng.normal(size=(7, 7))
    columns, out = rng.normal(size=(5, rows)), np.empty((7, rows))
    maps.nystroem(landmarks, whitening, 0.3, columns, out)
    squares = ((landmarks[:, :, None] - columns[:, None, :]) ** 2).sum(axis=0)
    np.testing.assert_allclose(out, whitening @ np.exp(-0.3 * squares), rtol=0, atol=1e-13)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e6, 1e6))
def test_the_cosine_is_one_of_the_best(angle):
    values = np.array([angle])
    maps._cosines(values, 1.0)
    assert abs(values[0] - math.cos(angle)) < 4e-16


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 690))
def test_the_exponential_is_one_of_the_best(power):
    values = np.array([power])
    maps._falling(values, 1.0)
    assert abs(values[0] / math.exp(-power) - 1) < 1e-15


def test_numbers_beyond_all_angles_stay_on_the_circle():
    values = np.array([1e300, -1e300, 1e17])
    maps._cosines(values, 1.0)
    assert (np.abs(values) <= 1).all()
    far = np.array([1e300, 1e9])
    maps._falling(far, 1.0)
    assert (far < 1e-300).all()


def test_products_extend_shorter_products():
    parents, factors = _product_plan(3, 9)  # 3 columns, degree 2
    columns = np.random.default_rng(0).normal(size=(3, 5))
    out = np.empty((9, 5))
    maps.products(columns, parents, factors, out)
    pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    expected = [*columns, *(columns[i] * columns[j] for i, j in pairs)]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("rows", SIZES)
def test_norms_are_summed_in_order(rows):
    columns = np.random.default_rng(rows).normal(size=(6, rows))
    sums, squares = np.zeros(rows), np.zeros(rows)
    for column in columns:
        sums += np.abs(column)
        squares += column * column
    np.testing.assert_array_equal(maps.row_sums(columns), sums)
    np.testing.assert_array_equal(maps.row_norms(columns), np.sqrt(squares))


def test_a_row_has_the_same_bits_at_every_place_of_every_batch():
    rng = np.random.default_rng(7)
    rows, width = 1000, 13
    columns = rng.normal(size=(width, rows))
    frequencies, phases = rng.normal(size=(21, width)), rng.uniform(0, 6, 21)
    landmarks, whitening = rng.normal(size=(width, 18)), rng.normal(size=(18, 18))

    def mapped(part):
        part = np.ascontiguousarray(part)
        waves, near = np.empty((21, part.shape[1])), np.empty((18, part.shape[1]))
        output = np.empty((21, part.shape[1]))
        maps.fourier(frequencies, phases, part, waves)
        maps.nystroem(landmarks, whitening, 0.1, part, near)
        maps.linear(frequencies, part, output)
        return np.vstack([waves, near, output])

    in_one_batch = mapped(columns)
    for size in (1, 2, 63, 130, 999):
        start = int(rng.integers(0, rows - size + 1))
        np.testing.assert_array_equal(
            mapped(columns[:, start : start + size]), in_one_batch[:, start : start + size]
        )
