"""The picture of `suffice score`: ROC curves, and how calibrated probabilities are."""

from pathlib import Path
from typing import Any

import numpy as np

from suffice.pages.plots import BLUE, check_plot, save_plot
from suffice.plain_text import name

__all__ = ["draw_scores"]

_SIZE = (8.4, 4.2)  # inches
_MOST_CURVES = 10  # that a reader can tell apart


def draw_scores(predictions: Any, path: Path, *, overwrite: bool = True) -> None:
    """Draw ROC curves on the left and the calibration on the right.

    Parameters
    ----------
    predictions
        True classes, and what a model says of the same rows (`Predictions`).
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
    figure = Figure(figsize=_SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1.2)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    _draw_roc(left, predictions)
    _draw_calibration(right, predictions)
    save_plot(figure, path, overwrite=overwrite)


def _draw_roc(axes: Any, predictions: Any) -> None:
    """Draw the true against the false positives of each class; of two classes, of the second."""
    axes.set(title="ROC curve", xlabel="false positive rate", ylabel="true positive rate")
    if predictions.ranking is None or predictions.auc is None:
        _write(axes, "absent: nothing ranks these rows")
        return
    classes = range(len(predictions.classes))
    shown = [1] if len(classes) == 2 else [k for k in classes if predictions.shares[k] > 0]
    for k in shown[:_MOST_CURVES]:
        false, true = _rates(predictions.ranking[:, k], predictions.truth == k)
        label = _class_words(predictions, k)
        axes.plot(false, true, label=label, **({"color": BLUE} if len(shown) == 1 else {}))
    extra = len(shown) - _MOST_CURVES
    more = f"; {extra} more classes not drawn" if extra > 0 else ""
    axes.legend(
        frameon=False, fontsize="small", loc="lower right", title=f"AUC {predictions.auc:.3f}{more}"
    )


def _rates(ranking: np.ndarray, of_class: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return false and true positive rates at every threshold, from the highest to the lowest."""
    order = np.argsort(-ranking, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(ranking[order])), len(order) - 1)
    true = np.cumsum(of_class[order])[ends]
    false = ends + 1 - true
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])


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


def _class_words(predictions: Any, position: int) -> str:
    """Return the name of a class; a dollar sign in it does not begin a formula."""
    return f"class {name(predictions.classes[position])}".replace("$", r"\$")


def _write(axes: Any, words: str) -> None:
    axes.text(0.5, 0.6, words, ha="center", fontsize="small")
