"""Records that leave cell by cell: what is declared about them, and the one place that makes them.

An owner's table (`mechanism`) and a survey's answers (`survey`) become the same kind of release,
with the same guarantees.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.responses.channels import Channel
from suffice.privacy.accounting import Composed
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.response import Response
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.release.spread import Added, Flips, SpreadColumn, declared_pipeline
from suffice.strict_json import canonical

__all__ = ["DeclaredRecords", "cell_guarantees"]

_MOST_DECLARED = 2**23  # bytes of declared columns: half of what a manifest may hold


@dataclass(frozen=True)
class DeclaredRecords:
    """Everything about a release of records that is known before one of them is read.

    Parameters
    ----------
    columns : tuple of SpreadColumn
        The columns with their possible values or ranges, and their noise.
    channels : mapping
        What randomises the cells of a column, by its noise.
    label : Response
        What randomises labels.
    """

    columns: tuple[SpreadColumn, ...]
    channels: Mapping[Flips | Added, Channel]
    label: Response

    def details(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return the public details of the release."""
        described = [column.to_json() for column in self.columns]
        if len(canonical(described)) > _MOST_DECLARED:
            raise ParameterError(
                "The matrices of noise are too large for a file. Use --feature-flip with one"
                " probability (Python: feature_flip)."
            )
        return {"classes": list(classes), "columns": described, "mechanism": "response"}

    def guarantees(self, delta: float) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, attribute and record."""
        cost = {noise: channel.event for noise, channel in self.channels.items()}
        return cell_guarantees(self.label.event, [cost[c.noise] for c in self.columns], delta)

    def release(
        self,
        randomised: Mapping[str, np.ndarray],
        classes: Sequence[Any],
        guarantees: tuple[Guarantee, ...],
    ) -> Release:
        """Return the release of cells that went through the noise: answers, codes and values."""
        details = self.details(classes)
        content = hashlib.sha256(b"randomised rows in order\0" + canonical(details))
        for name in ("answers", "codes", "values"):
            content.update(randomised[name].tobytes())
        count = len(randomised["answers"])
        rows = RowSet(count, "sha256:" + content.hexdigest())
        return Release(
            kind="responses",
            arrays={**randomised, "channel": self.label.matrix},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=declared_pipeline(self.columns),
            noise=Covariance("none"),
        )


def cell_guarantees(
    label: Event, attributes: Sequence[Event], delta: float
) -> tuple[Guarantee, ...]:
    """Return the guarantees per label, per attribute (the largest epsilon) and per record.

    The label is an attribute too: a budget per attribute is about every column. A change of one
    cell leaves the law of all others as it was; a change of a record changes all of its
    cells. What is not pure is read at ``delta``.
    """
    if not delta > 0 and any(isinstance(event, Gaussian) for event in attributes):
        raise ParameterError(
            "Gaussian noise needs a delta above 0. Set --delta (Python: delta=...), or use"
            " --noise-type laplace."
        )
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
