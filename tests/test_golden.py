"""Everything that the package publishes is what it was: compared with the golden files.

A change that is meant is made with ``make golden``; its note lists what that prints.
"""

import json
import math

import pytest

from golden import make
from seeds import seeded
from silence import noise


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
    altered["skew"]["seeded"]["file"] = "0" + before[1:]
    (line,) = make.changes("release bags", altered, bags)
    assert line == f"release bags/skew: seeded.file {('0' + before[1:])!r} -> {before!r}"
