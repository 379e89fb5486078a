"""The alternating mean map: labels that fit the bags' proportions, and a model that fits them."""

from dataclasses import dataclass, field

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.weak.bags import BagMoments
from suffice.learner.weak.mean_maps import LaplacianMeanMap, Mapped, MeanMap
from suffice.models.losses import LOSSES
from suffice.models.problem import FactoredProblem
from suffice.release.covariance import Covariance

__all__ = ["AlternatingMeanMap", "Alternation", "alternate", "consistent_labels"]

_TOL = 1e-5  # of each inner fit's gradient
_MAX_ITER = 1000
_FALL = 1e-6  # the least fall of the risk that is worth another round


@dataclass(frozen=True)
class AlternatingMeanMap:
    """Computes mu of labels that fit every bag's proportion and a model fitted to them.

    theta_t+1 = argmin_theta F(theta, sigma_t),   sigma_t = argmin (argmax) F(theta_t, sigma)

    over labels sigma with round(n_j pi_j) positives in bag j, F the logistic risk with penalty
    (lam/2) ||theta||^2 (Patrini et al. 2014, Algorithm 2). mu is that of the labels with the
    smallest F. Two classes. There is no covariance.

    Parameters
    ----------
    labelling : {"min", "max"}, default="min"
        "min" gives a bag's best rows the positive label, so that F never rises; "max" its worst.
    lam : float, default=1e-2
        Weight of the penalty. The learner should use the same one.
    start : MeanMap or LaplacianMeanMap
        The method whose mean operator the first model is fitted to.
    max_rounds : int, default=30
        The largest number of rounds.
    """

    labelling: str = "min"
    lam: float = 1e-2
    start: MeanMap | LaplacianMeanMap = field(default_factory=LaplacianMeanMap)
    max_rounds: int = 30

    def __post_init__(self) -> None:
        if self.labelling not in ("min", "max"):
            raise ParameterError(f"labelling must be min or max. It is {self.labelling!r}.")
        if not (np.isfinite(self.lam) and self.lam > 0):
            raise ParameterError(f"lam must be a positive number. It is {self.lam!r}.")
        if self.max_rounds < 1:
            raise ParameterError(f"max_rounds must be at least 1. It is {self.max_rounds!r}.")

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator of the best labels; how sure it is, nobody knows."""
        if bags.shares.shape[1] != 2:
            raise ParameterError(
                "This method works for two classes only. For more, use method='mean-map'."
            )
        weights = self.start.weights(bags)
        first = bags.means.T @ (weights[:, 1] - weights[:, 0])
        alternation = alternate(rows, bags, first, self)
        note = (
            f"The labels after {len(alternation.risks)} rounds are a guess that fits the"
            " proportions. Their error is not known, so there is no covariance."
        )
        return alternation.operator, Covariance("none"), note


@dataclass(frozen=True, eq=False)
class Alternation:
    """The best labels' operator and the risk after each round."""

    operator: np.ndarray
    risks: tuple[float, ...]


def alternate(
    rows: np.ndarray, bags: BagMoments, operator: np.ndarray, options: AlternatingMeanMap
) -> Alternation:
    """Return what alternation finds from this operator on (Patrini et al. 2014, Algorithm 2)."""
    theta, _ = _fit_model(rows, operator, options.lam, None)
    risks: list[float] = []
    best, last = operator, None
    for _ in range(options.max_rounds):
        signs = consistent_labels(rows @ theta, bags, worst=options.labelling == "max")  # step 2.1
        if last is not None and np.array_equal(signs, last):
            break
        last, operator = signs, rows.T @ signs / len(rows)
        theta, risk = _fit_model(rows, operator, options.lam, theta)  # step 2.2
        fall = min(risks, default=np.inf) - risk
        risks.append(risk)
        if fall > 0:
            best = operator  # step 3: the smallest risk of all rounds
        if abs(fall) <= _FALL or (fall < 0 and options.labelling == "min"):
            break
    return Alternation(best, tuple(risks))


def _fit_model(
    rows: np.ndarray, operator: np.ndarray, lam: float, start: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Return the model of this operator and its regularised risk."""
    problem = FactoredProblem(rows, operator, LOSSES["logistic"])
    theta = problem.solve(lam, tol=_TOL, max_iter=_MAX_ITER, start=start).parameters
    half = rows @ theta / 2
    risk = np.logaddexp(half, -half).mean() - operator @ theta / 2 + lam / 2 * theta @ theta
    return theta, float(risk)


def consistent_labels(scores: np.ndarray, bags: BagMoments, *, worst: bool) -> np.ndarray:
    """Return labels with round(n_j pi_j) positives in bag j: its highest scores, or its lowest."""
    positives = np.rint(bags.sizes * bags.shares[:, 1])
    order = np.lexsort((scores if worst else -scores, bags.codes))
    firsts = np.concatenate([[0], np.cumsum(bags.sizes)[:-1]])
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(len(scores)) - firsts[bags.codes[order]]
    return np.where(ranks < positives[bags.codes], 1.0, -1.0)
