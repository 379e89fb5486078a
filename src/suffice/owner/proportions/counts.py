"""One pass over private labels: the exact class counts of every set. Owner's side only."""

from collections.abc import Callable

import numpy as np

from suffice.errors import TableError
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.public_rows import PublicRows
from suffice.owner.statistics import LabelledBatches
from suffice.release.artifact import RowSet
from suffice.tables.bags import BagDigest, Bags
from suffice.tables.labels import Classes

__all__ = ["ExactCounts"]


class ExactCounts:
    """Counts the labels of each set, and names rows, sets and labels on the way."""

    def __init__(self, public: PublicRows, bags: Bags, classes: Classes) -> None:
        self.bags, self.classes = bags, classes
        self._pipeline = public.pipeline
        self._rows = BagDigest(public.table.schema, public.roles.features, bags.names)
        self._labels = LabelFingerprint(classes)
        self._counts = np.zeros(len(bags.names) * len(classes), dtype=np.int64)

    def read(self, labelled: LabelledBatches, progress: Callable[[int], None] | None) -> None:
        """Take in every row under its label."""
        start = 0
        for batch, labels in labelled:
            sets = self.bags.codes[start : start + batch.num_rows]
            start += batch.num_rows
            columns = self._pipeline.encoded(
                batch
            )  # also refuses rows that a learner could not map
            if not np.isfinite(columns).all():
                self._pipeline.explain_holes(columns)
            inside = sets >= 0
            cells = (sets * len(self.classes) + labels[:, None])[inside]
            self._counts += np.bincount(cells, minlength=self._counts.size)
            self._rows.update(batch, sets)
            self._labels.update(labels)
            if progress is not None:
                progress(batch.num_rows)
        if start != len(self.bags.codes):
            raise TableError("the table changed while it was read; give one that stays as it is.")

    @property
    def counts(self) -> np.ndarray:
        """The exact counts (sets, classes): private."""
        return self._counts.reshape(len(self.bags.names), len(self.classes))

    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows with their sets."""
        return RowSet(self._rows.count, self._rows.result(), found_at)

    @property
    def fingerprint(self) -> dict[str, bytes]:
        """What identifies the private labels; leaves under the ledger's key only."""
        return self._labels.result()
