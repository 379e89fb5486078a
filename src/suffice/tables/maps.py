"""Public feature maps: a closed registry, fitted on public rows, carried as data.

A map first centres and scales its input by the public rows, so that no column drowns the others.
With labels private and rows public, a map in front of a linear model gives a private non-linear
one. One's own embedding needs no map: pass rows that are already mapped.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError, ParameterError
from suffice.strict_json import number, text

__all__ = ["MAPS", "FeatureMap", "fit_map"]

_SEED = 2016  # public: the same rows and the same map give the same coordinates
_MOST_OUTPUTS = 100_000
_PREFIX = "pipeline.map."


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Computes the mapped coordinates of encoded columns.

    ``kind`` is one of MAPS and ``size`` its degree or number of coordinates; ``arrays`` hold what
    was fitted, with ``centre`` and ``spread`` of the inputs among them.
    """

    kind: str
    size: int
    arrays: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        needs = {"centre", "spread", *(MAPS[self.kind].needs if self.kind in MAPS else ())}
        if self.kind not in MAPS or set(self.arrays) != needs:
            raise ParameterError(f"a map must be one of {', '.join(MAPS)}, with its own arrays.")
        if not all(a.dtype == np.float64 and np.isfinite(a).all() for a in self.arrays.values()):
            raise ParameterError("the arrays of a map must be finite numbers.")
        width = self.arrays["centre"].shape
        if len(width) != 1 or self.arrays["spread"].shape != width:
            raise ParameterError("a map needs one centre and one spread per input.")
        if self.kind == "polynomial" and math.comb(width[0] + self.size, self.size) > _MOST_OUTPUTS:
            raise ParameterError("this polynomial has too many products; lower its degree.")
        try:  # one row through the map: shapes fit, or numpy says so
            outputs = self.apply(np.zeros((width[0], 1)))
        except (ValueError, IndexError):
            raise ParameterError("the arrays of a map do not fit each other.") from None
        if outputs.ndim != 2 or not np.isfinite(outputs).all():
            raise ParameterError("the arrays of a map do not fit each other.")

    @property
    def width(self) -> int:
        """The number of inputs."""
        return len(self.arrays["centre"])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return tuple(f"{self.kind}{j}" for j in range(len(self.apply(np.zeros((self.width, 1))))))

    def apply(self, columns: np.ndarray) -> np.ndarray:
        """Return the mapped columns (outputs, rows) of encoded ones (width, rows)."""
        centred = (columns - self.arrays["centre"][:, None]) / self.arrays["spread"][:, None]
        return np.ascontiguousarray(MAPS[self.kind].apply(self.arrays, centred, self.size))

    def to_json(self) -> dict[str, Any]:
        """Return kind and size as plain JSON values."""
        return {"kind": self.kind, "size": self.size}

    def named_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays, named as they travel in a release."""
        return {_PREFIX + name: array for name, array in self.arrays.items()}

    @classmethod
    def from_json(cls, data: Any, arrays: Mapping[str, np.ndarray]) -> "FeatureMap":
        """Return the map that `to_json` and `named_arrays` described."""
        if not isinstance(data, dict) or set(data) != {"kind", "size"}:
            raise CorruptFileError("a map must hold its kind and its size.")
        own = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        size = number(data["size"])
        if size != int(size) or not 1 <= size <= _MOST_OUTPUTS:
            raise CorruptFileError("the size of a map must be a positive whole number.")
        return cls(text(data["kind"]), int(size), own)


@dataclass(frozen=True)
class _Kind:
    """How one kind of map is fitted to centred public columns, and applied to others."""

    needs: tuple[str, ...]
    fit: Callable[[np.ndarray, int], dict[str, np.ndarray]]
    apply: Callable[[Mapping[str, np.ndarray], np.ndarray, int], np.ndarray]


def _median_gamma(columns: np.ndarray) -> float:
    """Return 1 / median squared distance of public rows: the usual start for a Gaussian kernel."""
    some = columns[:, :: max(1, columns.shape[1] // 500)]
    squares = _squared_distances(some, some)[np.triu_indices(some.shape[1], 1)]
    return 1.0 / (float(np.median(squares)) or 1.0) if len(squares) else 1.0


def _fit_fourier(columns: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Draw frequencies of the Gaussian kernel (Rahimi & Recht 2007), from a public seed."""
    rng = np.random.default_rng(_SEED)
    scale = math.sqrt(2 * _median_gamma(columns))
    frequencies = scale * rng.standard_normal((size, len(columns)))
    return {"frequencies": frequencies, "phases": rng.uniform(0, 2 * math.pi, size)}


