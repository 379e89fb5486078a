"""One pass over private labels: the exact class counts of every bag. Owner's side only."""

import numpy as np

from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.labelled import LabelStatistic
from suffice.owner.public_rows import PublicRows
from suffice.owner.source import LabelledBatch
from suffice.release.artifact import RowSet
from suffice.tables.bags import BagDigest, Bags
from suffice.tables.labels import Classes

__all__ = ["ExactCounts"]


class ExactCounts(LabelStatistic):
    """Counts the labels of each bag, and names rows, bags and labels on the way; an accumulator."""

    def __init__(
        self, public: PublicRows, bags: Bags, classes: Classes, *, identified: bool = True
    ) -> None:
        self.classes, self._bags = classes, len(bags.names)  # not who is in them: it travels
        self._pipeline = public.pipeline
        self._rows = BagDigest(public.table.schema, public.roles.features, bags.names)
        self._labels = LabelFingerprint(classes, identified=identified)
        self._counts = np.zeros(self._bags * len(classes), dtype=np.int64)
        self._count = 0

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._labels.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in rows with their labels and bags."""
        assert batch.bags is not None  # noqa: S101  # for the type checker
        columns = self._pipeline.encoded(batch.rows)  # also refuses what a learner could not map
        if not np.isfinite(columns).all():
            self._pipeline.explain_holes(columns)
        inside = batch.bags >= 0
        cells = (batch.bags * len(self.classes) + batch.codes[:, None])[inside]
        self._counts += np.bincount(cells, minlength=self._counts.size)
        self._rows.update(batch.rows, batch.bags)
        self._labels.update(batch.codes)
        self._count += len(batch)

    def merge(self, other: "ExactCounts") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        self._counts += other._counts  # one of us
        self._rows.merge(other._rows)
        self._labels.merge(other._labels)
        self._count += other._count

    @property
    def count(self) -> int:
        """The number of rows that were read."""
        return self._count

    def result(self) -> np.ndarray:
        """Return the exact counts (bags, classes): private."""
        return self._counts.reshape(self._bags, len(self.classes))

    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows with their bags."""
        return RowSet(self._rows.count, self._rows.result(), found_at)

    @property
    def public_rows(self) -> str:
        """The hash that the public rows have in any order."""
        return self._rows.public_rows

    @property
    def outside(self) -> int:
        """How many labels were of no class: none, for that is an error here."""
        return self._labels.outside

    @property
    def fingerprint(self) -> bytes:
        """What identifies the private labels; leaves under the ledger's key only."""
        return self._labels.result()
