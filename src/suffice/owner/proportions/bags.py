"""Skewed bags, formed by randomised response on the labels, and what is said of them.

Ratios are learnt best from bags in which one class prevails each (Iyer et al. 2016, Section 3.1,
and Theorem 1). The paper lets the publisher form them by the labels; but a bag in which nine of ten
rows have one label tells every one of its rows' labels, nine times of ten, however noisy its
published proportions are. So membership is randomised response: a row goes to the bag of its own
class with probability ``skew``, else to any other, and that costs each label

    epsilon = ln(skew (K - 1) / (1 - skew)).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ForeignRowsError, ParameterError, PrivacyError
from suffice.options import option, output_option, privacy_option
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import CLASSES, EPSILON, Mechanism
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.operator.procedures import RandomisedLabels
from suffice.owner.plans import Plan
from suffice.owner.proportions.plan import SkewPlanner, skew_epsilon
from suffice.owner.public_rows import PublicTable, open_public
from suffice.owner.publish import Payment
from suffice.owner.source import PublicSource
from suffice.privacy.calibrate import check_epsilon
from suffice.privacy.guarantee import Assumption, Budget
from suffice.release.artifact import Release
from suffice.release.codec import encode
from suffice.tables.bags import Bags, read_bags
from suffice.tables.labels import Classes, check_classes
from suffice.tables.rowhash import hash_rows
from suffice.tables.sources import column_names
from suffice.tables.table import Table
from suffice.tables.writing import check_ending, write_table

__all__ = [
    "SkewedBags",
    "SkewedSource",
    "assign_bags",
    "assigned_bags",
    "check_bags_paid",
    "formed_by_response",
]

_COLUMN = "bag"  # of the rows that are written beside


@dataclass(frozen=True)
class SkewedSource(PublicSource):
    """A table to form bags of; ``write_rows`` is where its public rows go, with their bags."""

    write_rows: Path | None = output_option(
        None,
        "Also write the public rows with their bags (column bag) to this file.",
        path=Path,
        parse=Path,
        writes=True,
        kw_only=True,
    )

    def check(self) -> None:
        """Raise before anything is paid if the rows could not be written."""
        super().check()
        if self.write_rows is None:
            return
        check_ending(self.write_rows)
        others = [n for n in column_names(self.data) if n != self.label and n not in self.drop]
        if _COLUMN in (self.features or others):
            raise ParameterError("the table has a feature named bag already; rename it first.")


@dataclass(frozen=True)
class SkewedBags(Mechanism[PublicTable]):
    """Protects each label: every row gets a bag at random, that of its own class most often.

    Give ``skew``, the chance of a row's own class, or the ``epsilon`` that membership may cost. The
    release holds one bag per row, named by its class, in the order of the rows (kind
    label-responses); give it to `LabelProportions.release` as ``bags``. Its cost is its own; noisy
    proportions of the bags are paid for on top.
    """

    name = "bags"
    source = SkewedSource
    planner = SkewPlanner

    skew: float | None = privacy_option(
        None, "Probability that a row goes to the bag of its own class, for example 0.9."
    )
    epsilon: float | None = option(
        None,
        **(EPSILON | {"help": "Epsilon of each label, for example 1; instead of --skew."}),
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.skew is None) == (self.epsilon is None):
            raise ParameterError(
                "say once how skewed the bags are: skew, or the epsilon they cost."
            )

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    @property
    def _labels(self) -> MeanOperator:
        """The release of randomised labels that this is: rows are left as long as they are."""
        classes, cost = self.declared_classes(), self.epsilon
        if cost is None:
            cost = skew_epsilon(float(self.skew or 0), len(classes))
        return MeanOperator(check_epsilon(cost), 0.0, "response", classes, clip=1.0)

    def public(self, source: PublicSource) -> PublicTable:
        """Return the rows, all of whose columns but the label are public."""
        return self._labels.public(source)

    def choose(self, public: PublicTable) -> RandomisedLabels:
        """Return randomised response at the cost of the skew."""
        procedure = self._labels.choose(public)
        assert isinstance(procedure, RandomisedLabels)  # noqa: S101  # for the type checker
        return procedure

    def finish(self, source: SkewedSource, release: Release) -> None:
        """Write the public rows and the column bag: what a learner needs."""
        if source.write_rows is None:
            return
        names = [column.name for column in release.pipeline.columns]
        table = open_public(source, release.pipeline)
        rows = pa.Table.from_batches(table.batches(names))
        bags = np.array(release.classes)[release.arrays["answers"]]
        write_table(rows.append_column(_COLUMN, pa.array(bags)), source.write_rows)

    def plan(self, source: PublicSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return how skew trades against the noise of proportions at a total epsilon."""
        asked = tuple(epsilons) or (self._labels.epsilon,)
        return SkewPlanner(source.data, asked, classes=self.declared_classes()).plan()


def assign_bags(
    X: Any,
    y: Any = None,
    *,
    skew: float | None = None,
    epsilon: float | None = None,
    classes: Sequence[Any] = (0, 1),
    ledger: Ledger | None,
    **inputs: Any,
) -> Release:
    """Protects each label: every row gets a bag at random, that of its own class most often.

    `SkewedBags` explains ``skew`` and ``epsilon``; ``inputs`` are those of its release.
    """
    return SkewedBags(skew, epsilon, classes).release(X, y, ledger=ledger, **inputs)


def assigned_bags(release: Release, table: Table, classes: Classes) -> Bags:
    """Return the bags that `assign_bags` put the rows of ``table`` in; they must be its rows."""
    if release.kind != RandomisedLabels.kind or len(release.parts) != 1:
        raise ParameterError("bags must be what assign_bags (suffice release bags) released.")
    if release.classes != classes:
        raise ParameterError("the bags were formed for other classes; use the same, in one order.")
    features = [column.name for column in release.pipeline.columns]
    if hash_rows(table, features, ordered=True).result() != release.parts[0].rows.hash:
        raise ForeignRowsError(
            "the bags were formed for other rows, or for these in another order."
        )
    return read_bags(table, np.array(classes)[release.arrays["answers"]])


def check_bags_paid(release: Release, payment: Payment) -> None:
    """Raise unless bags that say something about labels were paid for from this ledger."""
    ledger, dataset = payment.ledger, payment.dataset or ""
    if ledger is not None and not ledger.released(dataset, encode(release.unsigned())):
        raise PrivacyError(
            "these bags say something about labels and were not paid for from this ledger; form"
            " them again with it (assign_bags(..., ledger=...), suffice release bags --ledger)."
        )


def formed_by_response(release: Release) -> Assumption:
    """Return what is said of bags that were formed by the labels."""
    return Assumption(
        "the bags were formed by randomised response on the labels, a release of its own that costs"
        f" each label {Budget(release.guarantee.epsilon or 0.0)} besides",
        "that release was given, and is about these rows",
    )
