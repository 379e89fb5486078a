"""Randomised columns as data: what a column can hold, and the noise that its cells went through.

Valid spread noise (Barber 2020, Section 2) loses nothing in distribution: a discrete channel P must
be positive and invertible, a continuous kernel must have a positive Fourier transform (Gaussian and
Laplace have). What is not valid is refused here, with the reason, on both sides of the wall.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice.errors import CorruptFileError, ParameterError
from suffice.strict_json import number, text
from suffice.tables.pipeline import DECLARED, Column, Pipeline

_MOST_STATES = 256  # a cell is one byte
_WORST_CONDITION = 1e6
_KERNELS = ("gaussian", "laplace")
_TAILS = {"laplace": 46, "gaussian": 10}  # of so many scales: beyond with probability < 2^-64


@dataclass(frozen=True)
class Flips:
    """Discrete noise: P_ij = P[answer i | state j], as a table or as one number.

    ``keep`` is the chance that a state stays itself, all others being equally likely; ``table``
    holds the rows of P where it is of no such form.
    """

    states: int
    keep: float | None = None
    table: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.states <= _MOST_STATES:
            raise ParameterError(f"A randomised column has 2 to {_MOST_STATES} possible values.")
        if (self.keep is None) == (self.table is None):
            raise ParameterError("Give the noise of a column once: as keep, or as a table.")
        if self.keep is not None:
            other = (1 - self.keep) / (self.states - 1)
            # The eigenvalues of P are 1 and keep - other.
            if not 0 < self.keep < 1 or abs(self.keep - other) * _WORST_CONDITION <= 1:
                raise ParameterError(
                    "keep must lie strictly between 0 and 1, and not near 1 / (number of possible"
                    " values), where nothing could be learnt. Choose another flip."
                )
            return
        p = np.array(self.table, dtype=np.float64)
        if p.shape != (self.states, self.states) or not np.isfinite(p).all():
            raise ParameterError(f"P must have {self.states} rows and as many columns.")
        if (p <= 0).any():
            raise ParameterError(
                "P must be positive: an answer that some state never gives makes epsilon infinite."
            )
        if np.abs(p.sum(axis=0) - 1).max() > 1e-9:
            raise ParameterError("the columns of P must sum to one: P_ij is P[answer i | state j].")
        condition = float(np.linalg.cond(p))
        if not condition < _WORST_CONDITION:
            raise ParameterError(
                f"P is singular, or nearly so (condition number {condition:.2g}): some values"
                " cannot be told apart by their answers."
            )

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """P, with P_ij = P[answer i | state j]."""
        if self.table is not None:
            return np.array(self.table)
        keep = float(self.keep or 0.0)
        other = (1 - keep) / (self.states - 1)
        return np.full((self.states, self.states), other) + np.eye(self.states) * (keep - other)

    def __str__(self) -> str:
        how = f"by a {self.states} x {self.states} table of probabilities"
        if self.keep is not None:
            how = f"with probability {1 - self.keep:.4g}"
        return f"{self.states} possible values, changed {how}"

    def to_json(self) -> dict[str, Any]:
        """Return the noise as plain JSON values; the states are the column's."""
        if self.table is None:
            return {"keep": self.keep}
        return {"table": [list(row) for row in self.table]}


