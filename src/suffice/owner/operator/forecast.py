"""What noise would do to a classifier: predicted from public rows, never from a label.

For noise of covariance C on the mean operator, S = X^T X / m and H = lam I + f''(0) S,

    v(lam) = (a/2)^2 tr(H^-1 C H^-1 S)

is the variance that the noise adds to the score theta^T x. What it costs depends on the signal,
which only labels know. So a signal is assumed: mu = S beta with beta in no direction more likely
than in another, of a size that a linear model explains the part r2 of the labels' variance. The
correlation of score and label is then

    rho(lam) = k tr(S^2 H^-1) / sqrt(k tr(S^3 H^-2) + tr(H^-1 C H^-1 S)),    k = r2 / tr(S),

C includes the sampling noise S/m of the labels, so that less noise than that gains nothing.

Labels -1 and +1 have the variance c = 4 p (1 - p) where the proportion p is positive. Signal and
sampling noise shrink with it and the noise of a mechanism does not, so that C counts as C / c. For
scores that are Gaussian in each class, with one variance, the means are apart by

    d = rho / sqrt(p (1 - p) (1 - rho^2))

standard deviations, and the best threshold has the accuracy

    p Phi(d/2 + L/d) + (1 - p) Phi(d/2 - L/d),    L = ln(p / (1 - p)),

which is Phi(rho / sqrt(1 - rho^2)) for equal classes. p is declared by the owner, never computed
from labels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError

__all__ = ["EQUAL", "SIGNALS", "PublicMoments", "Utility", "accuracy_at", "check_balance"]

EQUAL = 0.5  # the balance of two equally large classes
# The part of the labels' variance that a linear model explains: hard, usual and easy problems.
SIGNALS: Mapping[str, float] = {"hard": 0.05, "usual": 0.2, "easy": 0.7}
_NOTHING = 1e-150  # rows so small have no size, and their scores no correlation with anything
_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)


@dataclass(frozen=True)
class Utility:
    """Predicted effect of noise on a classifier.

    Parameters
    ----------
    correlation : float
        The largest correlation of scores and labels for the usual signal: what mechanisms are
        compared by.
    accuracy : tuple of float
        Predicted accuracy for each of `SIGNALS`: hard, usual and easy problems.
    margin_noise : float
        Variance that the noise adds to scores, at the penalty that is best without any noise. It
        is one penalty for all, so that more noise is more; a learner penalises more, and has less.
    lam : float
        The penalty at which ``correlation`` is reached.
    """

    correlation: float
    accuracy: tuple[float, ...]
    margin_noise: float
    lam: float

    @property
    def score_noise(self) -> float:
        """Standard deviation that the noise adds to scores: the root of ``margin_noise``."""
        return math.sqrt(self.margin_noise)


def check_balance(balance: float | None, classes: int) -> float:
    """Return the expected proportion of the positive class; None stands for equal classes."""
    if balance is None:
        return EQUAL
    if classes != 2:
        raise ParameterError(
            f"A class balance can be declared for two classes only; there are {classes}. Remove"
            " --balance."
        )
    if not (isinstance(balance, int | float) and 0 < balance < 1):
        raise ParameterError(
            f"The class balance must lie strictly between 0 and 1, for example 0.12; got"
            f" {balance!r}."
        )
    return float(balance)


def accuracy_at(correlation: float, balance: float = EQUAL) -> float:
    """Return the accuracy of the best threshold on scores of this correlation with the labels.

    Examples
    --------
    >>> round(accuracy_at(0.0, balance=0.12), 6)  # always the larger class
    0.88
    >>> round(accuracy_at(0.5), 3)
    0.718
    """
    ratio = correlation / math.sqrt(max(1 - correlation**2, 1e-12))
    if balance == EQUAL:
        return _normal(ratio)
    half = ratio / math.sqrt(balance * (1 - balance)) / 2  # d / 2
    shift = math.log(balance / (1 - balance)) / max(2 * half, _NOTHING)  # L / d
    return balance * _normal(half + shift) + (1 - balance) * _normal(half - shift)


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@dataclass(frozen=True, eq=False)
class PublicMoments:
    """The second moments S of public rows, and what is declared about their labels.

    Parameters
    ----------
    values, vectors : array
        Eigenvalues and eigenvectors of S.
    count : int
        Number of rows.
    classes : int
        Number of classes.
    balance : float
        Expected proportion of the positive of two classes; declared, never read from labels.
    """

    values: np.ndarray
    vectors: np.ndarray
    count: int
    classes: int
    balance: float = EQUAL

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
        label_variance = 4 * self.balance * (1 - self.balance)
        rho = {
            name: self._correlations(variances / label_variance, r2) for name, r2 in SIGNALS.items()
        }
        best = [float(values.max()) for values in rho.values()]
        accuracy = tuple(accuracy_at(correlation, self.balance) for correlation in best)
        exact = self._correlations(np.zeros_like(variances), SIGNALS["usual"])
        weight = 0.5 if self.classes == 2 else 1.0  # a/2
        margin = weight**2 * float(self._noise(variances)[np.argmax(exact)])
        lam = float(_LAMS[np.argmax(rho["usual"])])
        return Utility(float(rho["usual"].max()), accuracy, margin, lam)

    def _noise(self, variances: np.ndarray) -> np.ndarray:
        """Return tr(H^-1 C H^-1 S) for each lam; of K > 2 classes two columns are compared."""
        columns = 1.0 if self.classes == 2 else 2.0
        return np.asarray(columns * (self._inverse**2 * variances * self.values).sum(axis=1))

    def _correlations(self, variances: np.ndarray, r2: float) -> np.ndarray:
        """Return rho for each lam."""
        s, inverse = self.values, self._inverse
        pair = 1.0 if self.classes == 2 else 2 / self.classes  # the rows of the two compared
        sampling = pair * (inverse**2 * s * s).sum(axis=1) / self.count
        k = r2 / max(float(s.sum()), _NOTHING) * pair**2
        signal = k * (inverse**2 * s**3).sum(axis=1)
        spread = pair * np.sqrt(signal + self._noise(variances) + sampling)
        return np.asarray(k * (inverse * s**2).sum(axis=1) / np.maximum(spread, _NOTHING))

    @property
    def _inverse(self) -> np.ndarray:
        """H^-1 along the eigenvectors of S, a row for each lam."""
        return 1 / (_LAMS[:, None] + self.curvature * self.values)
