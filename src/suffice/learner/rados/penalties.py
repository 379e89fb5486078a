"""The penalty of least squares from moments, chosen without labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suffice.learner.rados.calibration import LabelMeans
from suffice.learner.rados.moments import RadoMoments

__all__ = ["Fitted", "RisksByPenalty", "exceeds_noise", "fit_best_penalty", "risks_by_penalty"]

_LAMS = 10.0 ** np.arange(-5.0, 3.01, 0.5)  # times the mean of S's diagonal
_FOLDS = 5
_CHARGE = 2.0  # deviations of <theta, mu> by noise
_MOST_RISK_ERROR = 0.05  # standard deviation; the risk of always predicting 0 is 1
_SURE = 1.0  # deviations above its mean that the noise reaches in about one of six cases


@dataclass(frozen=True, eq=False)
class Fitted:
    """A minimiser and what is known of it.

    Attributes
    ----------
    parameters : ndarray of shape (d,)
        theta = (S + lam I)^-1 mu.
    lam : float
        What is added to the diagonal of S.
    risk : float or None
        The estimated square risk; None where S is not measured well enough.
    charged : float
        The expected risk with the charge for noise, by which penalties are compared.
    product : float
        E[y <theta, x>], without what theta has learnt from noise.
    error : float
        The standard deviation of ``product`` by noise.
    """

    parameters: np.ndarray
    lam: float
    risk: float | None
    charged: float
    product: float
    error: float

    def label_means(self, mean: float | None) -> LabelMeans:
        """Return what is known of labels; their mean is known where rows have an intercept."""
        return LabelMeans(self.product, self.error, mean)


def fit_best_penalty(
    moments: RadoMoments, lams: Sequence[float] | None, *, rescaled: bool = False
) -> Fitted:
    """Return the minimiser whose charged risk is least over the penalties.

    If scores are ``rescaled`` afterwards, the risk is that of the best multiple of each minimiser.
    """
    size = float(np.trace(moments.second)) / len(moments.second) or 1.0
    tried = size * _LAMS if lams is None else np.asarray(lams)
    by_penalty = risks_by_penalty(moments, tried)
    charged = (
        by_penalty.rescaled(by_penalty.charges)
        if rescaled
        else by_penalty.risks + by_penalty.charges
    )
    best = int(np.argmin(charged))
    (values, vectors), models = _solutions(moments.second, moments.operator, tried[best : best + 1])
    theta = models[:, 0]
    optimism = float(_optimism(moments, values, vectors, tried[best : best + 1])[0])
    is_known = moments.square_error(theta) <= _MOST_RISK_ERROR
    measured = by_penalty.rescaled() if rescaled else by_penalty.measured
    return Fitted(
        theta,
        float(tried[best]),
        float(measured[best]) if is_known else None,
        float(charged[best]),
        float(moments.operator @ theta) - optimism,
        float(np.sqrt(moments.noise.quadratic(theta))),
    )


def _solutions(
    second: np.ndarray, operator: np.ndarray, lams: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the eigenpairs of S and, per penalty, the column (S + lam I)^-1 mu."""
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, 0.0)
    along = vectors.T @ operator
    return (values, vectors), vectors @ (along[:, None] / (values[:, None] + lams))


def _optimism(
    moments: RadoMoments, values: np.ndarray, vectors: np.ndarray, lams: np.ndarray
) -> np.ndarray:
    """Return tr(Q (S + lam I)^-1) per penalty, S given by its eigenpairs."""
    spread = moments.noise.dense(len(vectors)) + moments.second / moments.examples
    along_axes = np.sum(vectors * (spread @ vectors), axis=0)
    return np.asarray((along_axes[:, None] / (values[:, None] + lams)).sum(axis=0))


@dataclass(frozen=True, eq=False)
class RisksByPenalty:
    """Estimates for each penalty, one number each.

    Attributes
    ----------
    products : ndarray
        E[y <theta, x>] without optimism.
    squares : ndarray
        E[<theta, x>^2] as it is expected.
    measured_squares : ndarray
        The same as it is measured, which differs where noise is in S.
    charges : ndarray
        What a model is charged for the noise.
    """

    products: np.ndarray
    squares: np.ndarray
    measured_squares: np.ndarray
    charges: np.ndarray

    @property
    def risks(self) -> np.ndarray:
        """The expected square risk."""
        return np.asarray(1 - 2 * self.products + self.squares)

    @property
    def measured(self) -> np.ndarray:
        """The measured square risk."""
        return np.asarray(1 - 2 * self.products + self.measured_squares)

    def rescaled(self, charges: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the risk of the best multiple of each model: 1 - (product - charge)^2/square.

        Where the charge exceeds the product the multiple is negative, and worse than none: above 1.
        """
        products = self.products - charges
        return np.asarray(1 - products * np.abs(products) / np.maximum(self.squares, 1e-300))


def risks_by_penalty(moments: RadoMoments, lams: np.ndarray) -> RisksByPenalty:
    """Return the estimated risk per penalty, and what a model is charged for the noise.

    E <theta, n> = tr(Q (S + lam I)^-1) for theta = (S + lam I)^-1 (mu + n), n of covariance
    Q = C + S/m, C the mechanism's noise and S/m that of the labels; the risk falls by twice that
    too much (`suffice.learner.operator.tuning`, where the charge is explained as well). S is that
    of rados held out.
    """
    folds = min(_FOLDS, len(moments.rows))
    fold = np.arange(len(moments.rows)) % folds
    products, squares, measured = (np.zeros(len(lams)) for _ in range(3))
    for k in range(folds):
        rest, held_out = moments.rows[fold != k], moments.rows[fold == k]
        eigenpairs, models = _solutions(moments.second_of(rest), moments.operator, lams)
        optimism = _optimism(moments, *eigenpairs, lams)
        products += (moments.operator @ models - optimism) / folds
        squares += np.sum(models * (moments.second_of(held_out) @ models), axis=0) / folds
        measured += moments.square_of(models, held_out) / folds
    _, models = _solutions(moments.second, moments.operator, lams)
    charges = _CHARGE * np.sqrt(moments.noise.along(models))
    return RisksByPenalty(products, squares, measured, charges)


def exceeds_noise(moments: RadoMoments) -> bool:
    """Return whether mu is longer than the noise alone would make it, but for the intercept.

    What is left of mu once the labels' mean is taken out of it has the mean square tr Q under
    labels that tell nothing of rows, Q = C + S/m, and the variance 2 tr Q^2 about it.
    """
    second, operator = moments.second, moments.operator
    features = slice(len(operator) - 1)
    by_mean = second[features, -1] * operator[-1] / max(second[-1, -1], 1e-300)
    rest = operator[features] - by_mean
    noise = (moments.noise.dense(len(operator)) + second / moments.examples)[features, features]
    limit = np.trace(noise) + _SURE * np.sqrt(2 * np.sum(noise**2))
    return bool(rest @ rest > limit)
