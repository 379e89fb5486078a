"""Some of the rows of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.tables import batching
from suffice.tables.batching import equal_batches
from suffice.tables.table import Part, Table, sizes_of

__all__ = ["SelectedRows"]


@dataclass(frozen=True, eq=False)
class _SelectedPart:
    """Those rows of a part that ``mask`` picks."""

    part: Part
    mask: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.mask.sum())

    @property
    def stays(self) -> str:
        return self.part.stays

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return equal_batches(self._filter(columns), batching.BATCH_ROWS)

    def _filter(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self.part.batches(columns):
            mask = self.mask[start : start + batch.num_rows]
            if len(mask) < batch.num_rows:
                raise TableError(
                    "The table changed while it was read. Use a copy that nobody writes to."
                )
            start += batch.num_rows
            yield batch.filter(pa.array(mask))


class SelectedRows:
    """The rows of a table that ``mask`` picks, one truth value for each row in order."""

    def __init__(self, table: Table, mask: np.ndarray) -> None:
        self._table, self._mask = table, mask
        self.schema = table.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        part_batches = (batch for part in self.parts() for batch in part.batches(columns))
        return equal_batches(part_batches, batching.BATCH_ROWS)

    def parts(self) -> Sequence[Part]:
        """Return the parts of the table in order, without the other rows."""
        parts = self._table.parts()
        sizes = sizes_of(parts)
        if sizes is None:
            return [_SelectedPart(parts[0], self._mask)]
        if sum(sizes) != len(self._mask):
            raise TableError(
                f"The table has {sum(sizes)} rows, but {len(self._mask)} were expected. Use the"
                " same table."
            )
        ends = np.cumsum(sizes)[:-1]
        masks = np.split(self._mask, ends)
        pairs = zip(parts, masks, strict=True)
        return [_SelectedPart(part, mask) for part, mask in pairs if mask.any()]
