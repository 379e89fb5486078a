"""Drawings by matplotlib: the plots that several pages share, as markup and as files.

Drawings on a page take the colour of its text for everything that is drawn in black, so that they
can be read on a light and on a dark background.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suffice.errors import ParameterError, missing_packages
from suffice.plain_text import markup, name
from suffice.releases.file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def _save(figure: "Figure", path: Path, *, overwrite: bool) -> None:
    """Write a figure to a file whose ending decides the format, completely or not at all."""
    check_plot(path)
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix.lower().removeprefix("."))
    write_whole(path, file.getvalue(), overwrite=overwrite)


def draw_panels(*draws: Draw) -> str:
    """Return a legend and one panel for each function that draws on axes, as markup.

    The legend is that of the first panel. Panels stand side by side where the screen is wide enough
    and below each other where it is not. The same drawing gives the same bytes; no display is
    needed.
    """
    with missing_packages():
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
    for handle, label in zip(handles, names, strict=True):
        key = Figure(figsize=_KEY_SIZE)
        key.legend([handle], [""], loc="center", frameon=False, borderpad=0, handlelength=3)
        entries.append(f"<span>{_svg(key)}{markup(label)}</span>")
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

    ``curves`` holds, by name, the accuracies of all runs at every epsilon. The curve "auto" is
    drawn broad and black, because it lies on top of others. Two lines show the accuracy of the same
    model without privacy, and of always predicting the larger class. Epsilon protects a ``unit``.
    """
    for label, marker in zip(curves, _MARKERS, strict=False):
        is_auto = label == "auto"
        style = {"color": "black", "linewidth": 2.2, "zorder": 3} if is_auto else {"linewidth": 1.4}
        means = [np.mean(runs) for runs in curves[label]]
        (line,) = axes.plot(
            epsilons, means, marker=marker, markersize=5, alpha=0.85, label=label, **style
        )
        low, high = zip(*((min(runs), max(runs)) for runs in curves[label]), strict=True)
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
    """Draw estimated proportions with their intervals, from top to bottom, and the true ones."""
    rows = np.arange(len(names))[::-1]
    axes.hlines(rows, low, high, color=BLUE, linewidth=3, alpha=0.45)
    axes.plot(estimates, rows, "o", color=BLUE, markersize=6, label="estimated")
    axes.plot(truth, rows, "|", color="black", markersize=14, mew=1.8, label="true")
    axes.set_yticks(rows, names)
    axes.set(xlabel="proportion", xlim=(0, 1))


def draw_plan(curves: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw a plan (`PlanCurves`) to a file: one curve for each mechanism, against epsilon."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_FILE_SIZE, layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    for label, points in curves.series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    epsilons, low, high = zip(*curves.band, strict=True)
    axes.fill_between(epsilons, low, high, alpha=0.12, label="auto, from hard to easy problems")
    axes.axhline(
        curves.without_noise, label="without noise", color="black", linestyle="--", linewidth=1
    )
    axes.set(xscale="log", xlabel="epsilon per label", ylabel="predicted accuracy")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    _save(figure, path, overwrite=overwrite)


def draw_estimates(result: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw estimated proportions of classes to a file, with their intervals or range."""
    from matplotlib.figure import Figure

    classes = result.classes
    figure = Figure(figsize=(5, 0.6 + 0.45 * len(classes)), layout="constrained")
    axes = figure.subplots()
    positions = range(len(classes))
    axes.hlines(positions, result.low, result.high, color="tab:blue", linewidth=2)
    for values, marker in zip(result.estimates.values(), "os", strict=False):
        axes.plot(values, positions, marker, color="tab:blue")
    axes.set(yticks=list(positions), yticklabels=[str(name) for name in classes], xlim=(0, 1))
    axes.set_xlabel("proportion of the table")
    axes.invert_yaxis()
    _save(figure, path, overwrite=overwrite)


_SIZE = (8.4, 4.2)  # inches
_MOST_CURVES = 10  # that a reader can tell apart


def draw_scores(predictions: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw ROC curves of `Predictions` on the left, and their calibration on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1.2)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    _draw_roc(left, predictions)
    _draw_calibration(right, predictions)
    _save(figure, path, overwrite=overwrite)


def _draw_roc(axes: Any, predictions: Any) -> None:
    """Draw the true against the false positives of each class; of two classes, of the second."""
    axes.set(title="ROC curve", xlabel="false positive rate", ylabel="true positive rate")
    if predictions.ranking is None or predictions.auc is None:
        _write(axes, "absent: nothing ranks these rows")
        return
    classes = range(len(predictions.classes))
    shown = [1] if len(classes) == 2 else [k for k in classes if predictions.shares[k] > 0]
    for k in shown[:_MOST_CURVES]:
        # False and true positives at every threshold, from the highest to the lowest.
        ranking = predictions.ranking[:, k]
        order = np.argsort(-ranking, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(ranking[order])), len(order) - 1)
        true = np.cumsum((predictions.truth == k)[order])[ends]
        false = ends + 1 - true
        false, true = (np.append(0.0, count / count[-1]) for count in (false, true))
        # A dollar sign in the name of a class does not begin a formula.
        label = f"class {name(predictions.classes[k])}".replace("$", r"\$")
        axes.plot(false, true, label=label, **({"color": BLUE} if len(shown) == 1 else {}))
    extra = len(shown) - _MOST_CURVES
    more = f"; {extra} more classes not drawn" if extra > 0 else ""
    axes.legend(
        frameon=False, fontsize="small", loc="lower right", title=f"AUC {predictions.auc:.3f}{more}"
    )


def _draw_calibration(axes: Any, predictions: Any) -> None:
    """Draw the proportion that came true against the stated probability, larger for more rows."""
    two = len(predictions.classes) == 2
    of = f"class {name(predictions.classes[1])}" if two else "the predicted class"
    axes.set(
        title="Calibration", xlabel=f"stated probability of {of}", ylabel="observed proportion"
    )
    bins = predictions.calibration
    if bins is None:
        _write(axes, "absent: this model gives no probabilities")
        return
    axes.vlines(bins.stated, *bins.chance_interval(), color="grey", alpha=0.35, linewidth=5)
    axes.plot(bins.stated, bins.observed, color=BLUE, linewidth=1)
    sizes = 12 + 90 * bins.rows / bins.rows.max()
    axes.scatter(bins.stated, bins.observed, s=sizes, color=BLUE, zorder=3)
    axes.text(0.03, 0.95, f"ECE {bins.error:.3f}\ngrey: chance at 95 %", fontsize="small", va="top")


def _write(axes: Any, words: str) -> None:
    axes.text(0.5, 0.6, words, ha="center", fontsize="small")
