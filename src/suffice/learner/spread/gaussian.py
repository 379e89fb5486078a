"""A Gaussian prior with correlations: each clean coordinate is also predicted from the others.

Numeric columns x with mean mu and covariance Sigma are observed as x~ with E[x~ | x] = alpha x +
beta, column by column (alpha = 1 for added noise, keep - other for flips). Then Cov(x~)_ij =
alpha_i alpha_j Sigma_ij off the diagonal, which corrupted records alone can tell, and the best
linear prediction of x is

    mu + Sigma A (Cov x~)^-1 (x~ - E x~),     A = diag(alpha),

with covariance Sigma - Sigma A (Cov x~)^-1 A Sigma for all records alike. Sigma is taken as low
rank plus diagonal; directions that sampling noise alone could explain are left out. Independent
columns (`posterior`) are the special case of rank zero: consistent only if columns are.
"""

from dataclasses import replace

import numpy as np

from suffice.learner.spread.frequencies import deconvolve, observed_frequencies
from suffice.learner.spread.likelihood import CleanFeatures
from suffice.learner.spread.posterior import Corrupted, clean_features, coordinates
from suffice.release.spread import Flips, SpreadColumn

__all__ = ["predicted_features"]

_LEAST = 1e-6  # variance of a coordinate


def predicted_features(records: Corrupted) -> CleanFeatures:
    """Return mean and covariance of the clean coordinates, numeric columns jointly Gaussian.

    Columns of text, and those with a table of flips, are taken as independent of all others.
    """
    independent = clean_features(records, "marginals")
    joint = [j for j, column in enumerate(records.columns) if _is_linear(column)]
    if not joint:
        return independent
    part = Corrupted(
        tuple(records.columns[j] for j in joint), tuple(records.cells[j] for j in joint)
    )
    predictions, residual_root = _best_linear(part)
    starts = np.concatenate([[0], np.cumsum([c.width for c in records.columns])])[joint]
    mean, spread = independent.mean.copy(), np.array(independent.spread)
    mean[:, starts], spread[:, starts] = predictions, 0.0
    root = np.zeros((mean.shape[1], residual_root.shape[1]))
    root[starts] = residual_root
    return replace(independent, mean=mean, spread=spread if spread.any() else None, root=root)


def _is_linear(column: SpreadColumn) -> bool:
    """Whether E[x~ | x] is linear in x, as the Gaussian prior needs it."""
    if isinstance(column.noise, Flips):
        return column.numeric and column.noise.keep is not None
    return True


def _best_linear(records: Corrupted) -> tuple[np.ndarray, np.ndarray]:
    """Return the best linear predictions (n, d), and a root (d, r) of their shared covariance."""
    coordinates_seen, mean, variance, alpha = _moments(records)
    shift = coordinates_seen - coordinates_seen.mean(axis=0)
    observed = shift.T @ shift / len(shift)
    loadings = _loadings(observed, variance, alpha, len(shift))
    common = loadings @ loadings.T
    clean = common + np.diag(np.maximum(variance - common.diagonal(), _LEAST))
    noisy = np.outer(alpha, alpha) * common
    np.fill_diagonal(noisy, np.maximum(observed.diagonal(), noisy.diagonal() + _LEAST))
    gain = np.linalg.solve(noisy, alpha[:, None] * clean)  # (Cov x~)^-1 A Sigma
    rest = clean - (alpha[:, None] * clean).T @ gain
    values, vectors = np.linalg.eigh((rest + rest.T) / 2)
    return mean + shift @ gain, vectors * np.sqrt(np.maximum(values, 0.0))


def _moments(records: Corrupted) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the observed coordinates, and mean, variance and alpha of every clean one."""
    width = len(records.columns)
    observed = np.empty((records.count, width))
    mean, variance, alpha = np.empty(width), np.empty(width), np.ones(width)
    for (_, noise), positions in records.groups().items():
        cells = np.stack([records.cells[j] for j in positions], axis=1)
        if isinstance(noise, Flips):
            states = coordinates(records.columns[positions[0]])[:, 0]
            marginals = deconvolve(observed_frequencies(cells, noise.states), noise)
            observed[:, positions] = states[cells]
            mean[positions] = marginals @ states
            variance[positions] = marginals @ states**2 - mean[positions] ** 2
            alpha[positions] = noise.matrix[0, 0] - noise.matrix[0, 1]
        else:
            observed[:, positions] = noise.scaled(cells)
            mean[positions] = observed[:, positions].mean(axis=0)
            variance[positions] = observed[:, positions].var(axis=0) - noise.scaled_variance
    return observed, mean, np.maximum(variance, _LEAST), alpha


def _loadings(
    observed: np.ndarray, variance: np.ndarray, alpha: np.ndarray, count: int
) -> np.ndarray:
    """Return B (d, r) with B B^T the common part of Sigma, above the edge of sampling noise.

    Sampling noise of a covariance of independent coordinates of variance s has eigenvalues up to
    s (2 sqrt(d/n) + d/n) above s (Marchenko & Pastur 1967).
    """
    covariance = observed / np.outer(alpha, alpha)
    np.fill_diagonal(covariance, variance)
    values, vectors = np.linalg.eigh(covariance)
    share = len(variance) / count
    size = float(np.mean(observed.diagonal() / alpha**2))
    significant = values > size * (2 * np.sqrt(share) + share)
    return vectors[:, significant] * np.sqrt(values[significant])
