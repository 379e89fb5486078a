"""From raw columns to the vector that is summed: the public pipeline, as data and never as code.

In this order: encode categories, fill missing values, map, standardise, clip the norm, add an
intercept.
Owner and learner apply the same object. Its parameters are declared or come from public rows.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from suffice import strict_json
from suffice.errors import CorruptFileError, MissingValuesError, ParameterError, TableError
from suffice.tables.maps import FeatureMap, StatedMap
from suffice.tables.terms import TEMPORAL_UNITS, UNKNOWN, Missing, MissingRule, Provenance

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "Pipeline", "encode"]


_LARGEST_BOUND = 2.0**300  # of a length: its square, and that of its inverse, are still floats


@dataclass(frozen=True)
class Column:
    """One raw feature column: numbers, or categories from a declared or public list.

    Parameters
    ----------
    name : str
        The name of the column in the table.
    categories : tuple, optional
        The categories, texts or integers. None for a column of numbers.
    unit : str
        What dates, times or durations are counted in, such as ``"days"``. Empty for other columns.
    other : bool
        Whether one more category holds all values that the list lacks.

    Examples
    --------
    >>> from suffice.tables.pipeline import Column
    >>> Column("ward", ("north", "south"), other=True).outputs
    ('ward=north', 'ward=south', 'ward: other')
    """

    name: str
    categories: tuple[str | int | bool, ...] | None = None
    unit: str = ""
    other: bool = False

    def __post_init__(self) -> None:
        if self.unit not in {"", *TEMPORAL_UNITS} or (self.unit and self.categories is not None):
            raise ParameterError(
                "The unit of a column must be one of dates, times or durations, and categories"
                " have no unit."
            )
        if self.other and self.categories is None:
            raise ParameterError("A column of numbers cannot have an other category.")
        if self.categories is not None and len({*self.categories}) < len(self.categories):
            raise ParameterError("A category of a column is listed twice.")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers that the column turns into."""
        if self.categories is None:
            return (self.name,)
        names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name}: other") if self.other else names


