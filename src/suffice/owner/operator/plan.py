"""What each mechanism would do: forecast from public rows, before a label is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.operator.candidates import Candidate, Candidates, choose, mechanisms_at
from suffice.owner.operator.forecast import EQUAL, SIGNALS, Utility
from suffice.owner.plans import Plan, PlanCurves
from suffice.owner.public_rows import PublicRows

__all__ = ["OperatorPlan", "plan_operator"]


@dataclass(frozen=True, repr=False)
class OperatorPlan(Plan):
    """A table of what each mechanism would do at each epsilon; no label was read for it.

    Parameters
    ----------
    rows : tuple of Candidate
        One for each mechanism and epsilon.
    chosen : tuple of Candidate
        The one that ``auto`` takes at each epsilon.
    without_noise : Utility
        What exact labels would give.
    delta : float
        The delta of all rows.
    balance : float
        Expected proportion of the positive class, as declared; 0.5 for equal classes.
    """

    rows: tuple[Candidate, ...]
    chosen: tuple[Candidate, ...]
    without_noise: Utility
    delta: float
    balance: float = EQUAL

    columns = ("epsilon", "mechanism", "noise", "score noise", *SIGNALS)

    @property
    def title(self) -> str:
        """What the table shows."""
        classes = "two equal classes"
        if self.balance != EQUAL:
            classes = f"classes of {1 - self.balance:.3g} and {self.balance:.3g} of the rows"
        return (
            f"Predicted noise (standard deviation per feature, and in scores) and accuracy for"
            f" {classes}. The features explain 5 % (hard), 20 % (usual) or 70 % (easy) of the"
            " labels' variance. Yours may be easier. * marks what auto chooses."
        )

    @property
    def larger_class(self) -> float:
        """The accuracy of a guess without the release: always the larger class."""
        return max(self.balance, 1 - self.balance)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text: noise per feature and in scores, and predicted accuracies.

        A star marks what ``auto`` takes. Both noises are standard deviations.
        """
        lines = [
            (
                f"{row.epsilon:g}",
                row.mechanism + (" *" if row in self.chosen else ""),
                f"{row.deviation:.2g}",
                f"{row.utility.score_noise:.2g}",
                *(f"{value:.3f}" for value in row.utility.accuracy),
            )
            for row in self.rows
        ]
        exact = [f"{value:.3f}" for value in self.without_noise.accuracy]
        guess = [f"{self.larger_class:.3f}"] * len(SIGNALS)
        return [
            *lines,
            ("", "without noise", "0", "0", *exact),
            ("", "always the larger class", "", "", *guess),
        ]

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
            "balance": self.balance,
            "rows": [
                {
                    "epsilon": row.epsilon,
                    "mechanism": row.mechanism,
                    "chosen": row in self.chosen,
                    "whitened_at": row.whitened,
                    "noise": row.deviation,
                    "margin_noise": row.utility.margin_noise,
                    "score_noise": row.utility.score_noise,
                    "accuracy": dict(zip(signals, row.utility.accuracy, strict=True)),
                }
                for row in self.rows
            ],
            "without_noise": dict(zip(signals, self.without_noise.accuracy, strict=True)),
            "always_larger_class": self.larger_class,
        }


def plan_operator(
    public: PublicRows,
    classes: int,
    mechanism: str,
    epsilons: Sequence[float],
    delta: float,
    *,
    balance: float = EQUAL,
) -> OperatorPlan:
    """Return what each mechanism that ``mechanism`` stands for would do at each epsilon.

    Mechanisms are chosen as a release does it, for equal classes; ``balance`` is that of the
    predicted accuracies.
    """
    names, candidates = mechanisms_at(mechanism, delta), Candidates(public, classes)
    rows: list[Candidate] = []
    chosen: list[Candidate] = []
    for epsilon in epsilons:
        every = candidates.every(mechanism, epsilon, delta)
        chosen.append(candidates.best(mechanism, epsilon, delta))
        rows += [
            chosen[-1] if chosen[-1].mechanism == name else choose(own)
            for name in names
            if (own := [candidate for candidate in every if candidate.mechanism == name])
        ]
    if balance != EQUAL:
        candidates = Candidates(public, classes, balance)
        forecasts = {id(row): candidates.like(row, delta) for row in rows}
        chosen, rows = ([forecasts[id(row)] for row in part] for part in (chosen, rows))
    return OperatorPlan(tuple(rows), tuple(chosen), candidates.without_noise, delta, balance)
