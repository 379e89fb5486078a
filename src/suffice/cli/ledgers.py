"""Commands of a ledger: init, show, history, what-if; those of auditors are in ledger_audits."""

from typing import Annotated

import typer

from suffice.cli import ledger_audits, options
from suffice.cli.checks import refuse_unused
from suffice.cli.help import HelpfulCommand, group_with
from suffice.cli.ledger_views import (
    anchor_sentence,
    balance_json,
    balance_table,
    composition_lines,
    history_json,
    history_table,
)
from suffice.cli.output import say, show_json
from suffice.options import values
from suffice.privacy.words import round_up

__all__ = ["register"]

_ORDER = {
    "Commands": ("init", "show", "history", "what-if"),
    "Audit": ("log", "checkpoint", "verify", "recover"),
}
ledger_app = typer.Typer(
    cls=group_with({}, _ORDER), help="Set privacy budgets, and see what was charged to them."
)


def register(app: typer.Typer) -> None:
    """Add ``ledger``."""
    ledger_audits.register(ledger_app)
    app.add_typer(ledger_app, name="ledger", no_args_is_help=True)


@ledger_app.command("init", cls=HelpfulCommand)
def init(
    path: Annotated[
        str,
        typer.Argument(
            help="The ledger's file, or postgresql://HOST/DATABASE; made if it is missing.",
            metavar="PATH",
        ),
    ],
    dataset: Annotated[str, typer.Option(help="Name of the data set, for example diagnosis.")],
    epsilon: Annotated[
        float, typer.Option(help="Largest epsilon of all releases together, for example 2.")
    ],
    delta: Annotated[
        float, typer.Option(help="Delta at which that epsilon is counted, for example 1e-5.")
    ] = 0.0,
    unit: Annotated[
        str, typer.Option(help="What the budget protects: label, attribute, record or party.")
    ] = "label",
    classes: Annotated[
        str | None,
        typer.Option(help="List of all classes, with commas; of two, the last is positive."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column that has these classes. Default: any column."),
    ] = None,
    anchor: options.AnchorPlace = None,
) -> None:
    """Set the privacy budget of a data set. It is final.

    A new ledger also gets an anchor: the end of its log, kept in another place. With it, a ledger
    that was put back from a copy starts frozen.
    """
    from suffice.owner.ledger import Ledger
    from suffice.privacy.guarantee import Budget

    if classes is None:
        refuse_unused("without --classes", {"--label": label})
    budget = Budget(epsilon, delta)
    declared = None if classes is None else {dataset: {label or "": values(classes)}}
    ledger = Ledger(path, {dataset: {unit: budget}}, declared, anchor=anchor)
    if about := budget.explained(unit):
        say(about)
    say(f"{ledger.path}: the budget of data set {dataset!r} is {budget} per {unit}.")
    if classes is not None:
        column = "every label column" if label is None else f"label column {label!r}"
        say(f"Its classes, for {column}: {', '.join(map(str, values(classes)))}.")
    say(anchor_sentence(ledger.anchor))


@ledger_app.command("show", cls=HelpfulCommand)
def show(path: options.LedgerPath, json: options.Json = False) -> None:
    """Show every budget, what is spent of it, and what is left."""
    from suffice.owner.ledger import Ledger

    ledger = Ledger(path)
    if json:
        show_json(balance_json(ledger.balances()))
    else:
        balance_table(str(ledger.path), ledger.balances())


@ledger_app.command("history", cls=HelpfulCommand)
def history(path: options.LedgerPath, json: options.Json = False) -> None:
    """List every charge, and what all charges cost together.

    A charge whose output was lost stays spent. Several charges cost at most their sum, and often
    less: the last lines give both numbers.
    """
    from suffice.owner.ledger import Ledger

    ledger = Ledger(path)
    entries = ledger.history()
    if json:
        show_json(history_json(entries))
        return
    history_table(str(ledger.path), entries)
    say(*composition_lines(ledger.balances()))


@ledger_app.command("what-if", cls=HelpfulCommand)
def what_if(
    path: options.LedgerPath,
    dataset: Annotated[str, typer.Option(help="Name of the data set, for example diagnosis.")],
    delta: Annotated[
        float, typer.Option(help="Delta of the next release, for example 1e-6.")
    ] = 0.0,
    unit: Annotated[
        str | None,
        typer.Option(
            help="What the next release protects: label, attribute, record or party. Default: as"
            " the budget."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the largest epsilon that a further release may have."""
    from suffice.owner.ledger import Ledger

    epsilon = Ledger(path).largest_epsilon(dataset, delta=delta, unit=unit)
    if json:
        show_json({"dataset": dataset, "delta": delta, "unit": unit, "largest_epsilon": epsilon})
    elif epsilon > 0:
        most = f"epsilon {epsilon:g} at most, at delta {round_up(delta)}"
        say(f"A release of {dataset!r} may have {most}.")
    else:
        say(f"No further release of {dataset!r} at delta {round_up(delta)} fits the budget.")
