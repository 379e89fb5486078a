"""Numbers that a file's own bounds and noise cannot give are refused before anybody computes.

A mean of rows is no longer than the longest row, a sum of m rows no longer than m of them, a share
of votes no more than one, a count no larger than its set. On top of that comes the noise that the
file states: no further than a sampler reaches, and no more of it than 64-bit integers hold.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from suffice.errors import CorruptFileError
from suffice.release.artifact import Release
from suffice.release.moments import check_moments

__all__ = ["check_numbers"]

_TAIL = 100.0  # deviations: beyond with probability e^-100, of any noise that is drawn here
_MOST_NOISE = 2.0**61  # in units of what is summed: integers are finer, and end there
_LOST = 1e-6  # to rounding, in the file's favour


def check_numbers(release: Release) -> None:
    """Raise if the release holds numbers that its declared bound and noise cannot give."""
    if release.kind == "moments":
        check_moments(release)
    if release.kind not in _REACHES:
        return
    name, exact_of, unit_of = _REACHES[release.kind]
    numbers, unit = release.arrays[name], unit_of(release)
    deviation = math.sqrt(float(release.noise.diagonal(1).max()))
    # K-norm noise of d coordinates reaches d times as far as its deviation says, at most.
    noise = deviation * (_TAIL + numbers.size) * len(release.parts)
    if release.noise.form == "none":  # unknown
        noise = math.inf
    limit = exact_of(release) + min(noise, _MOST_NOISE * unit)
    if deviation > _MOST_NOISE * unit or np.abs(numbers).max() > limit * (1 + _LOST):
        raise CorruptFileError(
            "the file holds numbers that its declared bound and noise cannot give."
        )


def _longest_row(release: Release) -> float:
    return release.pipeline.norm_bound


def _longest_sum(release: Release) -> float:
    return release.rows * release.pipeline.norm_bound


def _largest_set(release: Release) -> float:
    return float(release.arrays["sizes"].max())


def _one(_: Release) -> float:
    return 1.0


Size = Callable[[Release], float]
# By kind: the array with noise, how large its exact numbers are, and the size of one term.
_REACHES: Mapping[str, tuple[str, Size, Size]] = {
    "mean-operator": ("mean_operator", _longest_row, _longest_row),
    "rados": ("rados", _longest_sum, _longest_row),
    "votes": ("votes", _one, _one),
    "proportions": ("counts", _largest_set, _one),
}
