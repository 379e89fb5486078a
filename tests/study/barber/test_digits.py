"""Digits are sampled without sharing any, and flipped as often as said."""

import numpy as np
import pytest

from suffice.errors import TableError
from suffice.papers.barber import flipped, read_digits


def test_flips_are_as_many_as_said_and_even_over_the_other_states(rng):
    """200,000 draws; six standard errors on either side, so half the noise is caught too."""
    codes = np.full(200_000, 3)
    shares = np.bincount(flipped(codes, 0.3, rng, 8), minlength=8) / len(codes)
    right = np.full(8, 0.3 / 7)
    right[3] = 0.7
    assert (np.abs(shares - right) < 6 * np.sqrt(right * (1 - right) / len(codes))).all()


def test_samples_share_no_digit_and_have_both_classes_alike(folder, rng):
    digits = read_digits(folder)
    assert digits.side == 3
    assert len(digits.labels) == 80
    assert digits.pixels[digits.labels == 1, 0].min() >= 150
    assert digits.pixels[digits.labels == 0, 0].max() < 60
    assert digits.first(1)[0] >= 150 > digits.first(0)[0]
    sample = digits.sample(rng, 25, None)
    assert np.bincount(sample.labels).tolist() == [25, 25]
    assert np.bincount(sample.test_labels).tolist() == [15, 15]
    both = np.vstack([sample.rows, sample.test_rows])
    assert len(np.unique(both, axis=0)) == len(np.unique(digits.pixels, axis=0))
    assert len(digits.sample(rng, 10, 5).test_labels) == 10
    with pytest.raises(TableError, match="too few digits"):
        digits.sample(rng, 25, 16)
    with pytest.raises(TableError, match="too few digits"):
        digits.sample(rng, 40, None)
