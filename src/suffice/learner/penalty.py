"""Choose a penalty from the release itself: no labels, no privacy cost.

A model theta fitted to a noisy operator mu + n looks better on that operator than it is. By how
much, Stein's lemma says: for n ~ N(0, Q) and theta a smooth function of mu + n,

    E <theta, n> = tr(Q E[d theta / d mu]) = weight tr(Q E[H^-1]),

H the Hessian of the regularised risk and weight = a/2 (one for softmax). So the risk on fresh
labels of the same rows is estimated, without bias as far as the mechanism adds Gaussian noise, by

    risk(theta) + weight^2 tr(Q H^-1),     Q = C + S/m,

C the mechanism's noise and S/m the sampling noise of the labels, of which the model itself says
how much they vary: by 4 p (1 - p) where it gives the second class the probability p. (Without the
mechanism's noise this is Akaike's criterion.) Thinning (draw e, fit on mu + e,
score on mu - e) estimates the same for a model that saw twice the noise, and needs draws and fits.

The estimate itself moves by weight sqrt(theta^T C theta) with the mechanism's noise: where a model
is large its risk is a guess. So each model is charged one such deviation, and the least wins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from suffice.errors import OptimisationError
from suffice.kernels.models import softmax_shares
from suffice.learner.denoise import Denoised
from suffice.models.problem import FactoredProblem, LinearOddLoss
from suffice.releases.release import Covariance

_LAMS = 10.0 ** np.arange(-5.0, 2.01, 0.5)
_WORSE_PENALTIES = 3  # in a row, after which weaker ones are not tried


def optimism(
    problem: FactoredProblem,
    parameters: np.ndarray,
    lam: float,
    noise: Covariance,
    *,
    count: float,
    kept_shares: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return by how much a model's risk is too small, and the deviation of the mended risk.

    The first is weight^2 tr(Q H^-1), over the coordinates that the model uses. The second is that
    around the risk on fresh labels: weight^2 theta^T Q theta + weight^4 tr((H^-1 Q)^2) is the
    variance of <f, n> - div f for f = weight theta(mu + n) (the second-order Stein formula of
    Bellec & Zhang 2021).

    ``noise`` is C per column of the operator, ``count`` the number of labels of equal weight that
    vary as much as those behind it, 1 / sum w_i^2. Of softmax the Hessian between two classes is
    taken, averaged over the pairs; K - 1 columns are free. ``kept_shares`` are the shares of C that
    the model was fitted with, where its operator was shrunk (`suffice.learner.denoise`).
    """
    theta = parameters.reshape(len(parameters), -1)
    columns, weight = max(theta.shape[1] - 1, 1), problem.operator_weight
    hessian, varied = spreads(problem, parameters)
    sampling = varied / count
    sampled = float(np.sum(theta * (sampling @ theta)))
    spread = noise.dense(len(theta))
    spread = (spread if kept_shares is None else kept_shares[:, None] * spread) + sampling
    hessian = hessian + least_ridge(problem, lam, hessian) * np.eye(len(hessian))
    if not problem.penalty.smooth:  # coordinates at zero stay there when the operator moves
        used = np.flatnonzero(theta.any(axis=1))
        hessian, spread = hessian[np.ix_(used, used)], spread[np.ix_(used, used)]
    change = cho_solve(cho_factor(hessian, check_finite=False), spread, check_finite=False)
    second = weight**2 * columns * float(np.sum(change * change.T))
    deviation = weight * float(np.sqrt(noise.quadratic(parameters) + sampled + second))
    return weight**2 * columns * float(np.trace(change)), deviation


def choose_penalty(denoised: Denoised, *, max_iter: int, calibrated: bool) -> float:
    """Return the weight of the penalty.

    In white coordinates noise is shrunk already, and a ridge bounds what is left of it: more so
    where scores are ``calibrated`` later. Elsewhere the penalty of least estimated risk is taken
    (`choose_lam`).
    """
    first = denoised.problems[0]
    if first.penalty.name == "none":
        return 0.0
    if denoised.basis is not None:
        weight = first.operator_weight
        return max(d.ridge(weight, calibrated=calibrated) for d in denoised.denoisers)
    noise = denoised.denoisers[0].left_noise if denoised.denoisers else denoised.noise
    return choose_lam(denoised.cleaned, noise, max_iter=max_iter)


