"""Commands of the learner: fit, predict, score, ratio, frequencies, describe and sample."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from suffice.cli.building import (
    OUTPUT,
    PLOT,
    JsonOutput,
    OutputFile,
    Overwriting,
    Reading,
    make_command,
    refuse_unused,
)
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.releases import TABLE_HELP, count_rows_of
from suffice.engines.engine import Computing
from suffice.errors import MissingValuesError, ParameterError, TableError
from suffice.options import (
    REQUIRED,
    MissingRule,
    data_option,
    names,
    output_option,
    preprocessing_option,
)
from suffice.plain_text import listed, name
from suffice.strict_json import plain

_MOST_SHOWN = 12  # classes of a confusion table, or correlations, that fit on a screen
_LEVEL = "Confidence level of the intervals, for example 0.9. Default: 0.95."


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


def fit(fit: _Fit, reading: Reading, computing: dict[str, Any]) -> None:
    """Train a classifier, or a regression, from releases."""
    from suffice.learner import fit as learners
    from suffice.learner.problem import NoiseWarning
    from suffice.releases.codec import load

    loaded = [load(path) for path in fit.releases]
    settings = {
        "penalty": None if fit.penalty == "l2" else fit.penalty,
        "loss": fit.loss,
        "lam": fit.lam,
        "estimator": fit.estimator,
        **computing,
    }
    learning = learners.learning_from(loaded[0].kind)
    option_names = {"lam": "--penalty-weight"}  # where the library's word is another one
    option_names |= {option: f"--computing {option}" for option in computing}
    unused = learning.unused(fit.rows, settings)
    refuse_unused(
        f"to learn from a release of kind {loaded[0].kind}",
        {option_names.get(option, f"--{option}"): option for option in unused},
    )
    # The report has the same sentences, and not on stderr.
    with warnings.catch_warnings(), progress("fitting") as count_rows:
        warnings.simplefilter("ignore", NoiseWarning)
        if "progress" in learning.options(settings):
            settings["progress"] = count_rows
        rows = _concatenated([reading.open(path) for path in fit.rows or ()])
        model = learning.fit(loaded, rows, settings)
        learners.release_of(model).save(fit.output, overwrite=fit.force)
        report = learning.report(model)
    if fit.json:
        show_json({"written": str(fit.output), **report.values})
    else:
        clips = (("clipped", model.pipeline_.clipping),) if model.pipeline_.clipped else ()
        show_pairs([("written", str(fit.output)), *report.lines, *clips])


fit_command = partial(make_command, fit, computing=Computing)


def _concatenated(tables: list[Any]) -> Any:
    """Return tables as one; None if there are none."""
    if len(tables) <= 1:
        return tables[0] if tables else None
    from suffice.tables.sources import Concatenated, open_table

    return Concatenated([open_table(table) for table in tables])


@dataclass(frozen=True, kw_only=True)
class _Frequencies(JsonOutput):
    """Which release is estimated from, and how."""

    release: Path = data_option(
        REQUIRED, "A release of randomised answers.", argument=True, path=Path
    )
    level: float = output_option(0.95, _LEVEL)


def frequencies(options: _Frequencies) -> None:
    """Estimate true proportions and means, with intervals."""
    from suffice.learner.frequencies import release_frequencies, release_means
    from suffice.releases.codec import load

    release, interval = load(options.release), f"{100 * options.level:g} % interval"
    columns = release_frequencies(release, level=options.level)
    means = release_means(release, level=options.level)
    if options.json:
        content = {"columns": [column.to_json() for column in columns]}
        show_json(content | {"means": [plain(mean) for mean in means]})
        return
    cells = [
        (name(column.name), name(value), f"{proportion:.4f}", f"{low:.4f} to {high:.4f}")
        for column in columns
        for value, proportion, low, high in zip(
            column.states, column.shares, column.low, column.high, strict=True
        )
    ]
    heads = ["column", "value", "estimated proportion", interval]
    show_table(f"True answers, estimated from {options.release}", heads, cells)
    if means:
        lines = [
            (name(mean.name), *_with_interval((mean.mean, mean.low, mean.high))) for mean in means
        ]
        show_table("Means of numbers, held to their ranges", ["column", "mean", interval], lines)


@dataclass(frozen=True, kw_only=True)
class _Describe(JsonOutput):
    """Which release is described, and how."""

    release: Path = data_option(REQUIRED, "A release of moments.", argument=True, path=Path)
    level: float = output_option(0.95, _LEVEL)


def describe(options: _Describe) -> None:
    """State means, variances and correlations, with intervals."""
    from suffice.learner.moments import describe as described
    from suffice.releases.codec import load

    found = described(load(options.release), options.level)
    if options.json:
        show_json(found.to_json())
        return
    interval = f"{100 * options.level:g} % interval"
    cells = [
        (name(column), *(text for figure in (mean, variance) for text in _with_interval(figure)))
        for column, mean, variance in zip(found.names, found.means, found.variances, strict=True)
    ]
    heads = ["column", "mean", interval, "variance", interval]
    show_table(f"Columns, estimated from {options.release}", heads, cells)
    pairs = sorted(found.pairs(), key=lambda pair: -abs((pair[2] or [0.0])[0]))
    lines = [
        (name(first), name(second), *(_with_interval(r) if r else ("hidden by noise", "-")))
        for first, second, r in pairs[:_MOST_SHOWN]
    ]
    if lines:
        show_table("Correlations", ["column", "with", "correlation", interval], lines)
    if len(pairs) > _MOST_SHOWN:
        say(f"{len(pairs) - _MOST_SHOWN:,} smaller correlations are left out. Use --json.")
    say("All are of rows as the release shortens them. Intervals count noise and sampling.")


@dataclass(frozen=True, kw_only=True)
class _Sample(Overwriting):
    """Which release rows are drawn from, how many, and where they go."""

    release: Path = data_option(
        REQUIRED, "A release of moments with the map ranks.", argument=True, path=Path
    )
    rows: int = data_option(
        REQUIRED, "Number of synthetic rows, for example 20000.", short="-n", parse=int
    )
    output: Path = output_option(REQUIRED, "The file to write: Parquet or Feather.", **OUTPUT)
    seed: int = output_option(0, "Seed of the draws, for example 1. Default: 0.")


def sample(options: _Sample) -> None:
    """Draw synthetic rows, which are no people, from moments."""
    import suffice
    from suffice.releases.codec import load
    from suffice.tables.files import write_table

    if options.output.suffix.lower() == ".csv":
        raise ParameterError(
            "A CSV file cannot say that its rows are synthetic. Write to a .parquet or .feather"
            " file."
        )
    table = suffice.sample(load(options.release), options.rows, options.seed)
    write_table(table, options.output, overwrite=options.force)
    say(
        f"{options.output}: {len(table):,} synthetic rows. They are no people.",
        "A model that is fitted to the release itself is usually as good or better.",
    )


def _with_interval(figure: Sequence[float]) -> tuple[str, str]:
    """Return an estimate and its interval, as texts."""
    estimate, low, high = figure
    return f"{estimate:.4g}", f"{low:.4g} to {high:.4g}"


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
        from suffice.releases.codec import load

        classifier = model_of(load(self.model))
        if self.missing is not None:
            classifier.pipeline_ = classifier.pipeline_.with_missing(self.missing)
        if not self.class_weight:
            return classifier
        if not hasattr(classifier, "classes_"):
            refuse_unused("with a model that predicts numbers", {"--class-weight": True})
        costs: dict[Any, float] = {}
        classes = classifier.classes_.tolist()
        by_text = {str(class_name): class_name for class_name in classes}
        for text in self.class_weight:
            class_text, sign, number = text.rpartition("=")  # a class may hold signs of equality
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
        classifier.set_params(class_weight=costs)
        return classifier


@dataclass(frozen=True, kw_only=True)
class _Predictions(Overwriting):
    """Where predictions go, and what is written beside them."""

    output: Path = output_option(REQUIRED, "The file to write: Parquet, CSV or Feather.", **OUTPUT)
    keep: list[str] | None = output_option(
        None,
        "Columns to write beside the predictions, with commas (repeatable).",
        parse=names,
        many=True,
    )


def predict(model: _ModelAndTable, reading: Reading, options: _Predictions) -> None:
    """Predict the class of new rows, or their number."""
    import pyarrow as pa

    from suffice.tables.columns import resolve_roles
    from suffice.tables.files import check_ending, write_table
    from suffice.tables.sources import open_table

    check_ending(options.output)
    classifier = model.classifier()
    table = reading.open(model.table)
    prediction, keep = "prediction", options.keep or []
    classes = getattr(classifier, "classes_", ())  # none, if it predicts numbers
    probabilities = [f"probability of {class_name}" for class_name in classes]
    for column in keep:
        if column in {prediction, *probabilities}:
            raise TableError(
                f"suffice writes a column of its own that is called {name(column)}. Rename"
                " yours, or leave it out of --keep."
            )
    columns: dict[str, Any] = {}
    if keep:  # as they are written there
        kept = open_table(table, text=keep)
        texts = pa.schema([(column, pa.string()) for column in kept.schema.names])
        resolve_roles(texts, features=keep)
        cells = pa.Table.from_batches(kept.batches(keep))
        columns = {column: cells[column] for column in keep}
    with _missing_advice(), progress("predicting") as count_rows:
        rows = count_rows_of(table, count_rows)
        columns[prediction] = pa.array(classifier.predict(rows))
        if len(classes) and classifier.gives_probabilities:
            stated = classifier.predict_proba(rows)
            for position, column in enumerate(probabilities):
                columns[column] = pa.array(stated[:, position])
    write_table(pa.table(columns), options.output, for_sheets=True, overwrite=options.force)
    say(f"{options.output}: {len(columns[prediction]):,} predictions.")


@contextmanager
def _missing_advice() -> Iterator[None]:
    """Say which option settles missing values that the model has no rule for."""
    try:
        yield
    except MissingValuesError as error:
        raise MissingValuesError(f"{error} Choose one: --missing mean, or zero.") from None


@dataclass(frozen=True, kw_only=True)
class _Score(JsonOutput, Overwriting):
    """The labels that predictions are compared with, and what is drawn."""

    label: str = data_option(
        REQUIRED, "Column that holds the true labels or numbers, for example diagnosis."
    )
    plot: Path | None = output_option(
        None, "Draw the ROC curve and the calibration to this SVG, PNG or PDF file.", **PLOT
    )


def score(model: _ModelAndTable, reading: Reading, options: _Score) -> None:
    """Measure how good a model is on labels that you may see."""
    import numpy as np

    from suffice.learner.scoring import errors_of, predictions_of
    from suffice.tables.columns import label_codes, resolve_roles
    from suffice.tables.sources import open_table

    classifier, label = model.classifier(), options.label
    features = [column.name for column in classifier.pipeline_.columns]
    if not hasattr(classifier, "classes_"):
        refuse_unused("with a model that predicts numbers", {"--plot": options.plot})
        table = open_table(reading.open(model.table), numbers=[label])
        resolve_roles(table.schema, label=label, features=features)
        with _missing_advice(), progress("predicting") as count_rows:
            figures = errors_of(classifier, count_rows_of(table, count_rows), label)
        if options.json:
            show_json(figures)
            return
        say(f"R^2 {figures['r2']:.4f} on {figures['rows']:,} rows")
        mean_only = f"(always the mean: {figures['constant_rmse']:.4g})"
        show_pairs(
            [
                ("root mean squared error", f"{figures['rmse']:.4g} {mean_only}"),
                ("mean absolute error", f"{figures['mean_absolute_error']:.4g}"),
            ]
        )
        return
    source = open_table(reading.open(model.table), text=[label])
    resolve_roles(source.schema, label=label, features=features)
    classes = tuple(classifier.classes_.tolist())
    codes = [
        label_codes(batch.column(label), classes, outside="none")
        for batch in source.batches([label])
    ]
    truth = np.concatenate(codes) if codes else np.empty(0, dtype=int)
    if not len(truth):
        raise TableError("The table has no rows.")
    strange = int((truth < 0).sum())
    if strange:
        raise TableError(
            f"{strange:,} of {len(truth):,} labels are missing or not among the model's classes"
            f" ({listed(classes)}). Remove their rows."
        )
    with _missing_advice(), progress("predicting") as count_rows:
        predictions = predictions_of(classifier, count_rows_of(source, count_rows), truth)
    if options.plot is not None:
        from suffice.pages.plots import draw_scores

        draw_scores(predictions, options.plot, overwrite=options.force)
    if options.json:
        show_json(predictions.to_json())
    else:
        _show_scores(predictions)


def _show_scores(predictions: Any) -> None:
    """Print the figures, then precision and recall of each class, then who was taken for whom."""
    say(
        f"accuracy {predictions.accuracy:.4f} on {len(predictions.truth):,} rows"
        f" (always the larger class: {predictions.shares.max():.4f})"
    )
    auc = "absent: all rows are of one class" if predictions.ranking is not None else "absent"
    if predictions.auc is not None:
        many = "" if len(predictions.classes) == 2 else " (mean, each class against the rest)"
        auc = f"{predictions.auc:.4f}{many}"
    balanced = f"{predictions.balanced_accuracy:.4f} (mean recall of the classes)"
    figures = [("balanced accuracy", balanced), ("AUC", auc)]
    if predictions.probabilities is None:
        figures.append(("log loss, Brier score, ECE", f"absent: {predictions.refusal}"))
    else:
        constant = f"(class proportions alone: {predictions.constant_log_loss:.4f})"
        error = predictions.calibration.error
        figures += [
            ("log loss", f"{predictions.log_loss:.4f} {constant}"),
            ("Brier score", f"{predictions.brier:.4f}"),
            ("ECE", f"{error:.4f} (expected calibration error)"),
        ]
    show_pairs(figures)
    classes = [name(class_name) for class_name in predictions.classes]
    counts = predictions.confusion
    quality = zip(
        classes, predictions.precision, predictions.recall, counts.sum(axis=1), strict=True
    )
    cells = [(c, _proportion(p), _proportion(r), f"{int(n):,}") for c, p, r, n in quality]
    show_table("Classes", ("class", "precision", "recall", "rows"), cells)
    if len(classes) > _MOST_SHOWN:
        say(f"The confusion table has {len(classes)} columns. Read it with --json.")
        return
    heads = ("true class", *(f"predicted {class_name}" for class_name in classes))
    lines = [(c, *(f"{n:,}" for n in line)) for c, line in zip(classes, counts, strict=True)]
    show_table("Confusion table (rows)", heads, lines)


def _proportion(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"  # noqa: PLR0124  # NaN: nothing to divide by


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
    level: float = output_option(0.95, _LEVEL)
    plot: Path | None = output_option(
        None, "Draw the proportions to this SVG, PNG or PDF file.", **PLOT
    )


def ratio(options: _Ratio, reading: Reading) -> None:
    """Estimate the proportion of each class in a new table.

    Name the releases first and the new table last: suffice ratio RELEASE... TABLE. A query reads
    those tables that are addresses of databases; the others are files.
    """
    from suffice.learner.ratio.estimator import ClassRatio
    from suffice.releases.codec import load
    from suffice.tables.sources import open_table

    *releases, path = options.files
    if not releases:
        raise ParameterError("Name one release or more, and the new table last.")
    *bags, table = reading.tables([*options.rows, path])
    rows = _concatenated([open_table(bag) for bag in bags])
    model = ClassRatio(method=options.method, kernel=options.kernel)
    with progress("estimating") as count_rows:
        model.fit_release(
            [load(release) for release in releases],
            rows,
            bags=options.bag[0] if len(options.bag) == 1 else tuple(options.bag),
        )
        result = model.estimate(count_rows_of(table, count_rows), options.level)
    if options.plot is not None:
        from suffice.pages.plots import draw_estimates

        draw_estimates(result, options.plot, overwrite=options.force)
    if options.json:
        show_json(
            {
                "classes": model.classes_.tolist(),
                **result.to_json(),
                "method": model.method_,
                "held_back_error": model.held_back_error_,
                "condition": model.condition_,
                "bound": model.bound_,
            }
        )
    else:
        _show_estimate(model, result)


def _show_estimate(model: Any, result: Any) -> None:
    """Print proportions with intervals, or under two assumptions; the words before the figures."""
    say(*result.words)
    if result.level is not None:
        title = f"Proportion of each class, with {100 * result.level:g} % intervals"
        heads = ["proportion"]
    else:
        title = "Proportion of each class under each assumption, and a range of both"
        assumptions = {"label_shift": "if classes look alike", "stable": "if p(y | x) is stable"}
        heads = [assumptions[assumption] for assumption in result.estimates]
    figures = [*result.estimates.values(), result.low, result.high]
    show_table(
        f"{title} (method: {model.method_})",
        ("class", *heads, "from", "to"),
        [
            (str(class_name), *(f"{values[k]:.4f}" for values in figures))
            for k, class_name in enumerate(result.classes)
        ],
    )
    errors = ", ".join(f"{method} {error:.3f}" for method, error in model.held_back_error_.items())
    bags = "how strongly the bags amplify errors; lower is better"
    pairs = [
        ("error", f"{errors} (distance from the truth, on rows of the bags held back)"),
        ("condition number", f"{model.condition_:.3g} ({bags})"),
    ]
    if not result.label_shift.rejected and result.label_shift.tested:
        p = f"{result.label_shift.p:.2g}"
        pairs.append(("label shift", f"not contradicted by the bags (p = {p})"))
    show_pairs(pairs)
