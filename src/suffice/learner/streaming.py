"""Public rows that are too many to be held: when they stay in their table, and their check."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from suffice.engines.opening import Computing
from suffice.engines.streamed import OwnersTable, StreamedRows
from suffice.learner.rows import (
    OwnerHashes,
    check_rows_order,
    labelled_rows,
    matching_rows,
    open_for_pipeline,
)
from suffice.models.rows import WeightedRows
from suffice.release.artifact import Release
from suffice.release.kinds import kind_named
from suffice.tables.memory import in_memory

__all__ = ["join_blocks", "public_rows"]

_MOST_HELD = 1 << 29  # bytes of mapped rows

Block = np.ndarray | WeightedRows


def public_rows(data: Any, releases: Sequence[Release], computing: Computing) -> Sequence[Block]:
    """Return the rows of each release, mapped, or raise if they are not the ones it belongs to.

    They are matrices, or stay in their table: where it is in files and they have more than 512 MB
    once they are mapped, and wherever an engine was asked for that is not this process.
    """
    size = sum(release.rows for release in releases) * len(releases[0].pipeline.outputs) * 8
    table = labelled_rows(data, releases)
    if computing.in_this_process and (size <= _MOST_HELD or in_memory(table)):
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
