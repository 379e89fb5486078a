"""One pass over private labels: the exact numbers that noise is added to. Owner's side only."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from suffice.engines.sums import MappedSums, label_weights
from suffice.errors import ParameterError, TableError
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.operator_form import label_change, operator_columns
from suffice.owner.public_rows import PublicRows
from suffice.owner.shaping import Shape
from suffice.privacy.noise import LARGEST_SUM, Noise, Sensitivity
from suffice.privacy.response import Response
from suffice.release.artifact import RowSet
from suffice.tables.batching import narrow_batches
from suffice.tables.columns import Roles
from suffice.tables.labels import Classes, label_codes
from suffice.tables.rowhash import RowDigest, RowLanes
from suffice.tables.sources import Table

__all__ = [
    "ExactLabels",
    "ExactSums",
    "LabelledRows",
    "PrivatePass",
    "check_given_once",
    "labelled_batches",
    "unlabelled_batches",
]


def check_given_once(y: Any, label: str | None) -> None:
    """Raise unless the labels are given, as an array or as a column, and not as both."""
    if (y is None) == (label is None):
        raise ParameterError("give the labels once: as y, or as the name of a column (label).")


class LabelledRows(Protocol):
    """A table and which of its columns is the label; the other columns may be private or not."""

    @property
    def table(self) -> Table:
        """The rows."""

    @property
    def roles(self) -> Roles:
        """The columns by role."""


LabelledBatches = Iterator[tuple[pa.RecordBatch, np.ndarray]]
_SHAPED_ROWS = 4096  # mapped at once, to bound the memory of a shaped reach


class PrivatePass(ABC):
    """Reads rows with their labels once; names both, and lets a subclass keep what it needs."""

    ordered = False

    def __init__(self, public: PublicRows, classes: Classes) -> None:
        self.public, self.classes = public, classes
        features = public.roles.features
        self._lanes = RowLanes(public.table.schema, features)
        self._rows = RowDigest(features, ordered=self.ordered)
        self._labels = LabelFingerprint(classes)

    def read(self, labelled: LabelledBatches, progress: Callable[[int], None] | None) -> None:
        """Take in every row under its label, and fingerprint both."""
        pipeline = self.public.pipeline
        plain = all(column.categories is None for column in pipeline.columns)
        plain = plain and pipeline.fill is None and pipeline.map is None
        width = len(pipeline.outputs)
        for batch, codes in labelled:
            start = 0
            for part in narrow_batches(batch, width):
                columns = pipeline.encoded(part)
                self._take(columns, codes[start : start + part.num_rows])
                self._rows.update(self._lanes.of(part, columns if plain else None))
                start += part.num_rows
            self._labels.update(codes)
            if progress is not None:
                progress(batch.num_rows)
        if self._rows.count == 0:
            raise TableError("the table has no rows.")

    @abstractmethod
    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        """Keep what the statistic needs of one batch of encoded columns and label codes."""

    @property
    def count(self) -> int:
        """The number of rows that were read."""
        return self._rows.count

    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows."""
        return RowSet(self._rows.count, self._rows.result(), found_at)

    @property
    def fingerprint(self) -> dict[str, bytes]:
        """What identifies the private labels; leaves under the ledger's key only."""
        return self._labels.result()

    @property
    def outside(self) -> int:
        """How many labels were of no class: for the owner alone."""
        return self._labels.outside


class ExactSums(PrivatePass):
    """The exact sums of rows under their labels, and how far one label can move them."""

    def __init__(self, public: PublicRows, classes: Classes, shape: Shape | None) -> None:
        super().__init__(public, classes)
        self._columns = operator_columns(len(classes))
        self._sums = MappedSums(public.pipeline, self._columns)
        self.shape = shape
        self._shaped = np.zeros(2)
        self.step = self._sums.step

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        self._sums.update((columns, label_weights(codes, len(self.classes))))
        if self.shape is None:
            return
        for first in range(0, columns.shape[1], _SHAPED_ROWS):
            rows = self.public.pipeline.finished(columns[:, first : first + _SHAPED_ROWS])
            norms = self.shape.norms(np.rint(rows.T / self.step))
            self._shaped = np.maximum(self._shaped, norms)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one label moves the integers that noise is added to, from public rows alone."""
        width = len(self.public.pipeline.outputs)
        reach, dimension = self._sums.reach, width * self._columns
        # A changed label moves mu by 2x/m, or two columns of M by x/m each (docs/errata.md).
        factor = label_change(len(self.classes))
        one, two = float(reach.l1), reach.l2
        extra = 0.0
        if self.shape is not None:
            (one, two), extra = self._shaped.tolist(), 1.0  # rounding: one step per coordinate
        if self.count * max(two, reach.l2, 1.0) >= LARGEST_SUM:  # what is summed, and shaped
            raise ParameterError("there are too many rows for one lattice; release in parts.")
        return Sensitivity(
            math.ceil(2 * one + extra * dimension),
            factor * two + extra * math.sqrt(dimension),
            dimension,
        )

    @property
    def unit(self) -> float:
        """What one lattice step is worth in the mean."""
        return self.step / self.count

    def integers(self) -> np.ndarray:
        """Return the exact sums that noise is added to, shaped where there is a shape: private."""
        exact = self._sums.result()
        return exact if self.shape is None else self.shape.apply(exact)

    def noisy(self, noise: Noise) -> np.ndarray:
        """Return the statistic per row with noise: (width,) or (width, classes)."""
        drawn = noise.add(self.integers())
        back = drawn if self.shape is None else drawn @ self.shape.back().T
        return np.ascontiguousarray(_squeezed(back) * self.unit)


def _squeezed(sums: np.ndarray) -> np.ndarray:
    """Return (width,) for one row of sums, else their transpose."""
    return sums[0] if len(sums) == 1 else sums.T


class ExactLabels(PrivatePass):
    """The labels in the order of their rows, for randomised response."""

    ordered = True

    def __init__(self, public: PublicRows, classes: Classes) -> None:
        super().__init__(public, classes)
        self._codes: list[np.ndarray] = []

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        if not np.isfinite(columns).all():
            self.public.pipeline.explain_holes(columns)
        self._codes.append(codes.astype(np.uint8))

    def randomised(self, response: Response) -> np.ndarray:
        """Return one randomised answer per row."""
        return response.randomise(np.concatenate(self._codes))


def labelled_batches(
    source: LabelledRows, y: Any, classes: Classes, outside: Literal["error", "none"] = "error"
) -> LabelledBatches:
    """Yield batches of rows with the codes of their labels; ``outside`` as for `label_codes`."""
    features, label = source.roles.features, source.roles.label
    if label is not None:
        for batch in source.table.batches([*features, label]):
            yield batch, label_codes(batch.column(label), classes, outside=outside)
        return
    codes, start = label_codes(y, classes, outside=outside), 0
    for batch in source.table.batches(features):
        here = codes[start : start + batch.num_rows]
        start += batch.num_rows
        if len(here) < batch.num_rows:
            raise TableError(f"there are more rows than the {len(codes)} labels.")
        yield batch, here
    if start < len(codes):
        raise TableError(f"there are {start} rows but {len(codes)} labels.")


def unlabelled_batches(public: PublicRows) -> LabelledBatches:
    """Yield batches of public rows, each row under the first class: no label is read."""
    for batch in public.table.batches(public.roles.features):
        yield batch, np.zeros(batch.num_rows, dtype=np.int64)
