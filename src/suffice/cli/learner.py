"""Commands of the learner: fit, predict, score, frequencies."""

from math import log
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.output import say, show_json, show_pairs, show_table
from suffice.errors import ParameterError, TableError
from suffice.plain_text import listed, name

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the learner's commands."""
    app.command()(fit)
    app.command()(predict)
    app.command()(score)
    app.command()(frequencies)


def fit(
    releases: Annotated[list[Path], typer.Argument(help="One release, or several owners'.")],
    output: options.Output,
    rows: Annotated[
        list[Path] | None,
        typer.Option(
            help="The public rows; repeat it, in the order of the releases. Randomised records"
            " and rados need none."
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="logistic (softmax), square, matsushita or linear; default: logistic. Of rados:"
            " square (RadoRidge, the default) or logistic (RadoBoost)."
        ),
    ] = None,
    penalty: Annotated[str, typer.Option(help="l2, l1, elastic-net or none.")] = "l2",
    lam: Annotated[
        str, typer.Option(help="Weight of the penalty, or auto: from the release.")
    ] = "auto",
    json: options.Json = False,
) -> None:
    """Learn a classifier from releases and the public rows that they belong to."""
    from suffice.learner.operator.factored import FactoredClassifier
    from suffice.release.codec import load

    check_outputs(output, reads=[*releases, *(rows or ())])
    loaded = [load(path) for path in releases]
    kind = loaded[0].kind
    if kind == "proportions":
        raise ParameterError(
            "proportions teach the class ratios of new sets: use suffice ratio (in Python,"
            " suffice.learner.weak learns classifiers from them)."
        )
    given = {
        "--rows": rows or None,
        "--penalty": None if penalty == "l2" else penalty,
        "--loss": loss,
        "--lam": None if lam == "auto" else lam,
    }
    _refuse_unused(kind, loss, given)
    if kind == "responses":
        _fit_records(loaded, output, _weight(lam), json=json)
        return
    if kind == "rados":
        _fit_rados(loaded, output, loss or "square", _weight(lam), json=json)
        return
    if not rows:
        raise ParameterError("these releases belong to public rows: give them with --rows.")
    model = FactoredClassifier(loss=loss or "logistic", penalty=penalty, lam=_weight(lam))
    model.fit_release(loaded, _rows(rows))
    model.to_release().save(output)
    low, high = model.risk_interval_
    votes = any(guarantee.unit == "party" for guarantee in loaded[0].guarantees)
    joint = loss in (None, "logistic", "softmax")
    blind = log(len(model.classes_)) if joint and not votes else None
    if json:
        result = {"written": str(output), "classes": model.classes_.tolist(), "lam": model.lam_}
        result |= {"risk": model.risk_, "risk_interval": [float(low), float(high)]}
        result |= {"intercept_only": model.intercept_only_, "risk_of_knowing_nothing": blind}
        show_json({**result, "iterations": model.n_iter_, "gradient": model.gradient_norm_})
        return
    show_pairs(
        [
            ("written", str(output)),
            ("classes", listed(model.classes_)),
            ("penalty", f"{model.lam_:.3g}" + _constant(model)),
            ("risk", f"{model.risk_:.4g} ({low:.4g} to {high:.4g}), {_about(votes=votes)}"),
            *_doubt(high, blind),
            ("solver", f"{model.n_iter_} iterations, gradient {model.gradient_norm_:.1e}"),
        ]
    )


def _refuse_unused(kind: str, loss: str | None, given: dict[str, Any]) -> None:
    """Raise if an option was given that means nothing to what is learnt from this kind."""
    boosted = ("--lam",) if loss == "logistic" else ()
    unused = {
        "responses": ("--rows", "--penalty", "--loss"),
        "rados": ("--rows", "--penalty", *boosted),
    }
    without_use = {option: given[option] for option in unused.get(kind, ())}
    refuse_unused(f"to what is learnt from {kind}", without_use)


def _fit_records(releases: list[Any], output: Path, lam: float | str, *, json: bool) -> None:
    """Learn from randomised records, which need no other rows."""
    from suffice.learner.spread.classifier import SpreadClassifier
    from suffice.release.merge import merge

    model = SpreadClassifier(lam=lam).fit_release(merge(releases))
    model.to_release().save(output)
    if json:
        result = {"written": str(output), "classes": model.classes_.tolist(), "lam": model.lam_}
        show_json({**result, "likelihood": model.likelihood_, "iterations": model.n_iter_})
        return
    show_pairs(
        [
            ("written", str(output)),
            ("classes", listed(model.classes_)),
            ("penalty", f"{model.lam_:.3g}"),
            ("likelihood", f"{model.likelihood_:.4g} per record, of the corrupted labels"),
        ]
    )


