"""The spread likelihood of corrupted labels, given what corrupted features say of the clean ones.

For one record the clean score z = theta^T x has, given the corrupted features, a mean m and a
variance v. With the logistic function phi and the label channel P (Barber 2020, Section 5),

    p(c~) = sum_c P[c~ | c] E[p(c | x)],     E[phi(z)] ~= phi(m / sqrt(1 + pi v / 8)),

the latter to .017 for Gaussian z (MacKay 1992): smooth in theta, and exact where features are
clean. For K classes phi becomes the normalised product over pairs (Lu, Ie & Sha 2020),

    E[p(k | x)] ~ 1 / sum_j exp(-(m_k - m_j) / sqrt(1 + pi v_kj / 8)),   v_kj = Var(z_k - z_j),

which is the same for K = 2.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

__all__ = ["CleanFeatures", "SpreadLikelihood"]

_FACTOR = np.pi / 8
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class CleanFeatures:
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
    def exact(self) -> bool:
        """Whether the records are known exactly."""
        return self.spread is None and self.root is None

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

    def pulled(self, pulls: np.ndarray, theta: np.ndarray) -> np.ndarray:
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


@dataclass(frozen=True, eq=False)
class SpreadLikelihood:
    """Computes the mean negative log likelihood of corrupted labels, and its gradient.

    ``features`` say what is known of each clean record. ``codes`` are the observed labels,
    ``channel`` P with P_ij = P[observed i | true j]. Two classes have one weight vector (d,), more
    a matrix (d, K).
    """

    features: CleanFeatures
    codes: np.ndarray
    channel: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        width, classes = self.features.mean.shape[1], len(self.channel)
        return (width,) if classes == 2 else (width, classes)

    def __call__(self, theta: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return -(1/n) sum_i log p(c~_i) + (lam/2) ||theta||^2 and its gradient."""
        value, gradient = self._two(theta) if theta.ndim == 1 else self._many(theta)
        return value + lam / 2 * float(np.vdot(theta, theta)), gradient + lam * theta

    def _two(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        count = len(self.codes)
        scores = self.features.mean @ theta
        variances = self.features.variances(theta)
        scale = 1 / np.sqrt(1 + _FACTOR * variances)
        positive = expit(scores * scale)
        base, gain = self.channel[:, 0][self.codes], (self.channel[:, 1] - self.channel[:, 0])
        chance = np.maximum(base + gain[self.codes] * positive, _LEAST)
        pull = -gain[self.codes] * positive * (1 - positive) / chance / count
        gradient = self.features.mean.T @ (pull * scale)
        gradient += self.features.pulled(-_FACTOR * pull * scores * scale**3, theta)
        return -float(np.log(chance).mean()), gradient

    def _many(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        count, classes = len(self.codes), theta.shape[1]
        scores = self.features.mean @ theta
        gaps = scores[:, :, None] - scores[:, None, :]
        scale = self._pair_scales(theta)
        with np.errstate(over="ignore"):
            odds = np.exp(np.minimum(-gaps * scale, 700.0))
        shares = 1 / odds.sum(axis=2)
        total = shares.sum(axis=1, keepdims=True)
        clean = shares / total
        row = self.channel[self.codes]
        chance = np.maximum((row * clean).sum(axis=1), _LEAST)
        # d log p / d share_k, then through share_k = 1 / sum_j odds_kj to every pair
        by_share = (row - chance[:, None]) / (chance[:, None] * total)
        by_exponent = (by_share * shares**2)[:, :, None] * odds * (-1 / count)  # d / d (gap scale)
        by_gap = by_exponent * scale
        by_score = by_gap.sum(axis=2) - by_gap.sum(axis=1)
        gradient = self.features.mean.T @ by_score
        if not self.features.exact:
            by_variance = by_exponent * gaps * (-_FACTOR / 2) * scale**3
            for k in range(classes):
                for j in range(classes):
                    if j != k:
                        moved = self.features.pulled(
                            2 * by_variance[:, k, j], theta[:, k] - theta[:, j]
                        )
                        gradient[:, k] += moved
                        gradient[:, j] -= moved
        return -float(np.log(chance).mean()), gradient

    def _pair_scales(self, theta: np.ndarray) -> np.ndarray:
        """Return 1 / sqrt(1 + pi v_kj / 8), of shape (n, K, K), or (1, 1, 1) where v is zero."""
        if self.features.exact:
            return np.ones((1, 1, 1))
        classes = theta.shape[1]
        scale = np.ones((len(self.codes), classes, classes))
        for k in range(classes):
            for j in range(k):
                gap = theta[:, k] - theta[:, j]
                scale[:, k, j] = 1 / np.sqrt(1 + _FACTOR * self.features.variances(gap))
                scale[:, j, k] = scale[:, k, j]
        return scale
