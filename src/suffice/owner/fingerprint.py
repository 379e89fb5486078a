"""The identity of private data, so that one set of secrets has one budget."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from suffice.tables.labels import Classes, canonical_class
from suffice.tables.rowhash import OrderedHash, RowDigest, RowLanes

__all__ = ["CellFingerprint", "LabelFingerprint"]


class LabelFingerprint:
    """Computes digests of the labels in their order, whatever features or class order are used.

    They identify the secrets themselves: another choice of features, another order of the class
    list or another mechanism is the same data and draws on the same budget. "labels-2" hashes
    canonical values, so that it does not matter how classes are spelt; "labels-1" is what older
    ledgers know. They are stored only under the ledger's key.
    """

    def __init__(self, classes: Classes) -> None:
        spellings = {"labels-1": _spelled, "labels-2": canonical_class}
        self._words = {
            name: _words([*map(spelled, classes), f"{name} none"])  # code -1 is the last
            for name, spelled in spellings.items()
        }
        self._digests = {name: OrderedHash() for name in spellings}
        self._outside = 0

    def update(self, codes: np.ndarray) -> None:
        """Take in the class codes of the next rows; -1 is a label of no class."""
        for name, words in self._words.items():
            self._digests[name].update(words[codes].tobytes())
        self._outside += int(np.count_nonzero(codes < 0))

    def merge(self, other: "LabelFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        for name, digest in self._digests.items():
            digest.merge(other._digests[name])  # one of us
        self._outside += other._outside

    @property
    def outside(self) -> int:
        """How many labels were of no class: private."""
        return self._outside

    def result(self) -> dict[str, bytes]:
        """Return the digests of all labels so far, by the names of their algorithms."""
        return {name: digest.digest() for name, digest in self._digests.items()}


class CellFingerprint:
    """Computes a digest of private feature cells in the order of their rows.

    Its algorithm is named after the columns: other columns of the same people are no other data.
    """

    def __init__(self, schema: pa.Schema, features: Sequence[str]) -> None:
        self._lanes = RowLanes(schema, features) if features else None
        self._rows = RowDigest(features, ordered=True)
        names = "\0".join(sorted(features)).encode()
        self._name = f"cells-1 {hashlib.sha256(names).hexdigest()[:32]}"

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows."""
        if self._lanes is not None:
            self._rows.update(self._lanes.of(batch))

    def merge(self, other: "CellFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        self._rows.merge(other._rows)  # one of us

    def unordered(self) -> str:
        """Return the hash that the same rows have in any order."""
        return self._rows.unordered()

    def result(self) -> Mapping[str, bytes]:
        """Return the digest of all cells by the name of its algorithm; none without features."""
        return {} if self._lanes is None else {self._name: self._rows.result().encode()}


def _words(spelled: Sequence[str]) -> np.ndarray:
    digests = [hashlib.sha256(text.encode()).digest()[:8] for text in spelled]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _spelled(value: object) -> str:
    """Return one spelling per class: 1 and True are the same label."""
    return f"text {value}" if isinstance(value, str) else f"number {int(value)}"  # type: ignore[call-overload]
