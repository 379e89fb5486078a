"""The releases that protect what an owner calls private, each ready to be made.

A guarantee per record also covers each single value. So moments and subset sums, which protect
records, are candidates for attributes as well. Randomised records protect each value at epsilon, or
a record of d features and a label at epsilon / (d + 1) for each cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from suffice.engines.summary import Summary
from suffice.owner.advice.question import Private, Question
from suffice.owner.advice.randomised import randomised_records
from suffice.owner.mechanism import Mechanism
from suffice.owner.moments.mechanism import Moments
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.rados.mechanism import Rados
from suffice.tables.maps import most_outputs

__all__ = ["MAPS", "Candidate", "candidates"]

# Public feature maps in the order of how much they let a linear model express.
MAPS: tuple[str | None, ...] = (None, "ranks", "ranks+polynomial:2")
_MOST_PRODUCTS = 300  # coordinates of products: beyond, there are too many for their noise
_TREES = "hist-gradient-boosting"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One release that could be made, with its learner.

    Parameters
    ----------
    name : str
        The release in words, with its map.
    mechanism : Mechanism
        What makes the release.
    map : str or None
        The public feature map.
    estimator : str or None
        What ``suffice fit --estimator`` is given.
    """

    name: str
    mechanism: Mechanism[Any]
    map: str | None = None
    estimator: str | None = None


def candidates(question: Question, width: int, summary: Summary | None) -> list[Candidate]:
    """Return the releases that protect what is private.

    ``width`` is the number of coordinates of a row without a map, ``summary`` what a pass over
    public rows yielded.
    """
    if question.private == Private.LABELS:
        return list(_of_labels(question, width, summary))
    return list(_of_records(question, width, summary))


def _maps(width: int, *, public: bool) -> list[str | None]:
    """Return the maps that can be fitted, and whose noise can be borne."""
    if not public:
        return [None]
    return [m for m in MAPS if m is None or most_outputs(m, width) <= max(_MOST_PRODUCTS, width)]


def _named(name: str, feature_map: str | None) -> str:
    return name if feature_map is None else f"{name}, {feature_map}"


def _of_labels(question: Question, width: int, summary: Summary | None) -> Iterator[Candidate]:
    missing = "mean" if summary is not None and any(summary.missing.values()) else "error"
    common: dict[str, Any] = {"classes": question.classes, "missing": missing}
    for feature_map in _maps(width, public=True):
        operator = MeanOperator(question.epsilon, question.delta, map=feature_map, **common)
        yield Candidate(_named("mean operator", feature_map), operator, feature_map)
    response = MeanOperator(question.epsilon, 0.0, mechanism="response", **common)
    yield Candidate("randomised labels, trees", response, estimator=_TREES)


def _of_records(question: Question, width: int, summary: Summary | None) -> Iterator[Candidate]:
    common: dict[str, Any] = {"standardize": question.public, "classes": question.classes}
    if question.delta > 0:
        for feature_map in _maps(width, public=summary is not None):
            moments = Moments(question.epsilon, question.delta, map=feature_map, **common)
            yield Candidate(_named("moments", feature_map), moments, feature_map)
        if len(question.declared_classes) == 2:
            rados = Rados(
                epsilon=question.epsilon, delta=question.delta, unit="record", missing="mean",
                **common,
            )  # fmt: skip
            yield Candidate("subset sums (rados)", rados)
    if summary is not None:
        responses = randomised_records(question, summary)
        yield Candidate("randomised records", responses)
