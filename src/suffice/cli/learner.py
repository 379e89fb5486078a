"""Commands of the learner: fit, predict, score, ratio and frequencies."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typer.core import TyperCommand

from suffice.cli.building import (
    Inputs,
    JsonOutput,
    OutputFile,
    Overwriting,
    make_command,
    refuse_unused,
)
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.releases import TABLE_HELP, Reading, count_rows_of
from suffice.engines.engine import Computing
from suffice.errors import MissingValuesError, ParameterError, TableError
from suffice.options import REQUIRED, data_option, names, output_option, preprocessing_option
from suffice.plain_text import listed, name
from suffice.tables.terms import MissingRule

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
        from suffice.learner.operator import NoiseWarning
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
        from suffice.learner.frequencies import release_frequencies
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


_PREDICTION, _PROBABILITY = "prediction", "probability of {}"  # the columns that are written
_MOST_SHOWN_CLASSES = 12  # classes of a confusion table that fits on a screen


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
        written = {_PREDICTION, *map(_PROBABILITY.format, classifier.classes_)}
        for column in options.keep or []:
            if column in written:
                raise TableError(
                    f"suffice writes a column of its own that is called {name(column)}. Rename"
                    " yours, or leave it out of --keep."
                )
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
        from suffice.pages.plots import check_plot, draw_scores
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
    if len(classes) > _MOST_SHOWN_CLASSES:
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


MODEL_COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {
    "predict": _predict_command,
    "score": _score_command,
}


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


RATIO_COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {"ratio": _ratio_command}
