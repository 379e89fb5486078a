"""Which noise the counts of public bags get: from sizes and classes, never from a label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.proportions.dirichlet import BoundedCounts, CountNoise, PriorCounts, ScaledCounts
from suffice.owner.proportions.noise import AdditiveCounts, BagSizes
from suffice.privacy.calibrate import check_delta, check_epsilon
from suffice.tables.labels import check_classes

__all__ = [
    "FARTHEST",
    "MECHANISMS",
    "CountMechanism",
    "DirichletSettings",
    "bag_sizes",
    "best_count_noise",
    "check_settings",
    "count_noise",
    "every_count_noise",
]

FARTHEST = 2.0  # the largest L1 distance of two proportions


@dataclass(frozen=True)
class DirichletSettings:
    """Settings of the Dirichlet mechanisms.

    Parameters
    ----------
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count; public.
    sigma_rule : str
        How sigma of scaled-dirichlet follows from private counts: exact, tail or chebyshev.
    """

    kappa: int | None = None
    sigma_rule: str = "exact"


MECHANISMS: Mapping[str, Callable[[BagSizes, float, float, DirichletSettings], CountNoise]] = {
    "laplace": lambda bags, epsilon, _, __: AdditiveCounts.laplace(bags, epsilon),
    "gaussian": lambda bags, epsilon, delta, _: AdditiveCounts.gaussian(bags, epsilon, delta),
    "laplace-prior": lambda bags, epsilon, _, __: PriorCounts(
        AdditiveCounts.laplace(bags, epsilon)
    ),
    "scaled-dirichlet": lambda bags, epsilon, delta, settings: ScaledCounts(
        bags, epsilon, delta, settings.sigma_rule
    ),
    "scaled-dirichlet-bounded": lambda bags, epsilon, delta, settings: BoundedCounts(
        bags, epsilon, delta, settings.kappa
    ),
}


class CountMechanism(StrEnum):
    """The mechanisms of counts; the first one takes the least predicted distortion."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    LAPLACE_PRIOR = "laplace-prior"
    SCALED = "scaled-dirichlet"
    BOUNDED = "scaled-dirichlet-bounded"


_PURE = ("laplace", "laplace-prior")
_UNSOUND = ("scaled-dirichlet",)


def count_noise(
    name: str,
    bags: BagSizes,
    epsilon: float,
    delta: float,
    settings: DirichletSettings | None = None,
) -> CountNoise:
    """Return one mechanism, calibrated for these bags."""
    if name not in MECHANISMS:
        raise ParameterError(f"The mechanism must be one of auto, {', '.join(MECHANISMS)}.")
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta, positive=name not in _PURE)
    return MECHANISMS[name](bags, epsilon, delta, settings or DirichletSettings())


def best_count_noise(
    bags: BagSizes, epsilon: float, delta: float, settings: DirichletSettings | None = None
) -> tuple[str, CountNoise]:
    """Return the mechanism of least predicted distortion among those with a global guarantee.

    The prediction is that before negative counts are cut off, which does not depend on labels; so
    the choice costs no privacy.
    """
    every = every_count_noise(bags, epsilon, delta, settings)
    sound = {name: noise for name, noise in every.items() if name not in _UNSOUND}
    best = min(sound, key=lambda name: float(sound[name].distortion().mean()))
    return best, sound[best]


def every_count_noise(
    bags: BagSizes, epsilon: float, delta: float, settings: DirichletSettings | None = None
) -> dict[str, CountNoise]:
    """Return every mechanism that exists at this epsilon and delta, by its name."""
    noises = {}
    for name in MECHANISMS:
        if not delta > 0 and name not in _PURE:
            continue
        try:
            noises[name] = count_noise(name, bags, epsilon, delta, settings)
        except ParameterError:
            if name not in ("scaled-dirichlet-bounded", *_UNSOUND):
                raise
    return noises


def check_settings(mechanism: str, delta: float, kappa: int | None, sigma_rule: str | None) -> None:
    """Raise if a setting does not belong to the mechanism; auto takes kappa, if it has a delta."""
    if kappa is not None and mechanism == "auto" and not delta:
        raise ParameterError("--kappa cannot be used without --delta. Remove --kappa.")
    unused = []
    if kappa is not None and mechanism not in {"auto", "scaled-dirichlet-bounded"}:
        unused.append("--kappa")
    if sigma_rule is not None and mechanism != "scaled-dirichlet":
        unused.append("--sigma-rule")
    if unused:
        raise ParameterError(
            f"{unused[0]} cannot be used with --mechanism {mechanism}. Remove {unused[0]}."
        )


def bag_sizes(sizes: Sequence[int], classes: int | Sequence[Any], overlap: int = 1) -> BagSizes:
    """Return the public facts about some bags, checked."""
    rows = np.asarray(sizes)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 1:
        raise ParameterError("sizes must list the number of rows of every bag, each at least 1.")
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if number < 2:
        raise ParameterError("There must be two classes or more.")
    if not 1 <= overlap <= len(rows):
        raise ParameterError(
            f"overlap is the largest number of bags that one row is in: from 1 to {len(rows)}."
        )
    return BagSizes(rows, number, int(overlap))
