"""The spread likelihood of corrupted labels, given what corrupted features say of the clean ones.

With the label channel P and the clean model p(c | x) (Barber 2020, Section 5), a corrupted record
has the likelihood

    p(c~ | x~) = sum_c P[c~ | c] E[p(c | x) | x~].

The expectation is a matter of what is known of the clean record (`Knowledge`); this module has the
one for moments: given x~, the clean score z = theta^T x is Gaussian with mean m and variance v, by
model or since it sums many independent columns. The logistic function is a mixture of normal
distribution functions, phi(z) = sum_k w_k Phi(s_k z) to 5e-6 (Monahan & Stefanski 1992), and so

    E[phi(z)] = sum_k w_k Phi(s_k m / sqrt(1 + s_k^2 v)):

smooth in theta, closed, and a few hundred times closer than phi(m / sqrt(1 + pi v / 8)) (MacKay
1992), whose error of .017 would not fall with more records. For K classes phi becomes the
normalised product over pairs (Lu, Ie & Sha 2020),

    E[p(k | x)] ~ 1 / (1 + sum_j (1 / E[phi(z_k - z_j)] - 1)),

the same for K = 2, an approximation for more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtr, softmax

__all__ = [
    "CleanFeatures", "Knowledge", "Objective", "SpreadLikelihood", "by_class",
    "expected_logistic", "is_exact", "model",
]  # fmt: skip

# phi(z) = sum_k w_k Phi(s_k z): least largest error with four terms, 5.0e-6 over all z (tested).
_WEIGHTS = (0.1082489, 0.4602303, 0.3716470, 0.0598738)
_SLOPES = (1.0210243, 0.6969911, 0.4738997, 0.3203917)
_LEAST = 1e-300
_LEAST_OF_PAIRS = 1e-100  # its square must not vanish
_ROOT_OF_TAU = np.sqrt(2 * np.pi)

Pull = Callable[[np.ndarray], np.ndarray]


def expected_logistic(
    mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E[phi(z)] of z ~ N(mean, variance), and its derivatives by mean and variance."""
    value, by_mean, by_variance = (np.zeros_like(mean) for _ in range(3))
    for weight, slope in zip(_WEIGHTS, _SLOPES, strict=True):
        scale = slope / np.sqrt(1 + slope**2 * variance)
        argument = scale * mean
        density = (weight / _ROOT_OF_TAU) * scale * np.exp(-(argument**2) / 2)
        value += weight * ndtr(argument)
        by_mean += density
        by_variance -= density * mean * scale**2 / 2
    return value, by_mean, by_variance


