"""The joint attack on DP-Feat: a protected column is read off beside the columns that are known.

DP-Feat (Nock, Patrini & Friedman 2015, Section 5.1) protects what one column's sums reveal *alone*.
The other coordinates of a rado sum the same examples: whoever knows them finds out which those are,
and is left with linear equations for the protected values. So its guarantee is marginal.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from suffice.audit.rado_attacks import Recovered, invert
from suffice.owner.rados.mechanism import Rados
from suffice.privacy.guarantee import Scope

__all__ = ["JointSuccess", "joint_attack", "joint_success"]

_CLOSE = 1e-12  # of two sums, relative to the largest they can be: floats lose less
_MOST_HALVED = 32  # unknown bits: two tables of 2^16 sums
_MOST_PAIRS = 100_000  # that agree in the key: more means that the equations say too little


def joint_attack(
    rados: np.ndarray,
    position: int,
    rows: np.ndarray,
    labels: np.ndarray,
    known: np.ndarray | None = None,
) -> Recovered:
    """Recover the protected values, -1 or +1, from rados and all other columns.

    The attacker knows ``labels`` (-1 or +1) and ``rows`` (m, d) in the rados' coordinates, but for
    column ``position``, which is not read; and perhaps some of its values: ``known`` holds them,
    and NaN elsewhere. First, for each rado, its members: pi_s = sum_i b_si y_i x_i in the other
    coordinates, b binary. Then the values v_i = y_i x_i: sum_i b_si v_i = pi_s in the protected
    one, over all rados whose members were found. Two records that agree in all other columns and
    in their label cannot be told apart; what all real solutions agree about is claimed even so.
    """
    count = len(labels)
    edges = np.delete(rows, position, axis=1) * labels[:, None]
    system = _Binary(edges.T)
    members = [system.solve(rado) for rado in np.delete(rados, position, axis=1)]
    found = [s for s, inside in enumerate(members) if inside is not None]
    inside = np.array([members[s] for s in found]).reshape(len(found), count)
    sums = rados[found, position]
    values = np.full(count, np.nan) if known is None else np.array(known, dtype=np.float64)
    given = ~np.isnan(values)
    sums = sums - inside[:, given] @ (labels * values)[given]
    rest = inside[:, ~given]
    half = _Binary(rest).solve((sums + rest.sum(axis=1)) / 2)  # v = 2 u - 1, u binary
    if half is not None:
        values[~given] = labels[~given] * (2 * half - 1)
    elif rest.size:
        sure = invert(sums[:, None], rest)
        values[~given] = np.where(sure.claimed, labels[~given] * sure.values[:, 0], np.nan)
    return Recovered(values, ~np.isnan(values))


class _Binary:
    """Finds the only u in {0, 1}^m with A u = target, for many targets; A is (equations, m).

    By least squares where A has rank m. Else by meeting in the middle: sums of half the columns,
    looked up among those of the other half, which also shows whether u is the only one. Where that
    is too long, by linear programming: with m/2 random equations or more a corner of the cube is
    the only point of the cube that satisfies them, as a rule (Donoho & Tanner 2010).
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self._matrix = matrix
        self._room = _CLOSE * max(1.0, float(np.abs(matrix).sum(axis=1).max(initial=0.0)))
        unknowns = matrix.shape[1]
        self._full = bool(matrix.size) and np.linalg.matrix_rank(matrix) == unknowns
        if self._full:
            self._inverse = np.linalg.pinv(matrix)
        elif unknowns <= _MOST_HALVED:
            half = unknowns // 2
            self._bits = _all_bits(half), _all_bits(unknowns - half)
            self._sums = self._bits[0] @ matrix[:, :half].T, self._bits[1] @ matrix[:, half:].T
            # One number for each sum: any weights without small integer relations will do.
            self._weights = np.cos(1.0 + np.arange(len(matrix)))
            keys = self._sums[1] @ self._weights
            self._order = np.argsort(keys)
            self._keys = keys[self._order]

    def solve(self, target: np.ndarray) -> np.ndarray | None:
        """Return u, or None where there is none, more than one is seen, or it is out of reach."""
        if not self._matrix.size:
            return None
        if self._full:
            return self._checked(self._inverse @ target, target)
        if self._matrix.shape[1] <= _MOST_HALVED:
            return self._met(target)
        found = linprog(
            np.zeros(self._matrix.shape[1]), A_eq=self._matrix, b_eq=target, bounds=(0, 1)
        )
        return None if found.x is None else self._checked(found.x, target)

    def _checked(self, near: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        u = np.clip(np.rint(near), 0, 1)
        return u if self._fits(self._matrix @ u, target) else None

    def _fits(self, sums: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(sums - target).max(axis=-1) <= self._room)

    def _met(self, target: np.ndarray) -> np.ndarray | None:
        wanted = (target - self._sums[0]) @ self._weights
        room = self._room * np.abs(self._weights).sum()
        first = np.searchsorted(self._keys, wanted - room)
        pairs = np.searchsorted(self._keys, wanted + room) - first
        if pairs.sum() > _MOST_PAIRS:
            return None
        left = np.repeat(np.arange(len(wanted)), pairs)
        within = np.arange(len(left)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        right = self._order[first[left] + within]
        fits = np.flatnonzero(self._fits(self._sums[0][left] + self._sums[1][right], target))
        if len(fits) != 1:
            return None
        return np.concatenate([self._bits[0][left[fits[0]]], self._bits[1][right[fits[0]]]])


def _all_bits(count: int) -> np.ndarray:
    """Return all 2^count vectors of zeros and ones."""
    return (np.arange(1 << count)[:, None] >> np.arange(count) & 1).astype(np.float64)


@dataclass(frozen=True)
class JointSuccess:
    """How the joint attack fares on ``count`` DP-Feat rados of ``rows`` rows.

    ``epsilon`` is what the releases state, marginally. ``tables`` is the share of the ``trials`` in
    which the whole column was recovered, ``values`` the share of its values.
    """

    rows: int
    count: int
    epsilon: float
    trials: int
    tables: float
    values: float


def joint_success(
    sizes: Iterable[int],
    counts: Iterable[int],
    people: Callable[[int], tuple[np.ndarray, np.ndarray]],
    *,
    trials: int,
    delta: float = 1e-3,
) -> Iterator[JointSuccess]:
    """Yield the success of `joint_attack` on real DP-Feat releases, for each m and n.

    ``people(m)`` draws a fresh table of m rows, whose last column, of 0 and 1, is protected, and
    labels 0 and 1. The attacker knows everything else.
    """
    counts = tuple(counts)
    for rows in sizes:
        for count in counts:
            drawn = [_trial(*people(rows), count, delta) for _ in range(trials)]
            rates = np.array([rate for rate, _ in drawn])
            tables, values = float(np.mean(rates == 1)), float(rates.mean())
            yield JointSuccess(rows, count, drawn[0][1], trials, tables, values)


def _trial(X: np.ndarray, y: np.ndarray, count: int, delta: float) -> tuple[float, float]:
    """Return the share of values recovered from one release, and the epsilon it states."""
    position = X.shape[1] - 1
    mechanism = Rados(count=count, protect=(f"x{position}",), delta=delta, standardize="none")
    release = mechanism.release(X, y, ledger=None, unprotected=True)
    (promise,) = release.guarantees
    if promise.scope is not Scope.MARGINAL or promise.epsilon is None:
        raise AssertionError("DP-Feat promises more than it keeps.")
    rows = np.column_stack([X, np.full(len(X), release.pipeline.intercept)])
    rows[:, position] = np.nan
    signs = np.where(y == 1, 1.0, -1.0)
    found = joint_attack(release.arrays["rados"], position, rows, signs)
    return found.rate(2.0 * X[:, position] - 1), promise.epsilon
