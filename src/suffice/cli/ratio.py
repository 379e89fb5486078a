"""The command that estimates class proportions: ratio."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command
from suffice.cli.options import JsonOutput, Overwriting
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.reading import Reading, count_rows_of
from suffice.errors import ParameterError
from suffice.options import REQUIRED, data_option, output_option, preprocessing_option

__all__ = ["COMMANDS"]


@dataclass(frozen=True, kw_only=True)
class _Ratio(JsonOutput, Overwriting):
    """What proportions are estimated from, and how."""

    files: list[str] = data_option(
        REQUIRED,
        "Releases of proportions, of one owner or of several; then the new table.",
        argument=True,
        many=True,
        path=Path,
    )
    rows: list[str] = data_option(
        REQUIRED,
        "The public rows of the released bags, for example wards.csv (repeatable).",
        many=True,
        path=Path,
    )
    bag: list[str] = data_option(
        REQUIRED,
        "Column that holds the bags, for example ward; repeat it as it was released.",
        many=True,
    )
    method: str = preprocessing_option(
        "auto",
        "Method: moments, likelihood or mmd. Default: auto, which is moments unless mmd is clearly"
        " better on rows held back.",
    )
    kernel: str = preprocessing_option(
        "rbf", "Kernel of --method mmd: rbf, laplace or linear. Default: rbf."
    )
    level: float = output_option(
        0.95, "Confidence level of the intervals, for example 0.9. Default: 0.95."
    )
    plot: Path | None = output_option(
        None, "Draw the proportions to this SVG, PNG or PDF file.", parse=Path, path=Path,
        writes=True,
    )  # fmt: skip

    def releases_and_table(self) -> tuple[list[str], str]:
        """Return the releases, and the new table, which is named last."""
        *releases, table = self.files
        if not releases:
            raise ParameterError("Name one release or more, and the new table last.")
        return releases, table


@dataclass(frozen=True)
class _Estimate:
    """The proportions of a new table, how far to trust them, and the model that they come from."""

    model: Any
    result: Any

    def to_json(self) -> dict[str, Any]:
        """Return all of it for programs."""
        return {
            "classes": self.model.classes_.tolist(),
            **self.result.to_json(),
            "method": self.model.method_,
            "held_back_error": self.model.held_back_error_,
            "condition": self.model.condition_,
            "bound": self.model.bound_,
        }

    def show(self) -> None:
        """Print all of it for people, the words before the figures."""
        say(*self.result.words)
        show_table(*self._table())
        model = self.model
        errors = ", ".join(f"{name} {error:.3f}" for name, error in model.held_back_error_.items())
        bags = "how strongly the bags amplify errors; lower is better"
        pairs = [
            ("error", f"{errors} (distance from the truth, on rows of the bags held back)"),
            ("condition number", f"{model.condition_:.3g} ({bags})"),
        ]
        if not self.result.label_shift.rejected and self.result.label_shift.tested:
            p = f"{self.result.label_shift.p:.2g}"
            pairs.append(("label shift", f"not contradicted by the bags (p = {p})"))
        show_pairs(pairs)

    def _table(self) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
        """Return title, columns and lines: with intervals, or under two assumptions."""
        result = self.result
        if result.level is not None:
            title = f"Proportion of each class, with {100 * result.level:g} % intervals"
            columns: tuple[str, ...] = ("class", "proportion")
        else:
            title = "Proportion of each class under each assumption, and a range of both"
            names = {"label_shift": "if classes look alike", "stable": "if p(y | x) is stable"}
            columns = ("class", *(names[name] for name in result.estimates))
        figures = list(result.estimates.values())
        columns, figures = (*columns, "from", "to"), [*figures, result.low, result.high]
        lines = [
            (str(name), *(f"{values[k]:.4f}" for values in figures))
            for k, name in enumerate(result.classes)
        ]
        return f"{title} (method: {self.model.method_})", columns, lines

    def draw(self, path: Path, *, overwrite: bool) -> None:
        """Draw the estimates, with their intervals or range."""
        from matplotlib.figure import Figure

        from suffice.pages.plots import save_plot

        classes = self.result.classes
        figure = Figure(figsize=(5, 0.6 + 0.45 * len(classes)), layout="constrained")
        axes = figure.subplots()
        positions = range(len(classes))
        ends = self.result.low, self.result.high
        axes.hlines(positions, *ends, color="tab:blue", linewidth=2)
        for values, marker in zip(self.result.estimates.values(), "os", strict=False):
            axes.plot(values, positions, marker, color="tab:blue")
        axes.set(yticks=list(positions), yticklabels=[str(name) for name in classes], xlim=(0, 1))
        axes.set_xlabel("proportion of the table")
        axes.invert_yaxis()
        save_plot(figure, path, overwrite=overwrite)


def _ratio_command() -> TyperCommand:
    """Return ``suffice ratio``."""

    def run(inputs: Inputs) -> None:
        from suffice.pages.plots import check_plot

        options = inputs.make("ratio", _Ratio)
        if options.plot is not None:
            check_plot(options.plot)
        estimate = _estimate(options, inputs.make("reading", Reading))
        if options.plot is not None:
            estimate.draw(options.plot, overwrite=options.force)
        if options.json:
            show_json(estimate.to_json())
        else:
            estimate.show()

    summary = (
        "Estimate the proportion of each class in a new table.\n\nName the releases first and the"
        " new table last: suffice ratio RELEASE... TABLE. --query reads those tables that are"
        " addresses of databases; the others are files."
    )
    return make_command("ratio", {"ratio": _Ratio, "reading": Reading}, run, help=summary)


def _estimate(options: _Ratio, reading: Reading) -> _Estimate:
    """Return the proportions of the new table, estimated from the releases."""
    from suffice.learner.ratio.estimator import ClassRatio
    from suffice.release.codec import load
    from suffice.tables.sources import concatenated, open_table

    releases, path = options.releases_and_table()
    *bags, table = reading.tables([*options.rows, path])
    tables = [open_table(rows) for rows in bags]
    model = ClassRatio(method=options.method, kernel=options.kernel)
    with progress("estimating") as count_rows:
        model.fit_release(
            [load(release) for release in releases],
            tables[0] if len(tables) == 1 else concatenated(tables),
            bags=options.bag[0] if len(options.bag) == 1 else tuple(options.bag),
        )
        result = model.estimate(count_rows_of(table, count_rows), options.level)
    return _Estimate(model, result)


COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {"ratio": _ratio_command}
