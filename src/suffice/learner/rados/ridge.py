"""Least squares from the mean and the covariance of rados: no boosting, and few are enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from suffice.errors import OptimisationError, ParameterError
from suffice.learner.base import FIGURES, TwoClasses
from suffice.learner.rados.moments import RadoMoments, moments_of
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.release.merge import merge

__all__ = ["RadoRidge"]

_LAMS = 10.0 ** np.arange(-5.0, 3.01, 0.5)  # times the mean of S's diagonal
_FOLDS = 5
_MOST_RISK_ERROR = 0.05  # standard deviation; the risk of always predicting 0 is 1
_SURE = 1.0  # deviations above its mean that the noise reaches in about one of six cases


class RadoRidge(TwoClasses):
    """Computes the linear classifier of least square loss on examples, from rados alone.

    minimise 1 - 2 <theta, mu> + theta^T S theta + (lam/2) ||theta||^2

    The mean of rados gives mu and their covariance gives S (`suffice.learner.rados.moments`). Up
    to the penalty this is the mean-variance rado-risk (Nock 2016). Two moments of n rados have an
    error of about 1/sqrt(n), while the exponential rado-risk of `RadoBoost` depends on the few
    rados of least margin. On 13 of the 14 data sets of `suffice reproduce rados-table1` this
    learner is the better one. Two classes.

    Parameters
    ----------
    lam : float or "auto", default="auto"
        Weight of the penalty. "auto" takes the weight of least risk on fresh labels, estimated
        without any label: S comes from rados that were held out, and Stein's lemma corrects for
        the noise in mu (`suffice.learner.operator.tuning`).

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One weight per coordinate of ``pipeline_``, the intercept's last.
    risk_ : float or None
        The square risk on fresh labels, estimated without any label. None where the noise on rados
        hides how much scores vary.
    intercept_only_ : bool
        Whether the model predicts a constant because no other model is better.
    lam_ : float
        The weight of the penalty that was used.
    classes_ : ndarray of shape (2,)
        The classes. Positive scores mean the second.
    n_features_in_ : int
        The number of columns that the model reads.
    pipeline_ : Pipeline
        Turns raw rows into coordinates.
    releases_ : tuple of Release
        The releases that the model was learnt from; empty after `fit`.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.RadoRidge().fit(X, labels)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """

    stored_as = "RadoRidge"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(self, lam: float | str = "auto") -> None:
        self.lam = lam

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "RadoRidge":
        """Learn from exact examples, as from all their rados. This protects nothing.

        Parameters
        ----------
        X : array of shape (n, p)
            The rows: numbers without missing values.
        y : array of shape (n,)
            One label per row, of two classes.

        Returns
        -------
        RadoRidge
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If the labels hold another number of classes than two, or a parameter is not valid.
        OptimisationError
            If the rows are too large, or differ too much in size, for least squares.
        """
        edges = self._mapped_edges(X, y)
        return self._fit_moments(
            RadoMoments(edges.mean(axis=0), edges, Covariance("none"), len(edges))
        )

    @fit_context(prefer_skip_nested_validation=True)
    def fit_release(self, release: Release | Sequence[Release]) -> "RadoRidge":
        """Learn from a release of rados, or those of several owners. No rows are needed.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind rados. Several are merged first.

        Returns
        -------
        RadoRidge
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If a release holds no rados, fewer than two, or cannot be merged with the others.
        OptimisationError
            If the rados are too large, or differ too much in size, for least squares.
        """
        merged = merge(release)
        moments = moments_of(merged)
        if len(moments.rows) < 2:
            raise ParameterError(
                "RadoRidge needs at least two rados, and this release has one. Use RadoBoost."
            )
        self._learn_from((merged,))
        return self._fit_moments(moments)

    def _fit_moments(self, moments: RadoMoments) -> "RadoRidge":
        lams = None if self.lam == "auto" else [float(self.lam) / 2]  # on the diagonal of S
        best = _fit_best_penalty(moments, lams)
        self.intercept_only_ = False
        if lams is None and self.pipeline_.intercept > 0:
            constant = _fit_best_penalty(moments.last(), None)
            hidden = not _exceeds_noise(moments)
            self.intercept_only_ = hidden and constant.charged <= min(best.charged, 1.0)
            best = constant if self.intercept_only_ else best
        self.coef_ = np.zeros(len(moments.operator))
        self.coef_[-len(best.parameters) :] = best.parameters
        if not np.isfinite(self.coef_).all():
            raise OptimisationError(
                "The rados are too large, or differ too much in size, for least squares. Use"
                " RadoBoost, or ask the owner to scale the columns."
            )
        self.lam_, self.risk_ = 2 * best.lam, best.risk
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class: (1 + score) / 2, clipped to [0, 1].

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n, 2)
            One probability per row and class, in the order of ``classes_``.

        Raises
        ------
        TableError
            If the table has no rows or lacks a column.
        """
        positive = np.clip((1 + self.decision_function(X)) / 2, 0, 1)  # the link of the square loss
        return np.column_stack([1 - positive, positive])

    def _details(self) -> dict[str, Any]:
        return {"loss": "square", **dict.fromkeys(FIGURES), "risk": self.risk_}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.risk_ = details["risk"]
        return self


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A minimiser, its risk where that is known, and the charged one; ``lam`` is added to S."""

    parameters: np.ndarray
    lam: float
    risk: float | None
    charged: float


def _fit_best_penalty(moments: RadoMoments, lams: Sequence[float] | None) -> _Fitted:
    """Return the minimiser whose charged risk is least over the penalties."""
    size = float(np.trace(moments.second)) / len(moments.second) or 1.0
    tried = size * _LAMS if lams is None else np.asarray(lams)
    risks, measured, charges = _risks(moments, tried)
    best = int(np.argmin(risks + charges))
    parameters = _solutions(moments.second, moments.operator, tried)[1][:, best]
    is_known = moments.square_error(parameters) <= _MOST_RISK_ERROR
    risk = float(measured[best]) if is_known else None
    return _Fitted(parameters, float(tried[best]), risk, float(risks[best] + charges[best]))


def _solutions(
    second: np.ndarray, operator: np.ndarray, lams: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the eigenpairs of S and, per penalty, the column (S + lam I)^-1 mu."""
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, 0.0)
    along = vectors.T @ operator
    return (values, vectors), vectors @ (along[:, None] / (values[:, None] + lams))


