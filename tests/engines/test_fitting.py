"""What a pipeline takes from public rows: where it clips, and how much the intercept weighs."""

import numpy as np
import pyarrow as pa
import pytest

from suffice.engines.engine import fold
from suffice.engines.summary import PublicSummary, default_clip, fit_pipeline
from suffice.errors import ParameterError
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table


def fitted(X: np.ndarray, **options) -> tuple[Pipeline, np.ndarray]:
    table = open_table(X)
    names = tuple(table.schema.names)
    summary = fold(table.batches(names), PublicSummary(table.schema)).result()
    pipeline = fit_pipeline(summary, names, categories={}, missing="error", **options)
    rows = pa.record_batch({name: X[:, j] for j, name in enumerate(names)})
    return pipeline, pipeline.transform(rows)


def test_the_more_coordinates_the_lower_the_clip():
    clips = [default_clip(width) for width in (1, 5, 6, 10, 50, 1000)]
    assert clips == [0.95, 0.95, pytest.approx(5 / 6), 0.5, 0.1, 0.1]


@pytest.mark.parametrize(("width", "share"), [(3, 0.05), (20, 0.75), (80, 0.9)])
def test_the_default_clips_the_share_of_rows_that_it_says(width, share):
    X = np.random.default_rng(0).normal(size=(1000, width))
    pipeline, rows = fitted(X)
    norms = np.linalg.norm(rows[:, :-1], axis=1)
    assert norms.max() <= pipeline.bound * (1 + 1e-12)
    clipped = np.mean(norms > pipeline.bound * (1 - 1e-6))
    assert clipped == pytest.approx(share, abs=0.002)


def test_the_intercept_weighs_a_quarter_of_the_bound_unless_given():
    X = np.random.default_rng(0).normal(size=(200, 4))
    pipeline, rows = fitted(X)
    assert pipeline.intercept == pipeline.bound / 4
    assert (rows[:, -1] == pipeline.bound / 4).all()
    assert fitted(X, intercept=2.0)[0].intercept == 2.0
    assert fitted(X, intercept=0.0)[1].shape == (200, 4)


@pytest.mark.parametrize("clip", [0.3, 1.0])
def test_a_given_clip_is_taken(clip):
    X = np.random.default_rng(0).normal(size=(1000, 4))
    pipeline, rows = fitted(X, clip=clip)
    clipped = np.mean(np.linalg.norm(rows[:, :-1], axis=1) > pipeline.bound * (1 - 1e-6))
    assert clipped == pytest.approx(1 - clip, abs=0.002)


@pytest.mark.parametrize("clip", [0, -0.1, 1.1])
def test_a_clip_that_is_no_quantile_is_refused(clip):
    with pytest.raises(ParameterError, match="quantile"):
        fitted(np.ones((3, 2)), clip=clip)
