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
    """A table to form bags of.

    Parameters
    ----------
    write_rows : Path, optional
        File to which its public rows are written, with their bags.
    """

    write_rows: Path | None = output_option(
        None,
        "File to which the public rows are written, with their bags in column bag.",
        path=Path,
        parse=Path,
        writes=True,
        kw_only=True,
    )

    def check(self) -> None:
        """Raise before anything is charged if the rows could not be written."""
        super().check()
        if self.write_rows is None:
            return
        check_ending(self.write_rows)
        others = [n for n in column_names(self.data) if n != self.label and n not in self.drop]
        if _COLUMN in (self.features or others):
            raise ParameterError("The table has a feature column named bag. Rename it first.")


@dataclass(frozen=True)
class SkewedBags(Mechanism[PublicTable]):
    """Publish a random bag for every row: most often the bag of its own class.

    Protects each label. The feature columns of every row, the number of rows and the class list
    are public. The release holds one bag per row, named by its class, in the order of the rows
    (kind label-responses); give it to `LabelProportions.release` as ``bags``. It has a charge of
    its own; noisy proportions of the bags are charged on top.

    Parameters
    ----------
    skew : float, optional
        Probability that a row goes to the bag of its own class, for example 0.9.
    epsilon : float, optional
        Epsilon of each label, instead of ``skew``.
    classes : sequence
        The labels that can occur.

    Raises
    ------
    ParameterError
        Unless exactly one of ``skew`` and ``epsilon`` is given.
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
            raise ParameterError("Give the skew of the bags once: use either --skew or --epsilon.")

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
        totals = tuple(epsilons) or (self._labels.epsilon,)
        return SkewPlanner(source.data, totals, classes=self.declared_classes()).plan()


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
    """Publish a random bag for every row: most often the bag of its own class. Protects each label.

    Parameters
    ----------
    X, y
        The table and its labels; or name the column ``label`` among ``inputs``.
    skew : float, optional
        Probability that a row goes to the bag of its own class, for example 0.9.
    epsilon : float, optional
        Epsilon of each label, instead of ``skew``.
    classes : sequence
        The labels that can occur.
    ledger : Ledger or None
        The ledger that is charged; None releases without a budget.
    **inputs
        Further inputs of `SkewedBags.release`, such as ``dataset``.

    Returns
    -------
    Release
        One bag per row, of kind label-responses.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(2).repeat(50, axis=0), np.repeat([0, 1], 50)
    >>> release = suffice.assign_bags(X, y, skew=0.75, ledger=None)
    >>> release.kind, round(release.guarantee.epsilon, 2), release.arrays["answers"].shape
    ('label-responses', 1.1, (100,))
    """
    return SkewedBags(skew, epsilon, classes).release(X, y, ledger=ledger, **inputs)


def assigned_bags(release: Release, table: Table, classes: Classes) -> Bags:
    """Return the bags that `assign_bags` put the rows of ``table`` in; they must be its rows."""
    if release.kind != RandomisedLabels.kind or len(release.parts) != 1:
        raise ParameterError(
            "--bags-file must be a file of `suffice release bags` (Python: assign_bags)."
        )
    if release.classes != classes:
        raise ParameterError(
            "The bags were formed for other classes. Use the same classes in the same order."
        )
    features = [column.name for column in release.pipeline.columns]
    if hash_rows(table, features, ordered=True).result() != release.parts[0].rows.hash:
        raise ForeignRowsError(
            "The bags were formed for other rows, or for these rows in another order. Use the"
            " table that the bags were formed from."
        )
    return read_bags(table, np.array(classes)[release.arrays["answers"]])


def check_bags_paid(release: Release, payment: Payment) -> None:
    """Raise unless bags that say something about labels were charged to this ledger."""
    ledger, dataset = payment.ledger, payment.dataset or ""
    if ledger is not None and not ledger.released(dataset, encode(release.unsigned())):
        raise PrivacyError(
            "These bags were formed from labels and were not charged to this ledger. Form them"
            " again with `suffice release bags --ledger` (Python: assign_bags(..., ledger=...))."
        )


def formed_by_response(release: Release) -> Assumption:
    """Return what is said of bags that were formed by the labels."""
    return Assumption(
        "the bags were formed by randomised response on the labels, a release of its own that costs"
        f" each label {Budget(release.guarantee.epsilon or 0.0)} besides",
        "that release was given, and is about these rows",
    )
