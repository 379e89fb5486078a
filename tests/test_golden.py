"""Everything that the package publishes is what it was: compared with the golden files.

A change that is meant is made with ``make golden``; its note lists what that prints.
"""

import json
import math

import numpy as np
import pytest

from golden import make
from golden.difference import differences
from seeds import seeded
from silence import noise, silent


@pytest.mark.parametrize("family", make.FAMILIES)
def test_nothing_that_is_published_has_changed(family):
    lines = make.changes(family, make.expected(family), make.made(family))
    assert not lines, "\n".join([f"{len(lines)} changes; if they are meant, make golden:", *lines])


def test_no_golden_file_is_left_over():
    assert set(make.FOLDER.iterdir()) == set(map(make.path_of, make.FAMILIES))


@pytest.fixture
def bags() -> dict:
    return make.expected("release bags")


def test_a_record_is_the_same_wherever_and_whenever_it_is_made(bags):
    """In another folder, after another draw, and as text: no order of members changes either."""
    with seeded("another test"):
        again = make.made("release bags")
    assert make.text_of(again) == make.text_of(bags) == make.path_of("release bags").read_text()


def test_a_scale_that_is_off_by_its_last_digit_is_reported(monkeypatch):
    calibrated = noise.LaplaceNoise.calibrated.__func__

    def wider(cls, sensitivity, epsilon):
        right = calibrated(cls, sensitivity, epsilon)
        return noise.replace(right, scale=math.nextafter(right.scale, math.inf))

    monkeypatch.setattr(noise.LaplaceNoise, "calibrated", classmethod(wider))
    family = "release proportions"
    lines = make.changes(family, make.expected(family), make.made(family))
    assert any(
        line.startswith(f"{family}/laplace: draws[0].scale ") and " -> " in line for line in lines
    )
    assert not any(f"{family}/gaussian:" in line for line in lines)


def test_one_byte_of_an_array_is_reported(bags):
    altered = json.loads(json.dumps(bags))
    before = altered["skew"]["seeded"]["file"]
    other = ("1" if before[0] == "0" else "0") + before[1:]
    altered["skew"]["seeded"]["file"] = other
    (line,) = make.changes("release bags", altered, bags)
    assert line == f"release bags/skew: seeded.file {other!r} -> {before!r}"


def test_numbers_of_linear_algebra_may_differ_by_a_millionth_and_no_more():
    kept = {"arrays": {"w": [2.0, 1e-17], "n": 3}, "risk": 0.5}
    near = {"arrays": {"w": [2.0 + 1e-6, -2e-17], "n": 3}, "risk": 0.5 + 1e-7}
    far = {"arrays": {"w": [2.0 + 1e-5, 1e-8], "n": 4}, "risk": 0.6}
    assert [path for path, *_ in differences(kept, near)] == ["arrays.w[0]", "arrays.w[1]", "risk"]
    assert list(differences(kept, near, exact=False)) == []
    found = list(differences(kept, far, exact=False))
    assert [path for path, *_ in found] == ["arrays.w[0]", "arrays.w[1]", "arrays.n", "risk"]
    assert [path for path, *_ in differences(kept, {"arrays": kept["arrays"]})] == ["risk"]


def test_silence_leaves_numbers_as_they_are_and_notes_what_was_asked():
    exact = np.arange(5)
    reach = noise.Sensitivity(2**20, 2.0**20, 5)
    for law in noise.NOISES:
        sampler = noise.calibrated_noise(law, reach, 1.0, 1e-6)
        with silent("here") as draws:
            assert (sampler.add(exact) == exact).all()
        assert draws == [{"law": law, "scale": sampler.scale, "length": 5, "times": 1}]
        assert (sampler.add(exact) != exact).any()
