"""One pass over private records: every cell as a code or a lattice integer. Owner's side only."""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.owner.fingerprint import CellFingerprint, LabelFingerprint
from suffice.owner.responses.channels import Channel, Lattice
from suffice.owner.statistics import LabelledBatches
from suffice.privacy.response import Response
from suffice.release.spread import Added, Flips, SpreadColumn
from suffice.tables.columns import is_categorical, numeric_column
from suffice.tables.labels import Classes, value_codes

__all__ = ["PrivateCells"]

Channels = Mapping[Flips | Added, Channel]


class PrivateCells:
    """The exact cells of all records, in memory, and what identifies them."""

    def __init__(
        self,
        columns: Sequence[SpreadColumn],
        channels: Channels,
        classes: Classes,
        seen: CellFingerprint | None = None,
    ) -> None:
        self._discrete = [c for c in columns if c.states is not None]
        self._continuous = [c for c in columns if c.states is None]
        self._channels = channels
        self._labels, self._seen = LabelFingerprint(classes), seen
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def read(self, labelled: LabelledBatches, progress: Callable[[int], None] | None) -> None:
        """Take in every record with its label; a cell outside its domain is an error."""
        for batch, labels in labelled:
            codes = np.empty((len(self._discrete), batch.num_rows), dtype=np.uint8)
            for j, column in enumerate(self._discrete):
                codes[j] = _state_codes(batch.column(column.name), column)
            exact = np.empty((len(self._continuous), batch.num_rows), dtype=np.int64)
            for j, column in enumerate(self._continuous):
                exact[j] = self._lattice(column).exact(_numbers(batch.column(column.name), column))
            self._labels.update(labels)
            if self._seen is not None:
                self._seen.update(batch)
            self._parts.append((labels.astype(np.uint8), np.ascontiguousarray(codes.T), exact.T))
            if progress is not None:
                progress(batch.num_rows)
        if not self._parts:
            raise TableError("the table has no rows.")
        labels, codes, exact = map(_joined, zip(*self._parts, strict=True))
        self._parts = [(labels, codes, exact)]

    def _lattice(self, column: SpreadColumn) -> Lattice:
        lattice = self._channels[column.noise]
        assert isinstance(lattice, Lattice)  # noqa: S101  # for the type checker
        return lattice

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self._parts[0][0])

    @property
    def fingerprint(self) -> dict[str, bytes]:
        """What identifies the people: their labels in order, as for every other release, and cells.

        The cells are those of the table, so that another noise is no other data.
        """
        return {**self._labels.result(), **({} if self._seen is None else self._seen.result())}

    @property
    def content(self) -> bytes:
        """What identifies the feature cells; leaves under the ledger's key only."""
        _, codes, exact = self._parts[0]
        return hashlib.sha256(hashlib.sha256(codes.tobytes()).digest() + exact.tobytes()).digest()

    def labels(self, response: Response) -> np.ndarray:
        """Return one randomised label per record."""
        return response.randomise(self._parts[0][0])

    def codes(self) -> np.ndarray:
        """Return one randomised code per discrete cell, (records, columns)."""
        clean = self._parts[0][1]
        drawn = np.empty_like(clean)
        for noise, places in _alike(self._discrete).items():
            response = self._channels[noise]
            if len(places) == clean.shape[1]:
                return response.randomise(clean)
            drawn[:, places] = response.randomise(clean[:, places])
        return drawn

    def values(self) -> np.ndarray:
        """Return one randomised number per continuous cell, (records, columns)."""
        clean = self._parts[0][2]
        drawn = np.empty(clean.shape)
        for j, column in enumerate(self._continuous):
            drawn[:, j] = self._lattice(column).randomise(clean[:, j])
        return drawn


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _alike(columns: Sequence[SpreadColumn]) -> dict[Flips | Added, list[int]]:
    """Return the positions of the columns that share their noise."""
    found: dict[Flips | Added, list[int]] = {}
    for position, column in enumerate(columns):
        found.setdefault(column.noise, []).append(position)
    return found


def _state_codes(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the position of each cell among the declared states."""
    states = column.states or ()
    plain = pa.types.is_integer(cells.type) and not cells.null_count
    if plain and column.run is not None:
        values: np.ndarray = cells.to_numpy()
        if values.min() >= column.run[0] and values.max() <= column.run[-1]:
            return values if column.run[0] == 0 else values.astype(np.int64) - column.run[0]
    codes = value_codes(cells, states)
    outside = int(np.count_nonzero(codes < 0))
    if outside:
        raise TableError(
            f"column {column.name!r}: {outside} cells are missing or none of the declared states;"
            " declare them all, without looking at who has which."
        )
    return codes


def _numbers(cells: pa.Array, column: SpreadColumn) -> np.ndarray:
    """Return the cells of a continuous column as floats, none missing."""
    if is_categorical(cells.type):
        raise TableError(f"column {column.name!r} must be numeric for a range, not {cells.type}.")
    values = numeric_column(cells).astype(np.float64, copy=False)
    gone = int(np.isnan(values).sum())
    if gone:
        raise TableError(f"column {column.name!r} has {gone} missing cells; fill or drop them.")
    return values
