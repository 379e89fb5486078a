"""A chapter of the demo: a real release, and how well a learner does with it.

Each is compared with the same learner without privacy, and with a guess without the release.
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
_CHAPTER_EPSILON = 1.0  # of the release that the chapter is about


@dataclass(frozen=True)
class Measure:
    """How good a release is, over several draws of its noise.

    Parameters
    ----------
    what
        What is measured, such as accuracy.
    values
        The measured values: of the release itself, then of repeated ones.
    without_privacy
        The value of the same method on the exact data.
    without_release
        The value of a guess that uses no release.
    """

    what: str
    values: Sequence[float]
    without_privacy: float
    without_release: float


@dataclass(frozen=True)
class Chapter:
    """One release of the demo, with its text, its plot, and commands that repeat it.

    Parameters
    ----------
    name
        A word for tables and plots.
    title
        The heading.
    text
        The paragraphs below it.
    release
        The release, with its guarantees.
    measure
        What was learnt from it.
    draw
        Draws the plot.
    caption
        The sentences below the plot.
    by_hand
        Commands that do the same with the demo's tables, in their folder.
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
    """Return the accuracy of always predicting the larger class."""
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
    """Return a release at epsilon 1, the accuracy of models learnt from it, and their plot.

    Parameters
    ----------
    make
        Makes a release at an epsilon, charged to the ledger that it gets.
    learn
        Returns a model, learnt from a release.
    test
        Rows with diagnoses on which models are tested.
    without_privacy
        A model of the exact data.
    unit
        What epsilon protects, for the plot.
    ledger, dataset
        The ledger, and the data set in it, that the release is charged to.
    repeats
        How many further releases, charged to no ledger, are made at every epsilon.
    """
    release = make(_CHAPTER_EPSILON, ledger=ledger, dataset=dataset)
    curve = [
        [accuracy(learn(make(epsilon, ledger=None)), test) for _ in range(repeats)]
        for epsilon in _EPSILONS
    ]
    values = [accuracy(learn(release), test), *curve[_EPSILONS.index(_CHAPTER_EPSILON)]]
    exact, larger = accuracy(without_privacy, test), share_of_larger_class(test)

    def draw(axes: Any) -> None:
        draw_utility(
            axes,
            _EPSILONS,
            {"learnt from the release": curve},
            without_privacy=exact,
            larger_class=larger,
            unit=unit,
        )

    return release, Measure("accuracy", values, exact, larger), draw
