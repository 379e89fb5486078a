"""A fingerprint of private data, by which a ledger tells its owner that they have changed."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.tables.labels import Classes, canonical_class
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["CellFingerprint", "LabelFingerprint"]


class LabelFingerprint:
    """Computes a digest of the labels in their order, whatever features or class order are used.

    Canonical values are hashed, so that it does not matter how classes are spelt. The digest is
    stored only under the ledger's key. Unless data are to be ``identified``, labels of no class are
    counted, and nothing is hashed.
    """

    def __init__(self, classes: Classes, *, identified: bool = True) -> None:
        self._words = _words([*map(canonical_class, classes), "\0none"])  # code -1 is the last
        self._identified = identified
        self._digest: Any = None  # of rows that come first alone
        self._waiting_codes: list[np.ndarray] = []
        self._code_type = np.min_scalar_type(-len(classes))  # a byte a row crosses a cluster
        self._outside = 0

    def lead(self) -> None:
        """Say that no rows come before these: from now on no code is held."""
        self._digest = self._hash_state()
        self._waiting_codes = []

    def update(self, codes: np.ndarray) -> None:
        """Take in the class codes of the next rows; -1 is a label of no class."""
        self._outside += int(np.count_nonzero(codes < 0))
        if not self._identified:
            return
        if self._digest is None:
            self._waiting_codes.append(codes.astype(self._code_type))
        else:
            self._digest.update(self._words[codes])

    def merge(self, other: "LabelFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        if other._digest is not None:
            raise TableError(
                "These rows come first and cannot follow others. Merge parts in the order of the"
                " table."
            )
        if other._waiting_codes:
            self.update(np.concatenate(other._waiting_codes))
        self._outside += 0 if self._identified else other._outside

    def _hash_state(self) -> Any:
        """Return the state of SHA-256 after all codes so far."""
        if self._digest is not None:
            return self._digest.copy()
        digest = hashlib.sha256()
        for codes in self._waiting_codes:
            digest.update(self._words[codes])
        return digest

    @property
    def outside(self) -> int:
        """How many labels were of no class: private."""
        return self._outside

    def result(self) -> bytes:
        """Return the digest of all labels so far."""
        digest: bytes = self._hash_state().digest()
        return digest


class CellFingerprint:
    """Computes a digest of private feature cells in the order of their rows."""

    def __init__(self, schema: pa.Schema, features: Sequence[str]) -> None:
        self._lanes = RowLanes(schema, features) if features else None
        self._rows = RowDigest(features, ordered=True)

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._rows.lead()

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows."""
        if self._lanes is not None:
            self._rows.update(self._lanes.of(batch))

    def merge(self, other: "CellFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        self._rows.merge(other._rows)

    def unordered(self) -> str:
        """Return the hash that the same rows have in any order."""
        return self._rows.unordered()

    def result(self) -> bytes:
        """Return the digest of all cells; none without features."""
        return b"" if self._lanes is None else self._rows.result().encode()


def _words(spelled: Sequence[str]) -> np.ndarray:
    digests = [hashlib.sha256(text.encode()).digest()[:8] for text in spelled]
    return np.frombuffer(b"".join(digests), dtype="<u8")
