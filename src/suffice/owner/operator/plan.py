"""What could be published, at what price and with what use: decided before a label is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.operator.candidates import Candidate, Candidates, choose, mechanisms_at
from suffice.owner.operator.forecast import SIGNALS, Utility
from suffice.owner.plans import Plan, PlanCurves
from suffice.owner.public_rows import PublicRows

__all__ = ["OperatorPlan", "plan_operator"]


@dataclass(frozen=True)
class OperatorPlan(Plan):
    """A table of what each mechanism would do at each epsilon; no label was read for it.

    ``rows`` has one candidate per mechanism and epsilon, ``chosen`` the one that ``auto`` takes at
    each epsilon, ``without_noise`` what exact labels would give.
    """

    rows: tuple[Candidate, ...]
    chosen: tuple[Candidate, ...]
    without_noise: Utility
    delta: float

    title = (
        "Predicted noise, per coordinate and in scores, and accuracy between two equal classes,"
        " where features explain 5 % (hard), 20 % (usual) or 70 % (easy) of the labels' variance;"
        " * is what auto takes"
    )
    columns = ("epsilon", "mechanism", "noise", "margin noise", *SIGNALS)

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

    def curves(self) -> PlanCurves:
        """Return the accuracy of the usual problem, and the band from hard to easy for the best."""
        usual = list(SIGNALS).index("usual")
        names = dict.fromkeys(row.mechanism for row in self.rows)
        return PlanCurves(
            epsilons=[row.epsilon for row in self.chosen],
            series={
                name: [
                    (row.epsilon, row.utility.accuracy[usual])
                    for row in self.rows
                    if row.mechanism == name
                ]
                for name in names
            },
            band_name="auto, from hard to easy problems",
            band=[(row.utility.accuracy[0], row.utility.accuracy[-1]) for row in self.chosen],
            without_noise=self.without_noise.accuracy[usual],
            y_label="predicted accuracy",
        )

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


def plan_operator(
    public: PublicRows,
    classes: int,
    mechanism: str,
    epsilons: Sequence[float],
    delta: float,
) -> OperatorPlan:
    """Return what each mechanism that ``mechanism`` stands for would do at each epsilon."""
    names, candidates = mechanisms_at(mechanism, delta), Candidates(public, classes)
    rows: list[Candidate] = []
    chosen: list[Candidate] = []
    for epsilon in epsilons:
        every = [item for name in names for item in candidates.of(name, epsilon, delta)]
        chosen.append(choose(every))
        rows += [
            chosen[-1] if chosen[-1].mechanism == name else choose(own)
            for name in names
            if (own := [candidate for candidate in every if candidate.mechanism == name])
        ]
    return OperatorPlan(tuple(rows), tuple(chosen), candidates.without_noise, delta)
