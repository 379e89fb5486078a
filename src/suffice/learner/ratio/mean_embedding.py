"""Class ratios by mean embeddings: the mixture of class embeddings nearest to a table's.

With Phi_i the mean embedding of bag i in the kernel's feature space and P the proportions, class
embeddings are Psi = A Phi (`KnownBags.solved`), and the ratios of a table U are

    rho = argmin over the simplex of || sum_k rho_k Psi_k - Phi_U ||                    ("rkhs")

Iyer et al. 2016 minimise || sum_i alpha_i Phi_i - Phi_U || over all alpha (eq. 5) and then move
P^T alpha to the nearest point of the simplex ("euclidean"). For M = K both are the same where the
answer is inside.

One more thing is ours, in "rkhs": the sampling noise of Phi_i adds (1 - sum_k P_ik ||Psi_k||^2) /
n_i to ||Phi_i||^2 in mean, which pulls the answer towards the bags' average; it is taken off.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from suffice.errors import ParameterError
from suffice.learner.ratio.bags import KnownBags
from suffice.learner.ratio.resampling import resample_counts
from suffice.models.simplex import least_squares_on_simplex, nearest_proportions

__all__ = [
    "FOLDS",
    "CellGram",
    "ErrorBound",
    "MeanEmbedding",
    "held_back_errors",
    "lemma4",
    "proportion_noise",
]

FOLDS = 5
_LEFT = 0.25  # of every direction's energy stays at least, however noisy it looks
_ROUNDS = 4  # the noise depends on the class norms; each round is n times closer


@dataclass(frozen=True, eq=False)
class CellGram:
    """Inner products of sums over cells: ``groups`` cells for each of M bags, bag after bag.

    ``products`` (C, C); ``counts`` (C,) rows; ``powers`` (C,) the sums of k(x, x).
    """

    products: np.ndarray
    counts: np.ndarray
    powers: np.ndarray
    groups: int

    @property
    def folds(self) -> np.ndarray:
        """The fold of each cell."""
        return np.arange(len(self.counts)) % self.groups % FOLDS

    @property
    def bag_sizes(self) -> np.ndarray:
        """The number of rows of each bag."""
        return self.counts.reshape(-1, self.groups).sum(axis=1)

    @property
    def _bags(self) -> np.ndarray:
        return np.arange(len(self.counts)) // self.groups

    def draw_cells(self, rng: np.random.Generator) -> np.ndarray:
        """Return how often each cell is drawn when every bag's cells are, with replacement."""
        times = np.zeros(len(self.counts))
        filled = np.flatnonzero(self.counts)
        times[filled] = resample_counts(self._bags[filled], rng)
        return times

    def bag_weights(self, times: np.ndarray) -> np.ndarray:
        """Return W (M, C) with Phi = W sums, every cell counted ``times`` (C,)."""
        bags = self._bags
        totals = np.bincount(bags, weights=times * self.counts)
        weights = np.zeros((len(totals), len(bags)))
        weights[bags, np.arange(len(bags))] = times / totals[bags]
        return weights


@dataclass(frozen=True, eq=False)
class MeanEmbedding:
    """Bags as points of a feature space, each cell of rows counted ``times``."""

    bags: KnownBags
    cells: CellGram
    times: np.ndarray
    constraint: str = "rkhs"

    @cached_property
    def _weights(self) -> np.ndarray:
        return self.cells.bag_weights(self.times)

    @cached_property
    def bag_gram(self) -> np.ndarray:
        """The inner products (M, M) of the bags' mean embeddings, noise and all."""
        return np.asarray(self._weights @ self.cells.products @ self._weights.T)

    @cached_property
    def class_gram(self) -> np.ndarray:
        """The inner products (K, K) of the class embeddings, without sampling noise.

        The noise is taken off in full where what is left of the differences of classes is at
        least a quarter in every direction, and in part where it is not.
        """
        noisy = self._solved_gram(self.bag_gram)
        noise = self._noise(noisy)
        zero_sum = _zero_sum(len(noisy))
        small, large = (zero_sum.T @ m @ zero_sum for m in (noise, noisy))
        floor = 1e-12 * max(float(np.trace(large)), 1e-300) * np.eye(len(large))
        share = float(eigh(small, large + floor, eigvals_only=True)[-1])
        return noisy - min(1.0, (1 - _LEFT) / max(share, 1e-300)) * noise

    def _solved_gram(self, bags: np.ndarray) -> np.ndarray:
        return np.asarray(self.bags.solved @ bags @ self.bags.solved.T)

    def _noise(self, noisy: np.ndarray) -> np.ndarray:
        """Return what sampling added to the class Gram."""
        squares = self._weights**2
        energies, shares = squares @ self.cells.powers, squares @ self.cells.counts
        noise = np.zeros_like(noisy)
        for _ in range(_ROUNDS):
            norms = np.maximum(np.diag(noisy - noise), 0.0)
            energy = np.maximum(energies - shares * (self.bags.proportions @ norms), 0.0)
            noise = self._solved_gram(np.diag(energy))
        return noise

    def ratios(self, across: np.ndarray) -> np.ndarray:
        """Return rho of a table from the inner products (C,) of its mean with the cells' sums."""
        near = self._weights @ across
        if self.constraint == "rkhs":
            return least_squares_on_simplex(self.class_gram, self.bags.solved @ near)
        alpha = np.linalg.lstsq(self.bag_gram, near, rcond=1e-10)[0]  # eq. (5)
        return nearest_proportions((self.bags.proportions.T @ alpha)[None])[0]

    def energy(self, direction: np.ndarray) -> float:
        """Return || sum_k v_k Psi_k ||^2 without sampling noise, however little is left of it."""
        noisy = self._solved_gram(self.bag_gram)
        return float(direction @ (noisy - self._noise(noisy)) @ direction)

    def least_distinct_direction(self) -> np.ndarray:
        """Return the unit direction of sum zero in which the class embeddings differ least."""
        zero_sum = _zero_sum(len(self.bags.classes))
        noisy = self._solved_gram(self.bag_gram)
        _, vectors = np.linalg.eigh(zero_sum.T @ (noisy - self._noise(noisy)) @ zero_sum)
        return np.asarray(zero_sum @ vectors[:, 0])


