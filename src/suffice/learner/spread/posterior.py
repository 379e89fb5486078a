"""What corrupted records say about the clean ones, coordinate by coordinate.

A column's states are coordinates: numbers scaled to [-1, 1] by the declared domain, texts one
coordinate each (one-hot). Under a prior that treats columns as independent, a discrete cell o gives

    p(k | o) = p(k) P_ok / sum_j p(j) P_oj,

so that mean and spread of a coordinate are a table with one entry per observed state: looking it up
costs O(1) per cell. A continuous cell under a Gaussian prior N(mu, s^2) and noise of variance t has
mean (x~ s^2 + mu t) / (s^2 + t) and variance s^2 t / (s^2 + t) (Barber 2020, eq. 68-69).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.spread.frequencies import deconvolve, observed_frequencies
from suffice.learner.spread.likelihood import CleanFeatures
from suffice.release.spread import Added, Flips, SpreadColumn

__all__ = [
    "Corrupted",
    "Prior",
    "check_prior",
    "clean_features",
    "coordinates",
    "gaussian_posterior",
    "marginals_of",
]

Prior = str | Sequence[np.ndarray]

_WIDE = 10.0  # prior variance of a continuous coordinate that nothing is known about (Section 6.1)


@dataclass(frozen=True, eq=False)
class Corrupted:
    """Holds corrupted records: a column of codes or of values for each of ``columns``, in order."""

    columns: tuple[SpreadColumn, ...]
    cells: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.cells[0]) if self.cells else 0

    def groups(self) -> Mapping[tuple[Any, ...], list[int]]:
        """Return the positions of columns that share states (or range) and noise."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for position, column in enumerate(self.columns):
            groups.setdefault((column.states, column.noise), []).append(position)
        return groups


def check_prior(records: Corrupted, prior: Prior) -> None:
    """Raise unless there are columns to learn from, and a given prior is about them."""
    if not records.columns:
        raise ParameterError(
            "This release has answers to one question and no columns to learn from. Use `suffice"
            " frequencies` (Python: estimate_frequencies)."
        )
    if isinstance(prior, str):
        return
    if len(prior) != len(records.columns):
        raise ParameterError(
            f"prior must hold one array for each of the {len(records.columns)} columns."
        )
    for column, own_prior in zip(records.columns, prior, strict=True):
        values = np.asarray(own_prior, dtype=np.float64)
        if column.states is None:
            if values.shape != (2,) or not np.isfinite(values).all() or values[1] <= 0:
                raise ParameterError(
                    "prior must hold the mean and the variance of each continuous column."
                )
        elif values.shape != (len(column.states),) or not (values >= 0).all() or not values.any():
            raise ParameterError(
                "prior must hold one probability for each possible value of a discrete column."
            )


def coordinates(column: SpreadColumn) -> np.ndarray:
    """Return what each state of a discrete column becomes, (states, width)."""
    states = column.states or ()
    if not column.numeric:
        return np.eye(len(states))
    middle, half = column.scale
    return ((np.array(states, dtype=np.float64) - middle) / half)[:, None]


def clean_features(records: Corrupted, prior: Prior) -> CleanFeatures:
    """Return mean and spread of the clean coordinates under independent columns; constant last.

    ``prior``: "flat" (all states alike; a wide Gaussian), "marginals" learnt from the corrupted
    records themselves, or one array per column: probabilities of its states, or (mean, variance).
    """
    means: list[np.ndarray | None] = [None] * len(records.columns)
    spreads: list[np.ndarray | None] = [None] * len(records.columns)
    for (_, noise), positions in records.groups().items():
        own_priors = None if isinstance(prior, str) else [np.asarray(prior[j]) for j in positions]
        cells = np.stack([records.cells[j] for j in positions], axis=1)
        column = records.columns[positions[0]]
        if isinstance(noise, Flips):
            marginals = marginals_of(cells, noise, prior, own_priors)
            moments = _table_posterior(cells, noise, marginals, coordinates(column))
        else:
            moments = gaussian_posterior(cells, noise, prior, own_priors)
        for index, j in enumerate(positions):
            means[j], spreads[j] = moments[0][:, index], moments[1][:, index]
    return _side_by_side(records, means, spreads)


def marginals_of(
    cells: np.ndarray, noise: Flips, prior: object, own_priors: list[np.ndarray] | None
) -> np.ndarray:
    """Return p(k) of every column, (columns, states)."""
    if own_priors is not None:
        marginals = np.stack(own_priors).astype(np.float64)
        return marginals / marginals.sum(axis=1, keepdims=True)
    if prior == "flat":
        return np.full((cells.shape[1], noise.states), 1 / noise.states)
    return deconvolve(observed_frequencies(cells, noise.states), noise)


def _table_posterior(
    cells: np.ndarray, noise: Flips, marginals: np.ndarray, states: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and spread (n, columns, width) of discrete cells from tables per state."""
    evidence = marginals @ noise.matrix.T  # P[o], of each column
    picked = np.arange(cells.shape[1])
    first = np.einsum("ck,kw,ok->cow", marginals, states, noise.matrix, optimize=True)
    second = np.einsum("ck,kw,ok->cow", marginals, states**2, noise.matrix, optimize=True)
    first, second = first / evidence[:, :, None], second / evidence[:, :, None]
    if states.shape[1] == 1:  # a number's variance; one-hot coordinates keep E[x^2] = E[x]
        second = np.maximum(second - first**2, 0.0)
    return first[picked, cells], second[picked, cells]


def gaussian_posterior(
    cells: np.ndarray, noise: Added, prior: object, own_priors: list[np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n, columns, 1) of continuous cells under Gaussian priors."""
    observed, added = noise.scaled(cells), noise.scaled_variance
    if own_priors is not None:
        pairs = np.stack(own_priors).astype(np.float64)
        centre, own = noise.scaled(pairs[:, 0]), pairs[:, 1] / noise.half**2
    elif prior == "flat":
        centre, own = np.zeros(cells.shape[1]), np.full(cells.shape[1], _WIDE)
    else:
        centre = np.clip(observed.mean(axis=0), -1, 1)
        own = np.clip(observed.var(axis=0) - added, 1e-6, 1.0)
    mean = (observed * own + centre * added) / (own + added)
    spread = np.broadcast_to(own * added / (own + added), mean.shape)
    return mean[:, :, None], spread[:, :, None]


def _side_by_side(
    records: Corrupted, means: list[np.ndarray | None], spreads: list[np.ndarray | None]
) -> CleanFeatures:
    """Return all coordinates side by side, the constant one last."""
    mean = np.hstack([*(m for m in means if m is not None), np.ones((records.count, 1))])
    spread = np.hstack([*(s for s in spreads if s is not None), np.zeros((records.count, 1))])
    starts = np.concatenate([[0], np.cumsum([c.width for c in records.columns])])
    hot = [j for j, c in enumerate(records.columns) if not c.numeric]
    blocks = np.zeros((mean.shape[1], len(hot)))
    for b, j in enumerate(hot):
        blocks[starts[j] : starts[j + 1], b] = 1.0
    return CleanFeatures(mean, spread, blocks if hot else None)
