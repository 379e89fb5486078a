"""Private numbers: every cell becomes one by itself, and a cell that is none is missing.

Neither an error nor the type of a column depends on such a cell, in any form of table.
"""

from collections.abc import Iterable
from decimal import Decimal
from numbers import Real

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.kernels.cells import find_numbers

__all__ = ["number_column", "numbers_of"]


def numbers_of(cells: pa.Array, decimal: str = ".") -> pa.Array:
    """Return texts or bytes as float64, each cell by itself: what is no finite number is missing.

    A number is written with digits, a decimal mark, a sign and an exponent, as -1.5e3 is. Blanks
    around it do not count. Words (nan, inf, true), groups of digits and numbers beyond float64 are
    missing.

    Parameters
    ----------
    cells : pyarrow.Array
        Texts or bytes.
    decimal : str
        The decimal mark.

    Returns
    -------
    pyarrow.Array
        As many float64 numbers.
    """
    raw = cells.cast(pa.large_binary())
    if not len(raw):
        return pa.array([], pa.float64())
    _, offsets, data = raw.buffers()
    starts = np.frombuffer(offsets, np.int64)[raw.offset : raw.offset + len(raw) + 1]
    written = np.frombuffer(b"" if data is None else data, np.uint8)
    found = pc.if_else(find_numbers(written, starts, decimal), raw, None).cast(pa.large_string())
    if decimal != ".":
        found = pc.replace_substring(found, decimal, ".")
    return _finite(pc.ascii_trim_whitespace(found).cast(pa.float64()))


def number_column(cells: Iterable[object]) -> pa.Array:
    """Return Python values of any types as float64: what is no finite number is missing.

    Texts are read as `numbers_of` reads them, and truth values are 0 and 1.
    """
    values = list(cells)
    texts = [v.encode(errors="replace") if isinstance(v, str) else None for v in values]
    stored = _finite(pa.array([_stored_number(value) for value in values], pa.float64()))
    return pc.coalesce(stored, numbers_of(pa.array(texts, pa.binary())))


def _stored_number(cell: object) -> float | None:
    if not isinstance(cell, Real | Decimal | np.bool_):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _finite(numbers: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(numbers), numbers, None)