@dataclass(frozen=True)
class Added:
    """Continuous noise: the value, held to ``low``..``high``, plus a draw of ``kernel``."""

    low: float
    high: float
    kernel: str
    variance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError("A continuous column needs a declared range low < high.")
        if self.kernel not in _KERNELS:
            raise ParameterError(
                f"The noise type must be {' or '.join(_KERNELS)}: only for these can a learner"
                " correct the noise."
            )
        if not (math.isfinite(self.variance) and self.variance > 0):
            raise ParameterError("The variance of the noise must be a positive number.")
        ratio = math.sqrt(self.variance) / (self.high - self.low)
        if not (max(abs(self.low), abs(self.high)) < 1e100 and 1e-9 <= ratio <= 1e9):
            raise ParameterError("The range or its noise is too large or too small for arithmetic.")

    @property
    def limits(self) -> tuple[float, float]:
        """What an answer lies between: the range, and as far beyond as noise goes in practice.

        Answers are held to it after their noise, which costs no privacy, and what a file holds
        outside was written by hand.
        """
        scale = math.sqrt(self.variance) / (math.sqrt(2) if self.kernel == "laplace" else 1)
        far = _TAILS[self.kernel] * scale
        return self.low - far, self.high + far

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.high - self.low) / 2

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values as a model sees them: -1 to 1 for the range."""
        return np.asarray((values - self.middle) / self.half)

    @property
    def scaled_variance(self) -> float:
        """The variance of the noise on that scale."""
        return self.variance / self.half**2

    def __str__(self) -> str:
        return (
            f"{self.low:.6g} to {self.high:.6g}, {self.kernel} noise, standard"
            f" deviation {math.sqrt(self.variance):.4g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the noise as plain JSON values."""
        return {"kernel": self.kernel, "variance": self.variance}


@dataclass(frozen=True)
class DeclaredColumn:
    """One private column: its name and its declared states (None: a range)."""

    name: str
    states: tuple[Any, ...] | None

    def __post_init__(self) -> None:
        if self.states is None:
            return
        allowed_types = set(map(type, self.states)) in ({str}, {int})  # a bool is neither
        if not allowed_types or len(set(self.states)) < len(self.states):
            raise ParameterError(
                f"Column {self.name!r}: its possible values must be different texts, or integers."
            )

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers, which a model can multiply."""
        return self.states is None or not isinstance(self.states[0], str)

    @property
    def width(self) -> int:
        """How many coordinates it has in a model: one for numbers, one per state for texts."""
        return 1 if self.numeric else len(self.states or ())

    @property
    def scale(self) -> tuple[float, float]:
        """Middle and half width of what it can hold, by which a model scales it to -1..1."""
        if not self.numeric:
            return 0.0, 1.0
        low, high = min(self.states or ()), max(self.states or ())
        return (low + high) / 2, (high - low) / 2


@dataclass(frozen=True)
class SpreadColumn(DeclaredColumn):
    """One randomised column: its name, its declared states (None: a range), and its noise."""

    noise: Flips | Added

    def __post_init__(self) -> None:
        discrete = isinstance(self.noise, Flips)
        if discrete != (self.states is not None):
            raise ParameterError(
                f"Column {self.name!r}: the noise does not fit its possible values."
            )
        super().__post_init__()
        if isinstance(self.noise, Flips) and self.noise.states != len(self.states or ()):
            raise ParameterError(
                f"Column {self.name!r}: the noise is for another number of possible values."
            )

    def __str__(self) -> str:
        return f"{self.name}: {self.noise}"

    @property
    def scale(self) -> tuple[float, float]:
        """Middle and half width of what it can hold, by which a model scales it to -1..1."""
        if isinstance(self.noise, Added):
            return self.noise.middle, self.noise.half
        return super().scale

    @cached_property
    def run(self) -> range | None:
        """The states as consecutive rising integers, if they are that."""
        if self.states is None or isinstance(self.states[0], str):
            return None
        run = range(self.states[0], self.states[-1] + 1)
        if len(run) != len(self.states):  # it may be too long for a tuple
            return None
        return run if tuple(run) == self.states else None

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values; consecutive integers as their two ends."""
        noise = self.noise
        if self.states is None:
            assert isinstance(noise, Added)  # noqa: S101  # for the type checker
            holds: dict[str, Any] = {"range": [noise.low, noise.high]}
        elif self.run is not None:
            holds = {"integers": [self.states[0], self.states[-1]]}
        else:
            holds = {"states": list(self.states)}
        return {"name": self.name, **holds, "noise": noise.to_json()}

    @classmethod
    def from_json(cls, data: object) -> "SpreadColumn":
        """Return the column that `to_json` wrote."""
        try:
            return cls._read(data)
        except (ParameterError, KeyError, TypeError, ValueError) as error:
            raise CorruptFileError("A randomised column in the file is not valid.") from error

    @classmethod
    def _read(cls, data: Any) -> "SpreadColumn":
        (holds,) = set(data) - {"name", "noise"}
        name, noise = text(data["name"]), data["noise"]
        if holds == "range":
            low, high = (number(end) for end in data["range"])
            if set(noise) != {"kernel", "variance"}:
                raise ValueError("noise")
            return cls(
                name, None, Added(low, high, text(noise["kernel"]), number(noise["variance"]))
            )
        if holds == "integers":
            first, last = data["integers"]
            if {type(first), type(last)} != {int} or not 0 < last - first < _MOST_STATES:
                raise ValueError("integers")
            states = tuple(range(first, last + 1))
        elif holds == "states" and isinstance(data["states"], list):
            states = tuple(data["states"])
        else:
            raise ValueError("holds")
        if set(noise) == {"keep"}:
            return cls(name, states, Flips(len(states), keep=number(noise["keep"])))
        if set(noise) != {"table"}:
            raise ValueError("noise")
        table = tuple(tuple(number(p) for p in row) for row in noise["table"])
        return cls(name, states, Flips(len(states), table=table))


