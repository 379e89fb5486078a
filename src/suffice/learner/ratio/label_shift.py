"""Whether bags differ in more than their class proportions: a test from the bags alone.

Under label shift the mean of rows over bag i is P_i Psi, Psi (K, d) the class means. With rows
whitened by their covariance within bags, Y_i = sqrt(n_i) times the mean of bag i, and Q the
projector onto what sqrt(n) P does not explain,

    T = ||Q Y||^2,   E = sum_i Q_ii tr S_i,   V = 2 sum_ij Q_ij^2 tr(S_i S_j),   nu = 2 E^2 / V

and T nu / E is nearly chi-square of nu degrees of freedom (Welch 1938, Satterthwaite 1946; MATHS.md
section 8). S_i is the covariance of rows within bag i. It contains the difference of classes, which
exact proportions fix, so that the test rejects a little less often than its level says.

Noise z_i on P_i moves Y_i by sqrt(n_i) z_i Psi: S_i gains n_i Psi^T V_i Psi. P are then the
proportions before their projection, and Psi comes from them with their noise taken off, as in
`moment_inversion`, and is no farther apart than label shift allows. Whitened means of few rows are
not normal: only as many coordinates are used as the smallest bag has groups of
`_ROWS_PER_COORDINATE` rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from suffice.learner.ratio.bags import KnownBags
from suffice.learner.ratio.moment_matching import ScoreMoments, mean_and_covariance

__all__ = ["LEVEL", "LabelShiftTest", "assess_label_shift", "chance_beyond", "white_axes"]

LEVEL = 0.05  # false alarms in the long run
_ROWS_PER_COORDINATE = 5
_FEWEST, _MOST = 2, 100  # coordinates
_RANK = 1e-6  # of the largest variance: directions of less are constant


@dataclass(frozen=True)
class LabelShiftTest:
    """Says whether the bags differ in more than their class proportions.

    Parameters
    ----------
    tested : bool
        Whether the bags can be tested at all.
    p : float or None
        The probability of bags that differ as much or more under label shift; None if untested.
    rejected : bool or None
        Whether ``p`` is below .05; None if untested.
    excess : float
        How much larger the differences are than label shift explains, as a ratio of variances; at
        least 1, and 1 if untested.
    reason : str or None
        Why the bags cannot be tested; None if they were.
    """

    tested: bool
    p: float | None = None
    rejected: bool | None = None
    excess: float = 1.0
    reason: str | None = None

    def to_json(self) -> dict[str, bool | float | str | None]:
        """Return all of it for programs."""
        return {
            "tested": self.tested,
            "p": self.p,
            "rejected": self.rejected,
            "reason": self.reason,
        }


def assess_label_shift(bags: KnownBags, rows: np.ndarray, codes: np.ndarray) -> LabelShiftTest:
    """Return the test of bags with these rows (n, d), ``codes`` the bag of each.

    ``bags.sizes`` are the numbers of these rows. With exactly K bags every mean is explained, and
    nothing is left to test.
    """
    reason = _untestable(bags)
    if reason is not None:
        return LabelShiftTest(tested=False, reason=reason)
    axes = white_axes(rows, codes, int(bags.sizes.min()))
    moments = ScoreMoments.of(bags, rows @ axes, codes)
    psi = _possible_means(bags, moments.class_means().psi)
    spreads = bags.sizes[:, None, None] * moments.errors(psi)
    root = np.sqrt(bags.sizes)[:, None]
    explained = root * bags.unbiased_proportions
    left = np.eye(len(root)) - explained @ np.linalg.pinv(explained)
    statistic = float(((left @ (root * moments.means)) ** 2).sum())
    mean = float(np.diag(left) @ np.trace(spreads, axis1=1, axis2=2))
    flat = spreads.reshape(len(spreads), -1)
    variance = 2 * float((left**2 * (flat @ flat.T)).sum())
    p = chance_beyond(statistic, mean, variance)
    return LabelShiftTest(tested=True, p=p, rejected=p < LEVEL, excess=max(1.0, statistic / mean))


def _possible_means(bags: KnownBags, psi: np.ndarray) -> np.ndarray:
    """Return class means (K, q) of white rows, drawn together as far as label shift allows.

    The covariance within bags is the unit matrix. Under label shift it contains that of the class
    means, B = sum_i n_i psi^T (diag P_i - P_i P_i^T) psi / n, whose eigenvalues are thus at most
    one. Bags that differ in x make class means look farther apart, and with them the noise on P.
    """
    shares, weights = bags.unbiased_proportions, bags.sizes / bags.sizes.sum()
    squares = np.einsum("i,ik,il->kl", weights, shares, shares)
    noise = np.einsum("i,ikl->kl", weights, bags.noise_covariances)  # is in the squares too
    between = psi.T @ (np.diag(weights @ shares) - squares + noise) @ psi
    most = float(np.linalg.eigvalsh(between)[-1])
    return psi / np.sqrt(max(most, 1.0))


def _untestable(bags: KnownBags) -> str | None:
    many, classes = bags.proportions.shape
    if many <= classes:
        return f"{many} bags with {classes} classes leave nothing to test"
    if not bags.disjoint:
        return "some rows are in several bags"
    if bags.variances is None:
        return "the release does not state its noise"
    return None


def chance_beyond(statistic: float, mean: float, variance: float) -> float:
    """Return the chance of more than ``statistic`` for a scaled chi-square of these moments."""
    freedom = 2 * mean**2 / max(variance, 1e-300)
    return float(chi2.sf(statistic * freedom / max(mean, 1e-300), freedom))


def white_axes(rows: np.ndarray, codes: np.ndarray, fewest: int) -> np.ndarray:
    """Return axes (d, q) along which rows vary by one within bags, the widest first.

    ``fewest`` is the number of rows of the smallest group whose mean is to be compared.
    """
    many = int(codes.max()) + 1
    within = np.zeros((rows.shape[1], rows.shape[1]))
    for i in range(many):
        part = rows[codes == i]
        within += mean_and_covariance(part)[1] * len(part) ** 2
    values, vectors = np.linalg.eigh(within / len(rows))
    values, vectors = values[::-1], vectors[:, ::-1]
    most = int(np.clip(fewest // _ROWS_PER_COORDINATE, _FEWEST, _MOST))
    count = min(most, int(np.count_nonzero(values > _RANK * max(values[0], 1e-300))))
    return np.asarray(vectors[:, :count] / np.sqrt(values[:count]))
