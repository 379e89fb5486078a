"""Fitting by the spread likelihood, and the penalty by its value on held-out corrupted records."""

from math import inf, sqrt
from typing import Protocol

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from suffice.errors import OptimisationError, ParameterError
from suffice.learner.spread.likelihood import SpreadLikelihood
from suffice.models.threads import one_blas_thread

__all__ = ["Objective", "calibration_slope", "choose_lam", "maximise"]

_LAMS = 10.0 ** np.arange(-5.0, 1.01, 0.5)
_FOLDS = 5
_REPEATS = 2
_RISES = 3
_MOST_RECORDS = 20_000
_STEP = 0.05  # of a slope, for second differences


class Objective(Protocol):
    """A function of the parameters that `maximise` makes small, such as `SpreadLikelihood`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""

    def __call__(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """Return the value at ``theta``, penalty included, and its gradient."""


@one_blas_thread()
def maximise(
    likelihood: Objective,
    lam: float,
    *,
    tol: float,
    max_iter: int,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, float, int]:
    """Return the parameters of largest penalised likelihood, the gradient there, and the steps.

    The likelihood is not concave where labels are corrupted; from zero, L-BFGS finds the optimum
    that is nearest to knowing nothing.
    """
    shape = likelihood.shape

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = likelihood(flat.reshape(shape), lam)
        return value, gradient.ravel()

    first = np.zeros(shape) if start is None else start
    options = {"maxiter": max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20}
    optimum = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    gradient = float(np.abs(optimum.jac).max())
    if not gradient <= 10 * tol:
        raise OptimisationError(
            f"The solver stopped at a gradient of {gradient:.2g}, above the goal of {tol:.2g}."
            " Use a larger max_iter or lam."
        )
    return optimum.x.reshape(shape), gradient, int(optimum.nit)


def choose_lam(likelihood: SpreadLikelihood, *, max_iter: int, seed: int = 0) -> float:
    """Return the penalty whose models give held-out corrupted labels the largest likelihood.

    Five folds, twice; no clean record is needed: the corrupted ones have a likelihood of their own.
    (Taking the strongest penalty within a standard error of the best, Breiman et al. 1984, left
    nothing of a weak signal.) Of more than 20,000 records a sample decides, and the penalty falls
    with their number, as the best one does.
    """
    count = len(likelihood.codes)
    if count < 2 * _FOLDS:
        raise ParameterError(
            f"{count} records are too few to choose the weight of the penalty. Set it with"
            " --penalty-weight (Python: lam=...)."
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)[:_MOST_RECORDS]
    sample = likelihood if len(order) == count else likelihood.select_rows(np.sort(order))
    losses = np.zeros(len(_LAMS))
    for _ in range(_REPEATS):
        folds = rng.permutation(len(order)) % _FOLDS
        for fold in range(_FOLDS):
            held_out = folds == fold
            losses += _path(sample.select_rows(~held_out), sample.select_rows(held_out), max_iter)
    return float(_LAMS[int(np.argmin(losses))]) * len(order) / count


def calibration_slope(
    likelihood: SpreadLikelihood, lam: float, *, max_iter: int, seed: int = 0
) -> tuple[float, float]:
    """Return what scores must be multiplied by to be log-odds of fresh rows, and its error.

    The slope s maximises the likelihood L(s) of held-out corrupted labels under s theta_f, theta_f
    learnt from the records of all other folds; its standard error is (-L''(1))^(-1/2). Where labels
    tell little, models are too sure of themselves at any penalty that keeps a weak signal. One
    number for all scores changes no prediction. A slope above one is cut to one: to be too sure
    costs more than to be too careful.
    """
    count = len(likelihood.codes)
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)[:_MOST_RECORDS]
    sample = likelihood if len(order) == count else likelihood.select_rows(np.sort(order))
    folds = rng.permutation(len(order)) % _FOLDS
    fold_lam = lam * count / len(order)
    pairs = []
    for held_out in (folds == fold for fold in range(_FOLDS)):
        training = sample.select_rows(~held_out)
        theta, _, _ = maximise(training, fold_lam, tol=1e-4, max_iter=max_iter)
        pairs.append((sample.select_rows(held_out), theta))

    def loss(slope: float) -> float:
        return sum(part(slope * theta)[0] * len(part.codes) for part, theta in pairs)

    slope = float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)
    information = (loss(1 + _STEP) - 2 * loss(1.0) + loss(1 - _STEP)) / _STEP**2
    return slope, sqrt(len(order) / (information * count)) if information > 0 else inf


def _path(fit: SpreadLikelihood, held_out: SpreadLikelihood, max_iter: int) -> np.ndarray:
    """Return the held-out loss at every penalty, from the strongest on."""
    losses = np.full(len(_LAMS), np.inf)
    start, worse = None, 0
    for i in reversed(range(len(_LAMS))):
        start, _, _ = maximise(fit, float(_LAMS[i]), tol=1e-4, max_iter=max_iter, start=start)
        losses[i] = held_out(start)[0]
        worse = worse + 1 if losses[i] > losses.min() else 0
        if worse == _RISES:
            losses[:i] = losses[i]  # weaker penalties overfit more
            break
    return losses
