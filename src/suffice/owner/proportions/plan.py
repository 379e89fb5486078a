"""What each mechanism would do to label proportions: from sizes and classes, never from a label."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.planning import asked_epsilons, text_table
from suffice.owner.proportions.dirichlet import BoundedCounts, PriorCounts, ScaledCounts
from suffice.owner.proportions.noise import AdditiveCounts, Sets, Way
from suffice.privacy.calibrate import check_delta, check_epsilon
from suffice.privacy.guarantee import Kind
from suffice.tables.labels import check_classes

__all__ = [
    "FARTHEST",
    "MECHANISMS",
    "PlannedProportions",
    "ProportionPlan",
    "Settings",
    "best_way",
    "plan_proportions",
    "public_sets",
    "way_named",
]

FARTHEST = 2.0  # the largest L1 distance of two proportions


@dataclass(frozen=True)
class Settings:
    """What some mechanisms can be told: kappa, and how sigma follows from private counts."""

    kappa: int | None = None
    sigma_rule: str = "exact"


MECHANISMS: Mapping[str, Callable[[Sets, float, float, Settings], Way]] = {
    "laplace": lambda sets, epsilon, _, __: AdditiveCounts.laplace(sets, epsilon),
    "gaussian": lambda sets, epsilon, delta, _: AdditiveCounts.gaussian(sets, epsilon, delta),
    "laplace-prior": lambda sets, epsilon, _, __: PriorCounts(
        AdditiveCounts.laplace(sets, epsilon)
    ),
    "scaled-dirichlet": lambda sets, epsilon, delta, told: ScaledCounts(
        sets, epsilon, delta, told.sigma_rule
    ),
    "scaled-dirichlet-bounded": lambda sets, epsilon, delta, told: BoundedCounts(
        sets, epsilon, delta, told.kappa
    ),
}
_PURE = ("laplace", "laplace-prior")
_UNSOUND = ("scaled-dirichlet",)


def way_named(
    name: str, sets: Sets, epsilon: float, delta: float, told: Settings | None = None
) -> Way:
    """Return one mechanism, calibrated for these sets."""
    if name not in MECHANISMS:
        raise ParameterError(f"mechanism must be one of auto, {', '.join(MECHANISMS)}.")
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta, positive=name not in _PURE)
    return MECHANISMS[name](sets, epsilon, delta, told or Settings())


def best_way(
    sets: Sets, epsilon: float, delta: float, told: Settings | None = None
) -> tuple[str, Way]:
    """Return the mechanism of least predicted distortion among those with a global guarantee.

    The prediction is that before negative counts are cut off, which does not depend on labels; so
    the choice costs no privacy.
    """
    names = [name for name in _usable(delta) if name not in _UNSOUND]
    found = _ways(names, sets, epsilon, delta, told)
    name = min(found, key=lambda n: float(found[n].distortion().mean()))
    return name, found[name]


def _usable(delta: float) -> list[str]:
    return [name for name in MECHANISMS if delta > 0 or name in _PURE]


def _ways(
    names: Sequence[str], sets: Sets, epsilon: float, delta: float, told: Settings | None
) -> dict[str, Way]:
    """Return every mechanism of ``names`` that exists at this epsilon and delta."""
    found = {}
    for name in names:
        try:
            found[name] = way_named(name, sets, epsilon, delta, told)
        except ParameterError:
            if name not in ("scaled-dirichlet-bounded", *_UNSOUND):
                raise
    return found


@dataclass(frozen=True)
class PlannedProportions:
    """One mechanism at one epsilon: ``distortion`` is the mean over sets of the predicted E L1.

    ``worst`` is that of the set for which it is largest, ``protected`` whether the guarantee is
    global.
    """

    mechanism: str
    epsilon: float
    distortion: float
    worst: float
    protected: bool


@dataclass(frozen=True)
class ProportionPlan:
    """A table of predicted distortions; no label was read for it.

    ``rows`` has one entry per mechanism and epsilon, ``chosen`` what ``auto`` takes at each.
    Predictions for Dirichlet mechanisms are those for even classes.
    """

    rows: tuple[PlannedProportions, ...]
    chosen: tuple[PlannedProportions, ...]
    delta: float
    sizes: tuple[int, ...]
    classes: int
    overlap: int

    COLUMNS = ("epsilon", "mechanism", "distortion", "worst set", "guarantee")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text; a star marks what ``auto`` takes."""
        return [
            (
                f"{row.epsilon:g}",
                row.mechanism + (" *" if row in self.chosen else ""),
                _shown(row.distortion),
                _shown(row.worst),
                "global" if row.protected else "data-dependent",
            )
            for row in self.rows
        ]

    def __str__(self) -> str:
        return "\n".join(text_table(self.COLUMNS, self.cells()))

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        return {
            "delta": self.delta,
            "sizes": list(self.sizes),
            "classes": self.classes,
            "overlap": self.overlap,
            "rows": [
                {
                    "epsilon": row.epsilon,
                    "mechanism": row.mechanism,
                    "chosen": row in self.chosen,
                    "distortion": row.distortion if math.isfinite(row.distortion) else None,
                    "worst": row.worst if math.isfinite(row.worst) else None,
                    "protected": row.protected,
                }
                for row in self.rows
            ],
        }


def _shown(distortion: float) -> str:
    return f"{distortion:.3g}" if distortion < FARTHEST else "nothing left"


def plan_proportions(
    sizes: Sequence[int],
    classes: int | Sequence[Any],
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    overlap: int = 1,
    kappa: int | None = None,
) -> ProportionPlan:
    """Return the predicted L1 distortion of proportions, mechanism by mechanism; reads no label.

    ``sizes`` of the sets and the ``classes`` (or their number) are all that is needed; ``overlap``
    is the largest number of sets that one row is in. One ``epsilon`` is shown with a quarter, a
    half, the double and four times of it.
    """
    asked = asked_epsilons(epsilon)
    sets = public_sets(sizes, classes, overlap)
    delta, told = check_delta(delta), Settings(kappa)
    rows: list[PlannedProportions] = []
    chosen: list[PlannedProportions] = []
    for e in asked:
        found = [
            _planned(name, e, way)
            for name, way in _ways(_usable(delta), sets, e, delta, told).items()
        ]
        rows += found
        chosen.append(min((row for row in found if row.protected), key=lambda r: r.distortion))
    shown = tuple(int(n) for n in sets.sizes)
    return ProportionPlan(tuple(rows), tuple(chosen), delta, shown, sets.classes, sets.overlap)


def _planned(name: str, epsilon: float, way: Way) -> PlannedProportions:
    of_sets = way.distortion()
    mean, worst = float(of_sets.mean()), float(of_sets.max())
    return PlannedProportions(name, epsilon, mean, worst, way.kind is Kind.GLOBAL)


def public_sets(sizes: Sequence[int], classes: int | Sequence[Any], overlap: int = 1) -> Sets:
    """Return the public facts about some sets, checked."""
    many = np.asarray(sizes)
    if many.ndim != 1 or many.size == 0 or many.dtype.kind not in "iu" or many.min() < 1:
        raise ParameterError("sizes must list the positive number of rows of every set.")
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if number < 2:
        raise ParameterError("there must be two classes or more.")
    if not 1 <= overlap <= len(many):
        raise ParameterError("overlap is the largest number of sets that one row is in.")
    return Sets(many, number, int(overlap))
