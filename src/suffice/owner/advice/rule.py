"""Which candidate is best: a public rule, whose constants were chosen on public tables.

The forecast says what noise leaves of a classifier. What a richer map or another learner is worth
without noise depends on the labels, which nobody may look at: it is a constant for each release.
The merit of a candidate is the product. `bench/advise.py` prints which tables the constants were
chosen on, and how the rule does on others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from suffice.owner.advice.assessing import Assessment
from suffice.owner.mechanism import Mechanism
from suffice.owner.moments.mechanism import Moments
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.rados.mechanism import Rados
from suffice.owner.responses.mechanism import RandomizedResponse

__all__ = ["ENOUGH_LABELS", "merit", "ranked", "ranks_help"]

# From so many effective labels on, trees on randomised labels beat a linear model of the mean
# operator on most tables that we tried; below, they learn the randomisation.
ENOUGH_LABELS = 2_000
# Ranks and their products help where tails are heavy. Where they are light, ranks hide the gaps
# between clusters. The mean operator of few columns clips few rows, so that ranks, though not their
# products, help it all the same.
_HEAVY = 1.5  # excess kurtosis of half of the columns
_FEW = 50  # coordinates without a map
_RANKS, _PRODUCTS = "ranks", "ranks+polynomial:2"
_LIGHT: Mapping[str, float] = {_RANKS: 0.9, _PRODUCTS: 0.82}  # of the worth where tails are light
_WORTH: Mapping[type[Mechanism[Any]], Mapping[str | None, float]] = {
    MeanOperator: {None: 1.0, _RANKS: 1.03, _PRODUCTS: 1.23},
    Moments: {None: 1.0, _RANKS: 1.03, _PRODUCTS: 1.12},
    Rados: {None: 0.98},
    RandomizedResponse: {None: 0.8},
}


def merit(assessment: Assessment) -> float:
    """Return what candidates are compared by: the part that noise leaves, times a map's worth."""
    candidate = assessment.candidate
    if candidate.estimator is not None:
        enough = assessment.labels is not None and assessment.labels >= ENOUGH_LABELS
        return 2.0 if enough else 0.0
    if assessment.correlation_left is None:  # without public rows: in the order of the list
        return 0.0
    worth = _WORTH[type(candidate.mechanism)][candidate.map]
    if candidate.map is not None and not ranks_help(assessment):
        worth *= _LIGHT[candidate.map]
    return assessment.correlation_left * worth


def ranks_help(assessment: Assessment) -> bool:
    """Say whether public columns are of a sort that ranks helped on other tables."""
    candidate = assessment.candidate
    of_operator = isinstance(candidate.mechanism, MeanOperator) and candidate.map != _PRODUCTS
    return (of_operator and assessment.width <= _FEW) or assessment.tails >= _HEAVY


def ranked(assessments: Sequence[Assessment]) -> list[Assessment]:
    """Return the candidates, the best first; equal ones stay in their order."""
    return sorted(assessments, key=merit, reverse=True)
