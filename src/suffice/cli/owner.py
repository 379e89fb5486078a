"""Commands of the owner: plan, ledger, keygen, release (one file per kind where it is long)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options, parties, proportions, rados
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.groups import MappedRows, grouped
from suffice.cli.output import say, show_json, show_table
from suffice.cli.parsing import values
from suffice.cli.releases import release_app

__all__ = ["register"]

plan_app = typer.Typer(help="Forecast a release before anything is spent; reads no label.")
ledger_app = typer.Typer(help="Guard how much is ever lost: budgets and their history.")


def register(app: typer.Typer) -> None:
    """Add the owner's commands."""
    proportions.register(plan_app, release_app)
    rados.register(plan_app, release_app)
    parties.register(app, plan_app, release_app)
    app.add_typer(plan_app, name="plan", no_args_is_help=True)
    app.add_typer(ledger_app, name="ledger", no_args_is_help=True)
    app.add_typer(release_app, name="release", no_args_is_help=True)
    app.command()(keygen)


@plan_app.command("mean-operator")
@grouped
def plan_mean_operator(
    table: options.TablePath,
    label: options.Label,
    epsilon: Annotated[
        list[float],
        typer.Option(help="What a release may cost; repeat it, or see a range around one."),
    ],
    delta: options.Delta = 0.0,
    mechanism: options.Mechanism = "auto",
    classes: options.Classes = "0,1",
    plot: Annotated[Path | None, typer.Option(help="Draw it: an SVG, PNG or PDF file.")] = None,
    json: options.Json = False,
    *,
    rows: MappedRows,
) -> None:
    """Predict noise and accuracy of each mechanism from public rows; the label is never read."""
    from suffice.owner.plan import plan_mean_operator as make_plan

    check_outputs(plot, reads=[table])
    if plot is not None:
        from suffice.pages.plots import check_plot

        check_plot(plot)
    plan = make_plan(
        table,
        epsilon[0] if len(epsilon) == 1 else epsilon,
        delta,
        label=label,
        features=rows.names,
        mechanism=mechanism,
        classes=values(classes),
        **rows.pipeline,
    )
    if plot is not None:
        from suffice.pages.plots import draw_plan

        draw_plan(plan.to_json(), plot)
    if json:
        show_json(plan.to_json())
        return
    show_table(
        "Predicted noise, per coordinate and in scores, and accuracy between two equal classes,"
        " where features explain 5 % (hard), 20 % (usual) or 70 % (easy) of the labels' variance;"
        " * is what auto takes",
        plan.COLUMNS,
        plan.cells(),
    )


@ledger_app.command("init")
def ledger_init(
    path: Annotated[Path, typer.Argument(help="The ledger's file; made if it is missing.")],
    dataset: Annotated[str, typer.Option(help="The name of the data set.")],
    epsilon: Annotated[float, typer.Option(help="The most epsilon that may ever be spent.")],
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is counted.")] = 0.0,
    unit: Annotated[str, typer.Option(help="label, attribute, record or party.")] = "label",
    classes: Annotated[
        str | None,
        typer.Option(help="The labels that can occur, with commas; the last of two is positive."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column that has these classes; default: any column.")
    ] = None,
) -> None:
    """Give a data set its budget and its classes, once and for all."""
    from suffice.owner.ledger import Ledger
    from suffice.privacy.guarantee import Budget

    if classes is None:
        refuse_unused("without --classes", {"--label": label})
    budget = Budget(epsilon, delta)
    declared = None if classes is None else {dataset: {label or "": values(classes)}}
    Ledger(path, {dataset: {unit: budget}}, declared)
    if about := budget.explained(unit):
        say(about)
    say(f"{path}: data set {dataset!r} may lose {budget} per {unit}.")
    if classes is not None:
        column = "every label column" if label is None else f"label column {label!r}"
        say(f"Its classes, for {column}: {', '.join(map(str, values(classes)))}.")


@ledger_app.command("show")
def ledger_show(path: options.LedgerPath, json: options.Json = False) -> None:
    """Show every budget, what is spent and what is left."""
    from suffice.owner.ledger import Ledger

    balances = Ledger(path).balances()
    if json:
        show_json(
            [
                {
                    "dataset": b.dataset,
                    "unit": str(b.unit),
                    "epsilon": b.budget.epsilon,
                    "delta": b.budget.delta,
                    "spent": b.spent,
                    "left": b.left,
                    "debits": b.debits,
                }
                for b in balances
            ]
        )
        return
    rows = [
        (
            b.dataset,
            str(b.unit),
            f"{b.budget.epsilon:g}",
            f"{b.budget.delta:g}",
            f"{b.spent:.6g}",
            f"{b.left:.6g}",
            str(b.debits),
        )
        for b in balances
    ]
    show_table(str(path), ["data set", "unit", "epsilon", "delta", "spent", "left", "debits"], rows)


@ledger_app.command("history")
def ledger_history(path: options.LedgerPath, json: options.Json = False) -> None:
    """Show every debit: released, pending, or burnt (paid for, output lost)."""
    from suffice.owner.ledger import Ledger

    entries = Ledger(path).history()
    if json:
        show_json(
            [
                {
                    "number": e.number,
                    "dataset": e.dataset,
                    "request": e.request,
                    "data_version": e.version,
                    "state": e.state,
                    "time": datetime.fromtimestamp(e.time, UTC).isoformat(timespec="seconds"),
                    "charges": _events(e.charges),
                    "also": {name: _events(charges) for name, charges in e.also.items()},
                    "parameters": dict(e.parameters),
                }
                for e in entries
            ]
        )
        return
    rows = [
        (
            str(e.number),
            f"{datetime.fromtimestamp(e.time, UTC):%Y-%m-%d %H:%M:%S}",
            e.dataset,
            str(e.version),
            str(e.parameters.get("kind", "")),
            _charged(e),
            e.state,
            e.request,
        )
        for e in entries
    ]
    columns = ["#", "time (UTC)", "data set", "version", "kind", "epsilon", "state", "request"]
    show_table(str(path), columns, rows)


def _events(charges: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"unit": str(unit), **event.to_json()} for unit, event in charges]


def _charged(entry: Any) -> str:
    """Return what a debit cost, unit by unit, read at the delta of its request."""
    delta = entry.parameters.get("delta") or 0.0

    def costs(charges: Sequence[tuple[Any, Any]], whose: str = "") -> list[str]:
        read = [(unit, event.epsilon(0.0 if event.pure else delta)) for unit, event in charges]
        return [f"{epsilon:.4g} per {unit}{whose}" for unit, epsilon in read]

    others = [line for name, lines in entry.also.items() for line in costs(lines, f" of {name}")]
    return ", ".join([*costs(entry.charges), *others])


def keygen(
    stem: Annotated[Path, typer.Argument(help="Where to write STEM.key and STEM.pub.")],
) -> None:
    """Make a key pair for signing releases."""
    from suffice.release.signing import generate_keys

    private, public = generate_keys(stem)
    say(f"{private}: keep it secret.", f"{public}: give it to those who verify.")
