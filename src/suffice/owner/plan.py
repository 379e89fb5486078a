"""What could be published, at what price and with what use: decided before a label is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.candidates import Candidate, Ways, choose, mechanism_names
from suffice.owner.forecast import SIGNALS, Utility
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.planning import asked_epsilons, text_table
from suffice.tables.labels import check_classes

__all__ = ["Plan", "plan_mean_operator"]


@dataclass(frozen=True)
class Plan:
    """A table of what each mechanism would do at each epsilon; no label was read for it.

    ``rows`` has one candidate per mechanism and epsilon, ``chosen`` the one that ``auto`` takes at
    each epsilon, ``without_noise`` what exact labels would give.
    """

    rows: tuple[Candidate, ...]
    chosen: tuple[Candidate, ...]
    without_noise: Utility
    delta: float

    COLUMNS = ("epsilon", "mechanism", "noise", "margin noise", *SIGNALS)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text: noise per coordinate and in scores, and predicted accuracies.

        A star marks what ``auto`` takes.
        The accuracy is that between two equally large classes, where a linear model explains 5 %
        (hard), 20 % (usual) or 70 % (easy) of the labels' variance.
        """
        lines = [
            (
                f"{row.epsilon:g}",
                row.mechanism + (" *" if row in self.chosen else ""),
                f"{row.deviation:.2g}",
                f"{row.utility.margin_noise:.2g}",
                *(f"{value:.3f}" for value in row.utility.accuracy),
            )
            for row in self.rows
        ]
        exact = [f"{value:.3f}" for value in self.without_noise.accuracy]
        return [*lines, ("", "without noise", "0", "0", *exact)]

    def __str__(self) -> str:
        return "\n".join(text_table(self.COLUMNS, self.cells()))

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        signals = list(SIGNALS)
        return {
            "delta": self.delta,
            "rows": [
                {
                    "epsilon": row.epsilon,
                    "mechanism": row.mechanism,
                    "chosen": row in self.chosen,
                    "whitened_at": row.whitened,
                    "noise": row.deviation,
                    "margin_noise": row.utility.margin_noise,
                    "accuracy": dict(zip(signals, row.utility.accuracy, strict=True)),
                }
                for row in self.rows
            ],
            "without_noise": dict(zip(signals, self.without_noise.accuracy, strict=True)),
        }


def plan_mean_operator(
    X: Any,
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> Plan:
    """Return what each mechanism would do at each epsilon, from public rows alone.

    One ``epsilon`` is shown with a quarter, a half, the double and four times of it. The column
    ``label`` is left out and never read; ``settings`` are those of `MeanOperator` (``mechanism``,
    ``classes``, ``map``, ``clip``, ...).
    """
    asked = asked_epsilons(epsilon)
    operator = MeanOperator(asked[0], delta, **settings)
    names = mechanism_names(operator.mechanism, delta)
    public = operator.public_rows(X, label, features)
    ways = Ways(public, len(check_classes(operator.classes)))
    rows: list[Candidate] = []
    chosen: list[Candidate] = []
    for e in asked:
        found = [candidate for name in names for candidate in ways.of(name, e, delta)]
        chosen.append(choose(found))
        rows += [
            chosen[-1] if chosen[-1].mechanism == name else choose(own)
            for name in names
            if (own := [candidate for candidate in found if candidate.mechanism == name])
        ]
    return Plan(tuple(rows), tuple(chosen), ways.without_noise, delta)