def _fourier(arrays: Mapping[str, np.ndarray], columns: np.ndarray, size: int) -> np.ndarray:
    waves = arrays["frequencies"] @ columns + arrays["phases"][:, None]
    return math.sqrt(2 / size) * np.cos(waves)


def _fit_nystroem(columns: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Take evenly spaced public rows as landmarks (Williams & Seeger 2001)."""
    picks = np.unique(np.linspace(0, columns.shape[1] - 1, size).astype(int))
    landmarks = columns[:, picks]
    gamma = np.array([_median_gamma(columns)])
    values, vectors = np.linalg.eigh(_gaussian_kernel(landmarks, landmarks, gamma[0]))
    whitening = vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    return {"landmarks": landmarks, "whitening": whitening, "gamma": gamma}


def _nystroem(arrays: Mapping[str, np.ndarray], columns: np.ndarray, _: int) -> np.ndarray:
    near = _gaussian_kernel(arrays["landmarks"], columns, float(arrays["gamma"][0]))
    return np.asarray(arrays["whitening"] @ near)


def _gaussian_kernel(left: np.ndarray, right: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * _squared_distances(left, right))


def _squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    squares = (left**2).sum(axis=0)[:, None] + (right**2).sum(axis=0)[None, :]
    return np.maximum(squares - 2 * left.T @ right, 0.0)


def _fit_components(columns: np.ndarray, size: int, *, whiten: bool) -> dict[str, np.ndarray]:
    values, vectors = np.linalg.eigh(columns @ columns.T / columns.shape[1])
    order = np.argsort(values)[::-1][:size]
    kept = vectors[:, order].T
    signs = np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])
    kept = kept * signs[:, None]  # an eigenvector has no sign of its own
    lengths = np.sqrt(np.maximum(values[order], 1e-12)) if whiten else np.ones(len(order))
    return {"components": kept / lengths[:, None]}


def _components(arrays: Mapping[str, np.ndarray], columns: np.ndarray, _: int) -> np.ndarray:
    return np.asarray(arrays["components"] @ columns)


def _polynomial(_: Mapping[str, np.ndarray], columns: np.ndarray, degree: int) -> np.ndarray:
    """Return every product of at most ``degree`` columns, once each."""
    from itertools import combinations_with_replacement

    products = [columns]
    for power in range(2, degree + 1):
        chosen = combinations_with_replacement(range(len(columns)), power)
        products.append(np.array([columns[list(c)].prod(axis=0) for c in chosen]))
    return np.vstack(products)


MAPS: Mapping[str, _Kind] = {
    "polynomial": _Kind((), lambda _columns, _size: {}, _polynomial),
    "rff": _Kind(("frequencies", "phases"), _fit_fourier, _fourier),
    "nystroem": _Kind(("landmarks", "whitening", "gamma"), _fit_nystroem, _nystroem),
    "pca": _Kind(
        ("components",), lambda c, size: _fit_components(c, size, whiten=False), _components
    ),
    "whiten": _Kind(
        ("components",), lambda c, size: _fit_components(c, size, whiten=True), _components
    ),
}


def fit_map(spec: str, columns: np.ndarray) -> FeatureMap:
    """Return the map that ``spec`` names ("rff:512", "polynomial:2"), fitted to public columns."""
    kind, _, size = spec.partition(":")
    if kind not in MAPS or not size.isdecimal() or not 1 <= int(size) <= _MOST_OUTPUTS:
        raise ParameterError(f"a map is written KIND:SIZE, KIND one of {', '.join(MAPS)}.")
    centre, spread = columns.mean(axis=1), columns.std(axis=1)
    spread = np.where(spread > 1e-9 * np.abs(centre), spread, 1.0)
    centred = (columns - centre[:, None]) / spread[:, None]
    fitted = MAPS[kind].fit(centred, int(size))
    return FeatureMap(kind, int(size), {"centre": centre, "spread": spread, **fitted})
