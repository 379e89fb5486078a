"""The identity of private data, so that one set of secrets has one budget."""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.owner.ledger.rules import SPELT_AS
from suffice.tables.labels import Classes, canonical_class
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["CellFingerprint", "LabelFingerprint"]

_MANY = 1 << 18  # codes for which starting threads is worth it
_TRUTHS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))


class LabelFingerprint:
    """Computes digests of the labels in their order, whatever features or class order are used.

    They identify the secrets themselves: another choice of features, another order of the class
    list or another mechanism is the same data and draws on the same budget. "labels-2" hashes
    canonical values, so that it does not matter how classes are spelt; "labels-1" is what older
    ledgers know, and "labels-1 as ..." what they would know had the classes been spelt otherwise.
    They are stored only under the ledger's key. Unless data are to be ``identified``, labels of no
    class are counted, and nothing is hashed.
    """

    def __init__(self, classes: Classes, *, identified: bool = True) -> None:
        spellings = {"labels-1": [_spell_class(value) for value in classes]}
        spellings["labels-2"] = names = [canonical_class(value) for value in classes]
        spellings |= _other_spellings(names, spellings["labels-1"])
        self._words = {
            name: _words([*spelled, f"{name.partition(SPELT_AS)[0]} none"])  # code -1 is the last
            for name, spelled in spellings.items()
            if identified
        }
        self._digests: dict[str, Any] | None = None  # of rows that come first alone
        self._waiting_codes: list[np.ndarray] = []
        self._code_type = np.min_scalar_type(-len(classes))  # a byte a row crosses a cluster
        self._outside = 0

    def lead(self) -> None:
        """Say that no rows come before these: from now on no code is held."""
        self._digests = self._hash_states()
        self._waiting_codes = []

    def update(self, codes: np.ndarray) -> None:
        """Take in the class codes of the next rows; -1 is a label of no class."""
        self._outside += int(np.count_nonzero(codes < 0))
        if self._digests is None and self._words:
            self._waiting_codes.append(codes.astype(self._code_type))
        elif self._digests is not None:
            self._hash(self._digests, codes)

    def merge(self, other: "LabelFingerprint") -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        if other._digests is not None:
            raise TableError(
                "These rows come first and cannot follow others. Merge parts in the order of the"
                " table."
            )
        if other._waiting_codes:
            self.update(np.concatenate(other._waiting_codes))
        self._outside += 0 if self._words else other._outside

    def _hash(self, digests: Mapping[str, Any], codes: np.ndarray) -> None:
        """Hash codes in every spelling; many of them at once, each spelling in its own thread.

        On a cluster this is what the driver does while others read, and it bounds them.
        """

        def hash_in(name: str) -> None:
            digests[name].update(self._words[name][codes])

        if len(codes) < _MANY:
            for name in digests:
                hash_in(name)
            return
        with ThreadPoolExecutor(len(digests) or 1) as pool:
            list(pool.map(hash_in, digests))

    def _hash_states(self) -> dict[str, Any]:
        """Return the states of SHA-256 after all codes so far."""
        if self._digests is not None:
            return {name: digest.copy() for name, digest in self._digests.items()}
        digests = {name: hashlib.sha256() for name in self._words}
        for codes in self._waiting_codes:
            self._hash(digests, codes)
        return digests

    @property
    def outside(self) -> int:
        """How many labels were of no class: private."""
        return self._outside

    def result(self) -> dict[str, bytes]:
        """Return the digests of all labels so far, by the names of their algorithms."""
        return {name: digest.digest() for name, digest in self._hash_states().items()}


class CellFingerprint:
    """Computes a digest of private feature cells in the order of their rows.

    Its algorithm is named after the columns: other columns of the same people are no other data.
    """

    def __init__(self, schema: pa.Schema, features: Sequence[str]) -> None:
        self._lanes = RowLanes(schema, features) if features else None
        self._rows = RowDigest(features, ordered=True)
        names = "\0".join(sorted(features)).encode()
        self._name = f"cells-1 {hashlib.sha256(names).hexdigest()[:32]}"

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

    def result(self) -> Mapping[str, bytes]:
        """Return the digest of all cells by the name of its algorithm; none without features."""
        return {} if self._lanes is None else {self._name: self._rows.result().encode()}


def _words(spelled: Sequence[str]) -> np.ndarray:
    digests = [hashlib.sha256(text.encode()).digest()[:8] for text in spelled]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _other_spellings(names: Sequence[str], spelled: Sequence[str]) -> dict[str, list[str]]:
    """Return the other spellings of the same classes for "labels-1"."""
    is_number = {name: name.lstrip("-").isdecimal() for name in names}
    spellings = {
        "text": [f"text {name}" for name in names],
        "decimals": [f"text {name}.0" if is_number[name] else f"text {name}" for name in names],
    }
    for true, false in _TRUTHS:
        spellings[true] = [f"text {({'1': true, '0': false}).get(name, name)}" for name in names]
    if all(is_number.values()):
        spellings["numbers"] = [f"number {name}" for name in names]
    known_spellings = [list(spelled)]
    other = {}
    for how, words in spellings.items():
        if words not in known_spellings:
            known_spellings.append(words)
            other[f"labels-1{SPELT_AS}{how}"] = words
    return other


def _spell_class(value: str | int) -> str:
    """Return one spelling per class: 1 and True are the same label."""
    return f"text {value}" if isinstance(value, str) else f"number {int(value)}"
