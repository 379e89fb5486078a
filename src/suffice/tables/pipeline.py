"""From raw columns to the vector that is summed: the public pipeline, as data and never as code.

In this order: encode categories, fill missing values, map, standardise, clip the norm, add an
intercept.
Owner and learner apply the same object. Its parameters are declared or come from public rows.

Feature maps are a closed registry, fitted on public rows and carried as data. A map first centres
and scales its input by the public rows, so that no column drowns the others. With labels private
and rows public, a map in front of a linear model gives a private non-linear one. One's own
embedding needs no map: pass rows that are already mapped. Fitted arrays are stored and travel:
fitting them again gives the same bits on one machine, and applying them gives the same bits on
every machine.

A pipeline stands in the clear in every release that uses it. If its numbers were read off private
rows, each of these releases tells about those rows, whatever its noise. So the origin goes along
when a pipeline is saved, used again, merged or put into a model, and decides what a release may
guarantee. It is a statement of whoever wrote the file, as everything in a file is.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np

from suffice import strict_json
from suffice.errors import CorruptFileError, MissingValuesError, ParameterError, TableError
from suffice.options import TEMPORAL_UNITS, Missing, MissingRule

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN_HASHES = 3  # of many hashes


class Origin(StrEnum):
    """What the numbers were taken from."""

    DECLARED = "declared"
    PUBLIC_ROWS = "public rows"
    PRIVATE_ROWS = "private rows"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Provenance:
    """States where a pipeline's numbers came from.

    Parameters
    ----------
    source : Origin
        Declared, public rows, private rows or unknown.
    rows : tuple of str
        The hashes of the public rows, sorted. Empty for other sources.
    """

    source: Origin
    rows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Origin(self.source))
        are_digests = all(map(strict_json.is_digest, self.rows))
        if not are_digests or self.rows != tuple(sorted(set(self.rows))):
            raise ParameterError("Hashes of public rows must be sorted, and all different.")
        if bool(self.rows) != (self.source is Origin.PUBLIC_ROWS):
            raise ParameterError("An origin must name rows if they are public, and only then.")

    @property
    def is_public(self) -> bool:
        """Whether the numbers are known to tell nothing about private rows."""
        return self.source in {Origin.DECLARED, Origin.PUBLIC_ROWS}

    def __str__(self) -> str:
        if self.source is Origin.UNKNOWN:
            return "unknown (nobody stated it)"
        more = (
            f" and {len(self.rows) - _SHOWN_HASHES} more" if len(self.rows) > _SHOWN_HASHES else ""
        )
        return " ".join([self.source, ", ".join(self.rows[:_SHOWN_HASHES])]).strip() + more


DECLARED = Provenance(Origin.DECLARED)
PRIVATE_ROWS = Provenance(Origin.PRIVATE_ROWS)
UNKNOWN = Provenance(Origin.UNKNOWN)


def public_rows(row_hash: str) -> Provenance:
    """Return the origin of numbers from rows with this hash, which the owner declared public."""
    return Provenance(Origin.PUBLIC_ROWS, (row_hash,))


def weakest(origins: Iterable[Provenance]) -> Provenance:
    """Return the weakest of several origins of one pipeline.

    Private rows are weaker than an unknown origin, which is weaker than public rows, which are
    weaker than declared numbers. All hashes of public rows are kept.
    """
    stated = tuple(origins)
    for weak in (PRIVATE_ROWS, UNKNOWN):
        if weak in stated:
            return weak
    rows = tuple(sorted({row for origin in stated for row in origin.rows}))
    return Provenance(Origin.PUBLIC_ROWS, rows) if rows else DECLARED


def evenly_spaced(weights: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` positions, evenly spaced over rows that occur ``weights`` times each."""
    ends = np.cumsum(weights)
    middles = (2 * np.arange(count, dtype=np.int64) + 1) * ends[-1] // (2 * count)
    positions: np.ndarray = np.searchsorted(ends, middles, side="right")
    return positions