class Knowledge(ABC):
    """What is known of every clean record."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of records."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of coordinates of a clean record."""

    @property
    @abstractmethod
    def expected_rows(self) -> np.ndarray:
        """E[x] of each clean record, (n, d)."""

    @abstractmethod
    def expected(self, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return E[p(c | x)] of each record, and the map of gradients back to ``theta``.

        Of two classes, with weights (d,), it is the probability of the second, (n,); of more, with
        weights (d, K), all probabilities, (n, K). The map takes derivatives by these numbers to
        derivatives by ``theta``.
        """

    @abstractmethod
    def select_rows(self, rows: np.ndarray) -> "Knowledge":
        """Return what is known of some of the records."""


@dataclass(frozen=True, eq=False)
class CleanFeatures(Knowledge):
    """Holds mean and covariance of every clean record x given its corrupted one.

    ``mean`` is (n, d). The covariance is diag(spread_i) - sum_b (mean_ib)(mean_ib)^T + root root^T:
    ``spread`` (n, d) holds variances, or E[x^2] for the coordinates of a one-hot ``block`` b, whose
    coordinates exclude each other (``blocks`` (d, B) marks them); ``root`` (d, r) is shared by all
    records. None of the three for records that are known exactly.
    """

    mean: np.ndarray
    spread: np.ndarray | None = None
    blocks: np.ndarray | None = None
    root: np.ndarray | None = None

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.mean)

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.mean.shape[1]

    @property
    def expected_rows(self) -> np.ndarray:
        """E[x] of each clean record."""
        return self.mean

    @property
    def exact(self) -> bool:
        """Whether the records are known exactly."""
        return self.spread is None and self.root is None

    def select_rows(self, rows: np.ndarray) -> "CleanFeatures":
        """Return what is known of some of the records."""
        spread = None if self.spread is None else self.spread[rows]
        return replace(self, mean=self.mean[rows], spread=spread)

    def expected(self, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return E[p(c | x)] of each record, and the map of gradients back to ``theta``."""
        scores = self.mean @ theta
        if self.exact:
            clean, by_score = model(scores)
            return clean, lambda by_clean: self.mean.T @ by_score(by_clean)
        return self._of_one(scores, theta) if theta.ndim == 1 else self._of_pairs(scores, theta)

    def _of_one(self, scores: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        positive, by_mean, by_variance = expected_logistic(scores, self.variances(theta))

        def pull(by_positive: np.ndarray) -> np.ndarray:
            moved = self.covariance_times(2 * by_positive * by_variance, theta)
            return np.asarray(self.mean.T @ (by_positive * by_mean) + moved)

        return positive, pull

    def _of_pairs(self, scores: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        classes = theta.shape[1]
        pairs = [(k, j) for k in range(classes) for j in range(classes) if j != k]
        gaps = {pair: theta[:, pair[0]] - theta[:, pair[1]] for pair in pairs}
        variances = {(k, j): self.variances(gaps[k, j]) for k, j in pairs if j < k}
        expectations = {
            (k, j): expected_logistic(scores[:, k] - scores[:, j], variances[max(k, j), min(k, j)])
            for k, j in pairs
        }
        odds = np.ones((len(scores), classes))
        for (k, _), (chance, _, _) in expectations.items():
            odds[:, k] += 1 / np.maximum(chance, _LEAST_OF_PAIRS) - 1
        shares = 1 / odds
        total = shares.sum(axis=1, keepdims=True)
        clean = shares / total

        def pull(by_clean: np.ndarray) -> np.ndarray:
            by_share = (by_clean - (by_clean * clean).sum(axis=1, keepdims=True)) / total
            gradient = np.zeros_like(theta)
            for (k, j), (chance, by_mean, by_variance) in expectations.items():
                ratio = shares[:, k] / np.maximum(chance, _LEAST_OF_PAIRS)
                by_chance = by_share[:, k] * ratio**2
                moved = self.mean.T @ (by_chance * by_mean)
                moved += self.covariance_times(2 * by_chance * by_variance, gaps[k, j])
                gradient[:, k] += moved
                gradient[:, j] -= moved
            return gradient

        return clean, pull

    def variances(self, theta: np.ndarray) -> np.ndarray:
        """Return theta^T Cov(x | x~) theta for every record."""
        total = np.zeros(len(self.mean))
        if self.spread is not None:
            total += self.spread @ theta**2
        if self.blocks is not None:
            total -= ((self.mean * theta) @ self.blocks) ** 2 @ np.ones(self.blocks.shape[1])
        if self.root is not None:
            total += float(np.sum((self.root.T @ theta) ** 2))
        return np.maximum(total, 0.0)

    def covariance_times(self, pulls: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return sum_i pulls_i Cov_i theta, half the gradient of their sum of variances."""
        total = np.zeros_like(theta)
        if self.spread is not None:
            total += (self.spread.T @ pulls) * theta
        if self.blocks is not None:
            scores = (self.mean * theta) @ self.blocks
            total -= np.einsum("nd,nb,db->d", self.mean, pulls[:, None] * scores, self.blocks)
        if self.root is not None:
            total += pulls.sum() * (self.root @ (self.root.T @ theta))
        return total


def is_exact(features: Knowledge) -> bool:
    """Return whether records are known exactly."""
    return isinstance(features, CleanFeatures) and features.exact


def by_class(clean: np.ndarray) -> np.ndarray:
    """Return probabilities (n, K) of what `Knowledge.expected` returns."""
    return np.column_stack([1 - clean, clean]) if clean.ndim == 1 else clean


def model(scores: np.ndarray) -> tuple[np.ndarray, Pull]:
    """Return the clean model's p(c | x) at given scores, and the map of gradients back to them."""
    if scores.ndim == 1:
        positive = expit(scores)
        return positive, lambda by: by * positive * (1 - positive)
    clean = softmax(scores, axis=1)
    return clean, lambda by: clean * (by - (by * clean).sum(axis=1, keepdims=True))


class Objective(ABC):
    """A function of the parameters that `suffice.learner.spread.selection.maximise` makes small."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""

    @abstractmethod
    def __call__(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """Return the value at ``theta``, penalty included, and its gradient."""


@dataclass(frozen=True, eq=False)
class SpreadLikelihood(Objective):
    """Computes the mean negative log likelihood of corrupted labels, and its gradient.

    ``features`` say what is known of each clean record. ``codes`` are the observed labels,
    ``channel`` P with P_ij = P[observed i | true j], not always square. Two classes have one weight
    vector (d,), more a matrix (d, K). ``constant``: whether the last coordinate is the constant
    one, whose weight bears no penalty (as scikit-learn's does not): else a strong penalty would tie
    the threshold to where the features' zero happens to be.
    """

    features: Knowledge
    codes: np.ndarray
    channel: np.ndarray
    constant: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        width, classes = self.features.width, self.channel.shape[1]
        return (width,) if classes == 2 else (width, classes)

    def linked(self, theta: np.ndarray, slope: float, shift: np.ndarray) -> np.ndarray:
        """Return weights whose scores are ``slope`` times those of ``theta``, plus ``shift`` (K,).

        The shift goes into the constant's weight, if there is one.
        """
        weights = slope * theta
        if self.constant:
            constant = float(self.features.expected_rows[0, -1])
            weights[-1] += (shift[1] - shift[0] if theta.ndim == 1 else shift) / constant
        return np.asarray(weights)

    def select_rows(self, rows: np.ndarray) -> "SpreadLikelihood":
        """Return the likelihood of some of the records."""
        return replace(self, features=self.features.select_rows(rows), codes=self.codes[rows])

    def __call__(self, theta: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return -(1/n) sum_i log p(c~_i) + (lam/2) ||w||^2, w without constant; its gradient."""
        clean, pull = self.features.expected(theta)
        if theta.ndim == 1:
            base, gain = self.channel[:, 0], self.channel[:, 1] - self.channel[:, 0]
            slope = gain[self.codes]
            chance = base[self.codes] + slope * clean
        else:
            slope = self.channel[self.codes]
            chance = (slope * clean).sum(axis=1)
        chance = np.maximum(chance, _LEAST)
        by_clean = -(slope.T / chance).T / len(self.codes)
        size, by_size = self.ridge(theta, lam)
        return size - float(np.log(chance).mean()), pull(by_clean) + by_size

    def ridge(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """Return (lam/2) ||w||^2 and its gradient."""
        weights = theta.copy()
        if self.constant:
            weights[-1] = 0.0
        return lam / 2 * float(np.vdot(weights, weights)), lam * weights
