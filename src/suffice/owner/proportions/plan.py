"""What each mechanism would do to label proportions: from sizes and classes, never from a label."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError
from suffice.options import Group, data_option, numbers, option, privacy_option, values
from suffice.owner.mechanism import DELTA
from suffice.owner.plans import Plan, planned_epsilons
from suffice.owner.proportions.choosing import (
    FARTHEST,
    DirichletSettings,
    bag_sizes,
    best_count_noise,
    check_settings,
    every_count_noise,
)
from suffice.owner.proportions.noise import CountNoise
from suffice.privacy.calibrate import check_delta, check_epsilon
from suffice.privacy.guarantee import Protection
from suffice.tables.bags import bag_columns, read_bags
from suffice.tables.labels import check_classes
from suffice.tables.sources import open_columns, open_declared, row_count

__all__ = [
    "BAG_COLUMNS",
    "KAPPA",
    "PlannedProportions",
    "PlannedSkew",
    "ProportionPlan",
    "ProportionPlanner",
    "SkewPlan",
    "SkewPlanner",
    "plan_proportions",
    "plan_skew",
    "skew_epsilon",
]

_SKEWS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
BAG_COLUMNS: dict[str, Any] = {
    "name": "--bag",
    "help": "Public column that says which bag a row is in, for example year; repeat it for"
    " several.",
    "group": Group.DATA,
    "parse": lambda columns: columns[0] if len(columns) == 1 else tuple(columns),
    "many": True,
}
KAPPA: dict[str, Any] = {
    "help": "Number added to every count by scaled-dirichlet-bounded; public.",
    "group": Group.PRIVACY,
}


@dataclass(frozen=True)
class PlannedProportions:
    """One mechanism at one epsilon: ``distortion`` is the mean over bags of the predicted E L1.

    ``worst`` is that of the bag for which it is largest, ``protected`` whether the guarantee is
    global.
    """

    mechanism: str
    epsilon: float
    distortion: float
    worst: float
    protected: bool


@dataclass(frozen=True, repr=False)
class ProportionPlan(Plan):
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

    title = (
        "Predicted mean L1 distance of released proportions, over all bags and in the worst;"
        " Dirichlet mechanisms for even classes; * is what auto takes"
    )
    columns = ("epsilon", "mechanism", "distortion", "worst bag", "guarantee")

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

    ``sizes`` of the bags and the ``classes`` (or their number) are all that is needed; ``overlap``
    is the largest number of bags that one row is in. One ``epsilon`` is shown with a quarter, a
    half, the double and four times of it.
    """
    asked = planned_epsilons(epsilon)
    bags = bag_sizes(sizes, classes, overlap)
    delta, settings = check_delta(delta), DirichletSettings(kappa)
    rows: list[PlannedProportions] = []
    chosen: list[PlannedProportions] = []
    for e in asked:
        found = [
            _planned(name, e, noise)
            for name, noise in every_count_noise(bags, e, delta, settings).items()
        ]
        rows += found
        chosen.append(min((row for row in found if row.protected), key=lambda r: r.distortion))
    shown = tuple(int(n) for n in bags.sizes)
    return ProportionPlan(tuple(rows), tuple(chosen), delta, shown, bags.classes, bags.overlap)


def _planned(name: str, epsilon: float, noise: CountNoise) -> PlannedProportions:
    by_bag = noise.distortion()
    mean, worst = float(by_bag.mean()), float(by_bag.max())
    return PlannedProportions(name, epsilon, mean, worst, noise.kind is Protection.GLOBAL)


def skew_epsilon(skew: float, classes: int) -> float:
    """Return what bags of this skew cost each label: ln(skew (K - 1) / (1 - skew))."""
    if not 1 / classes < skew < 1:
        raise ParameterError(f"skew must lie strictly between 1/{classes} and 1; got {skew!r}.")
    return math.log(skew * (classes - 1) / (1 - skew))


@dataclass(frozen=True)
class PlannedSkew:
    """One way to share epsilon between the skew of bags and the noise on their proportions.

    ``separation`` is the smallest singular value of the matrix of proportions, for even classes:
    skew - (1 - skew)/(K - 1). ``error`` = (distortion + sampling) / separation, the L1 error of a
    bag's proportions (noise, and what a bag of its size has anyway) as it grows when bags that are
    alike have to be told apart.
    """

    skew: float
    sets_epsilon: float
    counts_epsilon: float
    mechanism: str
    distortion: float
    separation: float
    error: float


