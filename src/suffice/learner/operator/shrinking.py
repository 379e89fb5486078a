"""The signal in a noisy operator, by empirical Bayes: no labels, no privacy cost.

In coordinates z = B^T x in which the rows are white (sum_i w_i z_i z_i^T = I, the intercept one of
them) an operator A = B^T M is the least-squares fit of the labels, and entries along different z_j
are alike but for their noise n_j, which is known. Signal is taken to be

    A_j ~ N(centre_j, g_j I),   g_j = t (s_j / s_1)^q,

s_j the variance of the rows along z_j, so that A_j ~ N(centre_j, (g_j + n_j) I) as released. The
scale t and the exponent q are those of the largest likelihood: q = 0 is a ridge in white
coordinates, q = 1 one in the coordinates of the pipeline. The posterior mean keeps the share
k_j = g_j / (g_j + n_j) of what differs from the centre, the operator of labels that say nothing.

A model of z is then fitted with a small ridge. It shrinks all directions alike, so that it decides
little, but where the loss is flat it alone keeps what is left of the noise, k_j^2 n_j, small in
scores: they vary by at most weight^2 sum_j k_j^2 n_j / lam^2 with it (margin noise, H >= lam I).
"""

from dataclasses import dataclass, replace

import numpy as np

from suffice.learner.operator.combining import Supervised
from suffice.models.rows import WeightedRows
from suffice.release.covariance import Covariance

__all__ = ["Shrinkage", "around_centre", "white_basis"]

_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_SCALES = 10.0 ** np.arange(-8.0, 3.01, 0.1)  # of the largest signal
_FLAT = 2.0**-20  # of the largest variance: where rows vary less there is nothing to learn
_MARGIN_NOISE = 0.25  # variance that noise may add to a score, or to the margin of two classes
_LEAST_LAM = 1e-4
_NO_SIGNAL = 1e-3  # a smaller kept share is no signal


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Holds rows and operator in white coordinates, and the share that is kept along each of them.

    ``basis`` B is (d, r): z = B^T x; a model theta of z is the model B theta of x. ``kept_shares``
    is k (r,), ``exponent`` the chosen q. ``released`` has the operator as it came, and the noise n.
    """

    basis: np.ndarray
    kept_shares: np.ndarray
    exponent: float
    released: Supervised

    @classmethod
    def of(cls, supervision: Supervised, *, intercept: bool) -> "Shrinkage":
        """Return the signal of an operator; ``intercept``: the last coordinate is constant.

        The intercept says how large the classes are and nothing about rows: its share is its own.
        """
        variances, basis = white_basis(supervision.weighted, intercept=intercept)
        estimate = supervision.estimate
        noise = estimate.noise.along(basis)
        operator = basis.T @ estimate.operator
        signal = around_centre(operator)
        columns = max(signal.shape[1] - 1, 1)  # every row is in one class: the last one follows
        energy = np.sum(signal**2, axis=1) / columns
        features = slice(None, -1) if intercept else slice(None)
        kept_shares = np.zeros(len(noise))
        exponent, kept_shares[features] = _most_likely(
            variances, energy[features], noise[features], columns
        )
        if intercept:
            kept_shares[-1] = max(0.0, 1 - noise[-1] / energy[-1]) if energy[-1] > 0 else 0.0
        whitened_estimate = replace(
            estimate, operator=operator, noise=Covariance("diagonal", 1.0, noise)
        )
        return cls(
            basis,
            kept_shares,
            exponent,
            Supervised(supervision.weighted.in_basis(basis), whitened_estimate),
        )

    @property
    def shrunk(self) -> Supervised:
        """The operator's posterior mean, with what is left of the noise: kept^2 n."""
        estimate = self.released.estimate
        lost = (1 - self.kept_shares)[:, None] * around_centre(estimate.operator)
        operator = estimate.operator - lost.reshape(estimate.operator.shape)
        noise = Covariance("diagonal", 1.0, self.kept_shares**2 * estimate.noise.array)
        return replace(self.released, estimate=replace(estimate, operator=operator, noise=noise))

    def lam(self, weight: float) -> float:
        """Return the least ridge that bounds the margin noise; ``weight`` is the operator's.

        The margin of two classes has the noise of two columns.
        """
        columns = 1 if self.released.estimate.operator.ndim == 1 else 2
        noise = columns * float(self.shrunk.estimate.noise.diagonal(len(self.kept_shares)).sum())
        return max(weight * float(np.sqrt(noise / _MARGIN_NOISE)), _LEAST_LAM)

    @property
    def hides_all_features(self) -> bool:
        """Whether the noise hides every feature."""
        return bool(self.kept_shares[:-1].max(initial=0.0) < _NO_SIGNAL)

    def last(self) -> "Shrinkage":
        """Return the intercept's part alone."""
        return replace(self, basis=self.basis[-1:, -1:], kept_shares=self.kept_shares[-1:])


def white_basis(rows: WeightedRows, *, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' variances along the eigenvectors of their covariance, and B.

    Rows are centred by the intercept's coordinate, which stays the last one and becomes one;
    without it, second moments take the place of variances. Directions in which no row varies are
    left out.
    """
    width = rows.shape[1] - intercept
    mean = rows.mean[:width] if intercept else np.zeros(width)
    values, vectors = np.linalg.eigh(rows.moment[:width, :width] - np.outer(mean, mean))
    varying = values > _FLAT * max(float(values[-1]), np.finfo(float).tiny)
    values, basis = values[varying][::-1], (vectors[:, varying] / np.sqrt(values[varying]))[:, ::-1]
    if not intercept:
        return values, basis
    constant = float(rows.sample.matrix[0, -1])
    full = np.zeros((rows.shape[1], len(values) + 1))
    full[:-1, :-1], full[-1, :-1], full[-1, -1] = basis, -mean @ basis / constant, 1 / constant
    return values, full


def around_centre(operator: np.ndarray) -> np.ndarray:
    """Return what an operator (r,) or (r, K) has that labels which say nothing have not, (r, K)."""
    if operator.ndim == 1:
        return operator[:, None]
    return operator - operator.mean(axis=1, keepdims=True)


def _most_likely(
    variances: np.ndarray, energy: np.ndarray, noise: np.ndarray, columns: int
) -> tuple[float, np.ndarray]:
    """Return q, and the share of each coordinate that the prior of largest likelihood keeps.

    ``energy`` is the mean square of the signal's ``columns`` free entries along a coordinate.
    """
    largest = float(energy.max(initial=0.0))
    if not largest > 0:
        return 0.0, np.zeros(len(noise))
    if not noise.any():
        return 0.0, np.ones(len(noise))
    relative = variances / variances.max()
    best = (-np.inf, 0.0, np.zeros(len(noise)))
    for exponent in _EXPONENTS:
        signal = largest * _SCALES[:, None] * relative**exponent
        total = signal + noise
        fits = -columns / 2 * (np.log(total) + energy / total).sum(axis=1)
        at = int(np.argmax(fits))
        if fits[at] > best[0]:
            best = (float(fits[at]), exponent, signal[at] / total[at])
    return best[1], best[2]
