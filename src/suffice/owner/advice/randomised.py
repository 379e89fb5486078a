"""Randomised records whose ranges and possible values come from public rows."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

from suffice.engines.summary import Summary
from suffice.owner.advice.question import Private, Question
from suffice.owner.responses.mechanism import RandomizedResponse

__all__ = ["cell_epsilon", "randomised_records"]

_ENDS = (0.05, 0.95)  # quantiles of public numbers: a wider range needs more noise
_DIGITS = 4  # of numbers that a command line shows


def cell_epsilon(question: Question, features: int) -> float:
    """Return the epsilon of one cell: epsilon for each value, or its part of a record's."""
    return question.epsilon / (features + 1 if question.private == Private.RECORDS else 1)


def randomised_records(question: Question, summary: Summary) -> RandomizedResponse:
    """Return randomised response on every cell, declared by public rows alone.

    A number gains Laplace noise of variance 2 (range / epsilon)^2; one of k possible values is
    replaced with probability (k - 1) / (e^epsilon + k - 1).
    """
    names = summary.sample.rows.schema.names
    epsilon = cell_epsilon(question, len(names))
    states = {name: _states(summary, name) for name in names if name in summary.counts}
    ranges = {name: _range(summary, name) for name in names if name not in summary.counts}
    flips = {name: _flip(len(values), epsilon) for name, values in states.items()}
    noise = {n: _up(2 * ((high - low) / epsilon) ** 2) for n, (low, high) in ranges.items()}
    return RandomizedResponse(
        classes=question.classes,
        label_epsilon=epsilon,
        states=states or None,
        ranges=ranges or None,
        feature_flip=flips or None,
        feature_noise=noise or None,
        kernel="laplace",
        delta=0.0,
    )


def _states(summary: Summary, name: str) -> list[str]:
    """Return the categories of public rows, two at least."""
    values = sorted(str(value) for value in summary.counts[name] if value is not None)
    return values if len(values) > 1 else [*values, f"not {''.join(values)}"]


def _range(summary: Summary, name: str) -> tuple[float, float]:
    """Return a range that holds most public numbers, in few digits."""
    cells = summary.sample.rows.column(name).cast("float64").drop_null()
    numbers = cells.to_numpy(zero_copy_only=False)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) == 0:
        return 0.0, 1.0
    low, high = (float(end) for end in np.quantile(numbers, _ENDS))
    if not low < high:
        low, high = float(numbers.min()), float(numbers.max())
    low, high = _rounded(low, ROUND_FLOOR), _rounded(high, ROUND_CEILING)
    return (low, high) if low < high else (low, low + max(1.0, abs(low)))


def _flip(states: int, epsilon: float) -> float:
    return _up((states - 1) / (math.exp(epsilon) + states - 1))


def _up(number: float) -> float:
    """Return a number of few digits that is no less: more noise than asked for, never less."""
    return _rounded(number, ROUND_CEILING)


def _rounded(number: float, way: str) -> float:
    return float(Context(prec=_DIGITS, rounding=way).create_decimal(Decimal(number)))
