"""From raw columns to the vector that is summed: the public pipeline, as data and never as code.

In this order: encode categories, fill missing values, map, standardise, clip the norm, add an
intercept.
Owner and learner apply the same object. Its parameters are declared or come from public rows.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.strict_json import number, text
from suffice.tables.maps import FeatureMap
from suffice.tables.provenance import UNKNOWN, Provenance

if TYPE_CHECKING:  # whoever reads a release needs no Arrow: it is imported with the first batch
    import pyarrow as pa

__all__ = ["Column", "Missing", "MissingRule", "Pipeline", "encode"]

Missing = Literal["error", "mean", "zero"]
_FIELDS = {"columns", "missing", "map", "bound", "intercept"}
_EXTREME = 2.0**300


class MissingRule(StrEnum):
    """What becomes of a missing value."""

    ERROR = "error"
    MEAN = "mean"
    ZERO = "zero"


@dataclass(frozen=True)
class Column:
    """One raw feature column: numeric, or categorical with a declared or public list."""

    name: str
    categories: tuple[Any, ...] | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers that the column turns into."""
        if self.categories is None:
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories)


def encode(batch: "pa.RecordBatch", columns: Sequence[Column], *, unknown: str) -> np.ndarray:
    """Return numbers and one-hot categories (width, rows), C-ordered; NaN where one is missing.

    ``unknown`` says what a category outside the list is: "error", or "zero" for no category.
    """
    from suffice.tables.columns import numeric_columns

    cells = [_cells(batch, column) for column in columns]
    if all(column.categories is None for column in columns):
        return numeric_columns(batch, [column.name for column in columns])
    out = np.zeros((sum(len(column.outputs) for column in columns), batch.num_rows))
    j = 0
    for column, values in zip(columns, cells, strict=True):
        width = len(column.outputs)
        if column.categories is None:
            out[j] = numeric_columns(batch, [column.name])[0]
        else:
            _one_hot(values, column, out[j : j + width], unknown)
        j += width
    return out


def _one_hot(cells: "pa.Array", column: Column, out: np.ndarray, unknown: str) -> None:
    from suffice.tables.columns import category_codes

    codes = category_codes(cells, column.categories or ())
    strange = int(np.count_nonzero(codes == -2))
    if strange and unknown != "zero":
        raise TableError(
            f"column {column.name!r}: {strange} cells hold a category that was not declared."
        )
    rows = np.flatnonzero(codes >= 0)
    out[codes[rows], rows] = 1.0
    out[:, codes == -1] = np.nan


