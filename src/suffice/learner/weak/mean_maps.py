"""Mean maps: class means solved from bag means, once for all bags or smoothly along a graph."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist, squareform

from suffice.errors import ParameterError
from suffice.learner.weak.bags import BagMoments, check_identified
from suffice.learner.weak.moments import as_operator, noise_of_gram, per_column
from suffice.models.gram import gram
from suffice.release.covariance import Covariance

__all__ = ["LaplacianMeanMap", "MeanMap", "similarity_of"]

_SIMILARITIES = ("gaussian", "normalised-cut", "none")
_RIDGE = 1e-9  # makes classes definite in a part of the graph whose bags are all alike

Mapped = tuple[np.ndarray, Covariance, str]


@dataclass(frozen=True)
class MeanMap:
    """Computes class means by least squares from bag means (Quadrianto et al. 2009).

    w = (Pi^T D Pi)^-1 Pi^T D B,   M_k = p_k w_k

    with B the bag means, Pi the proportions, p the class shares of all rows, and D the bag sizes
    (theirs is the identity; the variance of a bag's mean is one over its size).
    Assumes homogeneity, E[x | y, bag] = E[x | y] (E[x | bag] in Patrini et al. 2016, section 3, is
    a misprint), and proportions that tell the classes apart.
    """

    def weights(self, bags: BagMoments) -> np.ndarray:
        """Return G (n, K) with M = B^T G."""
        check_identified(bags)
        root = np.sqrt(bags.weights)
        inverse = np.linalg.pinv(root[:, None] * bags.shares)  # Algorithm 1, weighted
        return (bags.prior[:, None] * inverse * root).T

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator, its covariance and what that covers."""
        weights = self.weights(bags)
        within = _within_classes(_within_bags(rows, bags), bags, weights / bags.prior)
        note = (
            "The covariance of the rows about their class means, carried through the bag means;"
            " one within-class covariance for all classes and homogeneous bags, E[x|y,bag] ="
            " E[x|y], are assumed: a bias from bags that are not is not in it."
        )
        return _linear(bags, weights, within, note)


@dataclass(frozen=True)
class LaplacianMeanMap:
    """Computes class means per bag that vary smoothly along a graph of bags (Patrini et al. 2014).

    minimise  sum_j w_j ||b_j - pi_j b+_j - (1 - pi_j) b-_j||^2
              + (weight/2) sum_jj' v_jj' (||b+_j - b+_j'||^2 + ||b-_j - b-_j'||^2)
    mu = sum_j p_j (pi_j b+_j - (1 - pi_j) b-_j)

    with w_j the bag sizes, one on average. Two classes. Assumes that similar bags have similar
    class means.

    Parameters
    ----------
    similarity : {"gaussian", "normalised-cut", "none"}, default="gaussian"
        The similarity v of two bags: exp(-||b_j - b_j'|| / scale), the paper's v^nc, or zero.
    scale : float or None, default=None
        The scale of the gaussian similarity; None for the median distance of bag means.
    weight : float, default=1.0
        How much class means of similar bags must agree. As it grows, class means become equal in
        all bags: the mean map.
    """

    similarity: str = "gaussian"
    scale: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.similarity not in _SIMILARITIES:
            raise ParameterError(f"similarity must be one of {', '.join(_SIMILARITIES)}.")
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise ParameterError(f"weight must be a positive number. It is {self.weight!r}.")
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise ParameterError(f"scale must be a positive number, or None. It is {self.scale!r}.")

    def weights(self, bags: BagMoments) -> np.ndarray:
        """Return G (n, 2) with M = B^T G."""
        if bags.shares.shape[1] != 2:
            raise ParameterError(
                "This method works for two classes only. For more, use method='mean-map'."
            )
        check_identified(bags)
        near = similarity_of(bags, self.similarity, self.scale)
        laplacian = np.diag(near.sum(axis=1)) - near
        count = len(bags.sizes)
        smooth = np.kron(np.eye(2), self.weight * laplacian) + _RIDGE * np.eye(2 * count)
        both = np.vstack([np.diag(share) for share in bags.shares.T])  # Pi (2n, n)
        weighted = both * (count * bags.weights)
        solved = np.linalg.solve(
            weighted @ both.T + smooth, weighted
        )  # Algorithm 1; epsilon = _RIDGE
        parts = solved.reshape(2, count, count)  # class, bag of the class mean, bag of the row mean
        return np.einsum("jk,kji->ik", bags.weights[:, None] * bags.shares, parts)

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator, its covariance and what that covers."""
        note = (
            "The covariance of the rows about their bag's mean (at least that about class means),"
            " carried through the smoothed class means; the smoothing's bias is not in it."
        )
        return _linear(bags, self.weights(bags), _within_bags(rows, bags), note)


def similarity_of(bags: BagMoments, similarity: str, scale: float | None) -> np.ndarray:
    """Return v (n, n) with a diagonal of zeros (Patrini et al. 2014, section 3)."""
    count = len(bags.sizes)
    if similarity == "none" or count < 2:
        return np.zeros((count, count))
    if similarity == "gaussian":
        apart = pdist(bags.means)
        near = np.exp(-apart / (scale or float(np.median(apart)) or 1.0))
        return squareform(near)
    # ASSOC(j, j') sums ||x - x'||^2 over pairs of rows, which needs means and traces only; the
    # authors' code sums the distances themselves, quadratic in the rows.
    spread = bags.spread
    apart = spread[:, None] + spread + squareform(pdist(bags.means, "sqeuclidean"))
    across = np.outer(bags.sizes, bags.sizes) * apart
    own = np.diag(across)[:, None]
    own_shares = np.divide(own, own + across, out=np.full_like(across, 0.5), where=own + across > 0)
    near = own_shares + own_shares.T
    np.fill_diagonal(near, 0.0)
    return near


def _linear(bags: BagMoments, weights: np.ndarray, within: np.ndarray, note: str) -> Mapped:
    """Return B^T G as an operator, with the noise that rows of covariance ``within`` give it.

    The error of sum_j g_j b_j is sum_i e_i (g_j(i)/n_j(i) - t_y(i)/m), with e_i row i's deviation
    from its class mean and t_y what a row of class y weighs in the true operator.
    """
    operator = as_operator(bags.means.T @ weights)
    target = np.eye(weights.shape[1])
    if weights.shape[1] == 2:
        weights, target = weights[:, 1:] - weights[:, :1], target[:, 1:] - target[:, :1]
    per_row = (weights / bags.sizes[:, None])[:, None] - target / bags.sizes.sum()  # (n, K, c)
    rows = bags.sizes[:, None] * bags.shares
    variance = float(np.einsum("jk,jkc->c", rows, per_row**2).mean())
    classes = len(target)
    return operator, noise_of_gram(within, variance), note + per_column(classes)


def _within_bags(rows: np.ndarray, bags: BagMoments) -> np.ndarray:
    """Return the pooled covariance of rows about their bag's mean."""
    free = max(len(rows) - len(bags.sizes), 1)
    return (gram(rows) - gram(bags.means, bags.sizes)) / free


def _within_classes(pooled: np.ndarray, bags: BagMoments, solve: np.ndarray) -> np.ndarray:
    """Return the part of ``pooled`` that is not due to classes mixed in one bag.

    The part due to them is sum_j p_j (sum_k pi_jk w_k w_k^T - b_j b_j^T) with b_j = sum pi_jk w_k;
    the noise of the solved means w adds a share of the within part to it, so that part is shrunk
    until the traces agree.
    """
    shares, sizes = bags.shares, bags.weights
    mixed = np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)  # (K, K)
    means = solve.T @ bags.means
    between = means.T @ mixed @ means
    added = float(np.trace(mixed @ (solve.T / bags.sizes) @ solve))
    # traces: E[between] = true + added within, E[pooled] = true + within; solved for the true one
    pooled_trace, part = np.trace(pooled), max(np.trace(between), 1e-300)
    shrunk = (
        np.clip((part - added * pooled_trace) / ((1 - added) * part), 0, 1) if added < 1 else 0.0
    )
    return pooled - shrunk * between
