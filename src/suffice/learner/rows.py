"""The learner's copy of the public rows: compared with the release, then mapped."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing, Progress
from suffice.engines.streamed import OwnersTable, StreamedRows, mapped_rows
from suffice.errors import CorruptFileError, ForeignRowsError, ParameterError, TableError
from suffice.models.rows import WeightedRows
from suffice.notes import note
from suffice.release.kinds import kind_named
from suffice.release.release import Release, RowSet
from suffice.tables.bags import BagDigest, Bags
from suffice.tables.columns import resolve_roles
from suffice.tables.memory import in_memory
from suffice.tables.pipeline import Pipeline
from suffice.tables.rowhash import RowDigest, RowLanes
from suffice.tables.sources import open_columns
from suffice.tables.table import SelectedRows, Table, check_order, narrow_batches

__all__ = [
    "OwnerHashes",
    "check_rows_order",
    "design_matrix",
    "feature_batches",
    "join_blocks",
    "labelled_rows",
    "mapped_bags",
    "mapped_batches",
    "matching_bags",
    "matching_rows",
    "open_for_pipeline",
    "public_rows",
]


def mapped_batches(data: Any, pipeline: Pipeline, *, new: bool = False) -> Iterator[np.ndarray]:
    """Yield the mapped rows of ``data`` batch by batch.

    Of ``new`` rows, a category that the pipeline does not have is none; a note says how many there
    are. Elsewhere it is an error.
    """
    unknown = Counter[str]() if new else None
    for batch in _narrow_batches(data, pipeline):
        yield pipeline.transform(batch, unknown=unknown)
    _note_unknown(unknown or {})


def feature_batches(data: Any, pipeline: Pipeline) -> Iterator[np.ndarray]:
    """Yield rows before they are standardised: new ones, encoded, filled and mapped."""
    unknown = Counter[str]()
    for batch in _narrow_batches(data, pipeline):
        columns = pipeline.encoded(batch, unknown=unknown)
        if not np.isfinite(columns).all():
            pipeline.explain_holes(columns)
        yield columns.T
    _note_unknown(unknown)


def _narrow_batches(data: Any, pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
    check_order(data, "what is computed for each belongs to it by that")
    table, names = open_for_pipeline(data, pipeline)
    for batch in table.batches(names):
        yield from narrow_batches(batch, len(pipeline.outputs))


def _note_unknown(unknown: Mapping[str, int]) -> None:
    for name, cells in unknown.items():
        note(
            f"Column {name!r}: {cells:,} cells hold a category that the release does not list. They"
            " count as no category."
        )


def design_matrix(data: Any, pipeline: Pipeline, *, new: bool = False) -> np.ndarray:
    """Return the mapped rows of ``data``, a C-ordered float64 matrix."""
    blocks = list(mapped_batches(data, pipeline, new=new))
    if not blocks:
        raise TableError("The table has no rows. Use a table with at least one row.")
    return np.ascontiguousarray(np.vstack(blocks))


def matching_rows(
    data: Any, releases: Sequence[Release], progress: Progress = None
) -> list[np.ndarray]:
    """Return the mapped rows of each release, or raise if they are not the ones it belongs to.

    With several owners the rows come owner by owner, in the order of the releases and their parts;
    within one owner's rows the order matters only where a release says something about each row.
    ``progress`` is called with the number of rows of each batch that was read.
    """
    check_rows_order(data, releases)
    pipeline = releases[0].pipeline
    table, names = open_for_pipeline(labelled_rows(data, releases), pipeline)
    stream = _Stream(table.batches(names))
    lanes = RowLanes(table.schema, names)
    hashes = OwnerHashes(releases)
    blocks: list[np.ndarray] = []
    for release in releases:
        mapped: list[np.ndarray] = []
        for part in release.parts:
            digest = RowDigest(names, ordered=kind_named(release.kind).ordered)
            for batch in stream.take(part.rows.count):
                digest.update(lanes.of(batch))
                mapped.append(mapped_rows(batch, pipeline))
                if progress is not None:
                    progress(batch.num_rows)
            hashes.check(digest, part.rows)
        blocks.append(np.ascontiguousarray(np.vstack(mapped)))
    hashes.check_extra(stream.remaining())
    return blocks


def check_rows_order(data: Any, releases: Sequence[Release]) -> None:
    """Raise if ``data`` has no order and these releases belong to rows by theirs."""
    if sum(len(release.parts) for release in releases) > 1:
        check_order(data, "those of several owners come one owner after the other")
    if any(kind_named(release.kind).ordered for release in releases):
        check_order(data, "the release says something about each of them, in their order")


class OwnerHashes:
    """Compares the rows of each owner with those that the releases name, owner by owner."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self._owners = sum(len(release.parts) for release in releases)
        self._total = sum(release.rows for release in releases)
        self.unordered: list[str] = []

    def check(self, digest: RowDigest, rows: RowSet) -> None:
        """Raise unless these are the rows of the next owner, and nobody else's."""
        _check(digest, rows, self._owners)
        name = digest.unordered()  # hashes with and without an order do not compare
        if name in self.unordered:
            raise ParameterError(
                "Two of the releases are about the same rows. Pass only one of them."
            )
        self.unordered.append(name)

    def check_extra(self, extra: int) -> None:
        """Raise if there are rows behind those of the last owner."""
        if extra:
            total = self._total
            raise ForeignRowsError(
                f"The release belongs to {total} rows, but there are {total + extra}. Use the"
                " owner's file unchanged."
            )


