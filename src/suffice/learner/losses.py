"""Losses that see labels through the mean operator alone (Patrini et al. 2016, Theorem 3).

For a linear-odd loss, f(z) - f(-z) = -a z, the risk of theta is

    (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu>,     g(z) = (f(z) + f(-z)) / 2,

and for softmax (1/m) sum_i log sum_k exp(<W_k, x_i>) - <W, M>.
"""

import numpy as np
from scipy.special import expit, logsumexp, softmax

__all__ = ["factored_risk", "probabilities"]


def factored_risk(
    parameters: np.ndarray, rows: np.ndarray, operator: np.ndarray, lam: float
) -> tuple[float, np.ndarray]:
    """Return the regularised risk and its gradient; logistic for a vector, softmax for a matrix.

    ``operator`` is mu (d,) or M (d, K); ``parameters`` has its shape. The penalty is
    (lam/2) ||parameters||^2.
    """
    scores = rows @ parameters
    if operator.ndim == 1:
        # logistic, a = 1: g(z) = log(2 cosh(z/2)), g'(z) = tanh(z/2)/2  (Table 1)
        even, slope, odd = np.logaddexp(scores / 2, -scores / 2), np.tanh(scores / 2) / 2, 0.5
    else:
        even, slope, odd = logsumexp(scores, axis=1), softmax(scores, axis=1), 1.0
    risk = even.mean() - odd * np.vdot(parameters, operator)
    gradient = rows.T @ slope / len(rows) - odd * operator
    return (
        float(risk + lam / 2 * np.vdot(parameters, parameters)),
        gradient + lam * parameters,
    )


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the class probabilities that the scores mean, one row each."""
    if scores.ndim == 1:
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])
    return softmax(scores, axis=1)