def discrete_sizes(columns: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the number of states of every discrete column that `SpreadColumn.to_json` wrote."""
    discrete = [c for c in columns if "range" not in c]
    return [
        len(c["states"]) if "states" in c else c["integers"][1] - c["integers"][0] + 1
        for c in discrete
    ]


def number_limits(columns: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Return the limits of every continuous column that `SpreadColumn.to_json` wrote, (n, 2)."""
    noises = (SpreadColumn.from_json(column).noise for column in columns if "range" in column)
    limits = [noise.limits for noise in noises if isinstance(noise, Added)]
    return np.array(limits, dtype=np.float64).reshape(-1, 2)


@dataclass(frozen=True)
class ReportNoise:
    """The noise of reports: ``size`` of all combinations of answers, with the true one or not.

    The true combination is in a report with the probability ``keep``. See `suffice.participant`.
    """

    combinations: int
    size: int
    keep: float

    @property
    def inclusion(self) -> float:
        """The probability that a report holds one combination that is not the true one."""
        k, w = self.combinations, self.size
        return (w - self.keep) / (k - 1)

    @property
    def loss(self) -> float:
        """The epsilon of a report, up to rounding."""
        return math.log(self.keep / (1 - self.keep) * (self.combinations - self.size) / self.size)

    def moments(self, count: int, *, inside: bool) -> tuple[float, float]:
        """Return E n and E n^2, n = how many of ``count`` combinations a report holds.

        ``inside``: whether the true combination is one of them. The others of a report are drawn
        without replacement, so n less the true one is hypergeometric.
        """
        others, marked = self.combinations - 1, count - inside
        first = second = 0.0
        for chance, kept in ((self.keep, 1), (1 - self.keep, 0)):
            drawn, own = self.size - kept, int(inside and kept)
            mean = drawn * marked / others
            rest = (others - marked) / others * (others - drawn) / max(1, others - 1)
            first += chance * (mean + own)
            second += chance * (mean * rest + (mean + own) ** 2)
        return first, second


def declared_pipeline(columns: Iterable[DeclaredColumn]) -> Pipeline:
    """Return the encoding of clean records that the declared columns alone decide.

    Numbers are scaled to [-1, 1] by what was declared, texts become one coordinate per state, and
    the last coordinate is one. Nothing within the declared domain is clipped.
    """
    scales: list[tuple[float, float]] = []
    raw: list[Column] = []
    for column in columns:  # one by one: lists of states are much larger than what declares them
        raw.append(Column(column.name, None if column.numeric else column.states))
        scales += [column.scale] * column.width
    return Pipeline(
        columns=tuple(raw),
        missing="error",
        mean=np.array([middle for middle, _ in scales]),
        scale=np.array([half for _, half in scales]),
        bound=math.sqrt(max(1, len(raw))) * (1 + 1e-9),  # each column has norm one at most
        intercept=1.0,
        origin=DECLARED,
    )
