"""Soft labels from votes: the operator of exact ones, and the covariance that noise gives it."""

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner.weak import PlainLabels, SoftVotes, estimate_mean_operator

_rng = np.random.default_rng(2)
ROWS = _rng.normal(size=(40, 3)) * [3.0, 1.0, 0.2]
del _rng  # tests draw from the fixture


@pytest.mark.parametrize("classes", [2, 3])
def test_votes_that_are_sure_are_labels(classes, rng):
    labels = rng.integers(0, classes, 40)
    exact = estimate_mean_operator(ROWS, PlainLabels(labels, range(classes)))
    votes = estimate_mean_operator(ROWS, SoftVotes(np.eye(classes)[labels], range(classes)))
    assert np.allclose(votes.operator, exact.operator)
    assert votes.noise.dense(3).max() == 0


@pytest.mark.parametrize("classes", [2, 3])
def test_the_covariance_is_that_of_independent_noise(classes, rng):
    """2,000 draws with a fixed seed; each entry may be six of its standard deviations away."""
    stated = SoftVotes(np.zeros((40, classes)), range(classes), 0.25).estimate(ROWS).noise.dense(3)
    estimates = [
        SoftVotes(0.5 * rng.normal(size=(40, classes)), range(classes)).estimate(ROWS).operator
        for _ in range(2000)
    ]
    columns = np.array(estimates).reshape(2000, 3, -1)[:, :, 0]
    covariance = columns.T @ columns / 2000
    spread = np.sqrt((np.outer(stated.diagonal(), stated.diagonal()) + stated**2) / 2000)
    assert (np.abs(covariance - stated) < 6 * spread).all()


def test_votes_must_fit_the_rows():
    with pytest.raises(ParameterError, match="matrix with 40 rows and 2 columns"):
        SoftVotes(np.zeros((39, 2)), (0, 1)).estimate(ROWS)
