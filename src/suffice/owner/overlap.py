"""Warns the owner that rows which were declared public are also private.

Whether they are depends on private rows. So only the owner's own process counts them and prints a
warning. Nothing else depends on it: no error, no exit code, no file and no answer.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from suffice.tables.rowhash import RowLanes
from suffice.tables.table import Table

__all__ = ["SharedRowsWarning", "shared_rows", "warn_of_same_rows", "warn_of_shared_rows"]

_REMEDY = (
    "If these rows are private, the guarantee does not hold. Use other rows, or declare ranges"
    " with --range (Python: ranges=...). To accept a data-dependent guarantee instead, use"
    " --standardize rows (Python: standardize='rows'). Only you see this line."
)


class SharedRowsWarning(UserWarning):
    """Rows that were declared public are also in the private table. Only the owner sees this."""


def warn_of_shared_rows(public: Table, private: Table, names: Sequence[str]) -> None:
    """Warn the owner if rows that were used for scaling are also in the private table."""
    shared, rows = shared_rows(public, private, names)
    if shared:
        text = (
            f"{shared:,} of the {rows:,} rows that were used for scaling are also in the private"
            " table."
        )
        _tell(text)


def warn_of_same_rows(row_hash: str, public_hashes: Sequence[str]) -> None:
    """Warn the owner if the pipeline was fitted on the rows that are private now."""
    if row_hash in public_hashes:
        text = (
            "The pipeline was fitted on these rows when they were declared public. They are"
            " private now."
        )
        _tell(text)


def _tell(text: str) -> None:
    """Warn the owner. If warnings are errors, print the line instead: nothing may depend on it."""
    try:
        warnings.warn(f"{text} {_REMEDY}", SharedRowsWarning, stacklevel=4)
    except SharedRowsWarning as warning:
        sys.stderr.write(f"suffice: warning: {warning}\n")


def shared_rows(public: Table, private: Table, names: Sequence[str]) -> tuple[int, int]:
    """Return how many rows of ``public`` occur in ``private`` as well, and how many it has.

    A row that one table has twice and the other once counts once. Rows are compared by their
    128-bit hashes. Those of the public table are kept, 16 bytes a row; the private one is read
    batch by batch.
    """
    public_keys, copies = np.unique(np.concatenate([*_keys(public, names)]), return_counts=True)
    matches = np.zeros(len(public_keys), dtype=np.int64)
    for keys in _keys(private, names):
        positions = np.minimum(np.searchsorted(public_keys, keys), len(public_keys) - 1)
        matching_positions = positions[public_keys[positions] == keys]
        matches += np.bincount(matching_positions, minlength=len(public_keys))
    return int(np.minimum(matches, copies).sum()), int(copies.sum())


def _keys(table: Table, names: Sequence[str]) -> Iterator[np.ndarray]:
    lanes = RowLanes(table.schema, names)
    for batch in table.batches(names):
        yield np.ascontiguousarray(lanes.of(batch).T).view("V16").ravel()