def _fit_rados(
    releases: list[Any], output: Path, loss: str, lam: float | str, *, json: bool
) -> None:
    """Learn from rados, which need no rows at all."""
    from suffice.learner.rados.radoboost import RadoBoost
    from suffice.learner.rados.ridge import RadoRidge

    learners = {"square": lambda: RadoRidge(lam=lam), "logistic": RadoBoost}
    if loss not in learners:
        raise ParameterError(f"rados are learnt from with loss {' or '.join(learners)}.")
    model = learners[loss]().fit_release(releases)
    model.to_release().save(output)
    result = {"written": str(output), "classes": model.classes_.tolist(), "loss": loss}
    if loss == "square":
        result |= {"lam": model.lam_, "risk": model.risk_, "intercept_only": model.intercept_only_}
        shown = ("penalty", f"{model.lam_:.3g}" + _constant(model))
        risk = ("risk", f"{model.risk_:.4g}, square loss, estimated without labels")
    else:
        result |= {"rounds": model.rounds_, "rado_risk": model.rado_risk_}
        shown = ("rounds", f"{model.rounds_} of {model.n_iter_}")
        risk = ("rado-risk", f"{model.rado_risk_:.6g}, logistic; {log(2):.6g} knows nothing")
    if json:
        show_json(result)
        return
    classes = ("classes", listed(model.classes_))
    show_pairs([("written", str(output)), classes, shown, risk])


def _about(*, votes: bool) -> str:
    """Return what an estimated risk is about: labels that nobody showed, or what parties vote."""
    return "of what the parties vote" if votes else "estimated without labels"


def _doubt(high: float, blind: float | None) -> list[tuple[str, str]]:
    """Return a warning if a model may be as bad as one that knows nothing."""
    if blind is None or high < blind:
        return []
    return [("warning", f"the risk may be {blind:.3g}, that of knowing nothing: too much noise")]


def _constant(model: Any) -> str:
    if not model.intercept_only_:
        return ""
    return "; no feature is known to help: the model always predicts the larger class"


def _weight(text: str) -> float | str:
    try:
        return "auto" if text == "auto" else float(text)
    except ValueError:
        raise ParameterError(f"--lam must be a number or auto; got {text!r}.") from None


def _rows(paths: list[Path]) -> Any:
    if len(paths) == 1:
        return paths[0]
    from suffice.tables.sources import concatenated, open_table

    return concatenated([open_table(path) for path in paths])


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    table: Annotated[Path, typer.Argument(help="New rows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet, CSV or Feather.")],
) -> None:
    """Predict the class of new rows; writes predictions and probabilities."""
    import pyarrow as pa

    from suffice.learner.operator.factored import FactoredClassifier
    from suffice.release.codec import load
    from suffice.tables.writing import check_ending, write_table

    check_outputs(output, reads=(model, table))
    check_ending(output)
    classifier = FactoredClassifier.from_release(load(model))
    columns = {"prediction": classifier.predict(table)}
    if classifier.loss != "linear":  # which gives scores, and no probabilities
        probability = classifier.predict_proba(table)
        for position, class_name in enumerate(classifier.classes_):
            columns[f"probability of {class_name}"] = probability[:, position]
    write_table(pa.table(columns), output, for_sheets=True)
    say(f"{output}: {len(columns['prediction']):,} predictions.")


def score(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    table: Annotated[Path, typer.Argument(help="Rows with labels that you may see.")],
    label: Annotated[str, typer.Option(help="The column of true labels.")],
    json: options.Json = False,
) -> None:
    """Compare predictions with labels that the caller may see."""
    import numpy as np

    from suffice.learner.operator.factored import FactoredClassifier
    from suffice.release.codec import load
    from suffice.tables.columns import resolve_roles
    from suffice.tables.labels import label_codes
    from suffice.tables.sources import open_table

    classifier = FactoredClassifier.from_release(load(model))
    source = open_table(table)
    used = [column.name for column in classifier.pipeline_.columns]
    resolve_roles(source.schema, label=label, features=used)
    classes = tuple(classifier.classes_.tolist())
    try:
        found = [label_codes(batch.column(label), classes) for batch in source.batches([label])]
    except TableError:
        shown = listed(classes)
        raise TableError(
            f"some labels are missing, or none of the model's classes ({shown}); leave their rows"
            " out."
        ) from None
    if not found:
        raise TableError("the table has no rows.")
    truth = np.concatenate(found)
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
