"""Drawings by matplotlib: the plots that several pages share, as markup and as files.

Drawings on a page take the colour of its text for everything that is drawn in black, so that they
can be read on a light and on a dark background.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suffice.errors import ParameterError
from suffice.plain_text import markup
from suffice.release.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE", "ORANGE", "RED", "Draw", "check_plot", "draw_panels", "draw_plan", "draw_proportions",
    "draw_utility", "save_plot",
]  # fmt: skip

Draw = Callable[[Any], None]  # draws on a pair of axes

# Colours that stand out on white and on nearly black.
BLUE, ORANGE, RED = "#2f7fd0", "#e07b1a", "#d0454c"
_COLOURS = (BLUE, ORANGE, "#2a9d6f", RED, "#8f6bd6", "#a9793a", "#c95fa8", "#7f8a96")
_FORMATS = (".svg", ".png", ".pdf")
_FILE_SIZE = (7.2, 4.2)  # inches
_SINGLE_PANEL, _SMALL_PANEL = (4.8, 3.1), (3.5, 2.7)  # inches: small enough to read on a phone
_KEY_SIZE = (0.5, 0.2)  # inches of a line or marker in a legend
_MARKERS = ("o", "s", "^", "D", "v", "P")


def check_plot(path: Path) -> None:
    """Check that a drawing can be written to a file of that name.

    Raises
    ------
    ParameterError
        If the file name ends in anything but .svg, .png or .pdf.
    """
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError(
            f"The name of a plot file must end in one of {', '.join(_FORMATS)}. Rename the file."
        )


def save_plot(figure: "Figure", path: Path, *, overwrite: bool = True) -> None:
    """Write a matplotlib figure to ``path``, completely or not at all.

    Parameters
    ----------
    figure
        What to write.
    path
        The file. Its ending decides the format: .svg, .png or .pdf.
    overwrite
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the ending is none of these.
    """
    check_plot(path)
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix.lower().removeprefix("."))
    write_whole(path, file.getvalue(), overwrite=overwrite)


def draw_panels(*draws: Draw) -> str:
    """Return a legend and one panel for each function in ``draws``, as markup.

    The legend is that of the first panel. Panels stand side by side where the screen is wide enough
    and below each other where it is not. The same drawing gives the same bytes; no display is
    needed.

    Parameters
    ----------
    draws
        Functions that draw on the pair of axes which they get.
    """
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    single = len(draws) == 1
    style: dict[Any, Any] = {
        "axes.prop_cycle": cycler(color=_COLOURS),
        "font.size": 10 if single else 9,
        "axes.titlesize": "medium",
        "svg.hashsalt": "suffice",
    }
    with mpl.rc_context(style):
        panels, legend = [], ""
        for draw in draws:
            size = _SINGLE_PANEL if single else _SMALL_PANEL
            figure = Figure(figsize=size, layout="constrained")
            axes = figure.subplots()
            axes.grid(alpha=0.25)
            axes.set_axisbelow(True)
            draw(axes)
            panels.append(_svg(figure))
            legend = legend or _legend(*axes.get_legend_handles_labels())
    kind = "panels single" if single else "panels"
    return f'{legend}<div class="{kind}">{"".join(panels)}</div>'


def _legend(handles: Sequence[Any], names: Sequence[str]) -> str:
    """Return every line or marker with its name; on a page they wrap as words do."""
    from matplotlib.figure import Figure

    entries = []
    for handle, name in zip(handles, names, strict=True):
        key = Figure(figsize=_KEY_SIZE)
        key.legend([handle], [""], loc="center", frameon=False, borderpad=0, handlelength=3)
        entries.append(f"<span>{_svg(key)}{markup(name)}</span>")
    return f'<div class="legend">{"".join(entries)}</div>'


def _svg(figure: "Figure") -> str:
    """Return a figure as an SVG element without background, black replaced by the text's colour."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    _, _, element = file.getvalue().partition("<svg")
    return '<svg fill="currentColor"' + element.replace("#000000", "currentColor")


def draw_utility(
    axes: Any,
    epsilons: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    without_privacy: float,
    larger_class: float,
    unit: str = "label",
) -> None:
    """Draw accuracy against epsilon: the mean of each curve's runs, and their range.

    Parameters
    ----------
    axes
        Where to draw.
    epsilons
        The horizontal positions, shared by all curves.
    curves
        By name, the accuracies of all runs at every epsilon. The curve "auto" is drawn broad and
        black, because it lies on top of others.
    without_privacy
        The accuracy of the same model, trained on the exact data.
    larger_class
        The accuracy of always predicting the larger class.
    unit
        What epsilon protects.
    """
    for name, marker in zip(curves, _MARKERS, strict=False):
        is_auto = name == "auto"
        style = {"color": "black", "linewidth": 2.2, "zorder": 3} if is_auto else {"linewidth": 1.4}
        means = [np.mean(runs) for runs in curves[name]]
        (line,) = axes.plot(
            epsilons, means, marker=marker, markersize=5, alpha=0.85, label=name, **style
        )
        low, high = zip(*((min(runs), max(runs)) for runs in curves[name]), strict=True)
        axes.fill_between(epsilons, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    axes.axhline(
        without_privacy, label="without privacy", color="black", linestyle="--", linewidth=1
    )
    axes.axhline(larger_class, color="grey", linestyle=":", linewidth=1.2, label="larger class")
    axes.set(xscale="log", xlabel=f"epsilon per {unit}", ylabel="test accuracy")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)


def draw_proportions(
    axes: Any,
    names: Sequence[str],
    estimates: Sequence[float],
    truth: Sequence[float],
    *,
    low: Sequence[float],
    high: Sequence[float],
) -> None:
    """Draw estimated proportions with their intervals, from top to bottom, and the true ones.

    Parameters
    ----------
    axes
        Where to draw.
    names
        What each proportion is of.
    estimates, truth
        The estimated and the true proportions, in the order of ``names``.
    low, high
        The ends of the intervals.
    """
    rows = np.arange(len(names))[::-1]
    axes.hlines(rows, low, high, color=BLUE, linewidth=3, alpha=0.45)
    axes.plot(estimates, rows, "o", color=BLUE, markersize=6, label="estimated")
    axes.plot(truth, rows, "|", color="black", markersize=14, mew=1.8, label="true")
    axes.set_yticks(rows, names)
    axes.set(xlabel="proportion", xlim=(0, 1))


def draw_plan(curves: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw a plan to a file: one curve for each mechanism, against epsilon.

    Parameters
    ----------
    curves
        What to draw (`PlanCurves`).
    path
        The file; it ends in .svg, .png or .pdf.
    overwrite
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the ending is none of these.
    """
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=_FILE_SIZE, layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    for name, points in curves.series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    low, high = zip(*curves.band, strict=True)
    axes.fill_between(curves.epsilons, low, high, alpha=0.12, label=curves.band_name)
    axes.axhline(
        curves.without_noise, label="without noise", color="black", linestyle="--", linewidth=1
    )
    axes.set(xscale="log", xlabel="epsilon per label", ylabel=curves.y_label)
    axes.set_xticks(curves.epsilons, [f"{epsilon:g}" for epsilon in curves.epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    save_plot(figure, path, overwrite=overwrite)