def fit_grid(columns: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return ``size`` evenly spaced quantiles of each column (width, size), in order.

    Rows occur ``weights`` times each.
    """
    grid = np.empty((len(columns), size))
    for values, quantiles in zip(columns, grid, strict=True):
        order = np.argsort(values, kind="stable")
        quantiles[:] = values[order][evenly_spaced(weights[order], size)]
    return grid


def mid_ranks(grid: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Write u - 1/2 of every value, u = (#{grid < x} + #{grid <= x}) / (2 size).

    Values that repeat get the middle of their ranks. No number is added in an order of its own, so
    that a row has the same coordinates in any batch.
    """
    size = grid.shape[1]
    for quantiles, values, ranks in zip(grid, columns, out, strict=True):
        below = np.searchsorted(quantiles, values, side="left")
        up_to = np.searchsorted(quantiles, values, side="right")
        ranks[:] = (below + up_to) / (2 * size) - 0.5


MOST_OUTPUTS = 20_000  # coordinates
MOST_DEGREE = 10  # of a polynomial
_SEED = 2016  # public: the same rows and the same map give the same coordinates
_PREFIX = "pipeline.map."
_PICKED = 500  # rows whose distances tell the width of a kernel
_GRID = 200  # quantiles of each column, unless their number is given
_POLYNOMIALS = ("polynomial", "ranks+polynomial")  # their size is a degree
_LANDMARKS = 500  # of a kernel of ranks, and the most components it can have
_UNIFORM_SPREAD = math.sqrt(1 / 12)  # standard deviation of a rank

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Computes the mapped coordinates of encoded columns.

    Parameters
    ----------
    kind : str
        One of MAPS: polynomial, rff, nystroem, pca, whiten, components, ranks, ranks+polynomial,
        ranks+components or ranks+kernel.
    size : int
        The degree of a polynomial, the number of quantiles of ranks, else that of coordinates.
    arrays : mapping of str to ndarray
        What was fitted on public rows, with ``centre`` and ``spread`` of the inputs among them.
    """

    kind: str
    size: int
    arrays: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if self.kind not in MAPS:
            raise ParameterError(f"The kind of a feature map must be one of {', '.join(MAPS)}.")
        _check_size(self.kind, self.size)
        centre = self.arrays.get("centre", np.empty(0))
        if centre.ndim != 1 or not centre.size:
            raise ParameterError("A feature map needs one centre and one scale for each input.")
        own = {name: array.shape for name, array in self.arrays.items()}
        count = MAPS[self.kind].outputs(own, len(centre), self.size)
        if not 1 <= count <= MOST_OUTPUTS:
            raise ParameterError(
                f"A feature map can have at most {MOST_OUTPUTS} coordinates. Use a smaller size."
            )
        shapes = MAPS[self.kind].shapes(len(centre), count, self.size)
        if own != {"centre": centre.shape, "spread": centre.shape, **shapes}:
            raise ParameterError("The arrays of the feature map do not fit each other.")
        if not all(a.dtype == np.float64 and np.isfinite(a).all() for a in self.arrays.values()):
            raise ParameterError("The arrays of the feature map must be finite numbers.")
        if (self.arrays["spread"] <= 0).any():
            raise ParameterError("The scales of the feature map must be above 0.")
        if (np.diff(self.arrays.get("grid", np.zeros((1, 1)))) < 0).any():
            raise ParameterError("The quantiles of the feature map must be in order.")

    @property
    def width(self) -> int:
        """The number of inputs."""
        return len(self.arrays["centre"])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        shapes = {name: array.shape for name, array in self.arrays.items()}
        count = MAPS[self.kind].outputs(shapes, self.width, self.size)
        return tuple(f"{self.kind}{j}" for j in range(count))

    def apply(self, columns: np.ndarray) -> np.ndarray:
        """Return the mapped columns (outputs, rows) of encoded ones (width, rows).

        A row's coordinates are the same in any batch (kernels/maps.py).
        """
        centred = (columns - self.arrays["centre"][:, None]) / self.arrays["spread"][:, None]
        out = np.empty((len(self.outputs), columns.shape[1]))
        MAPS[self.kind].apply(self.arrays, centred, out)
        return out


@dataclass(frozen=True)
class StatedMap:
    """Kind and size of a feature map, as a file states them beside its arrays."""

    kind: str
    size: Annotated[int, ("minimum", 1), ("maximum", MOST_OUTPUTS)]


def _check_size(kind: str, size: int) -> None:
    """Raise if a map of this kind cannot be of this size."""
    most = MOST_DEGREE if kind in _POLYNOMIALS else MOST_OUTPUTS
    if not 1 <= size <= most:
        raise ParameterError(f"The size of a {kind} map must lie between 1 and {most}.")


Arrays = Mapping[str, np.ndarray]
_Apply = Callable[[Arrays, np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class _Kind:
    """One kind of map, as functions.

    ``outputs``(shapes, width, size) and ``shapes``(width, outputs, size) are arithmetic alone: how
    many coordinates there are, and which arrays of which shapes it needs. ``fit``(columns, weights,
    size) fits it to centred public columns whose rows occur ``weights`` times; ``apply``(arrays,
    centred columns, out) maps others.
    """

    outputs: Callable[[Mapping[str, Shape], int, int], int]
    shapes: Callable[[int, int, int], dict[str, Shape]]
    fit: Callable[[np.ndarray, np.ndarray, int], dict[str, np.ndarray]]
    apply: _Apply
    keeps_lengths: bool = False  # whether its coordinates are not divided by their deviations


def weighted_moments(columns: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of columns whose rows occur ``weights`` times.

    A column that does not vary has the deviation one, so that it becomes zero.
    """
    shares = weights / weights.sum()
    mean = (columns * shares).sum(axis=1)
    deviation = np.sqrt((((columns - mean[:, None]) ** 2) * shares).sum(axis=1))
    return mean, np.where(deviation > 1e-9 * np.abs(mean), deviation, 1.0)


def _median_gamma(columns: np.ndarray, weights: np.ndarray) -> float:
    """Return 1 / median squared distance of public rows: the usual start for a Gaussian kernel."""
    some = columns[:, evenly_spaced(weights, min(_PICKED, int(weights.sum())))]
    squares = _squared_distances(some)[np.triu_indices(some.shape[1], 1)]
    return 1.0 / (float(np.median(squares)) or 1.0) if len(squares) else 1.0


def _fit_fourier(columns: np.ndarray, weights: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Draw frequencies of the Gaussian kernel (Rahimi & Recht 2007), from a public seed."""
    rng = np.random.default_rng(_SEED)
    scale = math.sqrt(2 * _median_gamma(columns, weights))
    frequencies = scale * rng.standard_normal((size, len(columns)))
    return {"frequencies": frequencies, "phases": rng.uniform(0, 2 * math.pi, size)}


def _fourier(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    from suffice.kernels import maps  # compiled code is loaded when rows come

    maps.fourier(arrays["frequencies"], arrays["phases"], columns, out)


def _fit_nystroem(columns: np.ndarray, weights: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Take evenly spaced public rows as landmarks (Williams & Seeger 2001)."""
    picks = np.unique(evenly_spaced(weights, size))
    landmarks = np.ascontiguousarray(columns[:, picks])
    gamma = np.array([_median_gamma(columns, weights)])
    values, vectors = np.linalg.eigh(np.exp(-gamma[0] * _squared_distances(landmarks)))
    whitening = vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    return {"landmarks": landmarks, "whitening": whitening, "gamma": gamma}


def _nystroem(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    from suffice.kernels import maps

    gamma = float(arrays["gamma"][0])
    maps.nystroem(arrays["landmarks"], arrays["whitening"], gamma, columns, out)


def _squared_distances(columns: np.ndarray) -> np.ndarray:
    """Return the squared distances of all pairs of rows."""
    squares = (columns**2).sum(axis=0)
    distances: np.ndarray = squares[:, None] + squares[None, :] - 2 * columns.T @ columns
    return np.asarray(np.maximum(distances, 0.0))


def _fit_components(
    columns: np.ndarray, weights: np.ndarray, size: int, *, whiten: bool
) -> dict[str, np.ndarray]:
    shares = weights / weights.sum()
    values, vectors = np.linalg.eigh((columns * shares) @ columns.T)
    order = np.argsort(values)[::-1][:size]
    components = vectors[:, order].T
    signs = np.sign(components[np.arange(len(components)), np.abs(components).argmax(axis=1)])
    components = components * signs[:, None]  # an eigenvector has no sign of its own
    lengths = np.sqrt(np.maximum(values[order], 1e-12)) if whiten else np.ones(len(order))
    return {"components": np.ascontiguousarray(components / lengths[:, None])}


def _components(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    from suffice.kernels import maps

    maps.linear(arrays["components"], columns, out)


def _fit_rank_components(
    columns: np.ndarray, weights: np.ndarray, size: int
) -> dict[str, np.ndarray]:
    """Return the quantiles of columns, and the components of their standardised ranks."""
    grid = fit_grid(columns, weights, _GRID)
    ranks = np.empty_like(columns)
    mid_ranks(grid, columns, ranks)
    mean, spread = weighted_moments(ranks, weights)
    standard = (ranks - mean[:, None]) / spread[:, None]
    components = _fit_components(standard, weights, size, whiten=False)["components"]
    return {"grid": grid, "components": np.ascontiguousarray(components / spread)}


def _fit_rank_kernel(columns: np.ndarray, weights: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Return landmarks among public rows, and the components of a Gaussian kernel of ranks.

    With K the kernel of all pairs of landmarks and k(x) that of a row with each of them, a row
    becomes f(x) = K^(-1/2) k(x) (Williams & Seeger 2001), and then its first principal components
    over public rows, at their own lengths: even noise then hides those first that matter least.
    """
    grid = fit_grid(columns, weights, _GRID)
    ranks = np.empty_like(columns)
    mid_ranks(grid, columns, ranks)
    ranks /= _UNIFORM_SPREAD
    landmarks = np.ascontiguousarray(ranks[:, evenly_spaced(weights, _LANDMARKS)])
    gamma = np.array([_median_gamma(ranks, weights)])
    values, vectors = np.linalg.eigh(np.exp(-gamma[0] * _squared_distances(landmarks)))
    # A landmark that repeats has no direction of its own.
    root = (vectors / np.sqrt(np.maximum(values, 1e-9))) @ vectors.T
    arrays = {"grid": grid, "landmarks": landmarks, "gamma": gamma}
    rows = np.empty((_LANDMARKS, ranks.shape[1]))
    _nystroem({**arrays, "whitening": root}, ranks, rows)
    rows -= weighted_moments(rows, weights)[0][:, None]
    components = _fit_components(rows, weights, size, whiten=False)["components"]
    return {**arrays, "whitening": np.ascontiguousarray(components @ root)}


def _polynomial(_: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    """Write every product of at most so many columns, once each."""
    from suffice.kernels import maps

    maps.products(columns, *_product_plan(len(columns), len(out)), out)


def _product_plan(width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of ``count`` products, the shorter one that it extends, and by what."""
    positions: dict[tuple[int, ...], int] = {(): -1}
    factors = np.empty(count, dtype=np.int64)
    parents = np.empty(count, dtype=np.int64)
    degree = 0
    while len(positions) <= count:
        degree += 1
        for chosen in combinations_with_replacement(range(width), degree):
            position = len(positions) - 1
            parents[position], factors[position] = positions[chosen[:-1]], chosen[-1]
            positions[chosen] = position
    return parents, factors


def _ranks(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    mid_ranks(arrays["grid"], columns, out)


def _of_ranks(apply: _Apply, spread: float) -> _Apply:
    """Return what ``apply`` does, of the ranks of columns divided by ``spread``."""

    def apply_to_ranks(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
        ranks = np.empty_like(columns)
        mid_ranks(arrays["grid"], columns, ranks)
        apply(arrays, ranks / spread, out)

    return apply_to_ranks


def _products(width: int, degree: int) -> int:
    return math.comb(width + degree, degree) - 1


def _rows_of(name: str) -> Callable[[Mapping[str, Shape], int, int], int]:
    """Return a function that says how many rows the array of this name has; zero for no array."""

    def count(shapes: Mapping[str, Shape], _width: int, _size: int) -> int:
        shape = shapes.get(name, ())
        return shape[0] if len(shape) == 2 else 0

    return count


def _components_kind(*, whiten: bool, keeps_lengths: bool = False) -> _Kind:
    return _Kind(
        keeps_lengths=keeps_lengths,
        outputs=_rows_of("components"),
        shapes=lambda width, outputs, size: {"components": (min(outputs, size, width), width)},
        fit=lambda columns, weights, size: _fit_components(columns, weights, size, whiten=whiten),
        apply=_components,
    )


MAPS: Mapping[str, _Kind] = {
    "polynomial": _Kind(
        outputs=lambda _shapes, width, degree: _products(width, degree),
        shapes=lambda _width, _outputs, _size: {},
        fit=lambda _columns, _weights, _size: {},
        apply=_polynomial,
    ),
    "rff": _Kind(
        outputs=lambda _shapes, _width, size: size,
        shapes=lambda width, _outputs, size: {"frequencies": (size, width), "phases": (size,)},
        fit=_fit_fourier,
        apply=_fourier,
    ),
    "nystroem": _Kind(
        outputs=_rows_of("whitening"),
        shapes=lambda width, outputs, size: {
            "landmarks": (width, min(outputs, size)),
            "whitening": (outputs, min(outputs, size)),
            "gamma": (1,),
        },
        fit=_fit_nystroem,
        apply=_nystroem,
    ),
    "pca": _components_kind(whiten=False),
    "whiten": _components_kind(whiten=True),
    "components": _components_kind(whiten=False, keeps_lengths=True),
    "ranks": _Kind(
        outputs=lambda _shapes, width, _size: width,
        shapes=lambda width, _outputs, size: {"grid": (width, size)},
        fit=lambda columns, weights, size: {"grid": fit_grid(columns, weights, size)},
        apply=_ranks,
    ),
    "ranks+polynomial": _Kind(
        outputs=lambda _shapes, width, degree: _products(width, degree),
        shapes=lambda width, _outputs, _size: {"grid": (width, _GRID)},
        fit=lambda columns, weights, _size: {"grid": fit_grid(columns, weights, _GRID)},
        apply=_of_ranks(_polynomial, _UNIFORM_SPREAD),
    ),
    "ranks+components": _Kind(
        outputs=_rows_of("components"),
        shapes=lambda width, outputs, size: {
            "grid": (width, _GRID),
            "components": (min(outputs, size, width), width),
        },
        fit=_fit_rank_components,
        apply=_of_ranks(_components, 1.0),
        keeps_lengths=True,
    ),
    "ranks+kernel": _Kind(
        outputs=_rows_of("whitening"),
        shapes=lambda width, outputs, size: {
            "grid": (width, _GRID),
            "landmarks": (width, _LANDMARKS),
            "whitening": (min(outputs, size), _LANDMARKS),
            "gamma": (1,),
        },
        fit=_fit_rank_kernel,
        apply=_of_ranks(_nystroem, _UNIFORM_SPREAD),
        keeps_lengths=True,
    ),
}


def _parse_map(spec: str) -> tuple[str, int]:
    """Return kind and size of a map written as "rff:512", "polynomial:2" or "ranks"."""
    kind, _, size = spec.partition(":")
    if spec == "ranks":
        size = str(_GRID)
    if kind not in MAPS or not (size.isascii() and size.isdecimal()):
        raise ParameterError(
            "A feature map must be written KIND:SIZE, for example rff:512. KIND is one of"
            f" {', '.join(MAPS)}."
        )
    return kind, min(int(size[:10]), 10**9)  # beyond every limit, and of no matter how many digits


def most_outputs(spec: str, width: int) -> int:
    """Return the largest number of coordinates that a map gives ``width`` columns.

    Nothing is fitted. For a polynomial of too high a degree it is one more than any map may have.
    """
    kind, size = _parse_map(spec)
    if kind == "ranks":
        return width
    if kind not in _POLYNOMIALS:
        return size
    return _products(width, size) if size <= MOST_DEGREE else MOST_OUTPUTS + 1


def cost_of_map(spec: str | None, width: int, rows: int) -> tuple[int, int]:
    """Return about how many products mapped rows take, and how many bytes the map has.

    By arithmetic on public numbers. A map with landmarks multiplies each row, and its own matrix,
    by a square matrix of its size.
    """
    if spec is None:
        return rows * width, 0
    kind, outputs = _parse_map(spec)[0], most_outputs(spec, width)
    has_landmarks = kind in ("nystroem", "ranks+kernel")
    inner = outputs if has_landmarks else width
    return (rows + outputs * has_landmarks) * outputs * inner, 8 * outputs * inner


def fit_map(spec: str, columns: np.ndarray, weights: np.ndarray) -> FeatureMap:
    """Return the map that ``spec`` names, fitted to public columns (width, rows).

    All rows are different, and ``weights`` say how often each of them occurs.
    """
    kind, size = _parse_map(spec)
    _check_size(kind, size)
    if most_outputs(spec, len(columns)) > MOST_OUTPUTS:
        raise ParameterError(
            f"A feature map can have at most {MOST_OUTPUTS} coordinates. Use a smaller size."
        )
    centre, spread = weighted_moments(columns, weights)
    centred = (columns - centre[:, None]) / spread[:, None]
    fitted = MAPS[kind].fit(centred, weights, size)
    return FeatureMap(kind, size, {"centre": centre, "spread": spread, **fitted})


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
    import pyarrow as pa

    from suffice.tables.columns import (
        category_codes,
        is_categorical,
        numeric_columns,
        temporal_unit,
    )

    for column in columns:
        position = batch.schema.get_field_index(column.name)
        if position < 0:
            raise TableError(
                f"The table has no column {column.name!r}, which the pipeline needs. Use a table"
                " with the columns of the release."
            )
        kind = batch.schema.field(position).type
        if column.categories is None and (
            is_categorical(kind)
            or (temporal_unit(kind) != column.unit and not pa.types.is_null(kind))
        ):
            texts = is_categorical(kind) or not column.unit
            wanted = "numbers" if texts else f"dates or times ({column.unit})"
            raise TableError(
                f"Column {column.name!r} must hold {wanted}, but it holds {kind}. Use a table with"
                " the column types of the release."
            )
    if all(column.categories is None for column in columns):
        return numeric_columns(batch, [column.name for column in columns])
    out = np.zeros((sum(len(column.outputs) for column in columns), batch.num_rows))
    first = 0
    for column in columns:
        encoded = out[first : (first := first + len(column.outputs))]
        if column.categories is None:
            encoded[0] = numeric_columns(batch, [column.name])[0]
            continue
        cells = batch.column(column.name)
        codes = category_codes(cells, column.categories)
        if column.other:
            codes = np.where(codes == -2, len(column.categories), codes)
        strange = int(np.count_nonzero(codes == -2))
        if strange and unknown is None:
            raise TableError(
                f"Column {column.name!r}: {strange} cells hold a category that was not declared."
                " List all categories with --categories (Python: categories=...)."
            )
        if strange and unknown is not None:
            unknown[column.name] += strange
        rows = np.flatnonzero(codes >= 0)
        encoded[codes[rows], rows] = 1.0
        encoded[:, codes == -1] = np.nan
    return out


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
    clipped : float, optional
        The proportion of those public rows that are longer than the bound. None for other numbers.
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
    clipped: float | None = None

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
        if self.clipped is not None and not 0 <= self.clipped <= 1:
            raise ParameterError("The proportion of clipped rows must be between 0 and 1.")
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
    def width(self) -> int:
        """The number of coordinates."""
        return len(self.mean) + (self.intercept > 0)

    @property
    def _encoded_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def stand_ins(self) -> np.ndarray:
        """What a private number that cannot be used counts as, before scaling, by coordinate.

        It is the declared ``fill``; or the mean, where there is none, it is too far from the mean
        to be scaled, or a map came in between.
        """
        from suffice.kernels.sums import LARGEST_NUMBER

        if self.fill is None or self.map is not None:
            return self.mean
        with np.errstate(over="ignore"):
            far = np.abs((self.fill - self.mean) / self.scale) > LARGEST_NUMBER
        return np.where(far, self.mean, self.fill)

    @property
    def clipping(self) -> str:
        """What the bound does to rows, in words."""
        words = f"Rows longer than {self.bound:.4g} are shortened to it"
        if self.clipped is None:
            return f"{words}."
        words += f": {100 * self.clipped:.3g} % of the public rows."
        if self.clipped <= 0.05:  # few enough to need no reason
            return words
        return f"{words} The longest row decides how much noise all rows need."

    @property
    def norm_bound(self) -> float:
        """The largest 2-norm that an output row can have."""
        return math.hypot(self.bound, self.intercept)

    def encoded(
        self, batch: "pa.RecordBatch", *, unknown: Counter[str] | None = None
    ) -> np.ndarray:
        """Return the columns before scaling: encoded, filled and mapped, (width, rows)."""
        return self.mapped(encode(batch, self.columns, unknown=unknown))

    def mapped(self, columns: np.ndarray) -> np.ndarray:
        """Return encoded columns filled and mapped."""
        if self.fill is not None:
            holes = np.isnan(columns)
            if holes.any():
                columns = np.where(holes, self.fill[:, None], columns)
        if self.map is None:
            return columns
        if not np.isfinite(columns).all():
            self.explain_holes(columns, mapped=False)
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

        out = np.empty((self.width, columns.shape[1]))
        bad = maps.map_columns(columns, self.mean, 1.0 / self.scale, self.bound, out)
        if bad:
            self.explain_holes(columns)
        if self.intercept:
            out[-1] = self.intercept
        return out.T

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of numbers (n, columns) as vectors; every column must hold numbers."""
        from suffice.kernels import maps

        if self.map is not None or self.fill is not None or not rows.flags.c_contiguous:
            return self.finished(self.mapped(np.ascontiguousarray(rows.T)))
        out = np.empty((len(rows), self.width))
        if maps.map_rows(rows, self.mean, 1.0 / self.scale, self.bound, out):
            self.explain_holes(rows.T)
        if self.intercept:
            out[:, -1] = self.intercept
        return out

    def explain_holes(self, columns: np.ndarray, *, mapped: bool = True) -> NoReturn:
        """Raise the error for columns that cannot be scaled, or not ``mapped``, be mapped."""
        if mapped and self.map is not None:
            raise TableError(
                "Some rows hold numbers that are too large for the feature map. Correct these"
                " rows, or leave them out."
            )
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
        stated = None if self.map is None else StatedMap(self.map.kind, self.map.size)
        return {
            "columns": strict_json.plain(self.columns),
            "missing": self.missing,
            "map": strict_json.plain(stated),
            "bound": self.bound,
            "intercept": self.intercept,
            "origin": strict_json.plain(self.origin),
            **({} if self.clipped is None else {"clipped": self.clipped}),
        }

    def digest(self) -> str:
        """Return a hash of everything that the pipeline does."""
        about = ("origin", "clipped")  # the rows, and nothing that is done to them
        function = {key: value for key, value in self.to_json().items() if key not in about}
        content = hashlib.sha256(json.dumps(function, sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            content.update(name.encode() + b"\0" + array.tobytes())
        return "sha256:" + content.hexdigest()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the vectors, named as they travel in a release."""
        vectors = {"pipeline.mean": self.mean, "pipeline.scale": self.scale}
        if self.fill is not None:
            vectors["pipeline.fill"] = self.fill
        if self.map is not None:
            vectors |= {_PREFIX + name: array for name, array in self.map.arrays.items()}
        return vectors

    @classmethod
    def from_json(cls, data: Any, arrays: dict[str, np.ndarray]) -> "Pipeline":
        """Return the pipeline that `to_json` and `arrays` described."""
        if isinstance(data, dict):  # without public rows nobody counted
            data = {"clipped": None, **data}
        stated = strict_json.read(_StatedPipeline, data, "pipeline in the file")
        own = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        try:
            return cls(
                columns=stated.columns,
                missing=stated.missing,
                mean=arrays["pipeline.mean"],
                scale=arrays["pipeline.scale"],
                bound=stated.bound,
                intercept=stated.intercept,
                fill=arrays.get("pipeline.fill"),
                map=stated.map
                if stated.map is None
                else FeatureMap(**vars(stated.map), arrays=own),
                origin=stated.origin,
                clipped=stated.clipped,
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
    clipped: float | None
