"""Which rows of a table have a label, where those without one were left out: public."""

import base64
import binascii
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError, ParameterError

__all__ = ["LabelledRows"]

_MOST_ROWS = 1 << 26  # a bit each: 11 MB in a file


@dataclass(frozen=True)
class LabelledRows:
    """One truth value for each of ``rows`` rows of a table in its order, as packed ``bits``."""

    rows: int
    bits: bytes

    def __post_init__(self) -> None:
        if not 0 < self.rows <= _MOST_ROWS or len(self.bits) != -(-self.rows // 8):
            raise ParameterError(
                f"of at most {_MOST_ROWS:,} rows a file can say which have labels; leave the others"
                " out of the table."
            )
        if np.packbits(self.mask).tobytes() != self.bits:
            raise ParameterError("There must be one truth value for each row.")

    @classmethod
    def of(cls, mask: np.ndarray) -> "LabelledRows":
        """Return the rows where ``mask`` is true."""
        return cls(len(mask), np.packbits(mask.astype(bool)).tobytes())

    @cached_property
    def mask(self) -> np.ndarray:
        """One truth value for each row: whether it has a label."""
        packed = np.frombuffer(self.bits, dtype=np.uint8)
        return np.unpackbits(packed, count=self.rows).astype(bool)

    @property
    def count(self) -> int:
        """The number of rows with a label."""
        return int(self.mask.sum())

    def to_json(self) -> dict[str, Any]:
        """Return the rows as plain JSON values."""
        return {"rows": self.rows, "bits": base64.b64encode(self.bits).decode()}

    @classmethod
    def from_json(cls, data: Any) -> "LabelledRows":
        """Return the rows that `to_json` wrote."""
        if not isinstance(data, dict) or set(data) != {"rows", "bits"}:
            raise CorruptFileError("Labelled rows need their number and their bits only.")
        count, bits = data["rows"], data["bits"]
        if isinstance(count, bool) or not isinstance(count, int) or not isinstance(bits, str):
            raise CorruptFileError("The number of labelled rows, or their bits, are not valid.")
        try:
            return cls(count, base64.b64decode(bits, validate=True))
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError("The bits of labelled rows are not valid.") from error
