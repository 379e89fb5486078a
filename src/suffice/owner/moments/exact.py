"""One pass over private records: the exact moments that noise is added to. Owner's side only."""

from collections import Counter
from typing import Self

import numpy as np
import pyarrow as pa

from suffice.engines.moments import MomentSums, MomentTotals, RowCodes
from suffice.owner.fingerprint import CellFingerprint, LabelFingerprint
from suffice.owner.rados.pipeline import PrivateRows
from suffice.owner.source import LabelledBatch
from suffice.tables.labels import Classes
from suffice.tables.pipeline import encode

__all__ = ["MomentPass", "declared_columns"]


def declared_columns(rows: PrivateRows, batch: pa.RecordBatch, unknown: Counter[str]) -> np.ndarray:
    """Return the columns of a batch before they are scaled, numbers held to their ranges.

    No cell is an error. A category that was not declared is none, and is counted in ``unknown``
    under the name of its column. Cells that are missing or not finite count as declared.
    """
    pipeline = rows.pipeline
    columns = encode(batch, pipeline.columns, unknown=unknown)
    if rows.ranges or pipeline.map is not None:
        columns = columns.astype(np.float64)
    if pipeline.map is not None:
        declared = np.zeros(len(columns)) if pipeline.fill is None else pipeline.fill
        columns = np.where(np.isfinite(columns), columns, declared[:, None])
    for column, (low, high) in rows.ranges.items():
        j = rows.positions(column)[0]
        inside = np.isfinite(columns[j])
        columns[j][inside] = np.clip(columns[j][inside], low, high)
    if pipeline.map is None:
        return columns
    with np.errstate(all="ignore"):
        return pipeline.map.apply(columns)


class MomentPass:
    """Takes in private records, on any engine; no record, whatever it holds, is an error."""

    def __init__(self, rows: PrivateRows, classes: Classes, *, identified: bool) -> None:
        self._rows = rows
        self._codes = RowCodes(rows.pipeline)
        self._sums = MomentSums(self._codes.width, len(classes))
        self._labels = LabelFingerprint(classes, identified=identified)
        features = rows.roles.features
        self._cells = CellFingerprint(rows.table.schema, features) if identified else None
        self.unknown: Counter[str] = Counter()
        self.count = 0

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._labels.lead()
        if self._cells is not None:
            self._cells.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in private records."""
        self._labels.update(batch.codes)
        if self._cells is not None:
            self._cells.update(batch.rows)
        columns = declared_columns(self._rows, batch.rows, self.unknown)
        self._sums.update((self._codes.of(columns), batch.codes))
        self.count += len(batch)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        self._labels.merge(other._labels)
        if self._cells is not None and other._cells is not None:
            self._cells.merge(other._cells)
        self._sums.merge(other._sums)
        self.unknown.update(other.unknown)
        self.count += other.count

    def result(self) -> MomentTotals:
        """Return the exact sums: private."""
        return self._sums.result()

    @property
    def outside(self) -> int:
        """How many labels were of no class: private."""
        return self._labels.outside

    @property
    def fingerprint(self) -> bytes:
        """What identifies the people, and their cells; leaves under the ledger's key only."""
        return self._labels.result() + (b"" if self._cells is None else self._cells.result())

    @property
    def content(self) -> bytes:
        """What identifies the feature cells in any order."""
        return b"" if self._cells is None else self._cells.unordered().encode()
