"""Drawings of matplotlib's: the curves that several pages share, as SVG elements and as files."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.release.files import write_whole

__all__ = [
    "Draw", "check_plot", "draw_plan", "draw_shares", "draw_utility", "figure_svg", "save_plot",
]  # fmt: skip

Draw = Callable[[Any], None]  # draws on a pair of axes

_FORMATS = (".svg", ".png", ".pdf")
_WIDTH, _ALONE, _PANEL = 7.2, 4.2, 2.6  # inches: a figure, the height of one panel, of many
_ACROSS = 2
_MARKERS = ("o", "s", "^", "D", "v", "P")


def check_plot(path: Path) -> None:
    """Raise unless a drawing can be written to a file of that name."""
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError(
            f"a plot must be written to a file that ends in {', '.join(_FORMATS)}."
        )


def save_plot(figure: Any, path: Path, *, overwrite: bool = True) -> None:
    """Write a figure of matplotlib's to ``path``, whole or not at all."""
    check_plot(path)
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix.lower().removeprefix("."))
    write_whole(path, file.getvalue(), overwrite=overwrite)


def figure_svg(*draws: Draw) -> str:
    """Return what each of ``draws`` put on its pair of axes, as one SVG element.

    The legend of the first panel stands above all of them. Needs no display, and the same drawing
    gives the same bytes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(_ACROSS, len(draws))
    down = -(-len(draws) // across)
    height = _ALONE if len(draws) == 1 else 0.6 + _PANEL * down
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.08)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, draw in zip(panels, draws, strict=False):
        axes.grid(alpha=0.25)
        draw(axes)
    for unused in panels[len(draws) :]:
        unused.set_axis_off()
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False)
    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "suffice"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    _, start, rest = file.getvalue().partition("<svg")
    return start + rest


def draw_utility(
    axes: Any,
    epsilons: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    without_privacy: float,
    larger_class: float,
    unit: str = "label",
) -> None:
    """Draw the mean of each curve's runs and their range, between what bounds them.

    ``curves`` holds the runs at every epsilon, by name; "auto" is drawn broad and black, for it
    lies on top of others. The bounds are accuracies, ``unit`` is what epsilon protects.
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
    level = {"color": "black", "linestyle": "--", "linewidth": 1}
    axes.axhline(without_privacy, label="without privacy", **level)
    axes.axhline(larger_class, color="grey", linestyle=":", linewidth=1.2, label="larger class")
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


def draw_plan(curves: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw a plan to a file: a quantity against epsilon, curve by curve (`PlanCurves`)."""
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=(_WIDTH, _ALONE), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    for name, points in curves.series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    low, high = zip(*curves.band, strict=True)
    axes.fill_between(curves.epsilons, low, high, alpha=0.12, label=curves.band_name)
    level = {"color": "black", "linestyle": "--", "linewidth": 1}
    axes.axhline(curves.without_noise, label="without noise", **level)
    axes.set(xscale="log", xlabel="epsilon (privacy loss per label)", ylabel=curves.y_label)
    axes.set_xticks(curves.epsilons, [f"{epsilon:g}" for epsilon in curves.epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    save_plot(figure, path, overwrite=overwrite)
