"""Commands of the learner: fit, predict, score, frequencies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.reading import Decimal, Delimiter, Encoding, OrderBy, Reading, SqlQuery
from suffice.errors import MissingValuesError, ParameterError, TableError
from suffice.options import names
from suffice.plain_text import listed, name
from suffice.tables.missing_rule import MissingRule

__all__ = ["register"]


_OPTIONS = {"lam": "--penalty-weight"}  # where the library's word is another one


def register(app: typer.Typer) -> None:
    """Add the learner's commands."""
    app.command()(fit)
    app.command()(predict)
    app.command()(score)
    app.command()(frequencies)


def fit(
    releases: Annotated[list[Path], typer.Argument(help="One release, or several owners'.")],
    output: options.Output,
    force: options.Force = False,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            help="The public rows; repeat it, in the order of the releases. Randomised records"
            " and rados need none."
        ),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    query: SqlQuery = None,
    order_by: OrderBy = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="logistic (softmax), square, matsushita or linear; default: logistic. Of rados:"
            " square (RadoRidge, the default) or logistic (RadoBoost)."
        ),
    ] = None,
    penalty: Annotated[str, typer.Option(help="l2, l1, elastic-net or none.")] = "l2",
    penalty_weight: Annotated[
        str, typer.Option(help="Weight of the penalty, for example 0.01; auto: from the release.")
    ] = "auto",
    lam: Annotated[str | None, typer.Option(hidden=True)] = None,  # its former name
    engine: options.Engine = None,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    json: options.Json = False,
) -> None:
    """Learn a classifier from releases and the public rows that they belong to."""
    from suffice.learner import fit as learners
    from suffice.release.codec import load

    check_outputs(output, reads=[*releases, *(rows or ())], force=force)
    reading = Reading(
        delimiter=delimiter, decimal=decimal, encoding=encoding, query=query, order_by=order_by
    )
    loaded = [load(path) for path in releases]
    given = {
        "penalty": None if penalty == "l2" else penalty,
        "loss": loss,
        "lam": _weight(lam or penalty_weight),
        "engine": None if engine is None else engine.value,
        "workers": workers,
        "scheduler": scheduler,
    }
    learning = learners.learning_from(loaded[0].kind)
    unused = {
        _OPTIONS.get(option, f"--{option}"): option
        for option in learning.unused(rows or None, given)
    }
    refuse_unused(f"to what is learnt from {loaded[0].kind}", unused)
    with progress("reading") as tell:
        told = {"progress": tell} if "progress" in learning.options(given) else {}
        model = learning.fit(loaded, _rows(rows, reading), given | told)
        learners.release_of(model).save(output, overwrite=force)
        report = learning.report(model)
    if json:
        show_json({"written": str(output), **report.values})
    else:
        show_pairs([("written", str(output)), *report.lines])


def _weight(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise ParameterError(f"--penalty-weight must be a number or auto; got {text!r}.") from None


def _rows(places: list[str] | None, reading: Reading) -> Any:
    tables = [reading.table(place) for place in places or ()]
    if len(tables) <= 1:
        return tables[0] if tables else None
    from suffice.tables.sources import concatenated, open_table

    return concatenated([open_table(table) for table in tables])


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    table: Annotated[str, typer.Argument(help=f"New rows: {options.TABLE_HELP}")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet, CSV or Feather.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Columns to write beside the predictions, with commas (repeatable)."),
    ] = None,
    missing: options.MissingValues = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    query: SqlQuery = None,
    order_by: OrderBy = None,
    force: options.Force = False,
) -> None:
    """Predict the class of new rows; writes predictions and probabilities."""
    import pyarrow as pa

    from suffice.tables.writing import check_ending, write_table

    check_outputs(output, reads=(model, table), force=force)
    check_ending(output)
    classifier = _loaded(model, missing)
    rows = Reading(
        delimiter=delimiter, decimal=decimal, encoding=encoding, query=query, order_by=order_by
    ).table(table)
    columns = _kept(rows, names(keep) or [])
    with _missing_advice():
        columns["prediction"] = pa.array(classifier.predict(rows))
        if classifier.gives_probabilities:
            probability = classifier.predict_proba(rows)
            for position, class_name in enumerate(classifier.classes_):
                columns[f"probability of {class_name}"] = pa.array(probability[:, position])
    write_table(pa.table(columns), output, for_sheets=True, overwrite=force)
    say(f"{output}: {len(columns['prediction']):,} predictions.")


