"""How far a model follows the noise, by trial: for models of operators that were restored.

Stein's lemma (`operator.tuning`) needs tr(Q d theta / d mu). Of a restored operator
(`operator.restoring`) no formula gives it: so noise e ~ N(0, Q) is drawn, and a little of it, h e,
is added to the released operator, which is then restored again. With v = (theta(mu + h e) -
theta(mu)) / h,

    E <e, v> = tr(Q d theta / d mu),    E v^T Q v = tr((d theta / d mu)^T Q (d theta / d mu) Q),

up to h^2 (Ramani, Blu & Unser 2008). The solver is not run again: theta moves by weight H^-1 times
what the restored operator moves by.
"""

from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from suffice.learner.operator.restoring import Restoration
from suffice.learner.operator.tuning import least_ridge, spreads
from suffice.models.problem import FactoredProblem

__all__ = ["optimism_by_trial"]

_STEP = 0.25  # h: smaller steps drown in what a projection is off by
_PROBES, _FEW_PROBES = 8, 4
_LARGE = 500_000  # cells of rows: a projection of so many takes its time


def optimism_by_trial(
    problem: FactoredProblem, model: np.ndarray, lam: float, restoration: Restoration
) -> tuple[float, float]:
    """Return by how much a model's risk is too small, and the deviation of the mended risk.

    ``problem`` has the released operator, in the coordinates that ``restoration`` returns, and
    ``model`` is fitted to what that returns. The deviation is that of `Optimism.error`, and of the
    draws here. The same numbers are drawn every time.
    """
    rng = np.random.default_rng(0)
    hessian, varied = spreads(problem, model)
    sampling = varied / problem.weighted.labels
    factor = cho_factor(hessian + least_ridge(problem, lam, hessian) * np.eye(len(hessian)))
    used: np.ndarray = np.ones(len(model), dtype=bool)
    if not problem.penalty.smooth:  # coordinates at zero stay there when the operator moves
        used = np.asarray(model.reshape(len(model), -1).any(axis=1))
        part = hessian[np.ix_(used, used)]
        factor = cho_factor(part + least_ridge(problem, lam, hessian) * np.eye(len(part)))
    weight, basis = problem.operator_weight, restoration.basis
    products, sizes = [], []
    for noise, moved in _moves(problem, model, restoration, rng):
        follows = np.zeros_like(moved)
        follows[used] = weight * cho_solve(factor, moved[used])
        white = noise if basis is None else basis.T @ noise
        products.append(float(np.sum(white * follows)))
        sizes.append(_spread(follows, sampling, restoration))
    variance = _spread(model, sampling, restoration) + float(np.mean(sizes))
    variance += float(np.var(products, ddof=1)) / len(products)
    return weight * float(np.mean(products)), weight * float(np.sqrt(variance))


def _spread(model: np.ndarray, sampling: np.ndarray, restoration: Restoration) -> float:
    """Return theta^T Q theta over the columns of a model."""
    theta = model.reshape(len(model), -1)
    pipeline = theta if restoration.basis is None else restoration.basis @ theta
    return restoration.noise.quadratic(pipeline) + float(np.sum(theta * (sampling @ theta)))


def _moves(
    problem: FactoredProblem,
    model: np.ndarray,
    restoration: Restoration,
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield noise, in the pipeline's coordinates, and how the restored operator moves with it."""
    on_sample = restoration.on_sample()
    operator, rows = restoration.released, on_sample.rows
    still = on_sample(operator)
    probes = _PROBES if rows.shape[0] * rows.shape[1] <= _LARGE else _FEW_PROBES
    scores = problem.weighted.sample.scores(model)
    for _ in range(probes):
        noise = _released_noise(restoration, rng)
        # As many labels as there are vary less than those of a sample.
        few = np.sqrt(rows.labels / restoration.rows.labels)
        noise = noise + few * rows.combined((rows.weights * _label_noise(problem, scores, rng).T).T)
        if operator.ndim > 1:  # what all columns of M share is public, and was set right
            noise = noise - noise.mean(axis=1, keepdims=True)
        yield noise, (on_sample(operator + _STEP * noise) - still) / _STEP


def _released_noise(restoration: Restoration, rng: np.random.Generator) -> np.ndarray:
    """Return noise like that of the release, as if it were Gaussian."""
    noise, shape = restoration.noise, restoration.released.shape
    if noise.form == "factor" and noise.array is not None:
        drawn = noise.array @ rng.normal(size=(noise.array.shape[1], *shape[1:]))
    else:
        drawn = rng.normal(size=shape)
        if noise.array is not None:
            drawn = (np.sqrt(noise.array) * drawn.T).T
    return np.asarray(np.sqrt(noise.variance) * drawn)


def _label_noise(
    problem: FactoredProblem, scores: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return fresh labels minus their means, as the model says how likely they are."""
    if scores.ndim > 1:
        shares = softmax(scores, axis=1)
        codes = (rng.random((len(shares), 1)) > np.cumsum(shares, axis=1)).sum(axis=1)
        return np.eye(shares.shape[1])[np.minimum(codes, shares.shape[1] - 1)] - shares
    loss = problem.loss
    chance = np.full(len(scores), 0.5)
    if loss is not None and loss.link is not None:
        chance = loss.link(scores)
    return 2 * ((rng.random(len(scores)) < chance) - chance)