def _zero_sum(classes: int) -> np.ndarray:
    """Return an orthonormal basis (K, K - 1) of the directions within the simplex."""
    centred = np.eye(classes) - 1 / classes
    return np.linalg.svd(centred)[0][:, : classes - 1]


def held_back_errors(bags: KnownBags, cells: CellGram, constraint: str) -> np.ndarray:
    """Return squared errors (folds, M + 1) of the ratios of rows that were held back.

    In each fold a part of every bag's rows is held back; its ratios are estimated bag by bag, and
    of all parts together, from the rest. Bags of fewer rows than folds have fewer folds.
    """
    errors = []
    fewest = int(cells.bag_sizes.min())
    for fold in range(min(FOLDS, fewest)):
        held_back = cells.folds == fold
        fitted = MeanEmbedding(bags, cells, np.where(held_back, 0.0, 1.0), constraint)
        parts = cells.bag_weights(np.where(held_back, 1.0, 0.0))
        sizes = bags.sizes / bags.sizes.sum()
        parts = np.vstack([parts, sizes @ parts])
        truth = np.vstack([bags.proportions, bags.prior])
        estimates = np.array([fitted.ratios(cells.products @ part) for part in parts])
        errors.append(((estimates - truth) ** 2).sum(axis=1))
    return np.array(errors)


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Computes a proved bound on the error of these ratios (Iyer et al. 2016, Theorem 1).

    With probability 1 - delta, for M bags of sizes n_i and a table U of n_u rows,

        ||rho^ - rho|| <= sqrt(sum_i C(n_i)^2) / s (1 + Q) + Q C(n_u),
        C(n) = 2 / sqrt(n) + sqrt(ln(2 (2M + 1) / delta) / (2n)),   Q = maxsing(P) / s

    with s the smallest singular value of the bags' mean embeddings, here their K-th: with more bags
    than classes the smallest goes to zero although the ratios are identified. Lemma 2 as printed
    divides inside its root; the theorem has it right (docs/errata.md). True for every kernel of
    norm one, for every data set, and far from what happens on most.

    ``variances`` (M, K) are those of the proportions' entries. ``applies``: whether the kernel has
    norm one and the noise of the proportions is stated.
    """

    smallest: float
    largest_proportion: float
    sizes: np.ndarray
    variances: np.ndarray
    applies: bool = True

    @classmethod
    def of(cls, bag_gram: np.ndarray, bags: KnownBags, *, normed: bool = True) -> "ErrorBound":
        """Return the bound of bags with this Gram matrix of mean embeddings."""
        many, classes = bags.proportions.shape
        values = np.maximum(np.linalg.eigvalsh(bag_gram)[::-1], 0.0)
        variances = bags.variances if bags.variances is not None else np.zeros(many)
        return cls(
            float(np.sqrt(values[classes - 1])),
            float(np.linalg.norm(bags.proportions, 2)),
            bags.sizes,
            np.repeat(variances[:, None], classes, axis=1),
            normed and bags.variances is not None,
        )

    @property
    def condition(self) -> float:
        """Q(D), the condition number of the bags."""
        return self.largest_proportion / max(self.smallest, 1e-300)

    def __call__(self, size: float, delta: float = 0.05) -> float:
        """Return the bound for a table of ``size`` rows, noise of private proportions included.

        The noise adds its own term, ||P~ - P^||_F / s (Section 3.1), at half of delta.
        """
        if not self.applies:
            raise ParameterError(
                "This bound needs kernel='rbf' or 'laplace', and a release that states its noise."
                " Use interval instead."
            )
        if not (size >= 1 and 0 < delta < 1):
            raise ParameterError(
                "size must be at least 1, and delta must lie between 0 and 1. Change them."
            )
        private = bool(self.variances.any())
        rest = delta / 2 if private else delta
        many = len(self.sizes)

        def confidence(n: np.ndarray | float) -> np.ndarray:
            return 2 / np.sqrt(n) + np.sqrt(np.log(2 * (2 * many + 1) / rest) / (2 * np.asarray(n)))

        inverse = 1 / max(self.smallest, 1e-300)
        learnt = np.sqrt((confidence(self.sizes) ** 2).sum()) * inverse * (1 + self.condition)
        noise = proportion_noise(self.variances, delta / 2) * inverse if private else 0.0
        return float(learnt + self.condition * confidence(size) + noise)


def proportion_noise(variances: np.ndarray, zeta: float) -> float:
    """Return what ||P~ - P^||_F stays below with probability 1 - zeta (Chebyshev on its square).

    ``variances`` (M, K) are those of the entries. The projection onto the simplex, which is
    convex, can only bring P~ nearer to P^.
    """
    return float(np.sqrt(variances.sum() / zeta))


def lemma4(variances: np.ndarray, zeta: float) -> float:
    """Return the same as Lemma 4 prints it: M K max deviation / sqrt(zeta).

    A union bound over entries, and so sqrt(M K) times as large as `proportion_noise` or more.
    """
    return float(variances.size * np.sqrt(variances.max() / zeta))
