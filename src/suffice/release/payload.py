"""The arrays of a release file: every shape is checked before an array is made.

A header of a few bytes can name axes of any length where one of them is zero. No kind has such an
array but for columns or coordinates that a release need not have; all others are refused.
"""

import math
from typing import Any

import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import CorruptFileError
from suffice.plain_text import quoted

__all__ = ["arrays_of"]

_ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
_MOST_AXES = 2
_MAY_LACK_COLUMNS = ("codes", "values")  # of records without features of either sort
_MAY_BE_EMPTY = ("pipeline.mean", "pipeline.scale", "pipeline.fill")  # without features at all


def arrays_of(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a payload, once the shapes in its header are those of their bytes."""
    if len(payload) < 8 or (length := int.from_bytes(payload[:8], "little")) > len(payload) - 8:
        raise CorruptFileError("the payload is cut off.")
    header = strict_json.parse(payload[8 : 8 + length])
    if not isinstance(header, dict):
        raise CorruptFileError("the payload's header is malformed.")
    for name, entry in header.items():
        _check_shape(name, entry)
    try:
        arrays = safetensors.numpy.load(payload)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CorruptFileError("the payload is malformed.") from error
    return dict(arrays)


def _check_shape(name: str, entry: Any) -> None:
    """Raise unless a header states a shape that the array's bytes can have."""
    good = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
    if name == "__metadata__" or not good or entry["dtype"] not in _ITEM_BYTES:
        raise CorruptFileError("the payload holds an array of a type that no kind has.")
    shape, ends = entry["shape"], entry["data_offsets"]
    whole = _whole(shape) and _whole(ends) and len(ends) == 2 and 1 <= len(shape) <= _MOST_AXES
    if not whole or math.prod(shape) * _ITEM_BYTES[entry["dtype"]] != ends[1] - ends[0]:
        raise CorruptFileError("the payload holds an array whose shape is not that of its bytes.")
    lacks = shape[0] > 0 and name in _MAY_LACK_COLUMNS
    if 0 in shape and not lacks and name not in _MAY_BE_EMPTY:
        raise CorruptFileError(f"array {quoted(name)} is empty, and must not be.")


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
