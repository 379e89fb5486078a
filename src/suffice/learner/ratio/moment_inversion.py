"""Class ratios by inverting class means of a score, with the noise on proportions taken off.

Any score g(x) that was not fitted to the rows it is computed on has, under label shift,

    mean of g over bag i = P_i psi,    mean of g over U = rho psi,

with psi (K, K) its class means: here g are the class posteriors of a classifier of the bags. The
likelihood of `bag_likelihood` needs the posteriors to be right. These moments do not: wrong
posteriors cost width, not truth. So they are used where noise on P misleads the likelihood.

With P known up to noise z of covariance V_i, least squares shrinks psi: P^T W P is too large by
sum_i w_i V_i in mean, which is taken off (errors in variables; MATHS.md section 8):

    psi = (P~^T W P~ - sum_i w_i V_i)^-1 P~^T W g,    rho = g_U psi^-1

P~ are the proportions before their projection onto the simplex, which would bias them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from suffice.learner.ratio.bags import KnownBags
from suffice.models.simplex import nearest_proportions

__all__ = ["ClassMeans", "ScoreMoments", "mean_and_covariance", "within_classes"]

_LEFT = 0.25  # of every direction's variance stays at least, however much of it looks like noise
_ROUNDS = 3  # the weights depend on the class means


def mean_and_covariance(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (K,) of scores (n, K), and the covariance of that mean."""
    mean = scores.mean(axis=0)
    centred = scores - mean
    return mean, centred.T @ centred / max(len(scores) - 1, 1) / len(scores)


def _without(noisy: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return a second moment less its part that is noise; at least a quarter is left everywhere."""
    floor = 1e-12 * max(float(np.trace(noisy)), 1e-300) * np.eye(len(noisy))
    share = float(eigh(noise, noisy + floor, eigvals_only=True)[-1])
    return noisy - min(1.0, (1 - _LEFT) / max(share, 1e-300)) * noise


def within_classes(
    covariance: np.ndarray, psi: np.ndarray, shares: np.ndarray, size: float
) -> np.ndarray:
    """Return the covariance (..., d, d) of a mean over rows whose class counts are what they are.

    The mean over n rows then varies within classes only: psi^T (diag s - s s^T) psi / n is taken
    off ``covariance`` (d, d), s (..., K) the shares of the classes and psi (..., K, d) their means.
    At least a quarter is left everywhere.
    """
    centred = psi - (shares[..., None] * psi).sum(axis=-2, keepdims=True)
    between = np.swapaxes(centred, -1, -2) @ (shares[..., None] * centred) / size
    values, vectors = np.linalg.eigh(covariance)
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    share = np.linalg.eigvalsh(root.T @ between @ root)[..., -1]
    part = np.minimum(1.0, (1 - _LEFT) / np.maximum(share, 1e-300))
    return np.asarray(covariance - part[..., None, None] * between)


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Means of scores over bags: ``means`` (M, d), and the covariances (M, d, d) of these means.

    ``complete`` says that the proportions are those of exactly these rows: their means then vary
    within classes only.
    """

    bags: KnownBags
    means: np.ndarray
    covariances: np.ndarray
    complete: bool = False

    @classmethod
    def of(
        cls, bags: KnownBags, scores: np.ndarray, codes: np.ndarray, *, complete: bool = False
    ) -> "ScoreMoments":
        """Return the moments of the scores (n, d) of rows in the bags ``codes``."""
        parts = [mean_and_covariance(scores[codes == i]) for i in range(len(bags.names))]
        means, covariances = (np.stack(values) for values in zip(*parts, strict=True))
        return cls(bags, means, covariances, complete)

    def class_means(self) -> "ClassMeans":
        """Return psi.

        A bag weighs one over the variance of its mean: that of sampling, and that of the noise on
        its proportions, psi^T V_i psi.
        """
        sizes, shares = self.bags.sizes, self.bags.unbiased_proportions
        weights = sizes / sizes.sum()
        for _ in range(_ROUNDS):
            leverage = np.linalg.solve(self._second_moments(weights), shares.T * weights)
            psi = leverage @ self.means
            variances = np.trace(self.errors(psi), axis1=-2, axis2=-1)
            weights = 1 / np.maximum(variances, 1e-12 * max(variances.max(), 1e-300))
            weights /= weights.sum()
        return ClassMeans(psi, leverage, self)

    def errors(self, psi: np.ndarray) -> np.ndarray:
        """Return the covariances (..., M, d, d) of bags' means about P~ psi, psi (..., K, d)."""
        bags, sampling = self.bags, self.covariances
        if self.complete:
            parts = zip(self.covariances, bags.proportions, bags.sizes, strict=True)
            sampling = np.stack([within_classes(c, psi, s, n) for c, s, n in parts], axis=-3)
        noise = np.einsum("...ka,mkl,...lb->...mab", psi, bags.noise_covariances, psi)
        return np.asarray(sampling + noise)

    def _second_moments(self, weights: np.ndarray) -> np.ndarray:
        """Return P^T W P without the noise on P, which lies in the directions of sum zero."""
        shares = self.bags.unbiased_proportions
        middle = weights @ shares
        noisy = (shares.T * weights) @ shares - np.outer(middle, middle)
        noise = np.einsum("i,ikl->kl", weights, self.bags.noise_covariances)
        zero_sum = np.linalg.svd(np.eye(len(noisy)) - 1 / len(noisy))[0][:, : len(noisy) - 1]
        spread = _without(*(zero_sum.T @ moment @ zero_sum for moment in (noisy, noise)))
        return zero_sum @ spread @ zero_sum.T + np.outer(middle, middle)


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Class means psi (K, d) of scores, class by class: ``leverage`` (K, M) times the bags' means.

    ``moments`` are those of the bags, whose errors are those of psi.
    """

    psi: np.ndarray
    leverage: np.ndarray
    moments: ScoreMoments

    def ratios(self, mean: np.ndarray) -> np.ndarray:
        """Return the nearest proportions to rho with rho psi = mean."""
        rho = np.linalg.lstsq(self.psi.T, mean, rcond=None)[0]
        return nearest_proportions((rho / rho.sum())[None])[0]
