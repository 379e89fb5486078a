"""The identity of private labels, so that one set of secrets has one budget."""

import hashlib

import numpy as np

from suffice.tables.labels import Classes

__all__ = ["LabelFingerprint"]


class LabelFingerprint:
    """Computes a digest of the labels in their order, whatever features or class order are used.

    It identifies the secrets themselves: another choice of features, another order of the class
    list or another mechanism is the same data and draws on the same budget. It is stored only
    under the ledger's key.
    """

    def __init__(self, classes: Classes) -> None:
        words = [hashlib.sha256(_spelled(c).encode()).digest()[:8] for c in classes]
        self._words = np.frombuffer(b"".join(words), dtype="<u8")
        self._digest = hashlib.sha256()

    def update(self, codes: np.ndarray) -> None:
        """Take in the class codes of the next rows."""
        self._digest.update(self._words[codes].tobytes())

    def result(self) -> bytes:
        """Return the digest of all labels so far."""
        return self._digest.digest()


def _spelled(value: object) -> str:
    """Return one spelling per class: 1 and True are the same label."""
    return f"text {value}" if isinstance(value, str) else f"number {int(value)}"  # type: ignore[call-overload]
