"""What is proved about the error of ratios by mean embeddings (Iyer et al. 2016, Theorem 1).

With probability 1 - delta, for M bags of sizes n_i and a table U of n_u rows,

    ||rho^ - rho|| <= sqrt(sum_i C(n_i)^2) / s (1 + Q) + Q C(n_u),
    C(n) = 2 / sqrt(n) + sqrt(ln(2 (2M + 1) / delta) / (2n)),   Q = maxsing(P) / s

with s the smallest singular value of the bags' mean embeddings, here their K-th: with more bags
than classes the smallest goes to zero although the ratios are identified. Lemma 2 as printed
divides inside its root; the theorem has it right (docs/errata.md). True for every kernel of norm
one, for every data set, and far from what happens on most.
"""

from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.ratio.bags import KnownBags

__all__ = ["ErrorBound", "lemma4", "proportion_noise"]


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Computes the bound from singular values of embeddings and proportions, sizes and noise.

    ``variances`` (M, K) are those of the proportions' entries. ``known``: whether the kernel has
    norm one and the noise of the proportions is stated.
    """

    smallest: float
    largest_proportion: float
    sizes: np.ndarray
    variances: np.ndarray
    known: bool = True

    @classmethod
    def of(cls, bag_gram: np.ndarray, known: KnownBags, *, normed: bool = True) -> "ErrorBound":
        """Return the bound of bags with this Gram matrix of mean embeddings."""
        many, classes = known.proportions.shape
        values = np.maximum(np.linalg.eigvalsh(bag_gram)[::-1], 0.0)
        stated = known.variances if known.variances is not None else np.zeros(many)
        return cls(
            float(np.sqrt(values[classes - 1])),
            float(np.linalg.norm(known.proportions, 2)),
            known.sizes,
            np.repeat(stated[:, None], classes, axis=1),
            normed and known.variances is not None,
        )

    @property
    def condition(self) -> float:
        """Q(D), the condition number of the bags."""
        return self.largest_proportion / max(self.smallest, 1e-300)

    def __call__(self, size: float, delta: float = 0.05) -> float:
        """Return the bound for a table of ``size`` rows, noise of private proportions included.

        The noise adds its own term, ||P~ - P^||_F / s (Section 3.1), at half of delta.
        """
        if not self.known:
            raise ParameterError(
                "the bound is proved for kernels of norm one (rbf, laplace) and noise that the"
                " release states."
            )
        if not (size >= 1 and 0 < delta < 1):
            raise ParameterError("a bound needs a positive size, and delta between 0 and 1.")
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
