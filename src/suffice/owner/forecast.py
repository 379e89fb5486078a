"""What noise would do to a classifier: predicted from public rows, never from a label.

For noise of covariance C on the mean operator, S = X^T X / m and H = lam I + f''(0) S,

    v(lam) = (a/2)^2 tr(H^-1 C H^-1 S)

is the variance that the noise adds to the score theta^T x. What it costs depends on the signal,
which only labels know. So a signal is assumed: mu = S beta with beta in no direction more likely
than in another, of a size that a linear model explains the share r2 of the labels' variance. The
correlation of score and label is then

    rho(lam) = k tr(S^2 H^-1) / sqrt(k tr(S^3 H^-2) + tr(H^-1 C H^-1 S)),    k = r2 / tr(S),

and the accuracy between two equally large classes Phi(rho / sqrt(1 - rho^2)), Gaussian scores
given. C includes the sampling noise S/m of the labels, so that less noise than that gains nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

__all__ = ["SIGNALS", "PublicMoments", "Utility"]

# The share of the labels' variance that a linear model explains: hard, usual and easy problems.
SIGNALS: Mapping[str, float] = {"hard": 0.05, "usual": 0.2, "easy": 0.7}
_NOTHING = 1e-150  # rows so small have no size, and their scores no correlation with anything
_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)


@dataclass(frozen=True)
class Utility:
    """Predicted effect of noise: accuracy for each of SIGNALS, and v(lam) at the best penalty.

    ``correlation`` is the largest rho over lam for the usual signal: what mechanisms are compared
    by. ``margin_noise`` is (a/2)^2 tr(H^-1 C H^-1 S) of the logistic loss at that ``lam``.
    """

    correlation: float
    accuracy: tuple[float, ...]
    margin_noise: float
    lam: float


@dataclass(frozen=True, eq=False)
class PublicMoments:
    """Holds S of public rows by its eigenvalues and eigenvectors, with m and the class count."""

    values: np.ndarray
    vectors: np.ndarray
    count: int
    classes: int

    @classmethod
    def of(cls, rows: np.ndarray, count: int, classes: int) -> "PublicMoments":
        """Return the moments of a sample ``rows`` of ``count`` public rows."""
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        return cls(np.maximum(values, 0.0), vectors, count, classes)

    @property
    def curvature(self) -> float:
        """f''(0): 1/4 for the logistic loss, 1/K for softmax."""
        return 1 / 4 if self.classes == 2 else 1 / self.classes

    def utility(self, variances: np.ndarray) -> Utility:
        """Return the prediction for noise of these variances along the eigenvectors of S."""
        found = {name: self._best(variances, r2) for name, r2 in SIGNALS.items()}
        rho, margin, lam = found["usual"]
        accuracy = tuple(
            float(ndtr(r / math.sqrt(max(1 - r * r, 1e-12)))) for r, _, _ in found.values()
        )
        return Utility(rho, accuracy, margin, lam)

    def _best(self, variances: np.ndarray, r2: float) -> tuple[float, float, float]:
        """Return the largest rho over lam, with v and lam there."""
        s = self.values
        # Of K classes two are compared: 2/K of the rows, the noise of two columns, weight a/2 = 1.
        pair, columns, weight = (1.0, 1.0, 0.5) if self.classes == 2 else (2 / self.classes, 2.0, 1)
        inverse = 1 / (_LAMS[:, None] + self.curvature * s)
        noise = columns * (inverse**2 * variances * s).sum(axis=1)
        sampling = pair * (inverse**2 * s * s).sum(axis=1) / self.count
        k = r2 / max(float(s.sum()), _NOTHING) * pair**2
        rho = k * (inverse * s**2).sum(axis=1)
        spread = pair * np.sqrt(k * (inverse**2 * s**3).sum(axis=1) + noise + sampling)
        rho /= np.maximum(spread, _NOTHING)
        best = int(np.argmax(rho))
        return float(rho[best]), float(weight**2 * noise[best]), float(_LAMS[best])
