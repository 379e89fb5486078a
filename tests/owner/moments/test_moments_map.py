"""Moments of rows under a public feature map."""

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.moments import Moments
from suffice.owner.rados import Rados
from suffice.owner.source import Source


def rows_of(seed: int, count: int = 300) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(size=(count, 3))


@pytest.mark.parametrize("spec", ["ranks", "ranks+polynomial:2"])
def test_the_map_is_that_of_the_public_rows(spec):
    public, private = rows_of(0), rows_of(1)
    ours = Moments(1.0, 1e-6, standardize=public, map=spec).private_rows(Source(private)).pipeline
    reader = MeanOperator(1.0, map=spec, clip=0.2, intercept=0.0, missing="mean")
    assert ours.digest() == reader.public_rows(public).pipeline.digest()


def test_no_byte_outside_the_noise_depends_on_a_record():
    """Every cell is another one, some are not finite; pipeline, details and guarantee stay."""
    public, private = rows_of(0), rows_of(1)
    other = -1e6 * private
    other[:7] = np.nan
    labels = np.arange(300) % 2
    mechanism = Moments(1.0, 1e-6, standardize=public, map="ranks")
    first, second = (mechanism.release(x, labels, ledger=None) for x in (private, other))
    assert first.pipeline.digest() == second.pipeline.digest()
    assert (first.details, first.guarantee) == (second.details, second.guarantee)
    assert "public" in str(first.guarantee.assumptions)


def test_a_map_without_public_rows_is_an_error():
    with pytest.raises(ParameterError, match="fitted on public rows"):
        Moments(1.0, 1e-6, ranges=(0, 1), map="ranks").private_rows(Source(rows_of(0)))
    pipeline = Moments(1.0, 1e-6, ranges=(0, 1)).private_rows(Source(rows_of(0))).pipeline
    with pytest.raises(ParameterError, match="already fixes the map"):
        Moments(1.0, 1e-6, pipeline=pipeline, map="ranks").private_rows(Source(rows_of(0)))


def test_rados_have_no_map():
    assert "map" not in Rados.__init__.__annotations__
