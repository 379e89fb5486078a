"""Commands that use a fitted model on new rows: predict and score."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command
from suffice.cli.options import JsonOutput, Overwriting
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.reading import TABLE_HELP, Reading, count_rows_of
from suffice.errors import MissingValuesError, ParameterError, TableError
from suffice.options import REQUIRED, data_option, names, output_option, preprocessing_option
from suffice.plain_text import listed, name
from suffice.tables.missing_rule import MissingRule

__all__ = ["COMMANDS"]

_PREDICTION, _PROBABILITY = "prediction", "probability of {}"  # the columns that are written
_WIDEST = 12  # classes of a confusion table that fits on a screen


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
    class_weight: list[str] | None = data_option(
        None,
        "What a mistake about a class costs, as CLASS=NUMBER, for example ill=5 (repeatable). Other"
        " classes cost 1. Probabilities stay as they are.",
        many=True,
    )

    def classifier(self) -> Any:
        """Return the classifier, with its own rule for missing values or the one that is set."""
        from suffice.learner.fit import model_of
        from suffice.release.codec import load

        classifier = model_of(load(self.model))
        if self.missing is not None:
            classifier.pipeline_ = classifier.pipeline_.with_missing(self.missing)
        if self.class_weight:
            costs = _class_costs(self.class_weight, classifier.classes_.tolist())
            classifier.set_params(class_weight=costs)
        return classifier


def _class_costs(texts: list[str], classes: list[Any]) -> dict[Any, float]:
    """Return the cost of each class that CLASS=NUMBER names; a class may hold signs of equality."""
    costs: dict[Any, float] = {}
    by_text = {str(class_name): class_name for class_name in classes}
    for text in texts:
        class_text, sign, number = text.rpartition("=")
        try:
            cost = float(number)
        except ValueError:
            sign, cost = "", 0.0
        if not sign or class_text not in by_text or by_text[class_text] in costs:
            raise ParameterError(
                f"--class-weight takes CLASS=NUMBER, once for each class. The classes are"
                f" {listed(classes)}."
            )
        costs[by_text[class_text]] = cost
    return costs


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
        _check_kept(options.keep or [], classifier)
        columns = _selected_columns(table, options.keep or [])
        with _missing_advice(), progress("predicting") as count_rows:
            rows = count_rows_of(table, count_rows)
            columns[_PREDICTION] = pa.array(classifier.predict(rows))
            if classifier.gives_probabilities:
                probability = classifier.predict_proba(rows)
                for position, class_name in enumerate(classifier.classes_):
                    columns[_PROBABILITY.format(class_name)] = pa.array(probability[:, position])
        write_table(pa.table(columns), options.output, for_sheets=True, overwrite=options.force)
        say(f"{options.output}: {len(columns[_PREDICTION]):,} predictions.")

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


def _check_kept(wanted: list[str], classifier: Any) -> None:
    """Raise if a kept column has the name of one that is written."""
    written = {_PREDICTION, *map(_PROBABILITY.format, classifier.classes_)}
    for column in wanted:
        if column in written:
            raise TableError(
                f"suffice writes a column of its own that is called {name(column)}. Rename yours,"
                " or leave it out of --keep."
            )


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
class _Score(JsonOutput, Overwriting):
    """The labels that predictions are compared with, and what is drawn."""

    label: str = data_option(REQUIRED, "Column that holds the true labels, for example diagnosis.")
    plot: Path | None = output_option(
        None,
        "Draw the ROC curve and the calibration to this SVG, PNG or PDF file.",
        parse=Path,
        path=Path,
        writes=True,
    )


def _score_command() -> TyperCommand:
    """Return ``suffice score``."""

    def run(inputs: Inputs) -> None:
        from suffice.learner.scoring import predictions_of
        from suffice.pages.plots import check_plot
        from suffice.pages.score_plot import draw_scores
        from suffice.tables.sources import open_table

        options = inputs.make("score", _Score)
        if options.plot is not None:
            check_plot(options.plot)
        model = inputs.make("model", _ModelAndTable)
        classifier = model.classifier()
        table = inputs.make("reading", Reading).table(model.table)
        source = open_table(table, text=[options.label])
        truth = _true_codes(classifier, source, options.label)
        with _missing_advice(), progress("predicting") as count_rows:
            predictions = predictions_of(classifier, count_rows_of(source, count_rows), truth)
        if options.plot is not None:
            draw_scores(predictions, options.plot, overwrite=options.force)
        if options.json:
            show_json(predictions.to_json())
        else:
            _show_scores(predictions)

    parts = {"model": _ModelAndTable, "reading": Reading, "score": _Score}
    summary = "Measure how good a model is on labels that you may see."
    return make_command("score", parts, run, help=summary)


def _show_scores(predictions: Any) -> None:
    """Print the figures, then precision and recall of each class, then who was taken for whom."""
    say(
        f"accuracy {predictions.accuracy:.4f} on {len(predictions.truth):,} rows"
        f" (always the larger class: {predictions.shares.max():.4f})"
    )
    show_pairs(list(_figure_lines(predictions)))
    classes = [name(class_name) for class_name in predictions.classes]
    counts = predictions.confusion
    quality = zip(
        classes, predictions.precision, predictions.recall, counts.sum(axis=1), strict=True
    )
    cells = [(c, _proportion(p), _proportion(r), f"{int(n):,}") for c, p, r, n in quality]
    show_table("Classes", ("class", "precision", "recall", "rows"), cells)
    if len(classes) > _WIDEST:
        say(f"The confusion table has {len(classes)} columns. Read it with --json.")
        return
    heads = ("true class", *(f"predicted {class_name}" for class_name in classes))
    lines = [(c, *(f"{n:,}" for n in line)) for c, line in zip(classes, counts, strict=True)]
    show_table("Confusion table (rows)", heads, lines)


def _figure_lines(predictions: Any) -> Iterator[tuple[str, str]]:
    yield "balanced accuracy", f"{predictions.balanced_accuracy:.4f} (mean recall of the classes)"
    auc = "absent: all rows are of one class" if predictions.ranking is not None else "absent"
    many = "" if len(predictions.classes) == 2 else " (mean, each class against the rest)"
    yield "AUC", auc if predictions.auc is None else f"{predictions.auc:.4f}{many}"
    if predictions.probabilities is None:
        yield "log loss, Brier score, ECE", f"absent: {predictions.refusal}"
        return
    constant = f"(class proportions alone: {predictions.constant_log_loss:.4f})"
    yield "log loss", f"{predictions.log_loss:.4f} {constant}"
    yield "Brier score", f"{predictions.brier:.4f}"
    yield "ECE", f"{predictions.calibration.error:.4f} (expected calibration error)"


def _proportion(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"  # noqa: PLR0124  # NaN: nothing to divide by


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


COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {
    "predict": _predict_command,
    "score": _score_command,
}
