"""Intervals of class ratios from class means of a score: the proportions that are not rejected.

Under label shift the mean of scores over U is g_U = rho psi (`moment_inversion`), and psi is
sum_i l_i g_i, l_i (K,) the leverage of bag i and g_i its mean score. With C the covariance of g_U
and C_i that of g_i,

    t(rho) = (g_U - rho psi)^T S^-1 (g_U - rho psi),   S = C + sum_i (rho l_i)^2 C_i

is chi-square where rho is true, however near to singular psi is. For two classes this is Fieller's
interval (1954): c is in it if t(c) is below the quantile of one degree of freedom. For more, the
interval of rho_k holds the c for which some rho with rho_k = c is not rejected, again at one degree
of freedom: the subset test of Anderson and Rubin, which rejects the truth no more often than that
if bags have the same covariance up to a factor (Guggenberger et al. 2012).

C and C_i are covariances within classes, and so depend on psi. They are those at the class means
that rho makes likely, psi + Cov(psi, rho psi) S^-1 (g_U - rho psi). Bags that hardly differ may
make classes look far apart by chance. The covariances at psi would then be far too small.

What is compared with the quantile is t less its least value over [0, 1], which keeps the interval
from vanishing where the estimate lies outside.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

from suffice.learner.ratio.moment_inversion import ClassMeans, within_classes

__all__ = ["TableMoments", "accepted_ends"]

_COARSE, _FINE = 81, 81  # values of one proportion: over [0, 1], and near the estimate
_REACH = 5.0  # standard errors from the estimate that the fine values lie within
_ROUNDS = 8  # covariances depend on the class means, and these on the covariances
_LEAST = 1e-300
_FARTHEST = 100.0  # proportions that the free ones are tried within


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The mean score (K,) of a table of ``size`` rows, and the covariance (K, K) of that mean."""

    mean: np.ndarray
    covariance: np.ndarray
    size: int


def accepted_ends(
    means: ClassMeans, table: TableMoments, level: float, excess: float = 1.0
) -> np.ndarray:
    """Return the ends (2, K) of the proportions of a table.

    All covariances are ``excess`` times as large as the rows say. Scores sum to one, so that all
    but the last say everything.
    """
    ratios = means.ratios(table.mean)
    test = _MixtureTest(_without_last(means), _first_columns(table))
    quantile = excess * float(chi2.ppf(level, 1))
    ends = []
    for k, error in enumerate(np.sqrt(excess) * test.standard_errors(ratios)):
        near = ratios[k] + _REACH * error * np.linspace(-1, 1, _FINE)
        values = np.unique(np.clip(np.concatenate([np.linspace(0, 1, _COARSE), near]), 0, 1))
        statistics = test.least_statistics(k, values, ratios)
        low, high = _crossings(values, statistics - statistics.min() - quantile)
        ends.append((min(low, float(ratios[k])), max(high, float(ratios[k]))))
    return np.array(ends).T


def _without_last(means: ClassMeans) -> ClassMeans:
    """Return the class means of all scores but the last."""
    moments = means.moments
    fewer = replace(
        moments, means=moments.means[:, :-1], covariances=moments.covariances[:, :-1, :-1]
    )
    return ClassMeans(means.psi[:, :-1], means.leverage, fewer)


def _first_columns(table: TableMoments) -> TableMoments:
    return replace(table, mean=table.mean[:-1], covariance=table.covariance[:-1, :-1])


