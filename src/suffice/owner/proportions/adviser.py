"""Advice to a publisher: skewed sets by randomised response, and what their skew costs.

Ratios are learnt best from sets in which one class prevails each (Iyer et al. 2016, Section 3.1,
and Theorem 1). The paper lets the publisher form them by the labels; but a set in which nine of ten
rows have one label tells every one of its rows' labels, nine times of ten, however noisy its
published proportions are. So membership is randomised response: a row goes to the set of its own
class with probability ``skew``, else to any other, and that costs each label

    epsilon = ln(skew (K - 1) / (1 - skew)).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ForeignRowsError, ParameterError, PrivacyError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.proportions.plan import FARTHEST, best_way, public_sets
from suffice.privacy.calibrate import check_epsilon
from suffice.privacy.guarantee import Assumption, Budget
from suffice.release.artifact import Release
from suffice.release.codec import encode
from suffice.tables.bags import Bags, read_bags
from suffice.tables.labels import Classes, check_classes
from suffice.tables.rowhash import RowDigest, RowLanes
from suffice.tables.sources import Table

__all__ = [
    "PlannedSkew",
    "SkewPlan",
    "assign_bags",
    "assigned_bags",
    "formed_by_response",
    "plan_skew",
    "skew_epsilon",
]

_SKEWS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


def skew_epsilon(skew: float, classes: int) -> float:
    """Return what sets of this skew cost each label: ln(skew (K - 1) / (1 - skew))."""
    if not 1 / classes < skew < 1:
        raise ParameterError(f"skew must lie strictly between 1/{classes} and 1; got {skew!r}.")
    return math.log(skew * (classes - 1) / (1 - skew))


def assign_bags(
    X: Any,
    y: Any = None,
    *,
    skew: float | None = None,
    epsilon: float | None = None,
    classes: Sequence[Any] = (0, 1),
    ledger: Ledger | None,
    progress: Callable[[int], None] | None = None,
    **where: Any,
) -> Release:
    """Protects each label: every row gets a set at random, that of its own class most often.

    Give ``skew``, the chance of a row's own class, or the ``epsilon`` that membership may cost. The
    release holds one set per row, named by its class, in the order of the rows (kind
    label-responses); give it to `LabelProportions.release` as ``bags``. Its cost is its own, and is
    debited from ``ledger``; noisy proportions of the sets are paid for on top. ``where`` are
    ``label``, ``features``, ``dataset``, ``request`` and ``found_at`` as elsewhere.
    """
    if (skew is None) == (epsilon is None):
        raise ParameterError("say once how skewed the sets are: skew, or the epsilon they cost.")
    known = check_classes(classes)
    cost = epsilon if epsilon is not None else skew_epsilon(float(skew or 0), len(known))
    mechanism = MeanOperator(check_epsilon(cost), mechanism="response", classes=known, clip=1.0)
    return mechanism.release(X, y, ledger=ledger, progress=progress, **where)


def assigned_bags(release: Release, table: Table, classes: Classes) -> Bags:
    """Return the sets that `assign_bags` put the rows of ``table`` in; they must be its rows."""
    if release.kind != "label-responses" or len(release.parts) != 1:
        raise ParameterError("bags must be what assign_bags (suffice release bags) released.")
    if release.classes != classes:
        raise ParameterError("the sets were formed for other classes; use the same, in one order.")
    features = [column.name for column in release.pipeline.columns]
    lanes, digest = RowLanes(table.schema, features), RowDigest(features, ordered=True)
    for batch in table.batches(features):
        digest.update(lanes.of(batch))
    if digest.result() != release.parts[0].rows.hash:
        raise ForeignRowsError(
            "the sets were formed for other rows, or for these in another order."
        )
    return read_bags(table, np.array(classes)[release.arrays["answers"]])


def formed_by_response(release: Release, ledger: Ledger | None, dataset: str | None) -> Assumption:
    """Return what is said of sets that were formed by the labels; the ledger must have paid."""
    if ledger is not None and not ledger.released(dataset or "", encode(release.unsigned())):
        raise PrivacyError(
            "these sets say something about labels and were not paid for from this ledger; form"
            " them again with it (assign_bags(..., ledger=...), suffice release bags --ledger)."
        )
    return Assumption(
        "the sets were formed by randomised response on the labels, a release of its own that costs"
        f" each label {Budget(release.guarantee.epsilon or 0.0)} besides",
        "that release was given, and is about these rows",
    )


@dataclass(frozen=True)
class PlannedSkew:
    """One way to share epsilon between the skew of sets and the noise on their proportions.

    ``separation`` is the smallest singular value of the matrix of proportions, for even classes:
    skew - (1 - skew)/(K - 1). ``error`` = (distortion + sampling) / separation, the L1 error of a
    set's proportions (noise, and what a set of its size has anyway) as it grows when sets that are
    alike have to be told apart.
    """

    skew: float
    sets_epsilon: float
    counts_epsilon: float
    mechanism: str
    distortion: float
    separation: float
    error: float


@dataclass(frozen=True)
class SkewPlan:
    """A table of skews at one total epsilon; ``chosen`` has the least predicted error."""

    rows: tuple[PlannedSkew, ...]
    chosen: PlannedSkew
    epsilon: float
    delta: float

    COLUMNS = ("skew", "epsilon of sets", "of counts", "mechanism", "distortion", "error")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text; a star marks the least error."""
        return [
            (
                f"{row.skew:g}" + (" *" if row == self.chosen else ""),
                f"{row.sets_epsilon:.3g}",
                f"{row.counts_epsilon:.3g}",
                row.mechanism,
                f"{row.distortion:.3g}",
                f"{row.error:.3g}",
            )
            for row in self.rows
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        rows = [{**vars(row), "chosen": row == self.chosen} for row in self.rows]
        return {"epsilon": self.epsilon, "delta": self.delta, "rows": rows}


def plan_skew(
    rows: int,
    classes: int | Sequence[Any],
    epsilon: float,
    delta: float = 0.0,
    *,
    skews: Sequence[float] = _SKEWS,
) -> SkewPlan:
    """Return how skew trades against the noise of proportions at a total ``epsilon`` per label.

    From the number of rows and classes alone. What membership costs is missing from the counts:
    more skew is easier to learn from and leaves noisier proportions.
    """
    check_epsilon(epsilon)
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if rows < number:
        raise ParameterError("there must be a row for every set, and a set for every class.")
    sets = public_sets([rows // number] * number, number)
    found = []
    for skew in skews:
        if skew <= 1 / number:
            continue
        cost = skew_epsilon(skew, number)
        if cost >= epsilon:
            continue
        name, way = best_way(sets, epsilon - cost, delta)
        distortion = float(way.distortion().mean())
        if distortion >= FARTHEST:
            continue
        other = (1 - skew) / (number - 1)
        spread = math.sqrt(skew * (1 - skew)) + (number - 1) * math.sqrt(other * (1 - other))
        sampling = spread * math.sqrt(2 / math.pi / sets.sizes[0])
        error = (distortion + sampling) / (skew - other)
        found.append(PlannedSkew(skew, cost, epsilon - cost, name, distortion, skew - other, error))
    if not found:
        raise ParameterError(
            "no skew leaves enough epsilon for the proportions: raise epsilon, take more rows, or"
            " form sets without looking at labels."
        )
    return SkewPlan(tuple(found), min(found, key=lambda row: row.error), epsilon, delta)
