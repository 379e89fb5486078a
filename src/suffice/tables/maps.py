"""Public feature maps: a closed registry, fitted on public rows, carried as data.

A map first centres and scales its input by the public rows, so that no column drowns the others.
With labels private and rows public, a map in front of a linear model gives a private non-linear
one. One's own embedding needs no map: pass rows that are already mapped.

Fitted arrays are stored and travel: fitting them again gives the same bits on one machine, and
applying them gives the same bits on every machine.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Annotated

import numpy as np

from suffice.errors import ParameterError

__all__ = [
    "MAPS",
    "MOST_DEGREE",
    "MOST_OUTPUTS",
    "FeatureMap",
    "StatedMap",
    "evenly_spaced",
    "fit_grid",
    "fit_map",
    "mid_ranks",
    "most_outputs",
    "weighted_moments",
]


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
_UNIFORM_SPREAD = math.sqrt(1 / 12)  # standard deviation of a rank

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Computes the mapped coordinates of encoded columns.

    Parameters
    ----------
    kind : str
        One of MAPS: polynomial, rff, nystroem, pca, whiten, components, ranks, ranks+polynomial or
        ranks+components.
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

    @property
    def stated(self) -> "StatedMap":
        """Kind and size, as a file states them."""
        return StatedMap(self.kind, self.size)

    def named_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays, named as they travel in a release."""
        return {_PREFIX + name: array for name, array in self.arrays.items()}

    @classmethod
    def of_file(cls, stated: "StatedMap", arrays: Mapping[str, np.ndarray]) -> "FeatureMap":
        """Return the map that `stated` and `named_arrays` described."""
        own = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        return cls(stated.kind, stated.size, own)


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
    apply: Callable[[Arrays, np.ndarray, np.ndarray], None]
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


def _rank_components(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    ranks = np.empty_like(columns)
    mid_ranks(arrays["grid"], columns, ranks)
    _components(arrays, ranks, out)


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


def _polynomial_of_ranks(arrays: Arrays, columns: np.ndarray, out: np.ndarray) -> None:
    ranks = np.empty_like(columns)
    mid_ranks(arrays["grid"], columns, ranks)
    _polynomial(arrays, ranks / _UNIFORM_SPREAD, out)


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
        apply=_polynomial_of_ranks,
    ),
    "ranks+components": _Kind(
        outputs=_rows_of("components"),
        shapes=lambda width, outputs, size: {
            "grid": (width, _GRID),
            "components": (min(outputs, size, width), width),
        },
        fit=_fit_rank_components,
        apply=_rank_components,
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