def choose_lam(problems: Sequence[FactoredProblem], noise: Covariance, *, max_iter: int) -> float:
    """Return the penalty of least charged risk, summed over the problems (one per class or one).

    Penalties are tried from the strongest on, each start a solution. Where the optimism passes half
    the risk of knowing nothing, or the estimate is below zero, as no risk is, it is mostly noise:
    such penalties are not tried, nor those after several that were worse than the best. Where rows
    are many, models are fitted on a sample of them; the operator is that of all rows.
    """
    total = np.zeros(len(_LAMS))
    for whole in problems:
        problem = whole.on_rows(whole.rows.sample)
        risks = np.full(len(_LAMS), np.inf)
        nothing = problem.risk(np.zeros_like(problem.operator))[0]
        start, worse = None, 0
        for i in reversed(range(len(_LAMS))):
            lam, found = float(_LAMS[i]), bool(np.isfinite(risks).any())
            try:
                start = problem.solve(lam, tol=1e-5, max_iter=max_iter, start=start).parameters
            except OptimisationError:  # of a noisy operator a weak 1-norm may have no minimiser
                if found:
                    break
                raise
            gap, _ = optimism(problem, start, lam, noise, count=problems[0].rows.labels)
            risk = problem.risk(start)[0] + gap
            if found and (gap > nothing / 2 or (risk < 0 and problem.curvature > 0)):
                break
            charge = problem.operator_weight * float(np.sqrt(noise.quadratic(start)))
            risks[i] = risk + charge
            # A strong 1-norm leaves the intercept alone, and says nothing of weaker ones.
            learns = start[:-1].any() if problem.intercept else start.any()
            worse = worse + 1 if learns and risks[i] > risks.min() else 0
            if worse == _WORSE_PENALTIES:
                break
        total += risks
    return float(_LAMS[int(np.argmin(total))])


@dataclass(frozen=True)
class _SpreadCurves:
    """Computes w_i g''(z_i), and w_i 4 p_i (1 - p_i) where that is another sum.

    Of softmax the first is the mean between two classes, and the second the same.
    """

    loss: LinearOddLoss | None

    def __call__(self, scores: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
        if self.loss is None:
            shares = softmax_shares(scores)
            yield (shares * (1 - shares)).sum(axis=1) / (shares.shape[1] - 1) * weights
            return
        yield np.maximum(self.loss.second(scores), 0.0) * weights
        if not self.loss.joint and self.loss.link is not None:
            shares = self.loss.link(scores)
            yield 4 * shares * (1 - shares) * weights


def spreads(problem: FactoredProblem, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian of the even part, and the covariance of one label's x y under the model.

    Both are (d, d); of softmax they are means between two classes, and the same. A loss that has no
    link gives no probability: there labels vary as much as they can.
    """
    loss = problem.loss
    hessian, *labels = problem.rows.grams(parameters, _SpreadCurves(loss))
    if loss is None or loss.joint:  # g'' = p (1 - p), in units of weight^2
        return hessian, hessian / problem.operator_weight**2
    return hessian, labels[0] if labels else problem.rows.moment


def least_ridge(problem: FactoredProblem, lam: float, hessian: np.ndarray) -> float:
    """Return what the penalty adds to the diagonal, and at least what keeps it invertible.

    Another smooth penalty than a square may add nothing where coefficients are large.
    """
    added = lam * (1 - problem.penalty.mixing) if problem.penalty.is_square else 0.0
    return max(added, 1e-12 * (1 + float(hessian.diagonal().max())))


def intercept_alone(problem: FactoredProblem) -> FactoredProblem:
    """Return the problem that has the intercept's coordinate only, the last one."""
    last = np.eye(problem.rows.shape[1])[:, -1:]
    return problem.on_rows(problem.rows.in_basis(last)).with_operator(problem.operator[-1:])
