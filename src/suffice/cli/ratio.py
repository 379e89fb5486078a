"""The command that estimates class ratios: ratio."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.checks import check_outputs
from suffice.cli.output import show_json, show_pairs, show_table
from suffice.cli.reading import Decimal, Delimiter, Encoding, Reading

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ratio)


def ratio(
    files: Annotated[
        list[Path],
        typer.Argument(help="Releases of proportions, several owners', then the new table."),
    ],
    rows: Annotated[
        list[str], typer.Option(help="The public rows of the released bags; repeat it for more.")
    ],
    bag: Annotated[
        list[str], typer.Option(help="The column of bags; several, as they were released.")
    ],
    method: Annotated[
        str,
        typer.Option(
            help="mmd, likelihood; auto: likelihood, unless mmd is clearly better held back."
        ),
    ] = "auto",
    kernel: Annotated[str, typer.Option(help="Of mmd: rbf, laplace or linear.")] = "rbf",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Draw it: an SVG, PNG or PDF file.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Estimate the proportion of each class in a new table: suffice ratio FILE... TABLE."""
    from suffice.errors import ParameterError
    from suffice.learner.ratio.estimator import ClassRatio
    from suffice.pages.plots import check_plot
    from suffice.release.codec import load
    from suffice.tables.sources import concatenated, open_table

    check_outputs(plot, reads=[*files, *rows], force=force)
    *releases, unlabelled = files
    if not releases:
        raise ParameterError("give one release or more, and the unlabelled table last.")
    if plot is not None:
        check_plot(plot)
    reading = Reading(delimiter=delimiter, decimal=decimal, encoding=encoding)
    tables = [open_table(reading.table(place)) for place in rows]
    new = reading.table(unlabelled)
    model = ClassRatio(method=method, kernel=kernel)
    model.fit_release(
        [load(path) for path in releases],
        tables[0] if len(tables) == 1 else concatenated(tables),
        bags=bag[0] if len(bag) == 1 else tuple(bag),
    )
    shares = model.quantify(new)
    low, high = model.interval(new, level)
    if plot is not None:
        _draw(model.classes_, shares, low, high, plot, overwrite=force)
    if json:
        show_json(
            {
                "classes": model.classes_.tolist(),
                "ratios": shares.tolist(),
                "low": low.tolist(),
                "high": high.tolist(),
                "level": level,
                "method": model.method_,
                "held_back_error": model.held_back_error_,
                "condition": model.condition_,
                "bound": model.bound_,
            }
        )
        return
    lines = zip(model.classes_, shares, low, high, strict=True)
    show_table(
        f"proportion of each class, with {100 * level:g} % intervals (method: {model.method_})",
        ("class", "proportion", "from", "to"),
        [(str(name), *(f"{value:.4f}" for value in values)) for name, *values in lines],
    )
    errors = ", ".join(f"{name} {error:.3f}" for name, error in model.held_back_error_.items())
    show_pairs(
        [
            ("error", f"{errors} (L2, root mean square on parts of the bags held back)"),
            ("condition", f"{model.condition_:.3g}, of the bags (Q in Theorem 1)"),
        ]
    )


def _draw(classes: Any, shares: Any, low: Any, high: Any, path: Path, *, overwrite: bool) -> None:
    """Draw the ratios with their intervals."""
    from matplotlib.figure import Figure

    from suffice.pages.plots import save_plot

    figure = Figure(figsize=(5, 0.6 + 0.45 * len(classes)), layout="constrained")
    axes = figure.subplots()
    places = range(len(classes))
    axes.hlines(places, low, high, color="tab:blue", linewidth=2)
    axes.plot(shares, places, "o", color="tab:blue")
    axes.set(yticks=list(places), yticklabels=[str(name) for name in classes], xlim=(0, 1))
    axes.set_xlabel("proportion of the table")
    axes.invert_yaxis()
    save_plot(figure, path, overwrite=overwrite)
