"""What clean features look like, learnt from corrupted ones: marginal distributions by EM.

For one discrete column with channel P and observed frequencies f~, the maximum-likelihood marginal
p maximises sum_i f~_i log (P p)_i; EM multiplies p_j by sum_i f~_i P_ij / (P p)_i until it stands
still (Barber 2020, eq. 65, with the expectation computed in place of sampled). All columns of one
kind go together; with keep-else-uniform noise the sum is b sum_k R_k + (a - b) R_j, R = f~ / (P p),
and no matrix is needed.
"""

import numpy as np

from suffice.release.spread import Flips

__all__ = ["deconvolved", "maximum_likelihood", "observed_frequencies"]

_MOST_ROUNDS = 500
_STILL = 1e-7
_FLOOR = 1e-3  # of an even share: EM cannot leave zero


def observed_frequencies(codes: np.ndarray, states: int) -> np.ndarray:
    """Return the share of each state in each column of ``codes`` (n, q), of shape (q, states)."""
    columns = codes.shape[1]
    flat = codes.astype(np.int64) + states * np.arange(columns)
    counts = np.bincount(flat.ravel(), minlength=states * columns)
    return counts.reshape(columns, states) / len(codes)


def deconvolved(frequencies: np.ndarray, noise: Flips) -> np.ndarray:
    """Return the clean marginals (q, states) of columns that went through the same noise."""
    return maximum_likelihood(frequencies, noise.matrix, noise.keep)


def maximum_likelihood(
    frequencies: np.ndarray, channel: np.ndarray, keep: float | None = None
) -> np.ndarray:
    """Return the distributions whose images under ``channel`` explain ``frequencies`` best.

    ``keep`` is the diagonal of a channel that sends what it does not keep to all others evenly.
    """
    states = frequencies.shape[1]
    other = None if keep is None else (1 - keep) / (states - 1)
    # Where P^-1 f~ is a distribution it is the answer itself; else EM starts near it.
    if keep is None or other is None:
        inverse = np.linalg.solve(channel, frequencies.T).T
    else:
        inverse = (frequencies - other) / (keep - other)
    clean = np.maximum(inverse, _FLOOR / states)
    clean /= clean.sum(axis=1, keepdims=True)
    for _ in range(_MOST_ROUNDS):
        if keep is None or other is None:
            ratio = frequencies / (clean @ channel.T)
            step = clean * (ratio @ channel)
        else:
            ratio = frequencies / (other + (keep - other) * clean)
            step = clean * (other * ratio.sum(axis=1, keepdims=True) + (keep - other) * ratio)
        moved = float(np.abs(step - clean).max())
        clean = step
        if moved < _STILL:
            break
    return clean / clean.sum(axis=1, keepdims=True)
