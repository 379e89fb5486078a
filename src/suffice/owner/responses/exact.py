"""One pass over private records: every cell as a code or a lattice integer. Owner's side only."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.owner.fingerprint import CellFingerprint, LabelFingerprint
from suffice.owner.responses.channels import Channel, Lattice
from suffice.owner.source import LabelledBatch
from suffice.privacy.response import Response
from suffice.release.spread import Added, Flips, SpreadColumn
from suffice.tables.columns import is_categorical, numeric_column
from suffice.tables.labels import Classes, value_codes

__all__ = ["PrivateCells"]

Channels = Mapping[Flips | Added, Channel]
Cells = tuple[np.ndarray, np.ndarray, np.ndarray]


class PrivateCells:
    """The exact cells of all records, in memory, and what identifies them; an accumulator.

    ``cells`` is their fingerprint, where a ledger wants one. A cell outside its domain is an error.
    """

    def __init__(
        self,
        columns: Sequence[SpreadColumn],
        channels: Channels,
        classes: Classes,
        cells: CellFingerprint | None = None,
    ) -> None:
        self._discrete = [c for c in columns if c.states is not None]
        self._continuous = [c for c in columns if c.states is None]
        self._channels = channels
        self._labels, self._cells = LabelFingerprint(classes), cells
        self._parts: list[Cells] = []

    def lead(self) -> None:
        """Say that no records come before these."""
        self._labels.lead()
        if self._cells is not None:
            self._cells.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in records with their labels."""
        records = batch.rows
        codes = np.empty((len(self._discrete), records.num_rows), dtype=np.uint8)
        for j, column in enumerate(self._discrete):
            codes[j] = _state_codes(records.column(column.name), column)
        exact = np.empty((len(self._continuous), records.num_rows), dtype=np.int64)
        for j, column in enumerate(self._continuous):
            exact[j] = self._lattice(column).exact(_numbers(records.column(column.name), column))
        self._labels.update(batch.codes)
        if self._cells is not None:
            self._cells.update(records)
        labels = batch.codes.astype(np.uint8)
        self._parts.append((labels, np.ascontiguousarray(codes.T), exact.T))

    def merge(self, other: "PrivateCells") -> None:
        """Take in everything that ``other`` has seen: the records that follow."""
        self._labels.merge(other._labels)  # one of us
        if self._cells is not None and other._cells is not None:
            self._cells.merge(other._cells)
        self._parts += other._parts

    def result(self) -> Cells:
        """Return labels, codes and lattice integers of all records: private."""
        labels, codes, exact = map(_concatenate, zip(*self._parts, strict=True))
        self._parts = [(labels, codes, exact)]  # joined once
        return labels, codes, exact

    def _lattice(self, column: SpreadColumn) -> Lattice:
        lattice = self._channels[column.noise]
        assert isinstance(lattice, Lattice)  # noqa: S101  # for the type checker
        return lattice

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(len(labels) for labels, _, _ in self._parts)

    @property
    def fingerprint(self) -> bytes:
        """What identifies the people: their labels in order, as for every other release, and cells.

        The cells are those of the table, so that another noise is no other data.
        """
        return self._labels.result() + (b"" if self._cells is None else self._cells.result())

    def randomised(self, label: Response) -> dict[str, np.ndarray]:
        """Return the arrays of a release: one fresh answer, code or number per cell."""
        labels, codes, exact = self.result()
        return {
            "answers": label.randomise(labels),
            "codes": self._randomised_codes(codes),
            "values": self._randomised_numbers(exact),
        }

    def _randomised_codes(self, clean: np.ndarray) -> np.ndarray:
        """Return one randomised code per discrete cell, (records, columns)."""
        codes = np.empty_like(clean)
        for noise, positions in _columns_by_noise(self._discrete).items():
            response = self._channels[noise]
            if len(positions) == clean.shape[1]:
                return response.randomise(clean)
            codes[:, positions] = response.randomise(clean[:, positions])
        return codes

    def _randomised_numbers(self, clean: np.ndarray) -> np.ndarray:
        """Return one randomised number per continuous cell, (records, columns)."""
        numbers = np.empty(clean.shape)
        for j, column in enumerate(self._continuous):
            numbers[:, j] = self._lattice(column).randomise(clean[:, j])
        return numbers


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _columns_by_noise(columns: Sequence[SpreadColumn]) -> dict[Flips | Added, list[int]]:
    """Return the positions of the columns that share their noise."""
    positions: dict[Flips | Added, list[int]] = {}
    for position, column in enumerate(columns):
        positions.setdefault(column.noise, []).append(position)
    return positions


def _state_codes(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the position of each cell among the declared states."""
    states = column.states or ()
    are_integers = pa.types.is_integer(cells.type) and not cells.null_count
    if are_integers and column.run is not None:
        values: np.ndarray = cells.to_numpy()
        if values.min() >= column.run[0] and values.max() <= column.run[-1]:
            return values if column.run[0] == 0 else values.astype(np.int64) - column.run[0]
    codes = value_codes(cells, states)
    outside = int(np.count_nonzero(codes < 0))
    if outside:
        raise TableError(
            f"Column {column.name!r}: {outside} cells are missing or not in the list of possible"
            " values. List all possible values with --states, without looking at who has which."
        )
    return codes


def _numbers(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the cells of a continuous column as floats, none missing."""
    if is_categorical(cells.type):
        raise TableError(
            f"Column {column.name!r} has a range but holds {cells.type}, not numbers. Declare"
            " possible values with --states instead."
        )
    values = numeric_column(cells).astype(np.float64, copy=False)
    gone = int(np.isnan(values).sum())
    if gone:
        raise TableError(
            f"Column {column.name!r} has {gone} missing cells. Fill them in, or remove these"
            " records."
        )
    return values
