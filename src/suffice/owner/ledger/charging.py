"""What a release costs the budgets of its data sets."""

from collections.abc import Sequence
from dataclasses import dataclass

from suffice.errors import BudgetError, PrivacyError
from suffice.privacy.calibrate import NO_PROTECTION_DELTA
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Budget, Guarantee, Scope, Unit

__all__ = ["DatasetCharge", "check_budget", "check_chargeable", "closest_events"]


@dataclass(frozen=True)
class DatasetCharge:
    """What one release costs one data set: the ledger writes all charges of a release, or none.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    guarantees : sequence of Guarantee
        What the release states about this data set, and no others.
    fingerprint : str
        What identifies the private data; stored under the ledger's key. Only notes depend on it.
    """

    dataset: str
    guarantees: Sequence[Guarantee]
    fingerprint: str = ""


def check_chargeable(guarantees: Sequence[Guarantee]) -> None:
    """Raise unless a budget means something for these: global, joint, replace-one."""
    for guarantee in guarantees:
        joint = guarantee.scope is Scope.JOINT and guarantee.neighbours == "replace-one"
        if not (guarantee.protected and joint):
            raise PrivacyError(
                "This release has no guarantee that can be charged to a budget: it is not"
                " differentially private as a whole. Release it without a ledger (--no-ledger;"
                " Python: ledger=None)."
            )
        if guarantee.unit is Unit.ATTRIBUTE and guarantee.columns:
            raise PrivacyError(
                f"This release protects only {', '.join(guarantee.columns)}, and a budget per"
                " attribute is about every column. Nothing would limit what it reveals about the"
                " others. Release it without a ledger (--no-ledger; Python: ledger=None)."
            )


def check_budget(budget: Budget) -> None:
    """Raise if a budget limits nothing: one with a delta of .1 or more."""
    if budget.delta >= NO_PROTECTION_DELTA:
        raise BudgetError(
            f"This data set's budget has delta {budget.delta:g}, at which epsilon limits nothing."
            " Nothing more can be charged to it. Keep the ledger for its history."
        )


def closest_events(unit: Unit, lines: Sequence[tuple[Unit, Event]]) -> list[Event]:
    """Return what one charge costs a unit: of the statements that cover it, those closest to it.

    A release that states a guarantee per label, per attribute and per record says the same thing
    three times; a budget per label is charged with the statement about labels. Several statements
    about one unit (two mechanisms) are all charged.
    """
    covering = [(len(u.contained), event) for u, event in lines if u.covers(unit)]
    closest = min((size for size, _ in covering), default=0)
    return [event for size, event in covering if size == closest]
