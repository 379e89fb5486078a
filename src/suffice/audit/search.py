"""Worst pairs of neighbouring data sets, looked for and not guessed.

A data set is a tuple of units, each one of its own list of choices: all labels, the corners of a
box with some points inside, all ways to vote. Neighbours differ in one unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Pair", "Space", "worst_pairs"]

DataSet = tuple[Any, ...]
_STARTS, _SWEEPS = 16, 4
_ALL = 1000  # changes of one unit: as many are all tried


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets."""

    one: DataSet
    two: DataSet


@dataclass(frozen=True)
class Space:
    """The data sets that are declared possible, and which units a neighbour may change.

    ``choices`` lists what each unit can be; ``changing`` the positions that may differ, all unless
    given.
    """

    choices: tuple[Sequence[Any], ...]
    changing: tuple[int, ...] = ()

    @property
    def positions(self) -> tuple[int, ...]:
        """The units that may differ."""
        return self.changing or tuple(range(len(self.choices)))

    def start(self, rng: np.random.Generator) -> "_State":
        """Return a random pair."""
        at = int(rng.choice(self.positions))
        drawn = [_pick(rng, options) for options in self.choices]
        return _State(at, tuple(drawn), _pick(rng, self.choices[at]))


@dataclass(frozen=True)
class _State:
    """The first data set, where the second one differs, and what stands there."""

    at: int
    units: DataSet
    other: Any

    @property
    def pair(self) -> Pair:
        return Pair(self.units, _with(self.units, self.at, self.other))


def worst_pairs(
    space: Space,
    distance: Callable[[DataSet, DataSet], float],
    rng: np.random.Generator,
    count: int = 2,
) -> list[Pair]:
    """Return the ``count`` pairs of largest ``distance``: random starts, then coordinate ascent.

    One unit at a time takes the choice that parts the two data sets most: the one that differs, in
    either data set (both together where it has few choices), which one that is, and those that both
    share.
    """
    seen: dict[Pair, float] = {}

    def value(state: _State) -> float:
        if state.pair not in seen:
            seen[state.pair] = distance(state.pair.one, state.pair.two)
        return seen[state.pair]

    for _ in range(_STARTS):
        state = space.start(rng)
        for _ in range(_SWEEPS):
            before = value(state)
            for moves in _neighbourhoods(space):
                state = max((state, *moves(state)), key=value)
            if value(state) <= before:
                break
    return sorted(seen, key=lambda pair: -seen[pair])[:count]


def _neighbourhoods(space: Space) -> list[Callable[[_State], list[_State]]]:
    """Return the coordinates of the ascent, each as a function from a state to its variants."""

    def elsewhere(s: _State) -> list[_State]:
        states: list[_State] = []
        for at in space.positions:
            others = space.choices[at]
            small = len(others) ** 2 <= _ALL  # then both ends of the change are tried together
            states += [
                _State(at, _with(s.units, at, own), other)
                for own in (others if small else (s.units[at],))
                for other in others
            ]
        return states

    def unit(j: int) -> Callable[[_State], list[_State]]:
        return lambda s: [_State(s.at, _with(s.units, j, c), s.other) for c in space.choices[j]]

    return [elsewhere, *(unit(j) for j in range(len(space.choices)))]


def _with(units: DataSet, at: int, value: Any) -> DataSet:
    return (*units[:at], value, *units[at + 1 :])


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]
