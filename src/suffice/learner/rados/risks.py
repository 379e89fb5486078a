"""Risks of a linear classifier over rados, and the risks over examples that they stand for.

An edge is y_i x_i. Over all 2^m rados pi of m examples, for every theta:

    logistic risk of the edges = log 2 + (1/m) log exponential risk of the rados
    (Nock, Patrini & Friedman 2015, Lemma 2),
    square risk of the edges = 1 + (4/m) (variance - mean) of <theta, pi>
    (the mean-variance rado-risk of Nock 2016).

Over a sample of rados the right sides are estimates: the second is good with few of them, the first
only where <theta, pi> varies by less than about sqrt(2 log n) over the n rados.
"""

import numpy as np
from scipy.special import logsumexp

from suffice.errors import ParameterError

__all__ = [
    "exponential_rado_risk",
    "exponential_risk",
    "log_exponential_risk",
    "logistic_rado_risk",
    "logistic_risk",
    "mean_variance_rado_risk",
    "sampling_term",
    "square_risk",
]


def log_exponential_risk(rows: np.ndarray, parameters: np.ndarray) -> float:
    """Return log (1/n) sum_j exp(-<theta, row_j>), which never overflows."""
    rows, parameters = _checked(rows, parameters)
    return float(logsumexp(-(rows @ parameters)) - np.log(len(rows)))


def exponential_rado_risk(rados: np.ndarray, parameters: np.ndarray) -> float:
    """Return the exponential rado-risk F_exp = (1/n) sum_j exp(-<theta, pi_j>), eq. (2).

    Parameters
    ----------
    rados : array of shape (n, d)
        The rados pi_j.
    parameters : array of shape (d,)
        The model theta.

    Returns
    -------
    float
        The risk; may be infinite.

    Raises
    ------
    ParameterError
        If there are no rados, or the shapes do not fit.

    Examples
    --------
    >>> import suffice
    >>> suffice.exponential_rado_risk([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    1.0
    """
    with np.errstate(over="ignore"):
        return float(np.exp(log_exponential_risk(rados, parameters)))


def exponential_risk(edges: np.ndarray, parameters: np.ndarray) -> float:
    """Return (1/m) sum_i exp(-y_i <theta, x_i>), what AdaBoost minimises over edges."""
    return exponential_rado_risk(edges, parameters)


def logistic_rado_risk(rados: np.ndarray, parameters: np.ndarray, examples: int) -> float:
    """Return the logistic rado-risk log 2 + (1/m) log F_exp, eq. (4).

    Over all 2^m rados it is the logistic risk of the m examples.

    Parameters
    ----------
    rados : array of shape (n, d)
        The rados pi_j.
    parameters : array of shape (d,)
        The model theta.
    examples : int
        The number m of examples behind the rados.

    Returns
    -------
    float
        The risk; log 2 for theta = 0.

    Raises
    ------
    ParameterError
        If there are no rados, the shapes do not fit, or ``examples`` is below 1.

    Examples
    --------
    >>> import suffice
    >>> round(suffice.logistic_rado_risk([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], examples=2), 4)
    0.6931
    """
    if examples < 1:
        raise ParameterError(
            "examples, the number of records behind the rados, must be at least 1. It is"
            f" {examples!r}."
        )
    return float(np.log(2) + log_exponential_risk(rados, parameters) / examples)


def logistic_risk(edges: np.ndarray, parameters: np.ndarray) -> float:
    """Return (1/m) sum_i log(1 + exp(-y_i <theta, x_i>)), eq. (1)."""
    edges, parameters = _checked(edges, parameters)
    return float(np.logaddexp(0, -(edges @ parameters)).mean())


def mean_variance_rado_risk(rados: np.ndarray, parameters: np.ndarray, examples: int) -> float:
    """Return 1 + (4/m) (variance - mean) of <theta, pi> over uniform rados of m examples."""
    rados, parameters = _checked(rados, parameters)
    scores = rados @ parameters
    return float(1 + 4 / examples * (scores.var() - scores.mean()))


def square_risk(edges: np.ndarray, parameters: np.ndarray) -> float:
    """Return (1/m) sum_i (1 - y_i <theta, x_i>)^2."""
    edges, parameters = _checked(edges, parameters)
    return float(np.mean((1 - edges @ parameters) ** 2))


def sampling_term(
    rados: np.ndarray, parameters: np.ndarray, examples: int, eta: float = 0.05
) -> float:
    """Return -(1/m) log(1 - q / sqrt(n)), the sampling term of Theorem 3, ineq. (5) and (6).

    q = rho sqrt(r max||pi|| + d log(2 e n / d) + log(1/eta)), rho = exp(r max||pi||) / F_exp,
    r = ||theta||. Two things are not as in the theorem: its unnamed constant is taken as one, and
    the largest norm over all rados, which only the owner could know, as the largest released. So
    this is the order of the term and no bound. It is infinite unless q < sqrt(n), that is unless
    theta is small and the rados are many: what RadoBoost returns after many rounds is beyond it.
    The theorem is about rados drawn independently; structured signs are not.
    """
    rados, parameters = _checked(rados, parameters)
    if not 0 < eta < 1:
        raise ParameterError(f"eta must lie between 0 and 1. It is {eta!r}.")
    n, width = rados.shape
    reach = float(np.linalg.norm(parameters) * np.linalg.norm(rados, axis=1).max())
    log_rho = reach - log_exponential_risk(rados, parameters)
    inside = reach + width * np.log(max(2 * np.e * n / width, 1.0)) + np.log(1 / eta)
    log_share = log_rho + (np.log(inside) - np.log(n)) / 2  # of q / sqrt(n)
    return float("inf") if log_share >= 0 else float(-np.log1p(-np.exp(log_share)) / examples)


def _checked(rows: np.ndarray, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, parameters = np.asarray(rows, dtype=np.float64), np.asarray(parameters, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or parameters.shape != (rows.shape[1],):
        raise ParameterError(
            "rados must be a matrix with at least one row, and parameters one number per column."
        )
    return rows, parameters
