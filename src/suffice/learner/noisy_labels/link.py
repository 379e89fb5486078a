"""Probabilities of true classes from a classifier that was trained on randomised labels."""

from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

__all__ = ["ChannelLink", "fit_link", "label_losses", "probability_error"]

_SCALES = np.linspace(0.98, 0.0, 50)  # of scores, from what was fitted down to none
_STEEPEST = 100.0  # of a slope: steeper ones are steps
_SMALLEST = 1e-300  # of a probability whose logarithm is taken
_RIDGE = 1e-6  # keeps the shift of a class finite that no held-out label has


@dataclass(frozen=True, eq=False)
class ChannelLink:
    """Computes p(y | x) = softmax(slope log q(x) + shift) from the classifier's own q(x).

    A classifier trained on randomised labels estimates q = P p, with P the channel. P^-1 q would
    bring p back, but amplifies the errors of q and leaves [0, 1]. This link is fitted to held-out
    randomised labels instead, through the channel.

    Attributes
    ----------
    slope : float
        How much surer the true classes are than the randomised ones, at least 0. At 0 every row
        gets the same probabilities: the rows tell nothing of the labels.
    shift : ndarray of shape (K,)
        What is added to the logarithm of each class.
    """

    slope: float
    shift: np.ndarray

    def apply(self, log_probabilities: np.ndarray) -> np.ndarray:
        """Return the probabilities of true classes (n, K) for the logarithms of q (n, K)."""
        return np.asarray(softmax(self.slope * log_probabilities + self.shift, axis=1))


def label_losses(probabilities: np.ndarray, labels: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """Return -log (P p_i)_z(i), the log loss of each randomised label z(i)."""
    chances = (channel[labels] * probabilities).sum(axis=1)
    return np.asarray(-np.log(np.maximum(chances, _SMALLEST)))


def fit_link(
    log_probabilities: np.ndarray,
    labels: np.ndarray,
    channel: np.ndarray,
    weights: np.ndarray | None = None,
) -> ChannelLink:
    """Return the link with the largest likelihood of held-out randomised labels.

    minimise -(1/n) sum_i log (P softmax(slope u_i + shift))_z(i) over slope >= 0 and shift

    (forward correction: Patrini et al. 2017, Theorem 2, of two parameters a class instead of the
    whole model). The first class has no shift.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n, K)
        u_i, the logarithms of what a classifier says of rows that it has not seen.
    labels : ndarray of shape (n,)
        z(i), the codes of their randomised labels.
    channel : ndarray of shape (K, K)
        P[z, y] = P(randomised label z | true label y).
    weights : ndarray of shape (n,), optional
        How much each row counts; all alike unless set.
    """
    count = channel.shape[0]
    shares = np.full(len(labels), 1.0) if weights is None else weights
    shares = shares / (shares.sum() or 1.0)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        link = ChannelLink(parameters[0], np.append(0.0, parameters[1:]))
        p = link.apply(log_probabilities)
        chances = np.maximum((channel[labels] * p).sum(axis=1), _SMALLEST)
        # d/ds_k of -log sum_j P_zj p_j is -p_k (P_zk / q_z - 1).
        slopes = p * (1 - channel[labels] / chances[:, None])
        slopes *= shares[:, None]
        gradient = np.append((slopes * log_probabilities).sum(), slopes.sum(axis=0)[1:])
        penalty = _RIDGE / 2 * float(parameters[1:] @ parameters[1:])
        gradient[1:] += _RIDGE * parameters[1:]
        return float(-np.log(chances) @ shares) + penalty, gradient

    starts = (np.append(1.0, np.zeros(count - 1)), np.append(0.0, np.zeros(count - 1)))
    bounds = [(0.0, _STEEPEST)] + [(None, None)] * (count - 1)
    tries = [minimize(objective, s, jac=True, bounds=bounds, method="L-BFGS-B") for s in starts]
    best = min(tries, key=lambda result: float(result.fun)).x
    return ChannelLink(float(best[0]), np.append(0.0, best[1:]))


def probability_error(
    link: ChannelLink, log_probabilities: np.ndarray, labels: np.ndarray, channel: np.ndarray
) -> float:
    """Return how far off probabilities are if their scores are too large by one standard error.

    p_t = softmax(t (slope u + shift)) has the log likelihood L(t) of held-out randomised labels.
    The smallest scale within a standard error is the t below which L falls under L(1) - 1/2. The
    result is the mean of |p_1 - p_t| over rows and classes.
    """

    def at(scale: float) -> np.ndarray:
        scaled = ChannelLink(scale * link.slope, scale * link.shift)
        return scaled.apply(log_probabilities)

    def loss(scale: float) -> float:
        return float(label_losses(at(scale), labels, channel).sum())

    limit = loss(1.0) + 0.5
    smaller = takewhile(lambda scale: loss(scale) <= limit, _SCALES)
    return float(np.abs(at(1.0) - at(min(smaller, default=1.0))).mean())
