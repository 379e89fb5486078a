"""Probabilities of true classes from a classifier that was trained on randomised labels."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from suffice.learner.moderation import moderated_by_labels

__all__ = ["ChannelLink", "fit_link", "label_losses"]

_SMALLEST = 1e-300  # of a probability whose logarithm is taken


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
    error : float
        How far off probabilities are on average, by what held-out labels leave open.
    """

    slope: float
    shift: np.ndarray
    error: float = 0.0

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
    """Return the mean link over all slopes, as held-out randomised labels make them likely.

    The likelihood is prod_i (P softmax(slope u_i + shift))_z(i) (forward correction: Patrini et al.
    2017, Theorem 2, of two parameters a class instead of the whole model). The slope is integrated
    out (`suffice.learner.moderation`). The first class has no shift.

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
    link = moderated_by_labels(log_probabilities, labels, channel, weights)
    return ChannelLink(link.slope, link.shift, link.error)
