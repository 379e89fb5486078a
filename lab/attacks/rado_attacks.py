"""What rados reveal: records, labels and members, and two data sets that nobody can tell apart.

An attack gets what its attacker knows and returns a `Recovered`. Its success is measured afterwards
against the truth, which no attack gets. Notation of Nock, Patrini & Friedman 2015: a rado
is pi_s = (1/2) sum_i (sigma_si + y_i) x_i = sum_i b_si e_i, with edges e_i = y_i x_i and b_si =
[sigma_si = y_i] saying who is in. A release never holds b; attacks that start from it say so.

`joint_attack` is on DP-Feat (their Section 5.1), which protects what one column's sums reveal
*alone*. The other coordinates of a rado sum the same examples: whoever knows them finds out which
those are, and is left with linear equations for the protected values. So its guarantee is marginal.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import directed_hausdorff

from suffice.errors import ParameterError
from suffice.owner.rados import Rados
from suffice.privacy.guarantee import Scope
from suffice.releases.release import Release

__all__ = [
    "JointSuccess",
    "LoneMembers",
    "Recovered",
    "another_data_set",
    "block_rows",
    "examples_of",
    "hausdorff",
    "invert",
    "invert_signatures",
    "joint_attack",
    "joint_success",
    "labels_from_differences",
    "lone_members",
]

_CLOSE = 1e-6  # to a whole number, after sums of floats
_CLOSE_SUMS = 1e-12  # of two sums, relative to the largest they can be: floats lose less
_MOST_HALVED = 32  # unknown bits: two tables of 2^16 sums
_MOST_PAIRS = 100_000  # that agree in the key: more means that the equations say too little


@dataclass(frozen=True)
class Recovered:
    """What an attack recovers.

    Parameters
    ----------
    values
        The recovered values, one row per target.
    claimed
        For which rows the attack is sure.
    """

    values: np.ndarray
    claimed: np.ndarray

    def rate(self, truth: np.ndarray, tolerance: float = _CLOSE) -> float:
        """Return the fraction of the rows of ``truth`` that were claimed and are right."""
        near = np.abs(self.values - truth) <= tolerance * max(1.0, float(np.abs(truth).max()))
        right = near.reshape(len(truth), -1).all(axis=1)
        return float(np.mean(right & self.claimed))


def invert(rados: np.ndarray, inside: np.ndarray) -> Recovered:
    """Recover the edges y_i x_i from rados (n, d) and who is ``inside`` (n, m): Lemma 9(a).

    E = (b^T b)^-1 b^T Pi, by a singular value decomposition. Where n < m there is no single
    solution (Lemma 9b); an edge is claimed only if all solutions agree about it.
    """
    left_vectors, sizes, right_vectors = np.linalg.svd(
        np.asarray(inside, dtype=np.float64), full_matrices=False
    )
    nonzero = sizes > sizes[0] * max(inside.shape) * np.finfo(float).eps
    left_vectors, sizes, right_vectors = (
        left_vectors[:, nonzero],
        sizes[nonzero],
        right_vectors[nonzero],
    )
    edges = right_vectors.T @ ((left_vectors.T @ rados) / sizes[:, None])
    return Recovered(edges, (right_vectors**2).sum(axis=0) > 1 - _CLOSE)


def invert_signatures(rados: np.ndarray, signatures: np.ndarray) -> Recovered:
    """Recover the rows x_i from rados and signatures sigma (n, m), labels unknown.

    pi_s = sum_i (sigma_si / 2) x_i + (1/2) sum_i y_i x_i: the last sum is one more unknown vector,
    the same for all rados, so m + 1 rados are enough.
    """
    coefficients = np.column_stack([signatures / 2, np.ones(len(signatures))])
    solution = invert(rados, coefficients)
    return Recovered(solution.values[:-1], solution.claimed[:-1])


def examples_of(edges: Recovered) -> tuple[Recovered, Recovered]:
    """Return the rows and the labels of edges whose last coordinate is an intercept.

    That coordinate of an edge is y_i times a positive weight: its sign is the label.
    """
    labels = np.where(edges.values[:, -1] > 0, 1.0, -1.0)
    rows = Recovered(edges.values * labels[:, None], edges.claimed)
    return rows, Recovered(labels, edges.claimed)


@dataclass(frozen=True)
class LoneMembers:
    """What rados show about categories with one member.

    Parameters
    ----------
    names
        The categories.
    labels
        For each category the label -1 or +1 of its only member, or 0 where it has none or several.
    inside
        Which rados hold that member (n, categories); meaningless where the label is 0.
    edges
        Estimates of that member's edge; meaningless where the label is 0.
    """

    names: tuple[str, ...]
    labels: Recovered
    inside: np.ndarray
    edges: np.ndarray


def lone_members(release: Release) -> LoneMembers:
    """Recover who is alone in a category, with label and memberships, from plain rados only.

    The release's pipeline undoes the scaling: scale_j pi_sj + mean_j sum_i b_si y_i is the sum of
    b_si y_i over the members of category j, and the middle sum is the intercept's coordinate. One
    member shows as 0 and its label, each in about half of the rados; k of one label, taken for
    one, would need n rados that never hold two of them. The member's edge is estimated by the mean
    of the rados with it less that of those without. With structured signs, n a power of two and
    m < n, all other examples cancel and the estimate is exact.
    """
    rados, pipeline = release.arrays["rados"], release.pipeline
    if pipeline is None or pipeline.map is not None:
        raise ParameterError(
            "This attack needs rados of unmapped columns. Release them without a map."
        )
    outputs = [(c.categories is not None, name) for c in pipeline.columns for name in c.outputs]
    where = [j for j, (categorical, _) in enumerate(outputs) if categorical]
    mean, scale = pipeline.mean[where], pipeline.scale[where]
    if not pipeline.intercept and mean.any():
        raise ParameterError("This attack needs an intercept to undo the centring.")
    signed = rados[:, -1] / pipeline.intercept if pipeline.intercept else np.zeros(len(rados))
    sums = rados[:, where] * scale + np.outer(signed, mean)
    integers = np.rint(sums)
    exact = (
        np.abs(sums - integers).max(axis=0) < _CLOSE
    )  # else rows were clipped, or there is noise
    low, high = integers.min(axis=0), integers.max(axis=0)
    labels = np.where((low == 0) & (high == 1), 1.0, 0.0) - ((low == -1) & (high == 0))
    inside = integers != 0
    weights = inside / np.maximum(inside.sum(axis=0), 1)
    weights -= ~inside / np.maximum((~inside).sum(axis=0), 1)
    return LoneMembers(
        names=tuple(outputs[j][1] for j in where),
        labels=Recovered(labels, exact),
        inside=inside,
        edges=weights.T @ rados,
    )


def block_rows(rados: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Recover all rows of a block of structured signs from log2 n of its members' memberships.

    Signs +-b are columns of a Hadamard matrix, whose products are its other columns, up to the
    sign D_i of each. n = 2^k rados and k independent members (n, k) give all n - 1 columns t, and
    (2/n) sum_s t_s pi_s = +-e_i, since different columns are orthogonal. The sign goes with the
    intercept, which is positive in a row: what is returned are rows x_i, in no known order, and
    their labels stay open. Other blocks (m >= n) would add to it.
    """
    count, members = inside.shape
    if count != 1 << members:
        raise ParameterError("This attack needs n = 2^k rados and k members of one block.")
    columns = np.ones((count, 1))
    for member in np.where(inside, 1.0, -1.0).T:
        columns = np.hstack([columns, columns * member[:, None]])
    if np.abs(columns.T @ columns - count * np.eye(count)).max() > 0:
        raise ParameterError(
            "The signs of these members are products of each other. Use other members."
        )
    edges = 2 / count * columns[:, 1:].T @ rados
    occupied = np.abs(edges[:, -1]) > _CLOSE  # the others are places that no example has
    rows: np.ndarray = edges[occupied] * np.sign(edges[occupied, -1:])
    return rows


