"""What noise on the mean operator can do to a model, with exact quantiles of the noise.

Throughout b = mu~ - mu is the noise; F(theta) = L(theta) + (lam/2) ||theta||^2 is the regularised
risk with the true operator, F~ that with the noisy one; theta and theta~ are their minimisers; a is
the loss's constant, 2 for softmax, whose operator has weight one. Everything also holds if mu~ was
projected onto the operators that labels can have, since a projection moves mu~ no farther from mu
(`suffice.models.zonotope`; shrinking it is not covered). Norms are 2-norms over all entries.

The bounds of Patrini et al. 2016 are Theorem 6, whose penalty is lam ||theta||^2, and Theorem 10,
which is corrected; see docs/errata.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import binom, wofz
from scipy.stats import chi, gamma

from suffice.errors import ParameterError
from suffice.release.covariance import Covariance

__all__ = [
    "NoiseBounds",
    "excess_risk",
    "noise_bounds",
    "noise_norm",
    "parameter_distance",
    "plain_risk_change",
    "risk_error",
]

_LEAST_DELTA = 1e-7
_ROUNDING = 1e-9  # numerical inversion is good to 1e-10; bounds are rounded up by this much
_DAMPING = 25.0  # e^-25: the error of the inversion


@dataclass(frozen=True)
class NoiseBounds:
    """Holds bounds on what noise did to one model; all hold together.

    Attributes
    ----------
    delta : float
        The probability that they do not hold.
    noise : float
        Bound on ||b||, the norm of the noise.
    parameters : float
        Bound on ||theta~ - theta||, how far the model moved.
    risk : float
        Bound on |F~ - F| at theta~, the error of the noisy risk.
    excess : float
        Bound on F(theta~) - F(theta), the regularised risk that the noise costs.
    plain_risk : float
        Bound on |L(theta~) - L(theta)|, the same without the penalty.
    """

    delta: float
    noise: float
    parameters: float
    risk: float
    excess: float
    plain_risk: float


def noise_bounds(
    noise: Covariance,
    mechanism: str,
    parameters: np.ndarray,
    *,
    a: float,
    lam: float,
    delta: float = 0.05,
) -> NoiseBounds:
    """Return every bound for the model theta~ = ``parameters``; they share one event.

    ``noise`` and ``mechanism`` are those of the release. Only the noise is random: labels and rows
    are as they are, so this says nothing about other samples.
    """
    norm = noise_norm(noise, mechanism, parameters.shape, delta)
    size = float(np.linalg.norm(parameters))
    return NoiseBounds(
        delta,
        norm,
        parameter_distance(norm, a=a, lam=lam),
        risk_error(norm, a=a, radius=size),
        excess_risk(norm, a=a, lam=lam),
        plain_risk_change(norm, a=a, lam=lam, size=size),
    )


def parameter_distance(norm: float, *, a: float, lam: float) -> float:
    """Return the most that ||theta~ - theta|| can be when ||mu~ - mu|| is at most ``norm``.

    a/(2 lam) ||b||, for any convex loss (Theorem 6, with its constant a and our penalty). F is
    lam-strongly convex and F~ = F - (a/2) <., b>, so that grad F(theta~) = (a/2) b, and
    lam ||theta~ - theta||^2 <= <grad F(theta~) - grad F(theta), theta~ - theta> =
    (a/2) <b, theta~ - theta>. Equality for the linear loss.
    """
    _check(norm=norm, a=a, lam=lam)
    return a / (2 * lam) * norm


def risk_error(norm: float, *, a: float, radius: float) -> float:
    """Return the most that the noisy and the true risk differ for any ||theta|| <= ``radius``.

    (a/2) radius ||b||, by Cauchy and Schwarz from (a/2) |<theta, b>| (Theorem 10, with the norm of
    all of b in the place of that of one entry). It holds for all these theta at once, so also for
    one that was learnt from the noisy operator, and for some theta it is an equality.
    """
    _check(norm=norm, a=a, radius=radius)
    return a / 2 * radius * norm


def excess_risk(norm: float, *, a: float, lam: float) -> float:
    """Return the most that F(theta~) - F(theta) can be: what the noise costs.

    a^2 ||b||^2 / (8 lam). F(theta~) - F(theta) = F~(theta~) - F~(theta) + (a/2) <theta~ - theta, b>
    <= -(lam/2) t^2 + (a/2) t ||b|| with t = ||theta~ - theta||, by strong convexity of F~ at its
    minimiser; t = a ||b|| / (2 lam) is the worst. Equality for the linear loss.
    """
    _check(norm=norm, a=a, lam=lam)
    return (a * norm) ** 2 / (8 * lam)


def plain_risk_change(norm: float, *, a: float, lam: float, size: float) -> float:
    """Return the most that |L(theta~) - L(theta)|, without penalties, can be.

    a^2 ||b||^2 / (4 lam) + (a/2) ||b|| size, with ``size`` = ||theta~||. With D = theta~ - theta,
    L(theta~) - L(theta) <= (a/2) <D, b> - lam <theta~, D> as in `excess_risk`, and
    L(theta) - L(theta~) <= lam <theta~, D> from F(theta) + (lam/2) ||D||^2 <= F(theta~); put
    ||D|| <= a ||b|| / (2 lam) into both.
    """
    _check(norm=norm, a=a, lam=lam, size=size)
    return (a * norm) ** 2 / (4 * lam) + a / 2 * norm * size


def _check(*, lam: float = 1.0, a: float = 1.0, **sizes: float) -> None:
    if not (np.isfinite(lam) and lam > 0 and np.isfinite(a) and a > 0):
        raise ParameterError("These bounds need lam > 0 and a > 0. Use positive numbers.")
    for name, value in sizes.items():
        if not value >= 0:
            raise ParameterError(f"{name} must not be negative. It is {value!r}.")


def noise_norm(
    noise: Covariance, mechanism: str, shape: tuple[int, ...], delta: float = 0.05
) -> float:
    """Return a radius that ||b|| exceeds with probability at most ``delta``.

    ``shape`` is that of the operator, (d,) or (d, K); D is its number of entries. gaussian: the
    exact quantile, of a chi_D or of a weighted sum of squares. laplace: the exact quantile of the
    norm of D Laplace variables, by inverting the transform of their squares. knorm: that of
    a Gamma(D) radius. Those two are exact for C = variance I; for shaped noise b = A eta the radius
    is the largest singular value of A times that of eta. Any other mechanism, or a merged release
    of several: sqrt(trace / delta), Markov's bound, true of any noise of this covariance. The noise
    lives on a lattice, taken here as continuous: its step is far below its scale.
    """
    if not _LEAST_DELTA <= delta < 1:
        raise ParameterError(
            f"delta must be at least {_LEAST_DELTA:g} and below 1. It is {delta!r}."
        )
    if noise.form == "none":
        raise ParameterError(
            "The noise of this release is not known, so nothing bounds it. Use a release that"
            " states its noise."
        )
    columns = int(np.prod(shape[1:], dtype=int))
    values = _eigenvalues(noise, shape[0])
    if mechanism == "gaussian":
        return _gaussian_norm(np.repeat(values, columns), delta)
    inner = shape[0] if noise.form != "factor" or noise.array is None else noise.array.shape[1]
    if mechanism == "laplace":
        scale = np.sqrt(values.max() / 2)  # a Laplace variable has variance 2 scale^2
        return float(scale * _laplace_norm(inner * columns, delta))
    if mechanism == "knorm":
        scale = np.sqrt(values.max() / (inner * columns + 1))  # (D + 1) scale^2 in each entry
        return float(scale * gamma.isf(delta, inner * columns))
    return float(np.sqrt(values.sum() * columns / delta))


def _eigenvalues(noise: Covariance, width: int) -> np.ndarray:
    """Return the eigenvalues of C, of one column."""
    if noise.array is None:
        return np.full(width, noise.variance)
    if noise.form == "diagonal":
        return np.asarray(noise.variance * noise.array)
    return np.asarray(noise.variance * np.linalg.svd(noise.array, compute_uv=False) ** 2)


def _gaussian_norm(values: np.ndarray, delta: float) -> float:
    """Return the quantile of sqrt(sum_j values_j g_j^2), g_j standard normal."""
    largest = float(values.max(initial=0.0))
    if largest == values.min():
        return float(np.sqrt(largest) * chi.isf(delta, len(values)))
    shares = values / largest

    def log_transform(s: np.ndarray) -> np.ndarray:
        return -0.5 * np.log1p(2 * np.multiply.outer(s, shares)).sum(axis=-1)

    spread = np.sqrt(2 * np.sum(shares**2))
    return float(np.sqrt(largest * _upper_quantile(log_transform, shares.sum(), spread, delta)))


def _laplace_norm(count: int, delta: float) -> float:
    """Return the quantile of the norm of ``count`` Laplace variables of scale one."""

    def log_transform(s: np.ndarray) -> np.ndarray:
        """Return count log E e^(-s b^2) = count log(sqrt(pi)/(2 sqrt s) erfcx(1/(2 sqrt s)))."""
        z = 0.5 / np.sqrt(s)
        return count * np.log(np.sqrt(np.pi) * z * wofz(1j * z))

    return float(np.sqrt(_upper_quantile(log_transform, 2.0 * count, np.sqrt(20.0 * count), delta)))


def _upper_quantile(
    log_transform: Callable[[np.ndarray], np.ndarray], mean: float, spread: float, delta: float
) -> float:
    """Return x with P(sum > x) = delta for a positive sum with this log E e^(-s sum)."""
    delta -= _ROUNDING
    high = mean + spread
    while _upper_tail(log_transform, high, mean / spread) > delta:
        high += (high - mean) + spread
    low = mean * 1e-6
    return float(brentq(lambda x: _upper_tail(log_transform, x, mean / spread) - delta, low, high))


def _upper_tail(
    log_transform: Callable[[np.ndarray], np.ndarray], x: float, sharpness: float
) -> float:
    """Return P(sum > x) from the transform (Abate & Whitt 1995, the Euler algorithm).

    The transform of the distribution function is e^log_transform(s) / s; ``sharpness`` = mean over
    deviation says how many terms of the series matter, and Euler's summation ends it.
    """
    terms, averaged = 60 + int(20 * sharpness), 12
    k = np.arange(terms + averaged + 1)
    s = (_DAMPING + 2j * np.pi * k) / (2 * x)
    series = np.exp(_DAMPING / 2) / x * (np.exp(log_transform(s)) / s).real * (-1.0) ** k
    series[0] /= 2
    sums = np.cumsum(series)[terms:]
    weights = binom(averaged, np.arange(averaged + 1)) / 2.0**averaged
    return float(np.clip(1 - weights @ sums, 0, 1))
