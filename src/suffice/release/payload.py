"""The arrays of a release file: every shape is checked before an array is made.

A header of a few bytes can name axes of any length where one of them is zero. No kind has such an
array but for columns or coordinates that a release need not have; all others are refused.
"""

import math
from collections.abc import Mapping
from typing import Any

import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from suffice import strict_json
from suffice.errors import CorruptFileError
from suffice.plain_text import quoted
from suffice.tables.map_widths import products

__all__ = ["arrays_of", "check_widths"]

_ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
_MOST_AXES = 2
_MAY_LACK_COLUMNS = ("codes", "values")  # of records without features of either sort
_MAY_BE_EMPTY = ("pipeline.mean", "pipeline.scale", "pipeline.fill")  # without features at all
_MAP = "pipeline.map."

Shape = tuple[int, ...]


def arrays_of(payload: bytes, pipeline: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a payload, once the shapes in its header fit bytes and ``pipeline``."""
    if len(payload) < 8 or (length := int.from_bytes(payload[:8], "little")) > len(payload) - 8:
        raise CorruptFileError("the payload is cut off.")
    header = strict_json.parse(payload[8 : 8 + length])
    if not isinstance(header, dict):
        raise CorruptFileError("the payload's header is malformed.")
    check_widths(pipeline, {name: _shape(name, entry) for name, entry in header.items()})
    try:
        arrays = safetensors.numpy.load(payload)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CorruptFileError("the payload is malformed.") from error
    return dict(arrays)


def _shape(name: str, entry: Any) -> Shape:
    """Return the shape that a header states, if it is one that the array's bytes can have."""
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
    return tuple(shape)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def check_widths(pipeline: Any, shapes: Mapping[str, Shape]) -> None:
    """Raise unless the pipeline's arrays have the widths of its columns and map: none is applied.

    What is no pipeline at all is left to `Pipeline` to refuse.
    """
    if not isinstance(pipeline, dict) or not isinstance(columns := pipeline.get("columns"), list):
        return
    lists = [column.get("categories") for column in columns if isinstance(column, dict)]
    width = sum(len(values) if isinstance(values, list) else 1 for values in lists)
    wanted: dict[str, Shape] = {"pipeline.fill": (width,)}
    outputs = width
    if isinstance(pipeline.get("map"), dict):
        outputs = _outputs(pipeline["map"], width, shapes)
        wanted |= _map_shapes(pipeline["map"], width, outputs)
    wanted |= {"pipeline.mean": (outputs,), "pipeline.scale": (outputs,)}
    if any(shapes.get(name, shape) != shape for name, shape in wanted.items()):
        raise CorruptFileError("the pipeline's arrays do not fit its columns or its map.")


def _outputs(spec: Mapping[str, Any], width: int, shapes: Mapping[str, Shape]) -> int:
    """Return how many coordinates a map makes: by arithmetic, or as its own arrays say."""
    size = spec.get("size")
    if spec.get("kind") == "polynomial" and type(size) is int:
        return products(width, size, max(shapes.get("pipeline.mean", (0,))))
    return shapes.get("pipeline.mean", (0,))[0]


def _map_shapes(spec: Mapping[str, Any], width: int, outputs: int) -> dict[str, Shape]:
    """Return the shapes of a map's arrays, by its inputs and outputs."""
    own: dict[Any, dict[str, Shape]] = {
        "rff": {"frequencies": (outputs, width), "phases": (outputs,)},
        "nystroem": {
            "landmarks": (width, outputs),
            "whitening": (outputs, outputs),
            "gamma": (1,),
        },
        "pca": {"components": (outputs, width)},
        "whiten": {"components": (outputs, width)},
    }
    kind = spec.get("kind")
    shapes = own.get(kind, {}) if isinstance(kind, str) else {}
    shapes = {"centre": (width,), "spread": (width,), **shapes}
    return {_MAP + name: shape for name, shape in shapes.items()}
