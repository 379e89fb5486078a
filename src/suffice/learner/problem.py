"""The factored problem: public rows, a mean operator, a loss; its risk and its minimiser."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from suffice.errors import OptimisationError
from suffice.learner.losses import LinearOddLoss

__all__ = ["FactoredProblem", "Solution"]


@dataclass(frozen=True)
class Solution:
    """A minimiser with its certificate: the largest entry of the gradient there."""

    parameters: np.ndarray
    gradient: float
    iterations: int


@dataclass(frozen=True)
class FactoredProblem:
    """Minimise (1/m) sum_i g(<theta, x_i>) - <theta, weight x operator> + (lam/2) ||theta||^2.

    ``operator`` is mu (d,) with weight a/2, or M (d, K) with weight one and softmax's log-sum-exp
    in the place of g (``loss`` None).
    """

    rows: np.ndarray
    operator: np.ndarray
    loss: LinearOddLoss | None

    def with_operator(self, operator: np.ndarray) -> "FactoredProblem":
        """Return the same problem for another operator."""
        return replace(self, operator=operator)

    def risk(self, parameters: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return the regularised risk and its gradient."""
        scores = self.rows @ parameters
        if self.loss is None:
            even, slope, weight = logsumexp(scores, axis=1), softmax(scores, axis=1), 1.0
        else:
            even, slope, weight = self.loss.even(scores), self.loss.slope(scores), self.loss.a / 2
        value = float(even.mean()) - weight * float(np.vdot(parameters, self.operator))
        gradient = self.rows.T @ slope / len(self.rows) - weight * self.operator
        penalty = lam / 2 * float(np.vdot(parameters, parameters))
        return value + penalty, gradient + lam * parameters

    def solve(
        self, lam: float, *, tol: float, max_iter: int, start: np.ndarray | None = None
    ) -> Solution:
        """Return the minimiser by L-BFGS, or raise if the certificate was not reached."""
        shape = self.operator.shape
        first = np.zeros(shape) if start is None else start

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.risk(flat.reshape(shape), lam)
            return value, gradient.ravel()

        options = {"maxiter": max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20}
        found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
        gradient = float(np.abs(found.jac).max())
        if not gradient <= max(tol, 1e-10) * 10:
            raise OptimisationError(
                f"the solver stopped at a gradient of {gradient:.2g}, short of {tol:.2g};"
                " raise max_iter or lam."
            )
        return Solution(found.x.reshape(shape), gradient, int(found.nit))
