"""One pass over private labels: the exact numbers that noise is added to. Owner's side only."""

import math
from typing import Self

import numpy as np

from suffice.engines.sums import MappedSums, label_weights
from suffice.errors import ParameterError
from suffice.owner.labelled import LabelledPass
from suffice.owner.operator.form import label_change, operator_columns
from suffice.owner.operator.shaping import Shape
from suffice.owner.public_rows import PublicRows
from suffice.privacy.noise import LARGEST_SUM, Noise, Sensitivity
from suffice.privacy.response import Response
from suffice.tables.labels import Classes

__all__ = ["ExactLabels", "ExactSums"]

_SHAPED_ROWS = 4096  # mapped at once, to bound the memory of a shaped reach


class ExactSums(LabelledPass):
    """The exact sums of rows under their labels, and how far one label can move them."""

    def __init__(
        self,
        public: PublicRows,
        classes: Classes,
        shape: Shape | None,
        *,
        identified: bool = True,
    ) -> None:
        super().__init__(public, classes, identified=identified)
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
            rows = self.pipeline.finished(columns[:, first : first + _SHAPED_ROWS])
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
        width = len(self.pipeline.outputs)
        reach, dimension = self._sums.reach, width * self._columns
        # A changed label moves mu by 2x/m, or two columns of M by x/m each (docs/errata.md).
        factor = label_change(len(self.classes))
        l1, l2 = float(reach.l1), reach.l2
        extra = 0.0
        if self.shape is not None:
            (l1, l2), extra = self._shaped.tolist(), 1.0  # rounding: one step per coordinate
        if self.count * max(l2, reach.l2, 1.0) >= LARGEST_SUM:  # what is summed, and shaped
            raise ParameterError("There are too many rows for exact sums. Release them in parts.")
        return Sensitivity(
            math.ceil(2 * l1 + extra * dimension),
            factor * l2 + extra * math.sqrt(dimension),
            dimension,
        )

    @property
    def unit(self) -> float:
        """What one rounding step is worth in the mean."""
        return self.step / self.count

    def result(self) -> np.ndarray:
        """Return the exact sums that noise is added to, shaped where there is a shape: private."""
        exact = self._sums.result()
        return exact if self.shape is None else self.shape.apply(exact)

    def noisy(self, noise: Noise) -> np.ndarray:
        """Return the statistic per row with noise: (width,) or (width, classes)."""
        noisy = noise.add(self.result())
        sums = noisy if self.shape is None else noisy @ self.shape.back().T
        return np.ascontiguousarray(_squeezed(sums) * self.unit)


def _squeezed(sums: np.ndarray) -> np.ndarray:
    """Return (width,) for one row of sums, else their transpose."""
    return sums[0] if len(sums) == 1 else sums.T


class ExactLabels(LabelledPass):
    """The labels in the order of their rows, for randomised response.

    A label of no class is unknown: its answer comes from a class that is drawn first.
    """

    ordered = True

    def __init__(self, public: PublicRows, classes: Classes, *, identified: bool = True) -> None:
        super().__init__(public, classes, identified=identified)
        self._codes: list[np.ndarray] = []
        self._unknown: list[np.ndarray] = []

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        if not np.isfinite(columns).all():
            self.pipeline.explain_holes(columns)
        self._codes.append(np.maximum(codes, 0).astype(np.uint8))
        self._unknown.append(codes < 0)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        super().merge(other)
        self._codes += other._codes
        self._unknown += other._unknown

    def result(self) -> np.ndarray:
        """Return the codes of all labels, 0 for one of no class: private."""
        return np.concatenate(self._codes)

    def randomised(self, response: Response) -> np.ndarray:
        """Return one randomised answer per row."""
        unknown = np.concatenate(self._unknown)
        return response.randomise(response.with_drawn(self.result(), unknown))
