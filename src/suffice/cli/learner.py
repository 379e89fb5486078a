"""Commands that learn from releases: fit and frequencies."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command
from suffice.cli.checks import refuse_unused
from suffice.cli.options import JsonOutput, OutputFile
from suffice.cli.output import progress, show_json, show_pairs, show_table
from suffice.cli.reading import Reading
from suffice.engines.opening import Computing
from suffice.errors import ParameterError
from suffice.options import (
    REQUIRED,
    data_option,
    output_option,
    preprocessing_option,
)
from suffice.plain_text import name

__all__ = ["COMMANDS"]


_OPTION_NAMES = {"lam": "--penalty-weight"}  # where the library's word is another one


def _weight(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise ParameterError(f"--penalty-weight must be a number or auto; got {text!r}.") from None


@dataclass(frozen=True, kw_only=True)
class _Fit(OutputFile):
    """What is learnt from, and how."""

    releases: list[Path] = data_option(
        REQUIRED, "Release files, of one owner or of several.", argument=True, many=True, path=Path
    )
    rows: list[str] | None = data_option(
        None,
        "The public rows of a release; repeat it in the order of the releases. Randomised"
        " records, subset sums and moments need none.",
        many=True,
        path=Path,
    )
    loss: str | None = preprocessing_option(
        None,
        "Loss: logistic, square, matsushita or linear. Default: logistic; for subset sums square,"
        " or logistic (by boosting).",
    )
    penalty: str | None = preprocessing_option(
        None, "Penalty: l2, l1, elastic-net or none. Default: l2."
    )
    lam: float | None = preprocessing_option(
        None,
        "Weight of the penalty, for example 0.01. Default: auto, computed from the release.",
        name="--penalty-weight",
        parse=_weight,
    )

    estimator: str | None = preprocessing_option(
        None,
        "Classifier for randomised labels: hist-gradient-boosting or logistic. Default: a linear"
        " model of the corrected labels.",
    )

    def settings(self, computing: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a learner is made with; None where it was not set."""
        penalty = None if self.penalty == "l2" else self.penalty
        chosen = {"penalty": penalty, "loss": self.loss, "lam": self.lam}
        return {**chosen, "estimator": self.estimator, **computing}


def _fit_command() -> TyperCommand:
    """Return ``suffice fit``."""

    def run(inputs: Inputs) -> None:
        from suffice.learner import fit as learners
        from suffice.learner.operator.doubts import NoiseWarning
        from suffice.release.codec import load

        options, reading = inputs.make("fit", _Fit), inputs.make("reading", Reading)
        loaded = [load(path) for path in options.releases]
        settings = options.settings(inputs.values["computing"])
        learning = learners.learning_from(loaded[0].kind)
        unused = {
            _OPTION_NAMES.get(option, f"--{option}"): option
            for option in learning.unused(options.rows, settings)
        }
        refuse_unused(f"to learn from a release of kind {loaded[0].kind}", unused)
        # The report has the same sentences, and not on stderr.
        with warnings.catch_warnings(), progress("fitting") as count_rows:
            warnings.simplefilter("ignore", NoiseWarning)
            if "progress" in learning.options(settings):
                settings["progress"] = count_rows
            model = learning.fit(loaded, _rows(options.rows, reading), settings)
            learners.release_of(model).save(options.output, overwrite=options.force)
            report = learning.report(model)
        if options.json:
            show_json({"written": str(options.output), **report.values})
        else:
            show_pairs([("written", str(options.output)), *report.lines])

    parts = {"fit": _Fit, "reading": Reading, "computing": Computing}
    return make_command("fit", parts, run, help="Train a classifier from releases.")


def _rows(paths: list[str] | None, reading: Reading) -> Any:
    tables = [reading.table(path) for path in paths or ()]
    if len(tables) <= 1:
        return tables[0] if tables else None
    from suffice.tables.sources import concatenated, open_table

    return concatenated([open_table(table) for table in tables])


@dataclass(frozen=True, kw_only=True)
class _Frequencies(JsonOutput):
    """Which release is estimated from, and how."""

    release: Path = data_option(
        REQUIRED, "A release of randomised answers.", argument=True, path=Path
    )
    method: str = output_option("likelihood", "Method: likelihood or inverse. Default: likelihood.")
    level: float = output_option(
        0.95, "Confidence level of the intervals, for example 0.9. Default: 0.95."
    )


def _frequencies_command() -> TyperCommand:
    """Return ``suffice frequencies``."""

    def run(inputs: Inputs) -> None:
        from suffice.learner.spread.frequencies import release_frequencies
        from suffice.release.codec import load

        options = inputs.make("frequencies", _Frequencies)
        columns = release_frequencies(
            load(options.release), method=options.method, level=options.level
        )
        if options.json:
            show_json({"columns": [column.to_json() for column in columns]})
            return
        cells = [
            (name(column.name), name(value), f"{proportion:.4f}", f"{low:.4f} to {high:.4f}")
            for column in columns
            for value, proportion, low, high in zip(
                column.states, column.shares, column.low, column.high, strict=True
            )
        ]
        interval = f"{100 * options.level:g} % interval"
        heads = ["column", "value", "estimated proportion", interval]
        show_table(f"True answers, estimated from {options.release}", heads, cells)

    summary = "Estimate the proportion of each true answer, with intervals."
    return make_command("frequencies", {"frequencies": _Frequencies}, run, help=summary)


COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {
    "fit": _fit_command,
    "frequencies": _frequencies_command,
}
