"""What a chapter of the demo is: one release, made for real, learnt from, and held against others.

Each is measured against the same learner without privacy, and against no release at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.owner.ledger import Ledger
from suffice.pages.plots import Draw, draw_utility
from suffice.release.artifact import Release

__all__ = ["Chapter", "Measure", "accuracy", "measure_utility", "share_of_larger_class"]

_EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_RELEASED = 1.0  # the epsilon of the release that the chapter tells of


@dataclass(frozen=True)
class Measure:
    """How good a release turned out, over several draws: ``values`` of ``what`` is measured."""

    what: str
    values: Sequence[float]
    without_privacy: float
    without_release: float


@dataclass(frozen=True)
class Chapter:
    """One release of the story: who, what was released and promised, how it went, how to repeat it.

    ``by_hand`` are commands that do the same with the demo's tables, in their folder.
    """

    name: str
    title: str
    text: tuple[str, ...]
    release: Release
    measure: Measure
    draw: Draw
    caption: str
    by_hand: str


def accuracy(model: Any, table: pa.Table, label: str = "diagnosis") -> float:
    """Return the accuracy of a model on the rows of a table."""
    return float(model.score(table.drop_columns([label]), table[label].to_numpy()))


def share_of_larger_class(table: pa.Table, label: str = "diagnosis") -> float:
    """Return the accuracy of who knows nothing but which class is larger."""
    share = float(np.mean(table[label].to_numpy()))
    return max(share, 1 - share)


def measure_utility(
    make: Callable[..., Release],
    learn: Callable[[Release], Any],
    test: pa.Table,
    *,
    without_privacy: Any,
    unit: str,
    ledger: Ledger,
    dataset: str,
    repeats: int,
) -> tuple[Release, Measure, Draw]:
    """Return a release at epsilon 1, how accurate models like its own are, and their curve.

    ``make`` takes epsilon and who pays, ``learn`` returns a model; ``repeats`` further releases at
    every epsilon are paid for by nobody. ``without_privacy`` is a model of the exact data.
    """
    release = make(_RELEASED, ledger=ledger, dataset=dataset)
    curve = [
        [accuracy(learn(make(epsilon, ledger=None)), test) for _ in range(repeats)]
        for epsilon in _EPSILONS
    ]
    values = [accuracy(learn(release), test), *curve[_EPSILONS.index(_RELEASED)]]
    exact, larger = accuracy(without_privacy, test), share_of_larger_class(test)

    def draw(axes: Any) -> None:
        bounds = {"without_privacy": exact, "larger_class": larger}
        draw_utility(axes, _EPSILONS, {"from the release": curve}, unit=unit, **bounds)

    return release, Measure("accuracy", values, exact, larger), draw
