"""What randomised cells imply: a channel, or noise over a declared range, has a least epsilon."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice.privacy import calibrate
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.release.spread import Flips, SpreadColumn

__all__ = ["Cells"]

_LOST = 1e-6  # of a scale: more than lattices and floats move it, in the claim's favour
_LOST_DELTA = 1e-12
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12  # beyond: nothing hidden, or everything


@dataclass(frozen=True)
class _Cell:
    """One randomised cell: an answer of probability ``p`` from one state, ``q`` from another.

    ``multiplier`` is that of Gaussian noise, of which no single answer says much.
    """

    p: float = 1.0
    q: float = 1.0
    multiplier: float = math.inf

    @property
    def loss(self) -> float:
        """ln(p / q)."""
        return math.log(self.p) - math.log(self.q)


def _discrete(channel: NDArray[np.float64]) -> _Cell:
    """Return the answer by which two states are told apart best."""
    highest, lowest = channel.max(axis=1), channel.min(axis=1)
    best = int(np.argmax(np.log(highest) - np.log(lowest)))
    return _Cell(float(highest[best]), float(lowest[best]))


def _cell(column: SpreadColumn) -> _Cell:
    """Return what one cell of a randomised column gives away at most by one answer."""
    noise = column.noise
    if isinstance(noise, Flips):
        if noise.keep is None:
            return _discrete(noise.matrix)
        other = (1 - noise.keep) / (noise.states - 1)
        return _Cell(max(noise.keep, other), min(noise.keep, other))
    width, deviation = noise.high - noise.low, math.sqrt(noise.variance)
    if noise.kernel == "gaussian":
        multiplier = deviation / width * (1 + _LOST)
        return _Cell(multiplier=min(max(multiplier, _LEAST_MULTIPLIER / 2), _MOST_MULTIPLIER))
    loss = min(width * math.sqrt(2) / deviation * (1 - _LOST), 700.0)  # e^700 is still a float
    return _Cell(0.5 * (1 - _LOST), 0.5 * (1 - _LOST) * math.exp(-loss))


class Cells:
    """All cells of a record: a label's channel (K, K), and columns as a file declares them."""

    def __init__(self, channel: NDArray[np.float64], columns: Sequence[Mapping[str, Any]]) -> None:
        self._label = _discrete(channel)
        self._columns = columns

    @cached_property
    def _cells(self) -> dict[str, _Cell]:
        columns = (SpreadColumn.from_json(item) for item in self._columns)
        return {column.name: _cell(column) for column in columns}

    def allow(self, claimed: Guarantee) -> bool:
        """Say whether these cells can keep what is claimed about their unit."""
        if claimed.unit is Unit.LABEL or not self._columns:
            return _one_allows(self._label, claimed)
        if claimed.unit is Unit.ATTRIBUTE:
            cells_named = [self._cells[name] for name in claimed.columns if name in self._cells]
            single_cells = cells_named or [self._label]
            cells = _worst(single_cells) if claimed.columns else self._worst_of_all
            return all(_one_allows(cell, claimed) for cell in cells)
        return self._together_allow(claimed)

    @cached_property
    def _all(self) -> list[_Cell]:
        return [self._label, *self._cells.values()]

    @cached_property
    def _worst_of_all(self) -> list[_Cell]:
        return _worst(self._all)

    @cached_property
    def _joined(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """The precision of all Gaussian noise; ln P and ln Q of the first n cells' likely answers.

        It is computed once for all the guarantees that a file may state.
        """
        precision = math.fsum(cell.multiplier**-2 for cell in self._all)
        likely = sorted(self._all, key=lambda cell: -cell.p)
        log_p = np.cumsum([math.log(cell.p) for cell in likely])
        log_q = np.cumsum([math.log(cell.q) for cell in likely])
        return precision, log_p, log_q

    def _together_allow(self, claimed: Guarantee) -> bool:
        """Say whether a record, all of whose cells change, is protected as claimed."""
        precision, log_p, log_q = self._joined
        if precision > 0 and not _one_allows(_Cell(multiplier=precision**-0.5), claimed):
            return False
        epsilon = claimed.epsilon or 0.0
        if claimed.delta == 0:
            return bool(log_p[-1] - log_q[-1] <= epsilon * (1 + _LOST))
        # All of the first n cells answer so: one event of the two products.
        excess = np.exp(log_p) - np.exp(np.minimum(epsilon * (1 + _LOST) + log_q, 700.0))
        return bool(excess.max() <= claimed.delta * (1 + _LOST) + _LOST_DELTA)


def _worst(cells: Sequence[_Cell]) -> list[_Cell]:
    """Return the cells that give away most, of either sort of noise."""
    return [max(cells, key=lambda c: c.loss), min(cells, key=lambda c: c.multiplier)]


def _one_allows(cell: _Cell, claimed: Guarantee) -> bool:
    """Say whether one cell keeps the claim: its delta at the claimed epsilon is no larger."""
    epsilon, delta = claimed.epsilon or 0.0, claimed.delta
    if math.isfinite(cell.multiplier):
        if delta == 0 or cell.multiplier < _LEAST_MULTIPLIER:
            return False
        return epsilon >= calibrate.gaussian_epsilon(delta, cell.multiplier) * (1 - _LOST)
    if delta == 0:
        return cell.loss <= epsilon * (1 + _LOST)
    excess = cell.p - math.exp(min(epsilon * (1 + _LOST) + math.log(cell.q), 700.0))
    return excess <= delta * (1 + _LOST) + _LOST_DELTA
