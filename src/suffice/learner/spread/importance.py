"""The paper's own solver: expectation maximisation with importance sampling (Barber 2020, 5.1).

Draw S clean records per corrupted one from the factorised posterior rho(x | x~), weigh them by how
well they explain the corrupted label, w(s|n) ~ p(c~_n | x^s) (eq. 59), and raise the weighted
likelihood of the clean model (eq. 60); again, with new weights, until the likelihood stands still.
It is the reference that the deterministic solver is compared with.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from suffice.learner.spread.likelihood import (
    Corrupted,
    Prior,
    SpreadLikelihood,
    coordinates,
    gaussian_posterior,
    marginals_of,
)
from suffice.release.columns import Flips

__all__ = ["expectation_maximisation", "sampled_records"]

_ROUNDS = 200
_STEPS = 20  # of the optimiser, per round


def sampled_records(
    records: Corrupted, prior: Prior, samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the clean coordinates (samples, n, d + 1), the constant one last.

    Of keep-else-uniform noise a clean cell is the observed one with the probability
    (a - b) p(o) / (b + (a - b) p(o)), else a draw from the prior; other discrete noise is drawn
    from the table of posteriors, continuous columns from Gaussian ones (eq. 68-69).
    """
    parts: list[np.ndarray | None] = [None] * len(records.columns)
    for (_, noise), positions in records.groups().items():
        cells = np.stack([records.cells[j] for j in positions], axis=1)
        own_priors = None if isinstance(prior, str) else [np.asarray(prior[j]) for j in positions]
        if not isinstance(noise, Flips):
            mean, spread = (m[:, :, 0] for m in gaussian_posterior(cells, noise, prior, own_priors))
            values = mean + np.sqrt(spread) * rng.standard_normal((samples, *mean.shape))
            for index, j in enumerate(positions):
                parts[j] = values[:, :, index, None]
            continue
        marginals = marginals_of(cells, noise, prior, own_priors)
        states = coordinates(records.columns[positions[0]])
        for index, j in enumerate(positions):
            parts[j] = states[_draws(cells[:, index], noise, marginals[index], samples, rng)]
    ones = np.ones((samples, records.count, 1))
    return np.concatenate([*(part for part in parts if part is not None), ones], axis=2)


def _draws(
    cells: np.ndarray, noise: Flips, marginal: np.ndarray, samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Return states (samples, n) drawn from p(k | o)."""
    shape = (samples, len(cells))
    if noise.keep is not None and noise.keep > 1 / noise.states:
        other = (1 - noise.keep) / (noise.states - 1)
        sure = (noise.keep - other) * marginal[cells]
        fresh = np.searchsorted(
            np.cumsum(marginal), rng.random(shape) * marginal.sum(), side="right"
        )
        fresh = np.minimum(fresh, noise.states - 1)
        return np.where(rng.random(shape) < sure / (other + sure), cells, fresh)
    table = marginal * noise.matrix
    ends = np.cumsum(table / table.sum(axis=1, keepdims=True), axis=1)[cells]
    return np.minimum((rng.random(shape)[:, :, None] > ends).sum(axis=2), noise.states - 1)


def expectation_maximisation(
    draws: np.ndarray, likelihood: SpreadLikelihood, lam: float, *, tol: float
) -> np.ndarray:
    """Return the parameters at which the sampled likelihood stands still."""
    theta = np.zeros(likelihood.shape)
    row = likelihood.channel[likelihood.codes]
    before = np.inf
    for _ in range(_ROUNDS):
        clean = softmax(_scores(draws, theta), axis=2)
        evidence = np.maximum((clean * row).sum(axis=2), 1e-300)  # p(c~ | x^s)
        loss = likelihood.ridge(theta, lam)[0] - float(np.log(evidence.mean(axis=0)).mean())
        if before - loss < tol * abs(loss):
            break
        before = loss
        # eq. 59 for the records; for each the posterior of its clean class
        weights = evidence / evidence.sum(axis=0)
        classes = weights[:, :, None] * clean * row / evidence[:, :, None]
        theta = _weighted_fit(draws, classes, theta, partial(likelihood.ridge, lam=lam))
    return theta


def _scores(draws: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the scores of all classes, (samples, n, K); of two, the first has score zero."""
    scores = draws @ theta
    return np.stack([np.zeros_like(scores), scores], axis=2) if theta.ndim == 1 else scores


def _weighted_fit(
    draws: np.ndarray,
    classes: np.ndarray,
    start: np.ndarray,
    ridge: Callable[[np.ndarray], tuple[float, np.ndarray]],
) -> np.ndarray:
    """Return a better model of the weighted clean records: eq. 60, some steps of L-BFGS."""
    count = draws.shape[1]
    total = classes.sum(axis=2, keepdims=True)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(start.shape)
        logs = log_softmax(_scores(draws, theta), axis=2)
        pulls = (np.exp(logs) * total - classes) / count
        pulls = pulls[:, :, 1] if theta.ndim == 1 else pulls
        size, by_size = ridge(theta)
        gradient = np.tensordot(draws, pulls, axes=([0, 1], [0, 1])) + by_size
        return size - float(np.vdot(classes, logs)) / count, gradient.ravel()

    optimum = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    return optimum.x.reshape(start.shape)
