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

__all__ = ["SIGNALS", "PublicMoments", "Utility"]

# The share of the labels' variance that a linear model explains: hard, usual and easy problems.
SIGNALS: Mapping[str, float] = {"hard": 0.05, "usual": 0.2, "easy": 0.7}
_NOTHING = 1e-150  # rows so small have no size, and their scores no correlation with anything
_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)


@dataclass(frozen=True)
class Utility:
    """Predicted effect of noise: accuracy for each of SIGNALS, and the variance of scores.

    ``correlation`` is the largest rho for the usual signal, at the penalty ``lam``: what mechanisms
    are compared by. ``margin_noise`` is v of the logistic loss at the penalty that is best without
    any noise: one for all, so that more noise is more. A learner penalises more, and has less.
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
        rho = {name: self._correlations(variances, r2) for name, r2 in SIGNALS.items()}
        best = [float(values.max()) for values in rho.values()]
        accuracy = tuple(0.5 * math.erfc(-r / math.sqrt(2 * max(1 - r * r, 1e-12))) for r in best)
        exact = self._correlations(np.zeros_like(variances), SIGNALS["usual"])
        weight = 0.5 if self.classes == 2 else 1.0  # a/2
        margin = weight**2 * float(self._noise(variances)[np.argmax(exact)])
        lam = float(_LAMS[np.argmax(rho["usual"])])
        return Utility(float(rho["usual"].max()), accuracy, margin, lam)

    def _noise(self, variances: np.ndarray) -> np.ndarray:
        """Return tr(H^-1 C H^-1 S) for each lam; of K > 2 classes two columns are compared."""
        columns = 1.0 if self.classes == 2 else 2.0
        return columns * (self._inverse**2 * variances * self.values).sum(axis=1)

    def _correlations(self, variances: np.ndarray, r2: float) -> np.ndarray:
        """Return rho for each lam."""
        s, inverse = self.values, self._inverse
        pair = 1.0 if self.classes == 2 else 2 / self.classes  # the rows of the two compared
        sampling = pair * (inverse**2 * s * s).sum(axis=1) / self.count
        k = r2 / max(float(s.sum()), _NOTHING) * pair**2
        signal = k * (inverse**2 * s**3).sum(axis=1)
        spread = pair * np.sqrt(signal + self._noise(variances) + sampling)
        return k * (inverse * s**2).sum(axis=1) / np.maximum(spread, _NOTHING)

    @property
    def _inverse(self) -> np.ndarray:
        """H^-1 along the eigenvectors of S, a row for each lam."""
        return 1 / (_LAMS[:, None] + self.curvature * self.values)
