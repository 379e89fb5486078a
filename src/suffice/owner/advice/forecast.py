"""What noise leaves of a classifier, for every release in one figure, from public rows alone.

A signal is assumed as in `suffice.owner.operator.forecast`: mu = S beta, with beta in no direction
more likely than in another, of a size that a linear model explains the part r2 of the labels'
variance. A learner whose noisy second moments allow no penalty below ``floor`` reaches

    rho = max_(lam >= floor) k tr(S^2 H^-1) / sqrt(k tr(S^3 H^-2) + tr(H^-1 (C + S/m) H^-1 S)),

with H = S + lam and k = r2 / tr(S), C the covariance of the noise on mu. What the noise leaves is
rho over the same without noise. It compares releases of the same rows, and is no accuracy.
"""

import math

import numpy as np

from suffice.engines.summary import Summary
from suffice.owner.moments.noise import calibrated_moments
from suffice.owner.operator.forecast import EQUAL, SIGNALS
from suffice.privacy.calibrate import gaussian_multiplier

__all__ = ["Spectrum", "effective_labels", "heavy_tails"]

_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)  # times the mean variance of a coordinate
_NOTHING = 1e-150
_FAR = 1e6  # a penalty, over the mean variance, that leaves the direction of mu alone


def effective_labels(rows: int, epsilon: float, classes: int, balance: float = EQUAL) -> float:
    """Return as how many exact labels so many randomised ones count.

    m ((e^eps - 1) / (e^eps + K - 1))^2 for K classes, that is m tanh^2(eps/2) for two. Labels of
    two unequal classes have the variance c = 4 p (1 - p) and count as

        m c / (1 / tanh^2(eps/2) - 1 + c),

    the variance of a label over that of its unbiased estimate.

    Parameters
    ----------
    rows : int
        The number m of labels.
    epsilon : float
        Epsilon of each label.
    classes : int
        The number K of classes.
    balance : float
        The proportion p of the positive of two classes.

    Returns
    -------
    float
        A number of labels.

    Examples
    --------
    >>> round(effective_labels(10_000, 1.0, 2)), round(effective_labels(10_000, 1.0, 10))
    (2136, 215)
    >>> round(effective_labels(10_000, 1.0, 2, balance=0.05))
    491
    """
    odds = math.exp(min(epsilon, 300.0))
    part = ((odds - 1) / (odds + classes - 1)) ** 2
    if classes == 2:
        variance = 4 * balance * (1 - balance)
        part = variance / (1 / part - 1 + variance)
    return rows * part


def heavy_tails(summary: Summary) -> float:
    """Return the median excess kurtosis of public columns of numbers: 0 for a normal distribution.

    Columns of one value, or of two, do not count.
    """
    rows = summary.sample.rows
    kurtoses = []
    for name in summary.deviation:
        cells = rows.column(name).cast("float64").to_numpy(zero_copy_only=False)
        numbers = cells[np.isfinite(cells)]
        if len(np.unique(numbers)) > 2:
            numbers = numbers / np.abs(numbers).max()  # so that no square overflows
            centred = (numbers - numbers.mean()) / max(numbers.std(), _NOTHING)
            kurtoses.append(float((centred**4).mean()) - 3)
    return float(np.median(kurtoses)) if kurtoses else 0.0


class Spectrum:
    """The variances of public rows along their principal directions, and what noise does there.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Public rows.
    count : int
        The number of private rows.
    bound : float
        The length that no row exceeds.
    """

    def __init__(self, rows: np.ndarray, count: int, bound: float) -> None:
        centred = rows - rows.mean(axis=0)
        values = np.linalg.eigvalsh(centred.T @ centred / len(rows))
        self.values, self.count, self.bound = np.maximum(values, 0.0), count, bound
        self.width = len(values)
        self.mean_variance = max(float(self.values.mean()), _NOTHING)

    def kept(self, variance: float, floor: float = 0.0) -> float:
        """Return what even noise of this variance leaves, penalties being ``floor`` at least."""
        return self._correlation(variance, floor) / max(self._correlation(0.0, 0.0), _NOTHING)

    def _correlation(self, variance: float, floor: float) -> float:
        s = self.values
        inverse = 1 / (np.maximum(_LAMS * self.mean_variance, floor)[:, None] + s)
        k = SIGNALS["usual"] / (self.width * self.mean_variance)
        noise = (inverse**2 * (variance + s / self.count) * s).sum(axis=1)
        spread = np.sqrt(k * (inverse**2 * s**3).sum(axis=1) + noise)
        signal = k * (inverse * s**2).sum(axis=1)
        return float((signal / np.maximum(spread, _NOTHING)).max())

    def kept_by_moments(self, classes: int, epsilon: float, delta: float) -> float:
        """Return what the noise of moments leaves: on mu, and as a penalty on all directions."""
        noise = calibrated_moments(self.width, classes, self.count, epsilon, delta)
        on_mu, on_squares = (
            noise.blocks[name].deviation / self.count for name in ("operator", "diagonal")
        )
        floor = math.sqrt(self.width / 2) * on_squares * self.bound**2
        return self.kept((on_mu * self.bound) ** 2, floor)

    def kept_by_rados(self, epsilon: float, delta: float) -> float:
        """Return what is left if the noise hides all of rados but their mean, (m/2) mu.

        The mean has noise of sqrt(2) z times the longest row, z the multiplier of (epsilon, delta).
        """
        deviation = 2 * math.sqrt(2) * gaussian_multiplier(epsilon, delta) / self.count
        return self.kept((deviation * self.bound) ** 2, _FAR * self.mean_variance)

    def kept_by_responses(self, epsilon: float, classes: int, cell_noise: float) -> float:
        """Return what randomised records leave.

        ``epsilon`` is that of a label, ``cell_noise`` the mean variance of the noise on a cell over
        that of the cell. A product of two cells then has 1 + cell_noise times its variance.
        """
        labels = effective_labels(self.count, epsilon, classes)
        size = (1 + cell_noise) * self.mean_variance
        floor = math.sqrt(self.width / 2 / self.count) * size
        return self.kept(size / max(labels, _NOTHING), floor)
