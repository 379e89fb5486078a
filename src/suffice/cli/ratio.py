"""The command that estimates class ratios: ratio."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.output import show_json, show_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ratio)


def ratio(
    releases: Annotated[list[Path], typer.Argument(help="Releases of proportions, then one set.")],
    rows: Annotated[Path, typer.Option(help="The public rows of the released sets.")],
    bag: Annotated[str, typer.Option(help="The column that says which set a row is in.")],
    method: Annotated[str, typer.Option(help="auto, mmd or likelihood.")] = "auto",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Draw it: an SVG, PNG or PDF file.")] = None,
    json: options.Json = False,
) -> None:
    """Estimate the share of each class in an unlabelled set: suffice ratio FILE... SET."""
    from suffice.errors import ParameterError
    from suffice.learner.ratio.estimator import ClassRatio
    from suffice.release.codec import load

    *files, unlabelled = releases
    if not files:
        raise ParameterError("give one release or more, and the unlabelled set last.")
    model = ClassRatio(method=method)
    model.fit_release([load(path) for path in files], str(rows), bags=bag)
    shares = model.quantify(str(unlabelled))
    low, high = model.interval(str(unlabelled), level)
    if plot is not None:
        _draw(model.classes_, shares, low, high, plot)
    if json:
        show_json(
            {
                "classes": model.classes_.tolist(),
                "ratios": shares.tolist(),
                "low": low.tolist(),
                "high": high.tolist(),
                "level": level,
                "method": model.method_,
            }
        )
        return
    lines = zip(model.classes_, shares, low, high, strict=True)
    show_table(
        f"share of each class, with {100 * level:g} % intervals (method: {model.method_})",
        ("class", "share", "from", "to"),
        [(str(name), *(f"{value:.4f}" for value in values)) for name, *values in lines],
    )


def _draw(classes: Any, shares: Any, low: Any, high: Any, path: Path) -> None:
    """Draw the ratios with their intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 0.6 + 0.45 * len(classes)), layout="constrained")
    axes = figure.subplots()
    places = range(len(classes))
    axes.hlines(places, low, high, color="tab:blue", linewidth=2)
    axes.plot(shares, places, "o", color="tab:blue")
    axes.set(yticks=list(places), yticklabels=[str(name) for name in classes], xlim=(0, 1))
    axes.set_xlabel("share of the set")
    axes.invert_yaxis()
    figure.savefig(path)
