"""Bags have the class ratios that are asked for, and share no row."""

import numpy as np
import pytest

from suffice.errors import TableError
from suffice.papers.iyer import draw_bags, l1_errors, rare_but_last


def test_bags_have_the_ratios_asked_for_and_share_no_row(blobs, rng):
    rows, labels = blobs(3)
    shares = rare_but_last(3, np.array([0.05, 0.2, 1 / 3]))
    np.testing.assert_allclose(shares[1], [0.2, 0.2, 0.6])
    sample = draw_bags(rows, labels, size=150, rare=0.1, shares=shares, rng=rng)
    expected = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    np.testing.assert_allclose(sample.proportions, expected)
    assert np.bincount(sample.bags).tolist() == [150] * 3
    own = sample.rows["place"].to_numpy().astype(int)
    np.testing.assert_array_equal(labels[own], sample.labels)
    assert len(set(own)) == 450
    for test, truth, expected_truth in zip(sample.tests, sample.truth, shares, strict=True):
        indices = test["place"].to_numpy().astype(int)
        assert len(set(indices)) == 150
        assert not set(indices) & set(own)
        np.testing.assert_allclose(np.bincount(labels[indices]) / 150, truth)
        np.testing.assert_allclose(truth, expected_truth, atol=0.01)
    assert l1_errors(sample.truth + np.array([0.1, -0.1, 0]), sample) == pytest.approx([0.2] * 3)
    with pytest.raises(TableError, match="too few rows"):
        draw_bags(rows, labels, size=300, rare=0.1, shares=shares, rng=rng)
