"""Commands say how many public rows are clipped; nothing is said of private ones."""

from dataclasses import replace

import numpy as np
import pytest

import suffice as sf
from suffice.releases.codec import load


@pytest.fixture
def rows(rng):
    return rng.standard_normal((400, 20))


@pytest.fixture
def release(rows):
    labels = (rows[:, 0] > 0).astype(int)
    return sf.MeanOperator(epsilon=1.0, delta=1e-6, map=None).release(rows, labels, ledger=None)


def test_the_proportion_travels_with_the_release_and_its_model(tmp_path, release, rows):
    assert release.pipeline.clipped == pytest.approx(0.75, abs=0.01)  # 5 of 20 coordinates
    release.save(tmp_path / "a.suffice")
    assert load(tmp_path / "a.suffice").pipeline.clipped == release.pipeline.clipped
    model = sf.FactoredClassifier().fit_release(release, rows)
    assert model.pipeline_.clipped == release.pipeline.clipped


def test_coefficients_give_the_scores_of_rows_that_are_not_clipped(release, rows):
    model = sf.FactoredClassifier().fit_release(release, rows)
    pipeline = release.pipeline
    lengths = np.linalg.norm((rows - pipeline.mean) / pipeline.scale, axis=1)
    short = lengths <= pipeline.bound
    by_hand = rows @ model.coef_[0] + model.intercept_[0]
    scores = model.decision_function(rows)
    assert by_hand[short] == pytest.approx(scores[short])
    assert np.abs(by_hand - scores)[~short].max() > 0.01
    assert short.mean() == pytest.approx(1 - pipeline.clipped, abs=0.002)


def test_a_pipeline_that_clips_nothing_by_a_count_says_its_bound_alone(release):
    uncounted = replace(release.pipeline, clipped=None)
    assert uncounted == release.pipeline  # they do the same
    assert "%" not in uncounted.clipping
    assert "75" in release.pipeline.clipping
    assert "noise" in release.pipeline.clipping


def test_no_proportion_of_private_rows_leaves(rows):
    labels = (rows[:, 0] > 0).astype(int)
    mechanism = sf.Moments(epsilon=1.0, delta=1e-6, standardize="rows")
    release = mechanism.release(rows, labels, ledger=None, unprotected=True)
    assert release.pipeline.clipped is None
    public = sf.Moments(epsilon=1.0, delta=1e-6, standardize=rows)
    assert public.release(rows, labels, ledger=None).pipeline.clipped is not None
