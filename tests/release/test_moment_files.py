"""Files of moments: claims that their own noise contradicts, and numbers that it cannot give."""

import random
from dataclasses import replace

import numpy as np
import pytest

import crafted_files
from suffice.errors import CorruptFileError, SufficeError
from suffice.learner.moments import MomentClassifier
from suffice.owner.moments import Moments
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Unit
from suffice.releases.codec import decode
from suffice.releases.kinds import merge_weights_of_moments
from suffice.releases.release import encode


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def release(request):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 4)), rng.integers(0, request.param, 300)
    mechanism = Moments(1.0, 1e-6, ranges=(-1, 1), classes=tuple(range(request.param)))
    return mechanism.release(X, y, ledger=None)


def assert_refused(changed):
    with pytest.raises(CorruptFileError):
        decode(encode(changed))


@pytest.mark.parametrize(
    "name", ["second_noise", "mean_noise", "operator_noise", "proportions_noise"]
)
def test_less_noise_than_the_guarantee_needs_is_refused(release, name):
    decode(encode(release))
    for factor in (0.5, 1e-9):
        noise = {name: release.details[name] * factor}
        assert_refused(replace(release, details={**release.details, **noise}))


def test_another_unit_or_event_is_refused(release):
    (part,) = release.parts
    (guarantee,) = part.guarantees
    for wrong in (
        replace(guarantee, unit=Unit.LABEL),
        replace(guarantee, event=Laplace(1.0), delta=0.0),
    ):
        assert_refused(replace(release, parts=(replace(part, guarantees=(wrong,)),)))


def test_numbers_out_of_reach_are_refused(release):
    for name, array in release.arrays.items():
        assert_refused(replace(release, arrays={**release.arrays, name: array + 1e9}))
    skewed = release.arrays["second_moments"].copy()
    skewed[0, 1] += 1e-3
    assert_refused(replace(release, arrays={**release.arrays, "second_moments": skewed}))


def test_owners_with_little_noise_and_many_rows_weigh_more(release):
    quiet = replace(
        release,
        details={**release.details, "second_noise": release.details["second_noise"] / 10},
    )
    weights = merge_weights_of_moments([release, quiet])
    assert weights.sum() == pytest.approx(1)
    assert weights[1] > weights[0]


def test_crafted_files_are_refused_or_read_and_learnt_from(release, tmp_path, monkeypatch):
    """Every number, text, list and array of a file at its ends: no error but ours, no warning."""
    release.save(tmp_path / "moments.suffice")
    monkeypatch.setattr(crafted_files, "FOLDER", tmp_path)
    items = list(crafted_files.of_release("moments.suffice"))
    random.Random(0).shuffle(items)
    read = 0
    for _, _, make in items[:200]:
        try:
            changed = decode(make() or b"")
            read += 1
            assert np.isfinite(MomentClassifier(draws=1).fit_release(changed).theta_).all()
        except SufficeError:
            continue
    assert read > 10
