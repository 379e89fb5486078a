"""The advice in sentences: what to release, why, and what the forecast does not tell."""

import math
from collections.abc import Iterator, Sequence

from suffice.owner.advice.assessing import Assessment
from suffice.owner.advice.question import Private, Question
from suffice.owner.advice.rule import ENOUGH_LABELS, ranks_help

__all__ = ["forecast_words", "reasons"]

_LITTLE = 0.5  # of the signal
_MAPS = {
    None: "A feature map would gain less than its noise costs.",
    "ranks": "Ranks among public rows limit outliers, and their noise is no larger.",
    "ranks+polynomial:2": (
        "Products of ranks let a linear model follow curves. There are rows enough for their noise."
    ),
}

_LIGHT = "Public columns have light tails. Ranks among public rows help where tails are heavy."


def forecast_words(assessment: Assessment) -> str:
    """Return the forecast of a candidate as text."""
    if assessment.labels is not None:
        return f"labels count as {assessment.labels:,.0f} exact ones"
    if assessment.signal_left is not None:
        return f"{math.floor(100 * assessment.signal_left)} % of the signal left"
    return "unknown without public rows"


def reasons(question: Question, assessments: Sequence[Assessment]) -> tuple[str, ...]:
    """Return why the first candidate is advised, in sentences."""
    best = assessments[0]
    return (
        f"Advised: {best.candidate.name}.",
        *_why(question, assessments),
        *_limits(question, best),
    )


def _why(question: Question, assessments: Sequence[Assessment]) -> Iterator[str]:
    best = assessments[0]
    trees = next((a for a in assessments if a.candidate.estimator is not None), None)
    if trees is not None and trees.labels is not None:
        enough = "enough" if trees is best else "too few"
        yield (
            f"Randomised labels count as {trees.labels:,.0f} exact ones. Trees want about"
            f" {ENOUGH_LABELS:,}, so these are {enough}."
        )
    name = best.candidate.mechanism.name
    maps = {a.candidate.map for a in assessments}
    if best.candidate.estimator is None and name in {"mean-operator", "moments"} and len(maps) > 1:
        light = best.candidate.map is None and not ranks_help(best)
        yield _LIGHT if light else _MAPS[best.candidate.map]
    if name == "moments" and question.private == Private.ATTRIBUTES:
        yield "Moments protect whole records, and so each of their values."
    if name == "moments":
        yield (
            "On most tables that we tried, moments taught more than subset sums or randomised"
            " records at the same epsilon."
        )
    if name == "responses" and not question.delta:
        yield "With a delta, for example --delta 1e-6, moments are compared too, and usually win."


def _limits(question: Question, best: Assessment) -> Iterator[str]:
    if best.signal_left is not None:
        yield (
            "Signal left: how much of a model's correlation with the labels the noise leaves, if no"
            " direction of the rows matters more than another. It is no accuracy."
        )
        if best.signal_left < _LITTLE:
            yield "The noise leaves little. Raise --epsilon, leave columns out, or wait for rows."
    if question.private != Private.LABELS and question.public is None:
        yield (
            "Replace LO,HI by ranges that you know beforehand. With public rows (--public FILE)"
            " feature maps are compared as well."
        )
