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
from suffice.owner.proportions.dirichlet import CountNoise
from suffice.owner.proportions.noise import BagSizes
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

_NATURAL_BAGS = (
    "A learner assumes that each class looks alike in all bags (label shift).",
    "Bags formed at random, or by `suffice release bags`, keep this true.",
    "Natural bags, such as months or jobs, often break it. A learner then gets only a wide range.",
)
_SKEWED_BAGS = (
    "Such bags keep each class alike in all bags (label shift), as learners of proportions assume.",
)
_SKEWS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
BAG_COLUMNS: dict[str, Any] = {
    "name": "--bag",
    "help": "Public column that says which bag a row is in, for example year (repeatable).",
    "group": Group.DATA,
    "parse": lambda columns: columns[0] if len(columns) == 1 else tuple(columns),
    "many": True,
}
KAPPA: dict[str, Any] = {
    "help": "Number that scaled-dirichlet-bounded adds to every count, for example 8; public.",
    "group": Group.PRIVACY,
}


@dataclass(frozen=True)
class PlannedProportions:
    """One mechanism at one epsilon, and the error that is predicted for it.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    epsilon : float
        The epsilon that it is calibrated for.
    distortion : float
        Predicted error of the proportions: the expected sum over classes of how far off they are,
        averaged over bags.
    worst : float
        The same for the bag in which it is largest.
    protected : bool
        Whether the guarantee is global.
    """

    mechanism: str
    epsilon: float
    distortion: float
    worst: float
    protected: bool


@dataclass(frozen=True, repr=False)
class ProportionPlan(Plan):
    """A table of predicted errors of proportions; no label was read for it.

    Parameters
    ----------
    rows : tuple of PlannedProportions
        One for each mechanism and epsilon. Dirichlet mechanisms are predicted for equal classes.
    chosen : tuple of PlannedProportions
        What ``auto`` takes at each epsilon.
    delta : float
        The delta of all rows.
    sizes : tuple of int
        Number of rows of each bag.
    classes : int
        Number of classes.
    overlap : int
        The largest number of bags that one row is in.
    """

    rows: tuple[PlannedProportions, ...]
    chosen: tuple[PlannedProportions, ...]
    delta: float
    sizes: tuple[int, ...]
    classes: int
    overlap: int

    title = (
        "Predicted error of the proportions of a bag, summed over classes: on average, and in the"
        " worst bag. Dirichlet mechanisms are predicted for equal classes. * marks what auto"
        " chooses."
    )
    columns = ("epsilon", "mechanism", "error", "worst bag", "guarantee")
    advice = _NATURAL_BAGS

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
    return f"{distortion:.3g}" if distortion < FARTHEST else "useless"


def plan_proportions(
    sizes: Sequence[int],
    classes: int | Sequence[Any],
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    overlap: int = 1,
    kappa: int | None = None,
) -> ProportionPlan:
    """Return the predicted error of proportions, mechanism by mechanism; reads no label.

    Parameters
    ----------
    sizes : sequence of int
        Number of rows of each bag.
    classes : int or sequence
        The classes, or their number.
    epsilon : float or sequence of float
        One epsilon is shown with a quarter, a half, the double and four times of it.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    overlap : int
        The largest number of bags that one row is in.
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count.

    Returns
    -------
    ProportionPlan
        A table of predicted errors.

    Examples
    --------
    >>> import suffice
    >>> print(suffice.plan_proportions([500, 700], 2, epsilon=[0.1]))
    epsilon  mechanism      error   worst bag  guarantee
    0.1      laplace *      0.0343  0.04       global
    0.1      laplace-prior  0.0492  0.0554     global
    A learner assumes that each class looks alike in all bags (label shift).
    Bags formed at random, or by `suffice release bags`, keep this true.
    Natural bags, such as months or jobs, often break it. A learner then gets only a wide range.
    """
    bags = bag_sizes(sizes, classes, overlap)
    delta, settings = check_delta(delta), DirichletSettings(kappa)
    rows: list[PlannedProportions] = []
    chosen: list[PlannedProportions] = []
    for e in planned_epsilons(epsilon):
        planned = [
            _planned(name, e, noise)
            for name, noise in every_count_noise(bags, e, delta, settings).items()
        ]
        rows += planned
        chosen.append(min((row for row in planned if row.protected), key=lambda r: r.distortion))
    bag_rows = tuple(int(n) for n in bags.sizes)
    return ProportionPlan(tuple(rows), tuple(chosen), delta, bag_rows, bags.classes, bags.overlap)