def encode(
    batch: "pa.RecordBatch", columns: Sequence[Column], *, unknown: Counter[str] | None
) -> np.ndarray:
    """Return numbers and one-hot categories (width, rows), C-ordered; NaN for a missing value.

    A category outside the list is an error. With ``unknown`` it counts as no category instead, and
    is counted under the name of its column.
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


def _one_hot(
    cells: "pa.Array", column: Column, out: np.ndarray, unknown: Counter[str] | None
) -> None:
    from suffice.tables.columns import category_codes

    codes = category_codes(cells, column.categories or ())
    if column.other:
        codes = np.where(codes == -2, len(column.categories or ()), codes)
    strange = int(np.count_nonzero(codes == -2))
    if strange and unknown is None:
        raise TableError(
            f"Column {column.name!r}: {strange} cells hold a category that was not declared. List"
            " all categories with --categories (Python: categories=...)."
        )
    if strange and unknown is not None:
        unknown[column.name] += strange
    rows = np.flatnonzero(codes >= 0)
    out[codes[rows], rows] = 1.0
    out[:, codes == -1] = np.nan


def _cells(batch: "pa.RecordBatch", column: Column) -> "pa.Array":
    import pyarrow as pa

    from suffice.tables.columns import is_categorical, temporal_unit

    position = batch.schema.get_field_index(column.name)
    if position < 0:
        raise TableError(
            f"The table has no column {column.name!r}, which the pipeline needs. Use a table with"
            " the columns of the release."
        )
    cells = batch.column(position)
    if column.categories is None and is_categorical(cells.type):
        raise TableError(
            f"Column {column.name!r} must hold numbers, but it holds {cells.type}. Use a table"
            " with the column types of the release."
        )
    unit = temporal_unit(cells.type)
    if column.categories is None and unit != column.unit and not pa.types.is_null(cells.type):
        wanted = f"dates or times ({column.unit})" if column.unit else "numbers"
        raise TableError(
            f"Column {column.name!r} must hold {wanted}, but it holds {cells.type}. Use a table"
            " with the column types of the release."
        )
    return cells


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Computes the public vector of each row: float64, one column for each output name.

    The steps are x -> clip((map(fill(encode(x))) - mean) / scale, bound), then an intercept as one
    more coordinate. Two pipelines are equal if they do the same to every row. Where their numbers
    came from does not count.

    Parameters
    ----------
    columns : tuple of Column
        The raw feature columns, in the order of the encoded ones.
    missing : {"error", "mean", "zero"}
        What replaces a missing value.
    mean : ndarray
        What is subtracted from each encoded or mapped column.
    scale : ndarray
        What each of them is divided by: positive numbers.
    bound : float
        The largest 2-norm of a row. Longer rows are shortened to it.
    intercept : float
        The value of the constant coordinate. 0 for none.
    fill : ndarray, optional
        The replacement of a missing value, for each encoded column. None if a missing value is an
        error.
    map : FeatureMap, optional
        The public feature map between encoding and scaling.
    origin : Provenance
        Where these numbers came from: declared, public rows, private rows or unknown.
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
            raise ParameterError("The pipeline's feature map does not fit its columns.")
        if any(v.shape != (size,) or not np.isfinite(v).all() for v, size in vectors):
            raise ParameterError(
                "The pipeline's vectors must be finite, with one entry for each encoded column."
            )
        if (self.scale <= 0).any():
            raise ParameterError("The pipeline's scales must be above 0.")
        # Squares of such numbers neither vanish nor overflow, so that clipping always clips.
        if not 1 / _LARGEST_BOUND <= self.bound <= _LARGEST_BOUND:
            raise ParameterError(
                "The pipeline's bound must be above 0, and neither too small nor too large for a"
                " computer."
            )
        if not (self.intercept == 0 or 1 / _LARGEST_BOUND <= self.intercept <= _LARGEST_BOUND):
            raise ParameterError(
                "The weight of the intercept must be 0, or neither too small nor too large for a"
                " computer."
            )
        if self.missing not in {*MissingRule} or (self.missing == "error") != (self.fill is None):
            raise ParameterError(
                f"missing must be one of {', '.join(MissingRule)}, and its replacement values must"
                " be present."
            )

    def with_missing(self, rule: Missing) -> "Pipeline":
        """Return the same pipeline with another rule for missing values.

        Parameters
        ----------
        rule : {"error", "mean", "zero"}
            What replaces a missing value.

        Returns
        -------
        Pipeline
            The changed pipeline.

        Raises
        ------
        ParameterError
            If the rule is "mean" and the pipeline has a feature map: it does not store the means.
        """
        if rule == self.missing:
            return self
        if rule == "error":
            return replace(self, missing=rule, fill=None)
        if rule == "mean" and self.map is not None:
            raise ParameterError(
                "The release uses a feature map and does not store the means of columns. Use"
                " --missing zero, or fill in missing values."
            )
        width = len(self._encoded_names)
        return replace(self, missing=rule, fill=self.mean if rule == "mean" else np.zeros(width))

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

    def encoded(
        self, batch: "pa.RecordBatch", *, unknown: Counter[str] | None = None
    ) -> np.ndarray:
        """Return the columns before scaling: encoded, filled and mapped, (width, rows)."""
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

    def transform(
        self, batch: "pa.RecordBatch", *, unknown: Counter[str] | None = None
    ) -> np.ndarray:
        """Return the rows of a batch as vectors.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows with the columns of the pipeline.
        unknown : Counter, optional
            Counts cells whose category the pipeline does not have, by the name of their column.
            Without it such a cell is an error.

        Returns
        -------
        ndarray
            The vectors, float64 of shape (rows, coordinates).

        Raises
        ------
        TableError
            If a column is missing, has another type, or holds numbers that cannot be scaled.
        MissingValuesError
            If a value is missing and the pipeline has no rule for it.
        """
        return self.finished(self.encoded(batch, unknown=unknown))

    def finished(self, columns: np.ndarray) -> np.ndarray:
        """Return columns from `encoded` as rows: scaled, clipped, and with an intercept."""
        from suffice.kernels import maps  # compiled code is loaded when rows come

        out = np.empty((len(self.outputs), columns.shape[1]))
        bad = maps.map_columns(columns, self.mean, 1.0 / self.scale, self.bound, out)
        if bad:
            self.explain_holes(columns)
        if self.intercept:
            out[-1] = self.intercept
        return out.T

    def explain_holes(self, columns: np.ndarray) -> NoReturn:
        """Raise the error for columns from `encoded` that cannot be scaled."""
        if self.map is not None:
            raise TableError(
                "Some rows hold numbers that are too large for the feature map. Correct these"
                " rows, or leave them out."
            )
        self._explain_holes(columns)

    def _explain_holes(self, columns: np.ndarray) -> NoReturn:
        for name, values in zip(self._encoded_names, columns, strict=True):
            gone = int(np.isnan(values).sum())
            if gone:
                raise MissingValuesError(
                    f"Column {name!r} has {gone} missing values, and the release has no rule for"
                    " them. Fill them in, or use --missing mean or --missing zero."
                )
            if not np.isfinite(values).all():
                raise TableError(
                    f"Column {name!r} holds infinite values. Correct these cells, or leave the"
                    " column out."
                )
        raise TableError(
            "Some rows hold numbers that are too large to standardise. Correct these rows, or"
            " leave them out."
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        return self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # arrays cannot be hashed

    def to_json(self) -> dict[str, Any]:
        """Return everything but the vectors as plain JSON values."""
        return {**self._function(), "origin": strict_json.plain(self.origin)}

    def _function(self) -> dict[str, Any]:
        """Return everything that the pipeline does, except the vectors."""
        return {
            "columns": strict_json.plain(self.columns),
            "missing": self.missing,
            "map": None if self.map is None else strict_json.plain(self.map.stated),
            "bound": self.bound,
            "intercept": self.intercept,
        }

    def digest(self) -> str:
        """Return a hash of everything that the pipeline does."""
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
        stated = strict_json.read(_StatedPipeline, data, "pipeline in the file")
        try:
            return cls(
                columns=stated.columns,
                missing=stated.missing,
                mean=arrays["pipeline.mean"],
                scale=arrays["pipeline.scale"],
                bound=stated.bound,
                intercept=stated.intercept,
                fill=arrays.get("pipeline.fill"),
                map=None if stated.map is None else FeatureMap.of_file(stated.map, arrays),
                origin=stated.origin,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError("The pipeline in the file is not valid.") from error


@dataclass(frozen=True)
class _StatedPipeline:
    """A pipeline as a file states it, without its vectors."""

    columns: tuple[Column, ...]
    missing: Missing
    map: StatedMap | None
    bound: float
    intercept: float
    origin: Provenance
