"""Learning from randomised records as Barber 2020 does: sampled EM, and baselines.

The paper's own solver (Section 5.1) is expectation maximisation with importance sampling: draw S
clean records per corrupted one from the factorised posterior rho(x | x~), weigh them by how well
they explain the corrupted label, w(s|n) ~ p(c~_n | x^s) (eq. 59), and raise the weighted likelihood
of the clean model (eq. 60); again, with new weights, until the likelihood stands still. It is the
reference that the deterministic solver is compared with.

The baselines are logistic (softmax) regressions with weights in the coordinates of the declared
columns (`declared_pipeline`), the penalty (lam/2) ||theta||^2 chosen by cross-validation on what
each was given:

clean           on the clean records: what no learner here has (Section 6)
naive           on the corrupted records as if they were clean (eq. 34)
whitened        the same in coordinates of even spread (Appendix B)
reconstruction  on records that the model being learnt reconstructs (eq. 36, 37)

None of the last three is consistent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.covariance import ledoit_wolf

from suffice.learner.problem import design_matrix
from suffice.learner.spread_likelihood import (
    CleanFeatures,
    Corrupted,
    Prior,
    SpreadLikelihood,
    choose_lam,
    clean_features,
    coordinates,
    gaussian_posterior,
    marginals_of,
    maximise,
)
from suffice.releases.columns import Added, Flips, declared_pipeline

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


_TOL, _MAX_ITER = 1e-5, 2000


class Baseline(NamedTuple):
    """The weights of a fit in the coordinates of the declared columns, and its penalty."""

    theta_: np.ndarray
    lam_: float


def spread_baselines(
    records: Corrupted,
    codes: np.ndarray,
    channel: np.ndarray,
    clean: tuple[Any, np.ndarray] | None = None,
    *,
    lam: float | str = "auto",
    seed: int = 0,
) -> dict[str, Baseline]:
    """Return the other ways to learn from corrupted records, fitted, by name.

    ``codes`` are the observed labels and ``channel`` is P[observed i | true j], as in
    `SpreadClassifier.fit_corrupted`. ``clean``, a table of clean rows and the codes of their
    labels, adds what could be learnt from those. ``lam`` is the penalty, "auto" by cross-validation
    with folds drawn by ``seed``.
    """
    exact_channel = np.eye(len(channel))
    fits = {}

    def fitted(likelihood: SpreadLikelihood) -> Baseline:
        own = choose_lam(likelihood, max_iter=_MAX_ITER, seed=seed) if lam == "auto" else float(lam)
        return Baseline(maximise(likelihood, own, tol=_TOL, max_iter=_MAX_ITER)[0], own)

    if clean is not None:
        rows = CleanFeatures(design_matrix(clean[0], declared_pipeline(records.columns)))
        fits["clean"] = fitted(SpreadLikelihood(rows, clean[1], exact_channel))
    observed = as_observed(records)
    fits["naive"] = fitted(SpreadLikelihood(observed, codes, exact_channel))
    fits["whitened"] = _whitened(
        observed, lambda even: fitted(SpreadLikelihood(even, codes, exact_channel))
    )
    # Its own held-out value cannot choose a penalty, being best where the model is surest: it gets
    # that of naive training.
    own = fits["naive"].lam_
    objective = ReconstructionObjective(clean_features(records, "marginals"), codes, channel)
    theta = maximise(objective, own, tol=_TOL, max_iter=_MAX_ITER)[0]
    return {**fits, "reconstruction": Baseline(theta, own)}


def as_observed(records: Corrupted) -> CleanFeatures:
    """Return the corrupted records as if they were clean; the constant coordinate last."""
    blocks = []
    for column, cells in zip(records.columns, records.cells, strict=True):
        if isinstance(column.noise, Added):
            blocks.append(column.noise.scaled(cells)[:, None])
        else:
            blocks.append(coordinates(column)[cells])
    return CleanFeatures(np.hstack([*blocks, np.ones((records.count, 1))]))


def _whitened(observed: CleanFeatures, fitted: Callable[[CleanFeatures], Baseline]) -> Baseline:
    """Return naive training after a whitening of what was observed, in the old coordinates.

    Appendix B: naive training finds the direction of theta if inputs are isotropic. (A linear map
    changes a fit by its penalty alone; for Gaussian inputs and clean features the direction is
    right for any covariance, docs/errata.md.) Deviation: the covariance is shrunk (Ledoit & Wolf
    2004), for with fewer records than columns there is no whitening by the plain one.
    """
    rows = observed.mean[:, :-1]
    middle = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(ledoit_wolf(rows)[0])
    sure = values > values.max() * np.finfo(float).eps
    root = vectors[:, sure] / np.sqrt(values[sure])
    even = CleanFeatures(np.column_stack([(rows - middle) @ root, np.ones(len(rows))]))
    solution, lam = fitted(even)
    weights = root @ solution[:-1]
    constant = solution[-1] - middle @ weights
    return Baseline(np.concatenate([weights, constant[None]]), lam)


class ReconstructionObjective(SpreadLikelihood):
    """Computes -J, the fit to labels that the model itself reconstructs, and its gradient.

    J(theta) = (1/n) sum_i sum_c q_ic log p(c | x_i),    q_ic ~ P[c~_i | c] p(c | x_i)

    (Barber 2020, eq. 36 and 37), at the rows x_i expected of the corrupted ones: deviation, the
    spread around them is left out, which makes no difference where features are clean. Not
    consistent; worse, wherever P is positive J is largest, zero, for any direction of theta whose
    length goes to infinity, for a model that is sure reconstructs what it believes
    (docs/errata.md). What is found is the optimum nearest to zero, held by the penalty, which is of
    all weights, the constant's too.
    """

    def __call__(self, theta: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return -J + (lam/2) ||theta||^2 and its gradient."""
        rows = self.features.expected_rows
        scores = rows @ theta
        two = theta.ndim == 1
        logs = log_softmax(
            np.column_stack([np.zeros_like(scores), scores]) if two else scores, axis=1
        )
        with np.errstate(divide="ignore"):  # without noise: log 0, and a reconstruction of zero
            posterior = softmax(np.log(self.channel[self.codes]) + logs, axis=1)
        fits = (posterior * logs).sum(axis=1, keepdims=True)
        # d fit / d score_k = q_k (log p_k - fit) + q_k - p_k
        pulls = posterior * (logs - fits + 1) - np.exp(logs)
        gradient = -rows.T @ (pulls[:, 1] if two else pulls) / len(self.codes)
        value = -float(fits.mean()) + lam / 2 * float(np.vdot(theta, theta))
        return value, gradient + lam * theta