def _planned(name: str, epsilon: float, noise: CountNoise) -> PlannedProportions:
    by_bag = noise.distortion()
    mean, worst = float(by_bag.mean()), float(by_bag.max())
    return PlannedProportions(name, epsilon, mean, worst, noise.kind is Protection.GLOBAL)


def skew_epsilon(skew: float, classes: int) -> float:
    """Return what bags of this skew cost each label: ln(skew (K - 1) / (1 - skew))."""
    if not 1 / classes < skew < 1:
        raise ParameterError(f"--skew must lie strictly between 1/{classes} and 1; got {skew!r}.")
    return math.log(skew * (classes - 1) / (1 - skew))


@dataclass(frozen=True)
class PlannedSkew:
    """One division of epsilon between the skew of bags and the noise on their proportions.

    Parameters
    ----------
    skew : float
        Probability that a row goes to the bag of its own class.
    sets_epsilon : float
        What the bags cost each label.
    counts_epsilon : float
        What remains for the noise on proportions.
    mechanism : str
        The mechanism of the proportions.
    distortion : float
        Predicted error of the proportions.
    separation : float
        How different the bags are: the smallest singular value of the matrix of proportions, for
        equal classes, skew - (1 - skew)/(K - 1).
    error : float
        Predicted error of what is learnt, (distortion + sampling) / separation: the error of a
        bag's proportions, with what a bag of its size has anyway, grows when bags are alike.
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
    """A table of skews at one total epsilon.

    Parameters
    ----------
    rows : tuple of PlannedSkew
        One for each skew that the epsilon allows.
    chosen : PlannedSkew
        The one of least predicted error.
    epsilon, delta : float
        What bags and proportions may cost together.
    rows_in_all : int
        Number of rows of the table.
    classes : int
        Number of classes, and of bags.
    """

    rows: tuple[PlannedSkew, ...]
    chosen: PlannedSkew
    epsilon: float
    delta: float

    rows_in_all: int
    classes: int

    columns = (
        "skew",
        "epsilon of bags",
        "epsilon of proportions",
        "mechanism",
        "error of proportions",
        "error of learning",
    )
    advice = _SKEWED_BAGS

    @property
    def title(self) -> str:
        """What the table shows."""
        return (
            f"{self.rows_in_all:,} rows in {self.classes} bags, formed from the labels, at epsilon"
            f" {self.epsilon:g} in total. A larger skew is easier to learn from, and makes the"
            " proportions noisier. * marks the least error."
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

    What the bags cost is missing from the proportions: a larger skew is easier to learn from, and
    makes the proportions noisier.

    Parameters
    ----------
    rows : int
        Number of rows.
    classes : int or sequence
        The classes, or their number.
    epsilon, delta : float
        What bags and proportions may cost together.
    skews : sequence of float
        The skews to compare.

    Returns
    -------
    SkewPlan
        A table of skews and predicted errors.

    Raises
    ------
    ParameterError
        If no skew leaves enough epsilon for the proportions.

    Examples
    --------
    >>> import suffice
    >>> suffice.plan_skew(3000, 2, epsilon=2.0).chosen.skew
    0.85
    """
    check_epsilon(epsilon)
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if rows < number:
        raise ParameterError("There must be a row for every bag, and a bag for every class.")
    bags = bag_sizes([rows // number] * number, number)
    planned = [_planned_skew(skew, bags, epsilon, delta) for skew in skews]
    useful = [row for row in planned if row is not None]
    if not useful:
        raise ParameterError(
            "No skew leaves enough epsilon for the proportions. Raise --epsilon, use more rows, or"
            " form bags without looking at labels."
        )
    best = min(useful, key=lambda row: row.error)
    return SkewPlan(tuple(useful), best, epsilon, delta, rows, number)


def _planned_skew(skew: float, bags: BagSizes, epsilon: float, delta: float) -> PlannedSkew | None:
    """Return the forecast for one skew; None where nothing useful remains of epsilon."""
    number = bags.classes
    if skew <= 1 / number:
        return None
    cost = skew_epsilon(skew, number)
    if cost >= epsilon:
        return None
    name, noise = best_count_noise(bags, epsilon - cost, delta)
    distortion = float(noise.distortion().mean())
    if distortion >= FARTHEST:
        return None
    other = (1 - skew) / (number - 1)
    spread = math.sqrt(skew * (1 - skew)) + (number - 1) * math.sqrt(other * (1 - other))
    sampling = spread * math.sqrt(2 / math.pi / bags.sizes[0])
    error = (distortion + sampling) / (skew - other)
    return PlannedSkew(skew, cost, epsilon - cost, name, distortion, skew - other, error)


@dataclass(frozen=True)
class SkewPlanner:
    """What a plan of skewed bags is made from: the numbers of rows and of classes.

    Parameters
    ----------
    table : optional
        The table, of which only the number of rows is used.
    epsilon : sequence of float
        What bags and proportions may cost together: exactly one.
    sizes : sequence of int, optional
        Number of rows of each bag, instead of a table.
    delta : float
        Delta, for example 1e-6.
    classes : int or sequence
        The classes, or their number.
    """

    table: Any = data_option(
        None,
        "Table of the rows: Parquet, CSV, Feather, Excel or SPSS. Or use --sizes.",
        path=Path,
        argument=True,
    )
    epsilon: Sequence[float] = privacy_option(
        (),
        "Epsilon, for example 1. For bags: what bags and proportions may cost together.",
        parse=numbers,
        many=True,
    )
    sizes: Sequence[int] | None = data_option(
        None,
        "Number of rows of each bag, with commas, for example 500,700; instead of a table.",
        parse=values,
    )
    delta: float = option(0.0, **DELTA)
    classes: Any = data_option(
        2,
        "Labels that can occur, with commas, for example no,yes; or how many there are. Default:"
        " 2.",
        parse=values,
    )

    def plan(self) -> Plan:
        """Return how skew trades against noise."""
        if len(self.epsilon) != 1:
            raise ParameterError("Bags and proportions share one epsilon. Use --epsilon once.")
        total = row_count(open_declared(self.table)) if self._has_table() else sum(self._sizes())
        return plan_skew(total, _class_count(self.classes), self.epsilon[0], self.delta)

    def _has_table(self) -> bool:
        if (self.table is None) == (self.sizes is None):
            raise ParameterError("Give the rows once: use either a table or --sizes.")
        return self.table is not None

    def _sizes(self) -> list[int]:
        sizes = list(self.sizes or ())
        if not all(isinstance(n, int) for n in sizes):
            raise ParameterError("--sizes takes numbers of rows with commas, for example 500,700.")
        return sizes


@dataclass(frozen=True)
class ProportionPlanner(SkewPlanner):
    """What a plan of proportions is made from: sizes of bags and classes, and no label.

    Parameters
    ----------
    bags : optional
        The column of bags, or a tuple of such columns.
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count.
    """

    bags: Any = option(None, **BAG_COLUMNS)
    kappa: int | None = option(None, **KAPPA)

    def plan(self) -> Plan:
        """Return the predicted error of every mechanism."""
        check_settings("auto", self.delta, self.kappa, None)
        sizes, overlap = self._bags()
        return plan_proportions(
            sizes,
            _class_count(self.classes),
            self.epsilon[0] if len(self.epsilon) == 1 else self.epsilon,
            self.delta,
            overlap=overlap,
            kappa=self.kappa,
        )

    def _bags(self) -> tuple[list[int], int]:
        """Return the sizes of the bags and how much they overlap."""
        if not self._has_table():
            if self.bags is not None:
                raise ParameterError("--bag cannot be used with --sizes. Remove --bag.")
            return self._sizes(), 1
        if not self.bags:
            raise ParameterError("Choose the column of bags: --bag COLUMN.")
        bags = read_bags(open_columns(self.table, bag_columns(self.bags), label=None), self.bags)
        return bags.sizes.tolist(), bags.overlap


def _class_count(classes: Any) -> int:
    """Return how many classes were declared: a list of them, or a number alone."""
    declared = (classes,) if isinstance(classes, int) else tuple(classes)
    if not declared:
        raise ParameterError(
            "--classes takes labels with commas, or how many there are, for example 3."
        )
    first = declared[0]
    return first if len(declared) == 1 and isinstance(first, int) else len(declared)
