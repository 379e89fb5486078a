"""A search for the worst pairs of neighbouring data sets, and pairs at every boundary.

A data set is a tuple of units, each one of its own list of choices: all labels, the corners of a
box with some points inside, all possible votes. Neighbours differ in one unit. A unit that both
must share, such as public rows, may not change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

DataSet = tuple[Any, ...]
Distance = Callable[[DataSet, DataSet], float]
_STARTS, _SWEEPS = 16, 4
_ALL = 1000  # changes of one unit: as many are all tried


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets, and why they are tried, in words."""

    first: DataSet
    second: DataSet
    what: str = field(default="declared", compare=False)

    def __str__(self) -> str:
        changed = [(a, b) for a, b in zip(self.first, self.second, strict=False) if a != b]
        if len(changed) == 1 and all(isinstance(unit, str) for unit in changed[0]):
            return f"{self.what}: {changed[0][0]} or {changed[0][1]}"
        return self.what


@dataclass(frozen=True)
class Space:
    """The data sets that are possible, and which units may differ between neighbours.

    Units that may not differ are shared, such as public rows. Where such a unit is a text, it names
    a boundary, such as "equal rows".
    """

    choices: tuple[Sequence[Any], ...]  # for every unit, its possible values
    changing: tuple[int, ...] = ()  # positions of the units that may differ; empty for all
    unit: str = "label"  # what such a unit is called

    @property
    def positions(self) -> tuple[int, ...]:
        """The units that may differ."""
        return self.changing or tuple(range(len(self.choices)))

    @property
    def shared(self) -> tuple[int, ...]:
        """The units that may not."""
        return tuple(j for j in range(len(self.choices)) if j not in self.positions)

    def start(self, rng: np.random.Generator) -> "_State":
        """Return a random pair."""
        at = int(rng.choice(self.positions))
        units = [_pick(rng, options) for options in self.choices]
        return _State(at, tuple(units), _pick(rng, self.choices[at]))


@dataclass(frozen=True)
class _State:
    """The first data set, where the second one differs, and what stands there."""

    at: int
    units: DataSet
    other: Any

    def pair(self, what: str = "largest distance") -> Pair:
        return Pair(self.units, _with(self.units, self.at, self.other), what)


def neighbouring_pairs(
    space: Space, distance: Distance, rng: np.random.Generator, count: int = 2
) -> list[Pair]:
    """Return ``count`` pairs of largest distance, and then one for every boundary.

    A distance is negative if two data sets are not neighbours. ``rng`` decides where the search
    starts.
    """
    pairs = [*_worst_pairs(space, distance, rng)[:count], *_boundary_pairs(space, distance)]
    return list({frozenset((pair.first, pair.second)): pair for pair in reversed(pairs)}.values())[
        ::-1
    ]


def _worst_pairs(space: Space, distance: Distance, rng: np.random.Generator) -> list[Pair]:
    """Return pairs, the farthest apart first: random starts, then coordinate ascent.

    One unit at a time takes the choice that parts the two data sets most: the one that differs, in
    either data set (both together where it has few choices), which one that is, and those that both
    share.
    """
    distances: dict[Pair, float] = {}

    def value(state: _State) -> float:
        pair = state.pair()
        if pair not in distances:
            distances[pair] = distance(pair.first, pair.second)
        return distances[pair]

    for _ in range(_STARTS):
        state = space.start(rng)
        for _ in range(_SWEEPS):
            before = value(state)
            for moves in _neighbourhoods(space):
                state = max((state, *moves(state)), key=value)
            if value(state) <= before:
                break
    neighbours = (pair for pair in distances if distances[pair] >= 0)
    return sorted(neighbours, key=lambda pair: -distances[pair])


def _boundary_pairs(space: Space, distance: Distance) -> Iterator[Pair]:
    """Yield the pair of largest distance at every boundary of a space.

    The boundaries: all units alike (one class only), a choice that only the change brings in (a
    class that nobody has), and either of them with every choice of what is shared.
    """
    longest = max(len(space.choices[j]) for j in space.positions)
    patterns: dict[str, Callable[[int], int]] = {
        f"one {space.unit} only": lambda _: 0,
        f"one {space.unit} only, the last": lambda _: longest,
    }
    if longest > 2:
        patterns[f"a {space.unit} that nobody has"] = lambda j: j % (longest - 1)
    for shared in product(*(space.choices[j] for j in space.shared)):
        for what, pattern in patterns.items():
            units = [  # the last where there are too few
                options[min(pattern(j), len(options) - 1)]
                for j, options in enumerate(space.choices)
            ]
            for j, unit in zip(space.shared, shared, strict=True):
                units[j] = unit
            names = [unit for unit in shared if isinstance(unit, str)]
            pairs = [
                _State(at, tuple(units), other).pair(", ".join([*names, what]))
                for at in space.positions
                for other in space.choices[at]
                if other not in units  # it brings in what no unit is yet
            ]
            distances = [distance(pair.first, pair.second) for pair in pairs]
            if distances and max(distances) >= 0:
                yield pairs[int(np.argmax(distances))]


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
