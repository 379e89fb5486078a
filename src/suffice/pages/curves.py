"""How accuracy against epsilon is drawn, in every study the same way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["draw_shares", "draw_utility"]

_MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_utility(
    axes: Any,
    epsilons: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    plain: float,
    majority: float,
    unit: str = "label",
) -> None:
    """Draw the mean of each curve's runs and their range, between what bounds them.

    ``curves`` holds the runs at every epsilon, by name; "auto" is drawn broad and black, for it
    lies on top of others. ``plain`` is the accuracy without privacy, ``majority`` that of the
    larger class; ``unit`` is what epsilon protects.
    """
    for name, marker in zip(curves, _MARKERS, strict=False):
        chosen = name == "auto"
        line = {"color": "black", "linewidth": 2.2, "zorder": 3} if chosen else {"linewidth": 1.4}
        means = [np.mean(runs) for runs in curves[name]]
        (drawn,) = axes.plot(
            epsilons, means, marker=marker, markersize=5, alpha=0.85, label=name, **line
        )
        low, high = zip(*((min(runs), max(runs)) for runs in curves[name]), strict=True)
        axes.fill_between(epsilons, low, high, alpha=0.12, color=drawn.get_color(), linewidth=0)
    axes.axhline(plain, color="black", linestyle="--", linewidth=1, label="without privacy")
    axes.axhline(majority, color="grey", linestyle=":", linewidth=1.2, label="larger class")
    axes.set(xscale="log", xlabel=f"epsilon (privacy loss per {unit})", ylabel="test accuracy")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)


def draw_shares(
    axes: Any,
    names: Sequence[str],
    shares: Sequence[float],
    truth: Sequence[float],
    *,
    low: Sequence[float],
    high: Sequence[float],
) -> None:
    """Draw estimated shares with their intervals, one line each from above, and the true ones."""
    places = np.arange(len(names))[::-1]
    axes.hlines(places, low, high, color="tab:blue", linewidth=3, alpha=0.45)
    axes.plot(shares, places, "o", color="tab:blue", markersize=6, label="estimated")
    axes.plot(truth, places, "|", color="black", markersize=14, mew=1.8, label="true")
    axes.set_yticks(places, names)
    axes.set(xlabel="share", xlim=(0, 1))
