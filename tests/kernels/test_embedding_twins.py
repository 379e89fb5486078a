"""The ladder of bandwidths against cosines and exponentials that are computed anew."""

import numpy as np
import pytest

from suffice.kernels.maps import add_fourier_sums, add_kernel_sums


@pytest.mark.parametrize(("reach", "halvings"), [(1.0, 0), (13.0, 4)])
def test_doubled_angles_are_cosines_and_sines(reach, halvings, rng):
    angles = rng.uniform(-reach, reach, size=(50, 7))
    cells = rng.integers(0, 4, 50)
    sums = np.zeros((11, 4, 2, 7))
    add_fourier_sums(angles, cells, halvings, sums)
    for level in range(11):
        waves = np.stack([np.cos(angles * 2**level), np.sin(angles * 2**level)], axis=1)
        naive = np.stack([waves[cells == cell].sum(axis=0) for cell in range(4)])
        assert np.allclose(sums[level], naive, atol=1e-9)


def test_sums_are_added_to_what_was_there(rng):
    angles, cells = rng.uniform(-1, 1, size=(20, 3)), rng.integers(0, 2, 20)
    at_once, parts = np.zeros((3, 2, 2, 3)), np.zeros((3, 2, 2, 3))
    add_fourier_sums(angles, cells, 0, at_once)
    for first in (0, 10):
        part = slice(first, first + 10)
        add_fourier_sums(np.ascontiguousarray(angles[part]), cells[part], 0, parts)
    assert np.allclose(at_once, parts, atol=1e-12)


@pytest.mark.parametrize("squarings", [1, 2])
def test_squared_values_are_exponentials_of_narrower_kernels(squarings, rng):
    exponents = rng.uniform(0, 0.01, size=(12, 30))
    row_cells = rng.integers(0, 3, 12)
    starts = np.array([0, 10, 10, 30])  # the second cell is empty
    sums = np.zeros((11, 3, 3))
    add_kernel_sums(np.exp(-exponents), row_cells, starts, squarings, sums)
    for level in range(11):
        values = np.exp(-exponents * (2.0**squarings) ** level)
        naive = [
            [values[row_cells == a, starts[b] : starts[b + 1]].sum() for b in range(3)]
            for a in range(3)
        ]
        assert np.allclose(sums[level], naive, rtol=1e-9, atol=1e-12)
