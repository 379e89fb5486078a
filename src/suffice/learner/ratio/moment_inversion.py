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

from dataclasses import dataclass, replace
from functools import cached_property

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


def within_classes(
    covariances: np.ndarray, psi: np.ndarray, shares: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Return covariances (M, d, d) of means over groups whose class counts are what they are.

    The mean over n rows then varies within classes only: psi^T (diag s - s s^T) psi / n is taken
    off, s (M, K) the shares of the classes and psi (K, d) their means.
    """
    counts = (
        np.einsum("ik,kl->ikl", shares, np.eye(len(psi))) - shares[:, :, None] * shares[:, None]
    )
    between = psi.T @ (counts / sizes[:, None, None]) @ psi
    return np.stack([_without(*pair) for pair in zip(covariances, between, strict=True)])


def _without(noisy: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return a second moment less its part that is noise; at least a quarter is left everywhere."""
    floor = 1e-12 * max(float(np.trace(noisy)), 1e-300) * np.eye(len(noisy))
    share = float(eigh(noise, noisy + floor, eigvals_only=True)[-1])
    return noisy - min(1.0, (1 - _LEFT) / max(share, 1e-300)) * noise


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
        """Return psi with its covariance.

        A bag weighs one over the variance of its mean: that of sampling, and that of the noise on
        its proportions, psi^T V_i psi. The covariance of psi is that of sum_i w_i P~_i e_i, e_i the
        error of bag i: A^-1 (sum_i w_i^2 P~_i P~_i^T  x  cov e_i) A^-1.
        """
        sizes, shares = self.bags.sizes, self.bags.unbiased_proportions
        weights = sizes / sizes.sum()
        for _ in range(_ROUNDS):
            leverage = np.linalg.solve(self._second_moments(weights), shares.T * weights)
            psi = leverage @ self.means
            errors = self.errors(psi)
            variances = np.trace(errors, axis1=1, axis2=2)
            weights = 1 / np.maximum(variances, 1e-12 * max(variances.max(), 1e-300))
            weights /= weights.sum()
        covariance = np.einsum("ai,bi,ikl->akbl", leverage, leverage, errors)
        return ClassMeans(psi, covariance)

    def errors(self, psi: np.ndarray) -> np.ndarray:
        """Return the covariances (M, d, d) of the bags' means about P~ psi."""
        sampling = self.covariances
        if self.complete:
            sampling = within_classes(sampling, psi, self.bags.proportions, self.bags.sizes)
        return np.asarray(sampling + psi.T @ self.bags.noise_covariances @ psi)

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
    """Class means psi (K, d) of scores, class by class, and their covariance (K, d, K, d)."""

    psi: np.ndarray
    covariance: np.ndarray

    @cached_property
    def _root(self) -> np.ndarray:
        many = self.psi.size
        values, vectors = np.linalg.eigh(self.covariance.reshape(many, many))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def ratios(self, mean: np.ndarray) -> np.ndarray:
        """Return the nearest proportions to rho with rho psi = mean."""
        rho = np.linalg.lstsq(self.psi.T, mean, rcond=None)[0]
        return nearest_proportions((rho / rho.sum())[None])[0]

    def redraw(self, rng: np.random.Generator) -> "ClassMeans":
        """Return class means that another draw of rows and noise might have given."""
        noise = (self._root @ rng.normal(size=self.psi.size)).reshape(self.psi.shape)
        return replace(self, psi=self.psi + noise)
