"""The penalty from the release itself: no labels, no privacy cost.

Thinning: draw e ~ N(0, C + S/m), the mechanism's noise plus the sampling noise of the labels. Then
mu + e and mu - e are two independent looks at the same truth (exactly so for Gaussian noise): fit
on one, score the factored risk with the other, and average. S = X^T X / m is public.

The averages share the noise of the release itself, which no drawing removes: where a model is large
its risk is a guess. So each model is charged one standard deviation of that guess,
(a/2) sqrt(2 theta^T C theta), and the least charged risk wins.
"""

from dataclasses import dataclass

import numpy as np

from suffice.learner.problem import FactoredProblem
from suffice.release.covariance import Covariance

__all__ = ["Choice", "choose_lam"]

_LAMS = 10.0 ** np.arange(-5.0, 2.01, 0.5)
_DRAWS = 5
_TOL = 1e-4  # a risk does not need more
_ROWS = 4000  # at most twice as many rows average the even part; the operator keeps all rows


@dataclass(frozen=True)
class Choice:
    """The chosen penalty, and whether the intercept alone predicts as well as any model."""

    lam: float
    intercept_only: bool
    lams: np.ndarray
    risks: np.ndarray


def choose_lam(
    problem: FactoredProblem,
    noise: Covariance,
    *,
    intercept: bool,
    max_iter: int,
    rng: np.random.Generator,
) -> Choice:
    """Return the penalty of least estimated risk; ``intercept``: the last coordinate is one."""
    stride = max(1, len(problem.rows) // _ROWS)
    small = FactoredProblem(problem.rows[::stride], problem.operator, problem.loss)
    risks = np.zeros(len(_LAMS))
    alone = 0.0
    for _ in range(_DRAWS):
        shift = _looks_apart(problem, noise, rng)
        seen, held = (small.with_operator(problem.operator + s) for s in (shift, -shift))
        risks += _risks_along_path(seen, held, noise, max_iter) / _DRAWS
        if intercept:
            alone += _intercept_risk(seen, held, noise, max_iter) / _DRAWS
    best = int(np.argmin(risks))
    return Choice(float(_LAMS[best]), intercept and bool(alone <= risks[best]), _LAMS, risks)


def _risks_along_path(
    seen: FactoredProblem, held: FactoredProblem, noise: Covariance, max_iter: int
) -> np.ndarray:
    """Return the charged risk at every penalty, from the strongest on, each start a solution."""
    risks = np.full(len(_LAMS), np.inf)
    hopeless = 2 * held.risk(np.zeros_like(held.operator))[0] + 1.0
    start = None
    for i in reversed(range(len(_LAMS))):
        start = seen.solve(_LAMS[i], tol=_TOL, max_iter=max_iter, start=start).parameters
        guess = _deviation(held, start, noise)
        risks[i] = held.risk(start)[0] + guess
        if guess > hopeless:  # a weaker penalty only makes the model larger
            break
    return risks


def _deviation(problem: FactoredProblem, parameters: np.ndarray, noise: Covariance) -> float:
    """Return (a/2) sqrt(2 theta^T C theta): how far the mechanism's noise moves a held risk."""
    weight = 1.0 if problem.loss is None else problem.loss.a / 2
    return weight * float(np.sqrt(2 * noise.quadratic(parameters)))


def _looks_apart(
    problem: FactoredProblem, noise: Covariance, rng: np.random.Generator
) -> np.ndarray:
    """Return one draw of e ~ N(0, C + S/m), column by column for a matrix."""
    rows, shape = problem.rows, problem.operator.shape
    columns = shape[1] if len(shape) > 1 else 1
    sampling = rows.T @ rng.standard_normal((len(rows), columns)) / len(rows)
    if columns > 1:
        sampling /= np.sqrt(columns)  # a label is in one of K columns: variance about 1/K of S/m
    return (sampling + _noise_like(noise, (rows.shape[1], columns), rng)).reshape(shape)


def _noise_like(noise: Covariance, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return Gaussian noise of the mechanism's covariance."""
    if noise.form == "factor" and noise.array is not None:
        drawn = noise.array @ rng.standard_normal((noise.array.shape[1], shape[1]))
    else:
        drawn = rng.standard_normal(shape)
        if noise.form == "diagonal" and noise.array is not None:
            drawn *= np.sqrt(noise.array)[:, None]
    return np.asarray(np.sqrt(noise.variance) * drawn)


def _intercept_risk(
    seen: FactoredProblem, held: FactoredProblem, noise: Covariance, max_iter: int
) -> float:
    """Return the charged risk of the best model that uses the intercept's coordinate only."""
    one = FactoredProblem(seen.rows[:, -1:], seen.operator[-1:], seen.loss)
    full = np.zeros_like(seen.operator)
    full[-1:] = one.solve(1e-3, tol=_TOL, max_iter=max_iter).parameters
    return held.risk(full)[0] + _deviation(held, full, noise)
