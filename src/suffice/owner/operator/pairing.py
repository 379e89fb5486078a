"""Noise for few rows: the count of labels and one direction of the features, for the price of one.

Where m epsilon is small, the noise of a release of all coordinates hides everything, even which
class is the larger. A count of labels alone leaves nothing for the features. But the two sums

    u = sum_i y_i (c + z_i) / 2,    v = sum_i y_i (c - z_i) / 2,    |z_i| <= c,

together move by 2 max(c, |z_i|) = 2c in the 1-norm when one label changes: no more than the count
c sum_i y_i alone. Each has Laplace noise of all of epsilon, and so the count u + v and the
direction u - v have twice the variance of a count alone. Two releases of half of epsilon each have
four times that variance.

z is the first principal component of the public rows, scaled to [-c, c] by its range: where rows
fall into two clusters, it tells them apart. Other components j have a weight w_j, as part of the
same 1-norm, in units of c: then every noise grows by W = max_i (1 + sum_j w_j |z_ij| / c). How
many have one, and how large, is chosen by the largest correlation that is predicted
(`ShrunkSignal`), as long as the count stays sure. All of it is computed from public rows.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suffice.owner.operator.forecast import SIGNALS, PublicMoments, Utility, accuracy_at

__all__ = ["ShrunkSignal", "paired_transform"]

_EXPONENTS = (0.0, 0.5, 1.0)  # as in `suffice.learner.operator.restoring`
_FLAT = 1e-9  # of the largest variance: no row varies in such a direction
_NARROW = 0.03  # of the first component's range: a narrower one is scaled as if it had that
_UNUSED = 0.02  # of the pair's part: what all components without a weight have together
_WEIGHTS = (0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5)  # of all weighted components together, by sqrt(k)
_TRIED = 8  # numbers of components with a weight


@dataclass(frozen=True, eq=False)
class ShrunkSignal:
    """What a learner that shrinks can expect of public rows, along their principal components.

    In white coordinates signal has the variance g_j, proportional to s_j^q with q one of a few, and
    the noise n_j. A learner who knows both keeps the share k_j = g_j / (g_j + n_j) of each, and
    scores then have the correlation sqrt(sum_j k_j g_j) with the labels.

    Parameters
    ----------
    codes : array of shape (n, d)
        Public rows as integers, the intercept's coordinate last.
    moments : PublicMoments
        Their number, the number of classes and the declared balance.
    """

    codes: np.ndarray
    moments: PublicMoments

    @property
    def constant(self) -> float:
        """The intercept's coordinate c."""
        return float(np.abs(self.codes[0, -1]))

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean of the features."""
        return np.asarray(self.codes[:, :-1].mean(axis=0))

    @cached_property
    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """All variances of the features, the largest first, and their principal components."""
        features = self.codes[:, :-1] - self.mean
        values, vectors = np.linalg.eigh(features.T @ features / len(features))
        return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])

    @cached_property
    def rank(self) -> int:
        """How many components rows vary along."""
        values = self.components[0]
        if not len(values):
            return 0
        return int((values > _FLAT * max(float(values[0]), np.finfo(float).tiny)).sum())

    @cached_property
    def white_basis(self) -> np.ndarray:
        """B (d, r) such that B^T x has the mean zero and the covariance I."""
        values, vectors = (part[..., : self.rank] for part in self.components)
        scaled = vectors / np.sqrt(values)
        return np.vstack([scaled, -self.mean @ scaled / self.constant])

    def captured(self, variances: np.ndarray, r2: float) -> float:
        """Return the squared correlation of scores and labels, the mean over q.

        ``variances`` are those of the mechanism's noise along the white coordinates.
        """
        shares, signal = self._shares(variances, r2)
        return float((shares * signal).sum(axis=1).mean()) / self._pair**2

    @property
    def _pair(self) -> float:
        """The part of the rows that two classes have."""
        return 1.0 if self.moments.classes == 2 else 2 / self.moments.classes

    def _noise(self, variances: np.ndarray) -> np.ndarray:
        """Return the noise of the difference of two columns, and that of sampled labels."""
        balance, columns = self.moments.balance, 1.0 if self.moments.classes == 2 else 2.0
        label_variance = 4 * balance * (1 - balance)
        return columns * variances / label_variance + self._pair / self.moments.count

    def _shares(self, variances: np.ndarray, r2: float) -> tuple[np.ndarray, np.ndarray]:
        """Return k_j and g_j, a row for each q."""
        values = self.components[0][: self.rank]
        spread = (values / values[0]) ** np.array(_EXPONENTS)[:, None]
        signal = r2 * self._pair**2 * spread / spread.sum(axis=1, keepdims=True)
        return signal / (signal + self._noise(variances)), signal

    def utility(self, variances: np.ndarray) -> Utility:
        """Return the prediction for noise of these variances along the white coordinates."""
        rho = {name: math.sqrt(self.captured(variances, r2)) for name, r2 in SIGNALS.items()}
        accuracy = tuple(accuracy_at(value, self.moments.balance) for value in rho.values())
        shares, _ = self._shares(variances, SIGNALS["usual"])
        columns, weight = (1.0, 0.5) if self.moments.classes == 2 else (2.0, 1.0)
        noise = columns * float((shares**2 * variances).sum(axis=1).mean())
        return Utility(rho["usual"], accuracy, (weight / self.moments.curvature) ** 2 * noise, 0.0)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """The principal components of rows, each scaled to [-1, 1] by its range."""

    signal: ShrunkSignal

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle of each component's range, and half its width."""
        projected = self.signal.codes[:, :-1] @ self.signal.components[1]
        low, high = projected.min(axis=0), projected.max(axis=0)
        widths = (high - low) / 2
        return (low + high) / 2, np.maximum(widths, _NARROW * max(float(widths[0]), 1.0))

    @cached_property
    def sizes(self) -> np.ndarray:
        """|z_ij| / c of each row, (n, d - 1)."""
        middles, widths = self.ends
        return np.abs(self.signal.codes[:, :-1] @ self.signal.components[1] - middles) / widths

    def growth(self, weights: np.ndarray) -> float:
        """Return W for the weights of all components but the first."""
        return float(np.max(np.maximum(self.sizes[:, 0], 1.0) + self.sizes[:, 1:] @ weights))

    def white_noise(self, weights: np.ndarray, budget: float) -> np.ndarray:
        """Return the variance of the noise along each white coordinate; ``budget`` is m epsilon."""
        unit, rank = 2 * self.growth(weights) / budget, self.signal.rank
        (values, vectors), (middles, widths) = self.signal.components, self.ends
        deviations = np.sqrt(values[:rank])
        half = widths[:rank] / deviations
        aside = (middles - self.signal.mean @ vectors)[:rank] / deviations
        own = 4 * half**2
        own[1:] = 2 * (half[1:] / weights[: rank - 1]) ** 2
        return np.asarray(unit**2 * (own + 4 * aside**2))

    def transform(self, weights: np.ndarray) -> np.ndarray:
        """Return T (d, d) with rows (c + z_1) / 2, (c - z_1) / 2 and w_j z_j, on rows x."""
        vectors, (middles, widths) = self.signal.components[1], self.ends
        constant = self.signal.constant
        scaled = np.vstack([constant * vectors / widths, -middles / widths]).T  # z_j = <row j, x>
        one = np.append(np.zeros(len(vectors)), 1.0)
        first = scaled[0]
        pair = [(one + first) / 2, (one - first) / 2]
        return np.vstack([*pair, weights[:, None] * scaled[1:]])


