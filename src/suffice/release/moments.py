"""What releases of moments can keep, how they merge, and what is said of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError
from suffice.privacy import calibrate
from suffice.privacy.events import Gaussian
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.privacy.moments import BlockWeights

__all__ = [
    "check_moments",
    "claims_of_moments",
    "merge_weights_of_moments",
    "moment_noise_words",
    "moment_words",
]

_LOST = 1e-6  # of a deviation: more than integers and floats move it, in the claim's favour
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12  # of a Gaussian event
_TAIL = 100.0  # deviations: beyond with probability e^-100
_MOST_NOISE = 2.0**61  # in units of what is summed: integers are finer, and end there


def claims_of_moments(release: Any) -> Callable[[Guarantee], bool]:
    """Return the check of moments: what one record moves, over the noise that is stated.

    The four deviations imply the weights of the blocks, and these how far one record moves them. Of
    several owners a file does not say whose noise is whose; then the event alone is checked.
    """
    details = release.details
    rows, bound, classes = release.rows, release.pipeline.bound, len(release.classes)
    square = details["second_noise"] / bound**2
    alone = len(release.parts) == 1
    try:
        weights = BlockWeights(
            classes,
            square / (details["mean_noise"] / bound),
            square / (details["operator_noise"] / bound),
            square / (details["proportions_noise"] * (2 if classes == 2 else 1)),
        )
        multiplier = square * rows / weights.sensitivity * (1 + _LOST)
    except (ArithmeticError, ValueError):
        return lambda _: False
    if not multiplier >= _LEAST_MULTIPLIER:
        return lambda _: False

    def check(claimed: Guarantee) -> bool:
        if claimed.unit is not Unit.RECORD or not isinstance(claimed.event, Gaussian):
            return False
        if not alone or multiplier > _MOST_MULTIPLIER:
            return True
        if claimed.delta == 0:
            return False
        least = calibrate.gaussian_epsilon(claimed.delta, multiplier)
        return (claimed.epsilon or 0.0) >= least * (1 - _LOST)

    return check


def check_moments(release: Any) -> None:
    """Raise if the release holds numbers that its declared bound and noise cannot give."""
    bound, details = release.pipeline.bound, release.details
    limits = {
        "second_moments": (bound**2, details["second_noise"]),
        "mean": (bound, details["mean_noise"]),
        "operator": (bound, details["operator_noise"]),
        "proportions": (1.0, details["proportions_noise"]),
    }
    second = release.arrays["second_moments"]
    far = any(
        noise > _MOST_NOISE * unit
        or np.abs(release.arrays[name]).max() > (unit + _TAIL * noise) * (1 + _LOST)
        for name, (unit, noise) in limits.items()
    )
    if far or not np.array_equal(second, second.T):
        raise CorruptFileError(
            "the file holds numbers that its declared bound and noise cannot give."
        )


def merge_weights_of_moments(releases: Sequence[Any]) -> np.ndarray:
    """Return the weights of owners' moments in their mean: the inverse of their variance.

    That of the noise is s^2. That of the sampling is about 1/(m d^2), in rows of length 1: d
    coordinates of mean square 1/d.
    """
    variances = [
        (release.details["second_noise"] / release.pipeline.bound**2) ** 2
        + 1 / (release.rows * len(release.pipeline.outputs) ** 2)
        for release in releases
    ]
    weights = 1 / np.array(variances)
    return np.asarray(weights / weights.sum())


def moment_words(release: Any) -> list[tuple[str, str]]:
    """Return the released class proportions, in words."""
    proportions = release.arrays["proportions"]
    shown = ", ".join(f"{share:.3f}" for share in proportions[:6]) + (
        ", ..." if len(proportions) > 6 else ""
    )
    noise = release.details["proportions_noise"]
    width = len(release.pipeline.outputs)
    return [
        ("moments", f"of {width} coordinates: {width * (width + 1) // 2:,} products and squares"),
        ("class proportions", f"{shown}, noise {noise:.2g} (standard deviation)"),
    ]


def moment_noise_words(release: Any) -> str:
    """Return how large the noise is, relative to rows as long as allowed."""
    bound, details = release.pipeline.bound, release.details
    return (
        f"{details['second_noise'] / bound**2:.3g} on squares,"
        f" {details['second_noise'] / bound**2 / math.sqrt(2):.3g} on products,"
        f" {details['mean_noise'] / bound:.3g} on means,"
        f" {details['operator_noise'] / bound:.3g} on means by class"
        " (standard deviations; the longest row has length 1)"
    )