@dataclass(frozen=True, eq=False)
class _MixtureTest:
    """The test of proportions rho (n, K) of a table, from scores without their last column."""

    classes: ClassMeans
    table: TableMoments

    def off(self, rho: np.ndarray) -> np.ndarray:
        """Return g_U - rho psi."""
        return np.asarray(self.table.mean - rho @ self.classes.psi)

    def variances(self, rho: np.ndarray, psi: np.ndarray) -> "_Variances":
        """Return S and what it consists of, at proportions rho and class means psi (n, K, d)."""
        errors = self.classes.moments.errors(psi)
        pull = rho @ self.classes.leverage
        own = within_classes(self.table.covariance, psi, rho.clip(0, 1), self.table.size)
        total = own + np.einsum("nm,nmab->nab", pull**2, errors)
        size = np.trace(total, axis1=1, axis2=2)[:, None, None]
        floor = np.maximum(1e-12 * size, _LEAST) * np.eye(len(self.table.mean))  # no division by 0
        return _Variances(own, errors, np.linalg.inv(total + floor))

    def likely_means(self, rho: np.ndarray, variances: "_Variances") -> np.ndarray:
        """Return the class means (n, K, d) that proportions rho make likely."""
        leverage = self.classes.leverage
        forces = np.einsum("nab,nb->na", variances.precisions, self.off(rho))
        moves = np.einsum("km,nm,nmab,nb->nka", leverage, rho @ leverage, variances.errors, forces)
        return np.asarray(self.classes.psi + moves)

    def standard_errors(self, ratios: np.ndarray) -> np.ndarray:
        """Return the standard error of each proportion, to first order."""
        psi = self.classes.psi
        moves = np.linalg.pinv(psi[:-1] - psi[-1]).T  # of all proportions but the last, by the mean
        moves = np.vstack([moves, -moves.sum(axis=0)])
        covariance = np.linalg.inv(self.variances(ratios[None], psi[None]).precisions[0])
        return np.sqrt(np.einsum("ki,ij,kj->k", moves, covariance, moves))

    def least_statistics(self, k: int, values: np.ndarray, ratios: np.ndarray) -> np.ndarray:
        """Return the least t over the other proportions, for each value of proportion k.

        With two classes none is free.
        """
        many = len(ratios)
        others = np.delete(np.arange(many), k)
        shares = ratios[others] + 1e-9
        start = np.empty((len(values), many))
        start[:, k] = values
        start[:, others] = (1 - values)[:, None] * (shares / shares.sum())
        free = np.zeros((many - 2, many))  # directions in which the others can move
        free[np.arange(many - 2), others[:-1]] = 1.0
        free[:, others[-1]] = -1.0
        if many == 2:
            return self._search(start, lambda _: start)
        return np.minimum(
            self._search(start, lambda v: start + self._nearest(start, free, v) @ free),
            self._search(start, lambda v: start + self._least_ratio(start, free, v) @ free),
        )

    def _search(self, start: np.ndarray, move: Callable[["_Variances"], np.ndarray]) -> np.ndarray:
        """Return the least t on a way of proportions from ``start``, where ``move`` says the next.

        The first is not counted: its covariances are those at psi.
        """
        rho, psi = start, np.repeat(self.classes.psi[None], len(start), axis=0)
        least = np.full(len(start), np.inf)
        for step in range(_ROUNDS):
            variances = self.variances(rho, psi)
            if step > 0:
                off = self.off(rho)
                least = np.minimum(least, np.einsum("ni,nij,nj->n", off, variances.precisions, off))
            psi, rho = self.likely_means(rho, variances), move(variances)
        return least

    def _nearest(self, start: np.ndarray, free: np.ndarray, variances: "_Variances") -> np.ndarray:
        """Return how far to go along the free directions for the least t, were S as it is."""
        slopes = free @ self.classes.psi
        bent = slopes @ variances.precisions
        matrices = bent @ slopes.T
        size = np.trace(matrices, axis1=1, axis2=2)[:, None, None]
        floor = np.maximum(1e-12 * size, _LEAST) * np.eye(len(free))
        targets = np.einsum("naj,nj->na", bent, self.off(start))
        moves = np.linalg.solve(matrices + floor, targets[..., None])[..., 0]
        return np.asarray(np.clip(moves, -_FARTHEST, _FARTHEST))

    def _least_ratio(
        self, start: np.ndarray, free: np.ndarray, variances: "_Variances"
    ) -> np.ndarray:
        """Return how far to go along the free directions for the least t, S changing on the way.

        Of covariances that differ by a factor, t is a ratio of quadratic forms in h = (1, moves),
        and least at the eigenvector of the least generalised eigenvalue.
        """
        precisions, width = variances.precisions, len(self.table.mean)
        along = np.repeat((-free @ self.classes.psi)[None], len(start), axis=0)
        sides = np.concatenate([self.off(start)[:, None], along], axis=1)
        above = sides @ precisions @ np.swapaxes(sides, 1, 2)
        own = np.einsum("nab,nab->n", precisions, variances.own) / width
        each = np.einsum("nab,nmab->nm", precisions, variances.errors) / width
        lever = self.classes.leverage
        pulls = np.repeat((free @ lever)[None], len(start), axis=0)
        pulls = np.concatenate([(start @ lever)[:, None], pulls], axis=1)
        below = (pulls * each[:, None]) @ np.swapaxes(pulls, 1, 2)
        below[:, 0, 0] += own
        values, vectors = np.linalg.eigh(below)
        values = np.maximum(values, np.maximum(1e-10 * values[:, -1:], _LEAST))
        back = vectors / np.sqrt(values)[:, None]
        ratios = np.swapaxes(back, 1, 2) @ above @ back
        h = (back @ np.linalg.eigh(ratios)[1][:, :, :1])[:, :, 0]
        first = np.where(h[:, :1] < 0, -1.0, 1.0) * np.maximum(np.abs(h[:, :1]), _LEAST)
        return np.asarray(np.clip(h[:, 1:] / first, -_FARTHEST, _FARTHEST))


@dataclass(frozen=True, eq=False)
class _Variances:
    """Covariances of g_U (n, d, d) and of the bags' means (n, M, d, d), and S^-1 (n, d, d)."""

    own: np.ndarray
    errors: np.ndarray
    precisions: np.ndarray


def _crossings(values: np.ndarray, above: np.ndarray) -> tuple[float, float]:
    """Return the ends of where ``above`` is at most zero, linear between the values."""
    inside = np.flatnonzero(above <= 0)
    first, last = int(inside[0]), int(inside[-1])
    low = values[0] if first == 0 else _zero(values, above, first - 1)
    high = values[-1] if last == len(values) - 1 else _zero(values, above, last)
    return float(low), float(high)


def _zero(values: np.ndarray, above: np.ndarray, left: int) -> float:
    """Return where the line between two neighbours is zero."""
    rise = above[left + 1] - above[left]
    return float(values[left] - above[left] * (values[left + 1] - values[left]) / rise)
