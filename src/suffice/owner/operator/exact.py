"""One pass over private labels: the exact numbers that noise is added to. Owner's side only."""

import math
from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from suffice.engines.sums import MappedSums, label_weights
from suffice.errors import ParameterError
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.operator.form import label_change, operator_columns
from suffice.owner.operator.shaping import Shape
from suffice.owner.public_rows import PublicRows
from suffice.owner.source import LabelledBatch
from suffice.privacy.noise import LARGEST_SUM, Noise, Sensitivity
from suffice.privacy.response import Response
from suffice.release.artifact import RowSet
from suffice.tables.batching import narrow_batches
from suffice.tables.labels import Classes
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["ExactLabels", "ExactSums", "LabelledPass"]

_SHAPED_ROWS = 4096  # mapped at once, to bound the memory of a shaped reach


class LabelledPass(ABC):
    """Takes in public rows with their labels; names both, and lets a subclass keep what it needs.

    An accumulator. Merged passes must be about rows that follow each other.
    """

    ordered = False

    def __init__(self, public: PublicRows, classes: Classes) -> None:
        self.public, self.classes = public, classes
        features = public.roles.features
        self._lanes = RowLanes(public.table.schema, features)
        self._rows = RowDigest(features, ordered=self.ordered)
        self._labels = LabelFingerprint(classes)
        pipeline = public.pipeline
        # The numbers that are hashed are those that are summed, unless something replaced them.
        self._unchanged = (
            all(column.categories is None for column in pipeline.columns)
            and pipeline.fill is None
            and pipeline.map is None
        )

    def update(self, batch: LabelledBatch) -> None:
        """Take in rows under their labels, and fingerprint both."""
        pipeline, start = self.public.pipeline, 0
        for part in narrow_batches(batch.rows, len(pipeline.outputs)):
            columns = pipeline.encoded(part)
            self._take(columns, batch.codes[start : start + part.num_rows])
            self._rows.update(self._lanes.of(part, columns if self._unchanged else None))
            start += part.num_rows
        self._labels.update(batch.codes)

    @abstractmethod
    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        """Keep what the statistic needs of one batch of encoded columns and label codes."""

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""
        self._rows.merge(other._rows)  # one of us
        self._labels.merge(other._labels)

    def result(self) -> np.ndarray:
        """Return the exact numbers that noise is added to: private."""
        raise NotImplementedError

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


class ExactSums(LabelledPass):
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

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""
        super().merge(other)
        self._sums.merge(other._sums)
        self._shaped = np.maximum(self._shaped, other._shaped)

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

    def result(self) -> np.ndarray:
        """Return the exact sums that noise is added to, shaped where there is a shape: private."""
        exact = self._sums.result()
        return exact if self.shape is None else self.shape.apply(exact)

    def noisy(self, noise: Noise) -> np.ndarray:
        """Return the statistic per row with noise: (width,) or (width, classes)."""
        drawn = noise.add(self.result())
        back = drawn if self.shape is None else drawn @ self.shape.back().T
        return np.ascontiguousarray(_squeezed(back) * self.unit)


def _squeezed(sums: np.ndarray) -> np.ndarray:
    """Return (width,) for one row of sums, else their transpose."""
    return sums[0] if len(sums) == 1 else sums.T


class ExactLabels(LabelledPass):
    """The labels in the order of their rows, for randomised response."""

    ordered = True

    def __init__(self, public: PublicRows, classes: Classes) -> None:
        super().__init__(public, classes)
        self._codes: list[np.ndarray] = []

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        if not np.isfinite(columns).all():
            self.public.pipeline.explain_holes(columns)
        self._codes.append(codes.astype(np.uint8))

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        super().merge(other)
        self._codes += other._codes

    def result(self) -> np.ndarray:
        """Return the codes of all labels: private."""
        return np.concatenate(self._codes)

    def randomised(self, response: Response) -> np.ndarray:
        """Return one randomised answer per row."""
        return response.randomise(self.result())