def _loaded(model: Path, missing: MissingRule | None) -> Any:
    """Return the classifier of a model file, with its own rule for missing values or another."""
    from suffice.learner.fit import model_of
    from suffice.release.codec import load

    classifier = model_of(load(model))
    if missing is not None:
        classifier.pipeline_ = classifier.pipeline_.with_missing(missing.value)
    return classifier


@contextmanager
def _missing_advice() -> Iterator[None]:
    """Say which option settles missing values that the model has no rule for."""
    try:
        yield
    except MissingValuesError as error:
        raise MissingValuesError(f"{error} Choose one: --missing mean, or zero.") from None


def _kept(rows: Any, wanted: list[str]) -> dict[str, Any]:
    """Return columns of new rows as they are written there."""
    import pyarrow as pa

    from suffice.tables.columns import resolve_roles
    from suffice.tables.sources import open_table

    if not wanted:
        return {}
    table = open_table(rows, text=wanted)
    resolve_roles(pa.schema([(name, pa.string()) for name in table.schema.names]), features=wanted)
    kept = pa.Table.from_batches(table.batches(wanted))
    return {name: kept[name] for name in wanted}


def score(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    table: Annotated[
        str, typer.Argument(help=f"Rows with labels that you may see: {options.TABLE_HELP}")
    ],
    label: Annotated[str, typer.Option(help="The column of true labels.")],
    missing: options.MissingValues = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    query: SqlQuery = None,
    order_by: OrderBy = None,
    json: options.Json = False,
) -> None:
    """Compare predictions with labels that the caller may see."""
    import numpy as np

    from suffice.tables.columns import resolve_roles
    from suffice.tables.labels import label_codes
    from suffice.tables.sources import open_table

    classifier = _loaded(model, missing)
    reading = Reading(
        delimiter=delimiter, decimal=decimal, encoding=encoding, query=query, order_by=order_by
    )
    source = open_table(reading.table(table), text=[label])
    used = [column.name for column in classifier.pipeline_.columns]
    resolve_roles(source.schema, label=label, features=used)
    classes = tuple(classifier.classes_.tolist())
    batches = source.batches([label])
    codes = [label_codes(batch.column(label), classes, outside="none") for batch in batches]
    truth = np.concatenate(codes) if codes else np.empty(0, dtype=int)
    strange = int((truth < 0).sum())
    if strange:
        raise TableError(
            f"{strange} of {len(truth)} labels are missing, or none of the model's classes"
            f" ({listed(classes)}); leave their rows out."
        )
    if not len(truth):
        raise TableError("the table has no rows.")
    with _missing_advice():
        right = classifier.predict(source) == classifier.classes_[truth]
    larger = float(np.bincount(truth).max() / len(truth))
    result = {"accuracy": float(right.mean()), "rows": len(right), "larger_class": larger}
    if json:
        show_json(result)
    else:
        alone = f"always the larger class: {larger:.4f}"
        say(f"accuracy {result['accuracy']:.4f} on {result['rows']:,} rows ({alone})")


def frequencies(
    path: Annotated[Path, typer.Argument(help="A release of randomised answers.")],
    method: Annotated[str, typer.Option(help="likelihood or inverse.")] = "likelihood",
    level: Annotated[float, typer.Option(help="How surely each interval covers.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Estimate how often each state occurs, with intervals, from randomised answers."""
    from suffice.learner.spread.frequencies import release_frequencies
    from suffice.release.codec import load

    found = release_frequencies(load(path), method=method, level=level)
    if json:
        show_json({"columns": [column.to_json() for column in found]})
        return
    cells = [
        (name(column.name), name(state), f"{share:.4f}", f"{low:.4f} to {high:.4f}")
        for column in found
        for state, share, low, high in zip(
            column.states, column.shares, column.low, column.high, strict=True
        )
    ]
    show_table(str(path), ["column", "state", "share", f"{100 * level:g} % interval"], cells)
