"""The promises of records that leave cell by cell: per label, per attribute and per record."""

import math
from collections.abc import Iterable, Sequence

from suffice.errors import ParameterError
from suffice.privacy.accounting import Composed
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Assumption, Guarantee, Unit

__all__ = ["cell_guarantees"]

Guarantees = tuple[Guarantee, ...]


def cell_guarantees(label: Event, attributes: Sequence[Event], delta: float) -> Guarantees:
    """Return what is promised per label, per attribute (the dearest one) and per record.

    The label is an attribute too: a budget per attribute is about every column. A change of one
    cell leaves the law of all others as it was; a change of a record is paid for by all of its
    cells. What is not pure is read at ``delta``.
    """
    if not delta > 0 and any(isinstance(event, Gaussian) for event in attributes):
        raise ParameterError("Gaussian noise needs delta > 0; Laplace noise (kernel) does not.")
    dearest = [_largest([label, *attributes], delta)] if attributes else []
    return (
        _guarantee(Unit.LABEL, label, delta),
        *(_guarantee(Unit.ATTRIBUTE, event, delta) for event in dearest),
        _guarantee(Unit.RECORD, _together([label, *attributes]), delta),
    )


def _guarantee(unit: Unit, event: Event, delta: float) -> Guarantee:
    return Guarantee(
        unit=unit,
        event=event,
        delta=0.0 if isinstance(event, Pure) else delta,
        public=("the number of rows", "the class list", "the columns and what each can hold"),
        assumptions=(
            Assumption(
                "classes, states, ranges and noise were not chosen by looking at the records",
                "declared by the owner",
            ),
        ),
    )


def _largest(events: Iterable[Event], delta: float) -> Event:
    """Return one event that dominates each of ``events`` taken alone."""
    kinds = list(dict.fromkeys(events))
    pure = [event for event in kinds if isinstance(event, Pure)]
    normal = [event for event in kinds if isinstance(event, Gaussian)]
    if not normal:
        alike = Laplace if all(isinstance(event, Laplace) for event in pure) else Pure
        return alike(max(event.bound for event in pure))
    joined = Gaussian(
        min(event.multiplier for event in normal),
        max(event.slack for event in normal),
        max(event.tail for event in normal),
    )
    if not pure:
        return joined
    bound = max(joined.epsilon(delta), *(event.bound for event in pure))
    return Approximate(bound, delta)


def _together(events: Sequence[Event]) -> Event:
    """Return one event for all cells of a record: pure losses add, Gaussians join exactly."""
    total = math.fsum(event.bound for event in events if isinstance(event, Pure))
    pure = Pure(math.nextafter(total, math.inf))
    normal = [event for event in events if isinstance(event, Gaussian)]
    if not normal:
        return pure
    precision = math.fsum(event.multiplier**-2 for event in normal)
    joined = Gaussian(
        precision**-0.5 * (1 - 1e-12),
        math.fsum(event.slack for event in normal),
        math.fsum(event.tail for event in normal),
    )
    return Composed((pure, joined))
