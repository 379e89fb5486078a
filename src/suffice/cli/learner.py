"""Commands of the learner: fit, predict, score, frequencies."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command
from suffice.cli.checks import refuse_unused
from suffice.cli.options import JsonOutput, OutputFile, Overwriting
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.reading import TABLE_HELP, Reading, count_rows_of
from suffice.engines.opening import Computing
from suffice.errors import MissingValuesError, ParameterError, TableError
from suffice.options import (
    REQUIRED,
    data_option,
    names,
    output_option,
    preprocessing_option,
)
from suffice.plain_text import listed, name
from suffice.tables.missing_rule import MissingRule

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
        old=("--lam",),
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
        with progress("fitting") as count_rows:
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
class _ModelAndTable:
    """A model, and the rows that it is used on."""

    model: Path = data_option(REQUIRED, "A model file.", argument=True, path=Path)
    table: str = data_option(REQUIRED, f"The rows: {TABLE_HELP}", argument=True, path=Path)
    missing: Literal["error", "mean", "zero"] | None = preprocessing_option(
        None,
        "What a missing value becomes: an error, the mean of its column, or zero. Default: as the"
        " release has it.",
        choices=MissingRule,
    )

    def classifier(self) -> Any:
        """Return the classifier, with its own rule for missing values or the one that is set."""
        from suffice.learner.fit import model_of
        from suffice.release.codec import load

        classifier = model_of(load(self.model))
        if self.missing is not None:
            classifier.pipeline_ = classifier.pipeline_.with_missing(self.missing)
        return classifier


@dataclass(frozen=True, kw_only=True)
class _Predictions(Overwriting):
    """Where predictions go, and what is written beside them."""

    output: Path = output_option(
        REQUIRED,
        "The file to write: Parquet, CSV or Feather.",
        name="--output",
        short="-o",
        parse=Path,
        path=Path,
        writes=True,
    )
    keep: list[str] | None = output_option(
        None,
        "Columns to write beside the predictions, with commas (repeatable).",
        parse=names,
        many=True,
    )


def _predict_command() -> TyperCommand:
    """Return ``suffice predict``."""

    def run(inputs: Inputs) -> None:
        import pyarrow as pa

        from suffice.tables.writing import check_ending, write_table

        options = inputs.make("predictions", _Predictions)
        check_ending(options.output)
        model = inputs.make("model", _ModelAndTable)
        classifier = model.classifier()
        table = inputs.make("reading", Reading).table(model.table)
        columns = _selected_columns(table, options.keep or [])
        with _missing_advice(), progress("predicting") as count_rows:
            rows = count_rows_of(table, count_rows)
            columns["prediction"] = pa.array(classifier.predict(rows))
            if classifier.gives_probabilities:
                probability = classifier.predict_proba(rows)
                for position, class_name in enumerate(classifier.classes_):
                    columns[f"probability of {class_name}"] = pa.array(probability[:, position])
        write_table(pa.table(columns), options.output, for_sheets=True, overwrite=options.force)
        say(f"{options.output}: {len(columns['prediction']):,} predictions.")

    parts = {"model": _ModelAndTable, "reading": Reading, "predictions": _Predictions}
    summary = "Predict the class of new rows, with probabilities."
    return make_command("predict", parts, run, help=summary)


@contextmanager
def _missing_advice() -> Iterator[None]:
    """Say which option settles missing values that the model has no rule for."""
    try:
        yield
    except MissingValuesError as error:
        raise MissingValuesError(f"{error} Choose one: --missing mean, or zero.") from None


def _selected_columns(rows: Any, wanted: list[str]) -> dict[str, Any]:
    """Return columns of new rows as they are written there."""
    import pyarrow as pa

    from suffice.tables.columns import resolve_roles
    from suffice.tables.sources import open_table

    if not wanted:
        return {}
    table = open_table(rows, text=wanted)
    resolve_roles(pa.schema([(name, pa.string()) for name in table.schema.names]), features=wanted)
    columns = pa.Table.from_batches(table.batches(wanted))
    return {name: columns[name] for name in wanted}


@dataclass(frozen=True, kw_only=True)
class _Score(JsonOutput):
    """The labels that predictions are compared with."""

    label: str = data_option(REQUIRED, "Column that holds the true labels, for example diagnosis.")


def _score_command() -> TyperCommand:
    """Return ``suffice score``."""

    def run(inputs: Inputs) -> None:
        import numpy as np

        from suffice.tables.sources import open_table

        options = inputs.make("score", _Score)
        model = inputs.make("model", _ModelAndTable)
        classifier = model.classifier()
        table = inputs.make("reading", Reading).table(model.table)
        source = open_table(table, text=[options.label])
        truth = _true_codes(classifier, source, options.label)
        with _missing_advice(), progress("predicting") as count_rows:
            predictions = classifier.predict(count_rows_of(source, count_rows))
        accuracy = float((predictions == classifier.classes_[truth]).mean())
        larger = float(np.bincount(truth).max() / len(truth))
        if options.json:
            show_json({"accuracy": accuracy, "rows": len(truth), "larger_class": larger})
            return
        say(
            f"accuracy {accuracy:.4f} on {len(truth):,} rows"
            f" (always the larger class: {larger:.4f})"
        )

    parts = {"model": _ModelAndTable, "reading": Reading, "score": _Score}
    summary = "Measure the accuracy of a model on labels that you may see."
    return make_command("score", parts, run, help=summary)


def _true_codes(classifier: Any, source: Any, label: str) -> Any:
    """Return the true class of each row, as a position in the model's classes."""
    import numpy as np

    from suffice.tables.columns import resolve_roles
    from suffice.tables.labels import label_codes

    columns = [column.name for column in classifier.pipeline_.columns]
    resolve_roles(source.schema, label=label, features=columns)
    classes = tuple(classifier.classes_.tolist())
    batches = source.batches([label])
    codes = [label_codes(batch.column(label), classes, outside="none") for batch in batches]
    truth = np.concatenate(codes) if codes else np.empty(0, dtype=int)
    if not len(truth):
        raise TableError("The table has no rows.")
    strange = int((truth < 0).sum())
    if strange:
        raise TableError(
            f"{strange:,} of {len(truth):,} labels are missing or not among the model's classes"
            f" ({listed(classes)}). Remove their rows."
        )
    return truth


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
    "predict": _predict_command,
    "score": _score_command,
    "frequencies": _frequencies_command,
}