def paired_transform(
    signal: ShrunkSignal, epsilon: float, sure: float, most: float
) -> np.ndarray | None:
    """Return the matrix in whose coordinates Laplace noise of one size is best, or None.

    The noise of the count has the standard deviation 4 W / (m epsilon) in units of the rows. It is
    held to ``sure``, or to what the pair alone has where that is more. None if that is above
    ``most``.
    """
    if not signal.rank:
        return None
    budget = signal.moments.count * epsilon
    ranges, width = _Ranges(signal), signal.codes.shape[1] - 1
    unused = np.full(width - 1, _UNUSED / max(width - 1, 1))
    least = 4 * ranges.growth(unused) / budget
    if least > most:
        return None
    best, largest = unused, signal.captured(ranges.white_noise(unused, budget), SIGNALS["usual"])
    for count in _numbers(signal.rank - 1):
        for level in _WEIGHTS:
            weights = unused.copy()
            weights[:count] = np.maximum(level / math.sqrt(count), unused[:count])
            if 4 * ranges.growth(weights) / budget > max(sure, least):
                break
            captured = signal.captured(ranges.white_noise(weights, budget), SIGNALS["usual"])
            if captured > largest:
                best, largest = weights, captured
    return ranges.transform(best)


def _numbers(most: int) -> list[int]:
    """Return a few numbers from one to ``most``, evenly apart on a logarithmic scale."""
    if most < 1:
        return []
    return sorted({round(float(count)) for count in np.geomspace(1, most, _TRIED)})