def mapped_bags(
    data: Any, pipeline: Pipeline, bags: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield mapped rows and the code of their bag, batch by batch; once for each bag of a row."""
    for batch, codes in _with_bags(*open_for_pipeline(data, pipeline), bags):
        yield from _bag_by_bag(pipeline.transform(batch), codes)


def matching_bags(
    data: Any, release: Release, bags: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of a release of bags as `mapped_bags` does, or raise if they are others.

    Bags have names, so that the rows of several owners come in any order. That they are the ones
    is known, and the error raised, after the last of them.
    """
    table, names = open_for_pipeline(data, release.pipeline)
    sizes = release.arrays["sizes"]
    strange = np.flatnonzero(bags.sizes != sizes)
    if len(strange):
        k = strange[0]
        raise ForeignRowsError(
            f"Bag {bags.names[k]!r} of the release has {sizes[k]} rows, but {bags.sizes[k]} of"
            " these rows are in it. Use the owner's file unchanged."
        )
    owners = np.append(_owners(release), -1)  # the code of no bag is -1, its owner too
    digests = [BagDigest(table.schema, names, bags.names) for _ in release.parts]
    for batch, codes in _with_bags(table, names, bags):
        for owner, digest in enumerate(digests):
            digest.update(batch, np.where(owners[codes] == owner, codes, -1))
        yield from _bag_by_bag(mapped_rows(batch, release.pipeline), codes)
    for digest, part in zip(digests, release.parts, strict=True):
        _check(digest, part.rows, owners=1)


def _with_bags(
    table: Table, names: tuple[str, ...], bags: Bags
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    start = 0
    for batch in table.batches(names):
        yield batch, bags.codes[start : start + batch.num_rows]
        start += batch.num_rows


def _bag_by_bag(rows: np.ndarray, codes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for column in codes.T:
        inside = column >= 0
        if inside.any():
            yield (rows, column) if inside.all() else (rows[inside], column[inside])


def _owners(release: Release) -> np.ndarray:
    """Return which part each bag belongs to: the bags of one owner after those of another."""
    ends = np.cumsum([part.rows.count for part in release.parts])
    last = np.cumsum(release.arrays["sizes"])
    owners = np.searchsorted(ends, last)
    if not np.isin(ends, last).all():
        raise CorruptFileError(
            "The sizes of the bags do not add up to the rows of their owners. This file is damaged:"
            " ask the owner for it again."
        )
    return owners


def labelled_rows(data: Any, releases: Sequence[Release]) -> Table:
    """Return the rows that releases are about: of a table whose other rows have no label, those.

    ``data`` are the owners' tables, one after the other, whole or without these other rows.
    """
    names = [column.name for column in releases[0].pipeline.columns]
    table = open_columns(data, names, label=None)
    sets = [part.rows for release in releases for part in release.parts]
    if all(rows.labelled is None for rows in sets):
        return table
    first = releases[0].pipeline.columns[0].name
    row_count = sum(batch.num_rows for batch in table.batches([first]))
    if row_count == sum(rows.count for rows in sets):
        return table
    masks = [np.ones(s.count, bool) if s.labelled is None else s.labelled.mask for s in sets]
    return SelectedRows(table, np.concatenate(masks))


def open_for_pipeline(data: Any, pipeline: Pipeline) -> tuple[Table, tuple[str, ...]]:
    """Return a table, and the names of the columns that a pipeline reads of it."""
    names = tuple(column.name for column in pipeline.columns)
    table = open_columns(data, names, label=None)
    resolve_roles(table.schema, features=names)
    return table, names


def _check(digest: RowDigest | BagDigest, rows: RowSet, owners: int) -> None:
    if digest.count != rows.count:
        raise ForeignRowsError(
            f"The release belongs to {rows.count} rows, but there are {digest.count}. Use the"
            " owner's file unchanged."
        )
    if digest.result() != rows.hash:
        order = " Pass the owners' rows in the order of the releases." if owners > 1 else ""
        raise ForeignRowsError(
            "These rows do not match the release: a value, or the order of rows, differs. Use the"
            f" owner's file unchanged; numbers rounded by a CSV export do not match.{order}"
        )


class _Stream:
    """Batches that can be cut at any row."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` rows, or fewer if there are no more."""
        while count > 0:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                return
            self._rest = batch.slice(count) if batch.num_rows > count else None
            yield batch.slice(0, count)
            count -= min(count, batch.num_rows)

    def remaining(self) -> int:
        """Return how many rows are left, reading them."""
        rest = 0 if self._rest is None else self._rest.num_rows
        return rest + sum(batch.num_rows for batch in self._batches)


_HELD_BYTES = 1 << 29  # of mapped rows: 512 MB fit into the memory of a notebook

Block = np.ndarray | WeightedRows


def public_rows(data: Any, releases: Sequence[Release], computing: Computing) -> Sequence[Block]:
    """Return the rows of each release, mapped, or raise if they are not the ones it belongs to.

    They are matrices, or stay in their table: where it is in files and they have more than 512 MB
    once they are mapped, and wherever an engine was asked for that is not this process.
    """
    size = sum(release.rows for release in releases) * len(releases[0].pipeline.outputs) * 8
    table = labelled_rows(data, releases)
    if computing.in_this_process and (size <= _HELD_BYTES or in_memory(table)):
        return matching_rows(table, releases, computing.progress)
    return _streamed(table, releases, computing)


def _streamed(table: Any, releases: Sequence[Release], computing: Computing) -> list[StreamedRows]:
    """Check the rows in one pass, before anything is learnt; later passes must read the same."""
    check_rows_order(table, releases)
    pipeline = releases[0].pipeline
    parts = [part for release in releases for part in release.parts]
    ordered = [kind_named(release.kind).ordered for release in releases for _ in release.parts]
    counts = tuple(part.rows.count for part in parts)
    source = OwnersTable(open_for_pipeline(table, pipeline)[0], pipeline, counts, computing)
    first, hashes = source.first(ordered), OwnerHashes(releases)
    for digest, part in zip(first.digests, parts, strict=True):
        hashes.check(digest, part.rows)
    hashes.check_extra(first.extra)
    source.hashes = tuple(hashes.unordered)
    facts, blocks, start = first.result(), [], 0
    for release in releases:
        owners = range(start, start := start + len(release.parts))
        blocks.append(StreamedRows(source, facts, owners, [1 / release.rows] * len(owners)))
    return blocks


def join_blocks(blocks: Sequence[Block], weights: np.ndarray) -> tuple[Block, np.ndarray | None]:
    """Return the rows of several releases together, and their weights, of those of the releases.

    Rows that stay in a table have their weights.
    """
    each = [weight / len(block) for weight, block in zip(weights, blocks, strict=True)]
    streamed = [block for block in blocks if isinstance(block, StreamedRows)]
    if streamed:
        return streamed[0].with_others(streamed[1:], each), None
    matrices = [block for block in blocks if isinstance(block, np.ndarray)]
    row_weights = [np.full(len(block), weight) for weight, block in zip(each, blocks, strict=True)]
    return np.concatenate(matrices), np.concatenate(row_weights)