@dataclass(frozen=True, repr=False)
class SkewPlan(Plan):
    """A table of skews at one total epsilon; ``chosen`` has the least predicted error."""

    rows: tuple[PlannedSkew, ...]
    chosen: PlannedSkew
    epsilon: float
    delta: float

    rows_in_all: int
    classes: int

    columns = ("skew", "epsilon of bags", "of counts", "mechanism", "distortion", "error")

    @property
    def title(self) -> str:
        """What the table shows."""
        return (
            f"{self.rows_in_all:,} rows in {self.classes} bags, formed by the labels, at epsilon"
            f" {self.epsilon:g} in all: more skew is easier to learn from and leaves noisier"
            " proportions; * has the least error"
        )

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text; a star marks the least error."""
        return [
            (
                f"{row.skew:g}" + (" *" if row == self.chosen else ""),
                f"{row.sets_epsilon:.3g}",
                f"{row.counts_epsilon:.3g}",
                row.mechanism,
                f"{row.distortion:.3g}",
                f"{row.error:.3g}",
            )
            for row in self.rows
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        rows = [{**vars(row), "chosen": row == self.chosen} for row in self.rows]
        return {"epsilon": self.epsilon, "delta": self.delta, "rows": rows}


def plan_skew(
    rows: int,
    classes: int | Sequence[Any],
    epsilon: float,
    delta: float = 0.0,
    *,
    skews: Sequence[float] = _SKEWS,
) -> SkewPlan:
    """Return how skew trades against the noise of proportions at a total ``epsilon`` per label.

    From the number of rows and classes alone. What membership costs is missing from the counts:
    more skew is easier to learn from and leaves noisier proportions.
    """
    check_epsilon(epsilon)
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if rows < number:
        raise ParameterError("there must be a row for every bag, and a bag for every class.")
    bags = bag_sizes([rows // number] * number, number)
    found = []
    for skew in skews:
        if skew <= 1 / number:
            continue
        cost = skew_epsilon(skew, number)
        if cost >= epsilon:
            continue
        name, noise = best_count_noise(bags, epsilon - cost, delta)
        distortion = float(noise.distortion().mean())
        if distortion >= FARTHEST:
            continue
        other = (1 - skew) / (number - 1)
        spread = math.sqrt(skew * (1 - skew)) + (number - 1) * math.sqrt(other * (1 - other))
        sampling = spread * math.sqrt(2 / math.pi / bags.sizes[0])
        error = (distortion + sampling) / (skew - other)
        found.append(PlannedSkew(skew, cost, epsilon - cost, name, distortion, skew - other, error))
    if not found:
        raise ParameterError(
            "no skew leaves enough epsilon for the proportions: raise epsilon, take more rows, or"
            " form bags without looking at labels."
        )
    best = min(found, key=lambda row: row.error)
    return SkewPlan(tuple(found), best, epsilon, delta, rows, number)


@dataclass(frozen=True)
class SkewPlanner:
    """What a plan of skewed bags is made from: the numbers of rows and of classes."""

    table: Any = data_option(
        None,
        "The rows: Parquet, CSV, Feather, Excel or SPSS. Instead: --sizes.",
        path=Path,
        argument=True,
    )
    epsilon: Sequence[float] = privacy_option(
        (),
        "Epsilon, for example 1; of bags, that of bags and proportions together.",
        parse=numbers,
        many=True,
    )
    sizes: Sequence[int] | None = data_option(
        None, "Number of rows of each bag, with commas, instead of a table.", parse=values
    )
    delta: float = option(0.0, **DELTA)
    classes: Any = data_option(
        2,
        "The labels that can occur, with commas, or how many there are. Default: 2.",
        parse=values,
    )

    def plan(self) -> Plan:
        """Return how skew trades against noise."""
        if len(self.epsilon) != 1:
            raise ParameterError("bags and proportions share one epsilon; give --epsilon once.")
        total = row_count(open_declared(self.table)) if self._has_table() else sum(self._sizes())
        return plan_skew(total, _class_count(self.classes), self.epsilon[0], self.delta)

    def _has_table(self) -> bool:
        if (self.table is None) == (self.sizes is None):
            raise ParameterError("give the rows once: a table, or --sizes.")
        return self.table is not None

    def _sizes(self) -> list[int]:
        sizes = list(self.sizes or ())
        if not all(isinstance(n, int) for n in sizes):
            raise ParameterError("--sizes takes numbers of rows, with commas.")
        return sizes


@dataclass(frozen=True)
class ProportionPlanner(SkewPlanner):
    """What a plan of proportions is made from: sizes of bags and classes, and no label."""

    bags: Any = option(None, **BAG_COLUMNS)
    kappa: int | None = option(None, **KAPPA)
    skew: bool = data_option(
        False,  # noqa: FBT003  # a default
        "Former name of `suffice plan bags`.",
        hidden=True,
    )

    def plan(self) -> Plan:
        """Return the distortion of every mechanism."""
        if self.skew:
            for name, value in (("--bag", self.bags), ("--kappa", self.kappa)):
                if value is not None:
                    raise ParameterError(f"{name} means nothing with --skew: leave it out.")
            return super().plan()
        check_settings("auto", self.delta, self.kappa, None)
        sizes, overlap = self._bags()
        asked = self.epsilon[0] if len(self.epsilon) == 1 else self.epsilon
        return plan_proportions(
            sizes, _class_count(self.classes), asked, self.delta, overlap=overlap, kappa=self.kappa
        )

    def _bags(self) -> tuple[list[int], int]:
        """Return the sizes of the bags and how much they overlap."""
        if not self._has_table():
            if self.bags is not None:
                raise ParameterError("--bag means nothing with --sizes: leave it out.")
            return self._sizes(), 1
        if not self.bags:
            raise ParameterError("say which column holds the bags: --bag COLUMN.")
        bags = read_bags(open_columns(self.table, bag_columns(self.bags), label=None), self.bags)
        return bags.sizes.tolist(), bags.overlap


def _class_count(classes: Any) -> int:
    """Return how many classes were declared: a list of them, or a number alone."""
    declared = (classes,) if isinstance(classes, int) else tuple(classes)
    if not declared:
        raise ParameterError("--classes takes labels with commas, or how many there are.")
    alone = declared[0]
    return alone if len(declared) == 1 and isinstance(alone, int) else len(declared)