def _risks(moments: RadoMoments, lams: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the expected and the measured risk per penalty, and the charge for the noise.

    E <theta, n> = tr(Q (S + lam I)^-1) for theta = (S + lam I)^-1 (mu + n), n of covariance
    Q = C + S/m, C the mechanism's noise and S/m that of the labels; the risk falls by twice that
    too much (`suffice.learner.operator.tuning`, where the charge is explained as well). S is that
    of rados held out: as it is expected, or as they measure it, which differs where their noise is
    in it.
    """
    width, folds = len(moments.operator), min(_FOLDS, len(moments.rows))
    noise = moments.noise.dense(width)
    spread = noise + moments.second / moments.examples
    fold = np.arange(len(moments.rows)) % folds
    risks, measured = np.zeros(len(lams)), np.zeros(len(lams))
    for k in range(folds):
        rest, held_out = moments.rows[fold != k], moments.rows[fold == k]
        (values, vectors), models = _solutions(moments.second_of(rest), moments.operator, lams)
        spread_along_axes = np.sum(vectors * (spread @ vectors), axis=0)
        optimism = (spread_along_axes[:, None] / (values[:, None] + lams)).sum(axis=0)
        squares = np.sum(models * (moments.second_of(held_out) @ models), axis=0)
        others = 1 - 2 * moments.operator @ models + 2 * optimism
        risks += (others + squares) / folds
        measured += (others + moments.square_of(models, held_out)) / folds
    _, models = _solutions(moments.second, moments.operator, lams)
    return risks, measured, 2 * np.sqrt(moments.noise.along(models))


def _exceeds_noise(moments: RadoMoments) -> bool:
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
