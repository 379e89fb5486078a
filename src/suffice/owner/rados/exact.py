"""One pass over private rows: names them, and adds them to secret subsets. Owner's side only."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.fingerprint import CellFingerprint, LabelFingerprint
from suffice.owner.rados.request import RadoRequest
from suffice.owner.source import LabelledBatch

__all__ = ["RadoPass"]


class RadoPass:
    """Takes in private rows as vectors with their labels; an accumulator of one machine.

    ``add`` is given vectors (coordinates, rows) and labels -1 or +1, and adds them to ``state``;
    without it the rows are only identified.
    """

    def __init__(
        self,
        request: RadoRequest,
        add: Callable[[np.ndarray, np.ndarray], None] | None,
        state: tuple[Any, ...],
        *,
        identified: bool,
    ) -> None:
        self._rows, self._add, self.state = request.rows, add, state
        self._labels = LabelFingerprint(request.classes)
        features = self._rows.roles.features
        self._cells = CellFingerprint(self._rows.table.schema, features) if identified else None
        self.count = 0

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._labels.lead()
        if self._cells is not None:
            self._cells.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in private rows."""
        self._labels.update(batch.codes)
        self.count += len(batch)
        if self._cells is not None:
            self._cells.update(batch.rows)
        if self._add is not None:
            vectors = self._rows.pipeline.finished(self._rows.encoded(batch.rows)).T
            self._add(vectors, np.where(batch.codes == 1, 1.0, -1.0))

    def merge(self, other: "RadoPass") -> NoReturn:
        """Refuse: the signs of all rows are drawn in one place."""
        del other
        raise ParameterError(
            "Rados are summed on the owner's machine, because their secret signs are drawn there."
        )

    def result(self) -> tuple[Any, ...]:
        """Return the exact sums: private."""
        return self.state

    @property
    def fingerprint(self) -> bytes:
        """What identifies the people, and their cells; leaves under the ledger's key only."""
        return self._labels.result() + (b"" if self._cells is None else self._cells.result())

    @property
    def content(self) -> bytes:
        """What identifies the feature cells in any order."""
        return b"" if self._cells is None else self._cells.unordered().encode()
