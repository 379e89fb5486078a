"""What every plan has: the epsilons that it is made for, a table, and what to do about it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.errors import ParameterError
from suffice.privacy.calibrate import check_epsilon
from suffice.privacy.guarantee import Guarantee

__all__ = ["Plan", "PlanCurves", "PromisePlan", "asked_epsilons"]

_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the one epsilon that was asked for


@dataclass(frozen=True)
class PlanCurves:
    """What a drawing of a plan shows: a quantity against epsilon, curve by curve.

    ``band`` is the range of the ``band_name`` curve; ``without_noise`` is a level to compare with.
    """

    epsilons: Sequence[float]
    series: Mapping[str, Sequence[tuple[float, float]]]
    band_name: str
    band: Sequence[tuple[float, float]]
    without_noise: float
    y_label: str


class Plan(ABC):
    """A forecast of releases, as a table; nothing private was read for it.

    ``title`` says what the table shows, ``columns`` are its heads, ``advice`` are sentences that
    follow it.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What the table shows."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The heads of the columns."""

    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text, row by row."""

    @property
    def advice(self) -> Sequence[str]:
        """What to do, in sentences."""
        return ()

    def curves(self) -> "PlanCurves":
        """Return what a drawing of the plan shows, where it can be drawn."""
        raise ParameterError("this plan is a table and has no drawing. Leave --plot out.")

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""

    def __str__(self) -> str:
        lines = [self.columns, *self.cells()]
        widths = [max(len(line[j]) for line in lines) for j in range(len(self.columns))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *self.advice])


@dataclass(frozen=True)
class PromisePlan(Plan):
    """What a release would promise, guarantee by guarantee; of its use nothing is predicted."""

    guarantees: Sequence[Guarantee]

    title = "What a release would promise; no private cell was read"
    columns = ("epsilon", "delta", "unit", "guarantee")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the promises as text."""
        return [
            (f"{g.epsilon or math.inf:.4g}", f"{g.delta:g}", str(g.unit), str(g.kind))
            for g in self.guarantees
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the promises as plain JSON values."""
        return {"rows": [guarantee.to_json() for guarantee in self.guarantees]}


def asked_epsilons(epsilon: float | Iterable[float], *, around: bool = True) -> list[float]:
    """Return the epsilons of a plan; one alone is shown with smaller and larger ones around it."""
    if isinstance(epsilon, Iterable):
        asked = [check_epsilon(e) for e in epsilon]
    else:
        alone = check_epsilon(epsilon)
        asked = [alone * factor for factor in _AROUND] if around else [alone]
    if not asked:
        raise ParameterError("a plan needs at least one epsilon.")
    return asked