def _cells(batch: "pa.RecordBatch", column: Column) -> "pa.Array":
    from suffice.tables.columns import is_categorical

    position = batch.schema.get_field_index(column.name)
    if position < 0:
        raise TableError(f"the table has no column {column.name!r}, which the pipeline needs.")
    cells = batch.column(position)
    if column.categories is None and is_categorical(cells.type):
        raise TableError(f"column {column.name!r} must be numeric here, not {cells.type}.")
    return cells


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Computes the public vector of each row; the result is float64, one column per output name.

    x -> clip((map(fill(encode(x))) - mean) / scale, bound), then ``intercept`` as one more
    coordinate (weight 0: none). ``fill`` holds what a missing value becomes, or is None if that is
    an error. ``origin`` says where these numbers came from; it belongs neither to the digest nor to
    equality, which are about what a pipeline does.
    """

    columns: tuple[Column, ...]
    missing: Missing
    mean: np.ndarray
    scale: np.ndarray
    bound: float
    intercept: float = 1.0
    fill: np.ndarray | None = None
    map: FeatureMap | None = None
    origin: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        encoded = sum(len(column.outputs) for column in self.columns)
        width = encoded if self.map is None else len(self.map.outputs)
        vectors = [(self.mean, width), (self.scale, width)]
        if self.fill is not None:
            vectors.append((self.fill, encoded))
        if self.map is not None and self.map.width != encoded:
            raise ParameterError("the pipeline's map does not fit its columns.")
        if any(v.shape != (size,) or not np.isfinite(v).all() for v, size in vectors):
            raise ParameterError(
                "the pipeline's vectors must be finite, one entry per encoded column."
            )
        if (self.scale <= 0).any():
            raise ParameterError("the pipeline's scales must be positive.")
        # Squares of such numbers neither vanish nor overflow, so that clipping always clips.
        if not 1 / _EXTREME <= self.bound <= _EXTREME:
            raise ParameterError("the norm bound must be a positive number of a usable size.")
        if not (self.intercept == 0 or 1 / _EXTREME <= self.intercept <= _EXTREME):
            raise ParameterError("the intercept's weight must be zero or of a usable size.")
        if self.missing not in {*MissingRule} or (self.missing == "error") != (self.fill is None):
            raise ParameterError(
                f"missing must be one of {', '.join(MissingRule)}, with its values."
            )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        names = self._encoded_names if self.map is None else self.map.outputs
        return names + ("(intercept)",) * (self.intercept > 0)

    @property
    def _encoded_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def norm_bound(self) -> float:
        """The largest 2-norm that an output row can have."""
        return math.hypot(self.bound, self.intercept)

    def encoded(self, batch: "pa.RecordBatch", *, unknown: str = "error") -> np.ndarray:
        """Return the columns before the affine end: encoded, filled and mapped, (width, rows)."""
        columns = encode(batch, self.columns, unknown=unknown)
        if self.fill is not None:
            holes = np.isnan(columns)
            if holes.any():
                columns = np.where(holes, self.fill[:, None], columns)
        if self.map is None:
            return columns
        if not np.isfinite(columns).all():
            self._explain_holes(columns)
        return self.map.apply(columns)

    def transform(self, batch: "pa.RecordBatch", *, unknown: str = "error") -> np.ndarray:
        """Return the rows of ``batch`` as a float64 matrix (rows, coordinates)."""
        return self.finished(self.encoded(batch, unknown=unknown))

    def finished(self, columns: np.ndarray) -> np.ndarray:
        """Return the rows of columns as `encoded` returns them: standardised, clipped, whole."""
        from suffice.kernels import mapping  # compiled code is loaded when rows come

        out = np.empty((len(self.outputs), columns.shape[1]))
        bad = mapping.map_columns(columns, self.mean, 1.0 / self.scale, self.bound, out)
        if bad:
            self.explain_holes(columns)
        if self.intercept:
            out[-1] = self.intercept
        return out.T

    def explain_holes(self, columns: np.ndarray) -> NoReturn:
        """Raise the error of columns, as `encoded` returns them, that cannot be standardised."""
        if self.map is not None:
            raise TableError("the rows hold numbers too large to map; mend or drop them.")
        self._explain_holes(columns)

    def _explain_holes(self, columns: np.ndarray) -> NoReturn:
        for name, values in zip(self._encoded_names, columns, strict=True):
            gone = int(np.isnan(values).sum())
            if gone:
                raise TableError(
                    f"column {name!r} has {gone} missing values; choose what they become with"
                    " missing='mean' or 'zero' (--missing)."
                )
            if not np.isfinite(values).all():
                raise TableError(f"column {name!r} holds infinite values; mend or drop it.")
        raise TableError("the rows hold numbers too large to standardise; mend or drop them.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        return self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def to_json(self) -> dict[str, Any]:
        """Return everything but the vectors as plain JSON values.

        An unknown origin is left out, so that a file written before origins were recorded keeps
        its bytes, and its signature, when it is written again.
        """
        known = {} if self.origin == UNKNOWN else {"origin": self.origin.to_json()}
        return {**self._function(), **known}

    def _function(self) -> dict[str, Any]:
        """Return what the pipeline does, but for the vectors."""
        return {
            "columns": [
                {"name": c.name, "categories": None if c.categories is None else list(c.categories)}
                for c in self.columns
            ],
            "missing": self.missing,
            "map": None if self.map is None else self.map.to_json(),
            "bound": self.bound,
            "intercept": self.intercept,
        }

    def digest(self) -> str:
        """Return a short name of everything that the pipeline does."""
        content = hashlib.sha256(json.dumps(self._function(), sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            content.update(name.encode() + b"\0" + array.tobytes())
        return "sha256:" + content.hexdigest()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the vectors, named as they travel in a release."""
        vectors = {"pipeline.mean": self.mean, "pipeline.scale": self.scale}
        if self.fill is not None:
            vectors["pipeline.fill"] = self.fill
        if self.map is not None:
            vectors |= self.map.named_arrays()
        return vectors

    @classmethod
    def from_json(cls, data: Any, arrays: dict[str, np.ndarray]) -> "Pipeline":
        """Return the pipeline that `to_json` and `arrays` described."""
        if not isinstance(data, dict) or set(data) - {"origin"} != _FIELDS:
            raise CorruptFileError("the pipeline must hold exactly the fields of its version.")
        try:
            return cls(
                columns=tuple(_column(item) for item in data["columns"]),
                missing=data["missing"],
                mean=arrays["pipeline.mean"],
                scale=arrays["pipeline.scale"],
                bound=number(data["bound"]),
                intercept=number(data["intercept"]),
                fill=arrays.get("pipeline.fill"),
                map=None if data["map"] is None else FeatureMap.from_json(data["map"], arrays),
                origin=Provenance.from_json(data["origin"]) if "origin" in data else UNKNOWN,
            )
        except CorruptFileError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError("the pipeline in the file is not valid.") from error


def _column(item: Any) -> Column:
    if not isinstance(item, dict) or set(item) != {"name", "categories"}:
        raise CorruptFileError("a pipeline column needs a name and its categories, and no more.")
    name, categories = text(item["name"]), item["categories"]
    if categories is None:
        return Column(name)
    if not isinstance(categories, list) or not all(isinstance(c, str | int) for c in categories):
        raise CorruptFileError("categories must be a list of text or integers.")
    if len(set(categories)) < len(categories):
        raise CorruptFileError("a category is listed twice.")
    return Column(name, tuple(categories))
