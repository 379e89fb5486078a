"""What a ledger tells its owner: balances, history, and what still fits. Nothing is written."""

from collections.abc import Mapping, Sequence

from suffice.owner.ledger import rules
from suffice.owner.ledger.room import event_of_same_type, largest_epsilon
from suffice.owner.ledger.rows import (
    Balance,
    Charge,
    Entry,
    charges_from_text,
    stated_epsilon,
    texts_by_dataset,
)
from suffice.owner.ledger.tables import Tables
from suffice.privacy.calibrate import NO_PROTECTION_DELTA
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = ["balances_in", "entry_of", "sentence_of_what_fits"]


def balances_in(records: Tables) -> list[Balance]:
    """Return every budget with what its charges cost, in sum and together."""
    charges = records.charges()
    balances = []
    for name in records.datasets():
        spent = records.spent(name)
        for unit, budget in records.budgets(name).items():
            room = rules.room_in(budget, unit, spent)
            balances.append(
                Balance(
                    dataset=name,
                    unit=unit,
                    budget=budget,
                    spent=room.spent,
                    debits=len(room.charged),
                    summed=_summed(charges, name, unit, budget),
                )
            )
    return balances


def _summed(charges: Sequence[Charge], dataset: str, unit: Unit, budget: Budget) -> float:
    """Return the sum of the epsilons of all charges, each at the delta that its release states."""
    total = 0.0
    for charge in charges:
        text = texts_by_dataset(charge.spent, charge.dataset).get(dataset)
        if text is None:
            continue
        delta = charge.stated_delta or budget.delta
        (events,) = rules.spent_by_charge([text], unit)
        total += sum(stated_epsilon(event, delta) for event in events)
    return total


def entry_of(charge: Charge, state: str) -> Entry:
    """Return a stored charge as the history shows it."""
    texts = texts_by_dataset(charge.spent, charge.dataset)
    events = {name: charges_from_text(text) for name, text in texts.items()}
    return Entry(
        number=charge.number,
        dataset=charge.dataset,
        request=charge.request,
        charges=events.pop(charge.dataset, ()),
        parameters=charge.parameters,
        state=state,
        time=charge.time,
        also=events,
    )


def sentence_of_what_fits(
    guarantees: Sequence[Guarantee], budgets: Mapping[Unit, Budget], spent: Sequence[str]
) -> str:
    """Return what to do about a release that exceeds a budget.

    Where the release states one guarantee, the largest epsilon of a release like it is named. All
    of it follows from budgets, charges and events, which are public.
    """
    if any(budget.delta >= NO_PROTECTION_DELTA for budget in budgets.values()):
        return ""
    advice = "Request a smaller --epsilon (Python: epsilon=...)."
    if len(guarantees) != 1:
        return advice
    (guarantee,) = guarantees
    event_at = event_of_same_type(guarantee.event, guarantee.delta)
    if event_at is None:
        return advice
    largest = largest_epsilon(rules.rooms_for(guarantee.unit, budgets, spent), event_at)
    if largest > 0:
        return f"The largest epsilon that still fits is {largest:g}."
    if guarantee.delta > 0:
        return f"No release with delta {guarantee.delta:g} fits any more."
    return "No further release fits."
