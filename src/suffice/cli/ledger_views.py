"""How budgets and charges of a ledger are printed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from suffice.cli.output import show_table
from suffice.privacy.words import round_up

__all__ = [
    "anchor_sentence",
    "balance_json",
    "balance_table",
    "composition_lines",
    "history_json",
    "history_table",
]


def anchor_sentence(anchor: Any) -> str:
    """Return where the anchor of a ledger is, or that nothing notices a copy."""
    if anchor.kind == "none":
        return "It has no anchor: only a checkpoint notices that it was put back from a copy."
    return f"Its anchor is {anchor.shown_place}. Do not restore it together with the ledger."


def balance_json(balances: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every budget for programs."""
    return [
        {
            "dataset": balance.dataset,
            "unit": str(balance.unit),
            "epsilon": balance.budget.epsilon,
            "delta": balance.budget.delta,
            "spent": balance.spent,
            "left": balance.left,
            "debits": balance.debits,
        }
        for balance in balances
    ]


def balance_table(title: str, balances: Sequence[Any]) -> None:
    """Print every budget, what is spent of it and what is left."""
    rows = [
        (
            balance.dataset,
            str(balance.unit),
            f"{balance.budget.epsilon:g}",
            f"{balance.budget.delta:g}",
            f"{balance.spent:.6g}",
            f"{balance.left:.6g}",
            str(balance.debits),
        )
        for balance in balances
    ]
    columns = ["data set", "unit", "epsilon allowed", "at delta", "spent", "left", "charges"]
    show_table(title, columns, rows)


def history_json(entries: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every charge for programs."""
    return [
        {
            "number": entry.number,
            "dataset": entry.dataset,
            "request": entry.request,
            "state": entry.state,
            "time": datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="seconds"),
            "charges": _events(entry.charges),
            "also": {name: _events(charges) for name, charges in entry.also.items()},
            "parameters": dict(entry.parameters),
        }
        for entry in entries
    ]


def history_table(title: str, entries: Sequence[Any]) -> None:
    """Print every charge."""
    from suffice.owner.ledger.words import STATES

    rows = [
        (
            str(entry.number),
            f"{datetime.fromtimestamp(entry.time, UTC):%Y-%m-%d %H:%M:%S}",
            entry.dataset,
            str(entry.parameters.get("kind", "")),
            _charged(entry),
            STATES.get(entry.state, entry.state),
            entry.request,
        )
        for entry in entries
    ]
    columns = ["#", "time (UTC)", "data set", "kind", "epsilon charged"]
    show_table(title, [*columns, "state", "request"], rows)


def composition_lines(balances: Sequence[Any]) -> list[str]:
    """Return, budget by budget, what the charges cost in sum, and what they cost together.

    Composition of several releases costs at most their sum, and often less.
    """
    return [
        f"{balance.dataset}, per {balance.unit}: {balance.debits} charges cost epsilon"
        f" {balance.summed:.4g} in sum, {balance.spent:.4g} together at delta"
        f" {round_up(balance.budget.delta)}, of {balance.budget.epsilon:g} allowed."
        for balance in balances
        if balance.debits > 1
    ]


def _events(charges: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"unit": str(unit), **event.to_json()} for unit, event in charges]


def _charged(entry: Any) -> str:
    """Return what a charge cost, unit by unit, at the delta that its release states."""
    from suffice.owner.ledger.rows import stated_epsilon

    own = [f"{epsilon:.4g} per {unit}" for unit, epsilon in entry.epsilons]
    others = [
        f"{stated_epsilon(event, entry.stated_delta):.4g} per {unit} of {name}"
        for name, charges in entry.also.items()
        for unit, event in charges
    ]
    return ", ".join([*own, *others])
