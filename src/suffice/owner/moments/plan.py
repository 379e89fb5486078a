"""How much noise moments would have: computed before a record is read.

In rows of length 1 a coordinate has the mean square q, 1/d at most on average. The noise matrix on
d x d products has eigenvalues up to sqrt(2d) s, s its deviation on a square; a learner adds half of
that to its penalty. Where this exceeds q, products say little about single directions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.owner.moments.noise import MomentNoise, calibrated_moments
from suffice.owner.plans import Plan
from suffice.owner.public_rows import PublicRows
from suffice.owner.rados.pipeline import PrivateRows

__all__ = ["MomentOption", "MomentPlan", "plan_private_moments"]

_LITTLE, _MUCH = 1.0, 8.0  # penalty by noise over the mean square of a coordinate
_DROWNED = 1.0  # length of the noise on the means by class; rows have length 1 at most


@dataclass(frozen=True)
class MomentOption:
    """One release that could be made.

    Attributes
    ----------
    epsilon : float
        What it would cost each record.
    products : float
        The noise on products of two coordinates, over the mean square of a coordinate.
    means : float
        The noise on the mean of a coordinate, over the coordinate's root mean square.
    by_class : float
        The noise on the means by class, over the same.
    proportion : float
        The noise on a class proportion.
    penalty : float
        The penalty that the noise on products adds, over the mean square of a coordinate.
    length : float
        The expected length of the noise on the means by class, in rows of length 1.
    """

    epsilon: float
    products: float
    means: float
    by_class: float
    proportion: float
    penalty: float
    length: float

    @property
    def verdict(self) -> str:
        """fine, noisy, means only or too noisy."""
        if self.length > _DROWNED:
            return "too noisy"
        if self.penalty <= _LITTLE:
            return "fine"
        return "noisy" if self.penalty <= _MUCH else "means only"


@dataclass(frozen=True)
class MomentPlan(Plan):
    """How much noise moments would have at each epsilon; no record was read.

    Attributes
    ----------
    options : tuple of MomentOption
        The releases that are compared.
    rows : int
        The number of records.
    coordinates : int
        The number of coordinates of a row.
    """

    options: tuple[MomentOption, ...]
    rows: int
    coordinates: int

    columns = ("epsilon", "products", "means", "means by class", "class proportions", "")

    @property
    def title(self) -> str:
        """What the table shows."""
        return (
            "Noise (standard deviation) over the size of what is released, without any private"
            f" cell: {self.rows:,} records, {self.coordinates} coordinates"
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do, in sentences."""
        good = [option.epsilon for option in self.options if option.verdict in {"fine", "noisy"}]
        if not good:
            remedy = "Raise epsilon, release fewer columns, or wait for more records."
            return (f"The noise hides how columns vary together. {remedy}",)
        return (f"From epsilon = {min(good):g} on, a learner can use how columns vary together.",)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text."""
        return [
            (
                f"{option.epsilon:g}",
                f"{option.products:.3g}",
                f"{option.means:.3g}",
                f"{option.by_class:.3g}",
                f"{option.proportion:.3g}",
                option.verdict,
            )
            for option in self.options
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        return {
            "rows": self.rows,
            "coordinates": self.coordinates,
            "options": [
                {
                    "epsilon": option.epsilon,
                    "products": option.products,
                    "means": option.means,
                    "means_by_class": option.by_class,
                    "class_proportions": option.proportion,
                    "verdict": option.verdict,
                }
                for option in self.options
            ],
            "advice": list(self.advice),
        }


def plan_private_moments(
    rows: PrivateRows, size: int, classes: int, epsilons: Sequence[float], delta: float
) -> MomentPlan:
    """Return the noise of moments of ``size`` such records at each epsilon; reads none of them.

    A public table that scales come from says how long rows are. Otherwise they are taken to be as
    long as allowed.
    """
    width = len(rows.pipeline.outputs)
    square = _mean_square(rows, width)
    options = []
    for epsilon in epsilons:
        noise = calibrated_moments(width, classes, size, epsilon, delta)
        options.append(MomentOption(epsilon, **_ratios(noise, width, size, square)))
    return MomentPlan(tuple(options), size, width)


def _mean_square(rows: PrivateRows, width: int) -> float:
    """Return the mean square of a coordinate, in rows of length 1."""
    if rows.public is None:
        return 1 / width
    sample, _ = PublicRows(rows.public, rows.roles, rows.pipeline).sample()
    return max(float(np.mean((sample / rows.pipeline.bound) ** 2)), 1e-12)


def _ratios(noise: MomentNoise, width: int, size: int, square: float) -> dict[str, float]:
    """Return the fields of an option but for its epsilon."""
    deviation = {name: block.deviation / size for name, block in noise.blocks.items()}
    root = math.sqrt(square)
    return {
        "products": deviation.get("products", deviation["diagonal"]) / square,
        "means": deviation["mean"] / root,
        "by_class": deviation["operator"] / root,
        "proportion": deviation["counts"] / (2 if noise.weights.classes == 2 else 1),
        "penalty": math.sqrt(width / 2) * deviation["diagonal"] / square,
        "length": math.sqrt(width) * deviation["operator"],
    }