def labels_from_differences(rados: np.ndarray, rows: np.ndarray) -> Recovered:
    """Recover which labels are equal from rados of a fixed support with shared label noise.

    Why `Rados` refuses the two together: pi_s - pi_1 carries no shared noise. Linearly independent
    ``rows`` (m, d), if known, give its coefficients c_i = (b_si - b_1i) y_i, and equal supports say
    sum_i y_i c_i = 0: labels span the null space of those coefficients, however large the noise.
    Values are y_i y_1. Nothing is claimed where that space is not one line, as with uniform signs,
    whose differences do not depend on labels at all.
    """
    if np.linalg.matrix_rank(rows) < len(rows):
        raise ParameterError("This attack needs at least as many coordinates as rows.")
    differences = rados[1:] - rados[0]
    coefficients = np.rint(np.linalg.lstsq(rows.T, differences.T, rcond=None)[0]).T
    _, sizes, right_vectors = np.linalg.svd(coefficients)
    line = np.count_nonzero(sizes > _CLOSE) == len(rows) - 1
    labels = np.where(right_vectors[-1] * right_vectors[-1, 0] > 0, 1.0, -1.0)
    return Recovered(labels, np.full(len(rows), line))


def another_data_set(edges: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return other edges, one more, and who is in, that make the same rados: Lemma 10, m < 2^d.

    All lie in the ball of radius R = max ||e_i||. The new one is a corner (R / sqrt(d)) (+-1, ...)
    of an orthant that no edge lies in, so that it is R / sqrt(d) or more from each of them in some
    coordinate; it is in no rado. The paper omits its construction; this one gives its constant.

    It shows that rados alone do not *determine* the records, not that they hide them: under uniform
    signs an example is in none of n rados with probability 2^-n, under structured ones never, and a
    release states m.
    """
    count, width = edges.shape
    if count >= 2**width:
        raise ParameterError("This construction needs fewer than 2^d examples.")
    digits = min(width, 63)
    places = np.arange(digits)
    used_orthants = (edges[:, :digits] > 0) @ (1 << places)
    free_orthant = np.setdiff1d(np.arange(count + 1), used_orthants)[0]
    corner = np.full(width, -1.0)
    corner[:digits] = np.where(free_orthant >> places & 1, 1.0, -1.0)
    radius = np.linalg.norm(edges, axis=1).max()
    return (
        np.vstack([edges, corner * radius / np.sqrt(width)]),
        np.column_stack([inside, np.zeros(len(inside), dtype=inside.dtype)]),
    )


def hausdorff(edges: np.ndarray, other_edges: np.ndarray) -> float:
    """Return the Hausdorff distance of two sets of edges (Section 7.1)."""
    return float(
        max(directed_hausdorff(edges, other_edges)[0], directed_hausdorff(other_edges, edges)[0])
    )


def joint_attack(
    rados: np.ndarray,
    position: int,
    rows: np.ndarray,
    labels: np.ndarray,
    known_values: np.ndarray | None = None,
) -> Recovered:
    """Recover the protected values, -1 or +1, from rados and all other columns.

    The attacker knows ``labels`` (-1 or +1) and ``rows`` (m, d) in the rados' coordinates, but for
    column ``position``, which is not read. Some of its values may be known: ``known_values`` holds
    them, and NaN elsewhere. First, for each rado, its members: pi_s = sum_i b_si y_i x_i in the
    other coordinates, b binary. Then the values v_i = y_i x_i: sum_i b_si v_i = pi_s in the
    protected one, over all rados whose members were found. Two records that agree in all other
    columns and in their label cannot be told apart; what all real solutions agree about is claimed
    even so.
    """
    count = len(labels)
    edges = np.delete(rows, position, axis=1) * labels[:, None]
    system = _Binary(edges.T)
    members = [system.solve(rado) for rado in np.delete(rados, position, axis=1)]
    solved = [s for s, inside in enumerate(members) if inside is not None]
    inside = np.array([members[s] for s in solved]).reshape(len(solved), count)
    sums = rados[solved, position]
    values = (
        np.full(count, np.nan) if known_values is None else np.array(known_values, dtype=np.float64)
    )
    is_known = ~np.isnan(values)
    sums = sums - inside[:, is_known] @ (labels * values)[is_known]
    rest = inside[:, ~is_known]
    half = _Binary(rest).solve((sums + rest.sum(axis=1)) / 2)  # v = 2 u - 1, u binary
    if half is not None:
        values[~is_known] = labels[~is_known] * (2 * half - 1)
    elif rest.size:
        sure = invert(sums[:, None], rest)
        values[~is_known] = np.where(sure.claimed, labels[~is_known] * sure.values[:, 0], np.nan)
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
        self._room = _CLOSE_SUMS * max(1.0, float(np.abs(matrix).sum(axis=1).max(initial=0.0)))
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
        corner = linprog(
            np.zeros(self._matrix.shape[1]), A_eq=self._matrix, b_eq=target, bounds=(0, 1)
        )
        return None if corner.x is None else self._checked(corner.x, target)

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
        first_half = np.repeat(np.arange(len(wanted)), pairs)
        within = np.arange(len(first_half)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        second_half = self._order[first[first_half] + within]
        fits = np.flatnonzero(
            self._fits(self._sums[0][first_half] + self._sums[1][second_half], target)
        )
        if len(fits) != 1:
            return None
        return np.concatenate(
            [self._bits[0][first_half[fits[0]]], self._bits[1][second_half[fits[0]]]]
        )


def _all_bits(count: int) -> np.ndarray:
    """Return all 2^count vectors of zeros and ones."""
    return (np.arange(1 << count)[:, None] >> np.arange(count) & 1).astype(np.float64)


@dataclass(frozen=True)
class JointSuccess:
    """The success of the joint attack on DP-Feat rados.

    Parameters
    ----------
    rows
        The number of rows.
    count
        The number of rados.
    epsilon
        The marginal epsilon that the releases state.
    trials
        The number of releases.
    tables
        The fraction of them in which the complete column was recovered.
    values
        The fraction of values that were recovered.
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
            results = [_trial(*people(rows), count, delta) for _ in range(trials)]
            rates = np.array([rate for rate, _ in results])
            tables, values = float(np.mean(rates == 1)), float(rates.mean())
            yield JointSuccess(rows, count, results[0][1], trials, tables, values)


def _trial(X: np.ndarray, y: np.ndarray, count: int, delta: float) -> tuple[float, float]:
    """Return the fraction of values recovered from one release, and the epsilon it states."""
    position = X.shape[1] - 1
    mechanism = Rados(count=count, protect=(f"x{position}",), delta=delta, standardize="none")
    release = mechanism.release(X, y, ledger=None, unprotected=True)
    (guarantee,) = release.guarantees
    if guarantee.scope is not Scope.MARGINAL or guarantee.epsilon is None:
        raise AssertionError("DP-Feat states more than it keeps.")
    rows = np.column_stack([X, np.full(len(X), release.pipeline.intercept)])
    rows[:, position] = np.nan
    signs = np.where(y == 1, 1.0, -1.0)
    recovered = joint_attack(release.arrays["rados"], position, rows, signs)
    return recovered.rate(2.0 * X[:, position] - 1), guarantee.epsilon
