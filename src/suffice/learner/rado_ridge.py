"""Least squares from the mean and the covariance of rados: no boosting, and few are enough.

The penalty is chosen without labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from suffice.errors import OptimisationError, ParameterError
from suffice.learner.base import FIGURES, TwoClasses
from suffice.learner.calibration import LabelMeans, LogOdds, gaussian_log_odds, log_odds_of_scores
from suffice.learner.rado_moments import SCORES_ONLY, RadoMoments, log_odds_of_moments, moments_of
from suffice.learner.rows import design_matrix
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.weights import CLASS_WEIGHT, RADOS_HAVE_NONE, refuse_weights
from suffice.release.merge import merge
from suffice.release.release import Covariance, Release

__all__ = [
    "Fitted",
    "RadoRidge",
    "RisksByPenalty",
    "exceeds_noise",
    "fit_best_penalty",
    "risks_by_penalty",
]


_LAMS = 10.0 ** np.arange(-5.0, 3.01, 0.5)  # times the mean of S's diagonal
_NOISE_CHARGE = 2.0  # deviations of <theta, mu> by noise: what a model is charged
_LARGEST_RISK_ERROR = 0.05  # standard deviation; the risk of always predicting 0 is 1


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
    is_known = moments.square_error(theta) <= _LARGEST_RISK_ERROR
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
    too much (`suffice.learner.penalty`, where the charge is explained as well). S is that
    of rados held out.
    """
    folds = min(5, len(moments.rows))
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
    charges = _NOISE_CHARGE * np.sqrt(moments.noise.along(models))
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
    # The noise is longer than one deviation above its mean in about one of six cases.
    limit = np.trace(noise) + np.sqrt(2 * np.sum(noise**2))
    return bool(rest @ rest > limit)


_NO_PROBABILITIES = (
    "The noise of this release hides how much the model's scores vary, so it has no probabilities."
    " Fit it with rows, which need no labels: suffice fit --rows TABLE (Python:"
    " fit_release(release, X))."
)


class RadoRidge(TwoClasses):
    """Computes the linear classifier of least square loss on examples, from rados alone.

    minimise 1 - 2 <theta, mu> + theta^T S theta + (lam/2) ||theta||^2

    The mean of rados gives mu and their covariance gives S (`suffice.learner.rado_moments`). Up
    to the penalty this is the mean-variance rado-risk (Nock 2016). Two moments of n rados have an
    error of about 1/sqrt(n), while the exponential rado-risk of `RadoBoost` depends on the few
    rados of least margin. On 13 of the 14 data sets of `suffice reproduce rados-table1` this
    learner is the better one. Two classes.

    Scores are log odds: scaled and shifted so that probabilities are calibrated, without a label
    (`suffice.learner.rado_moments`). That needs the variance of scores. Where noise on rados
    hides it, as it does per record, pass rows: they also improve the model. Without them there are
    scores and no probabilities.

    Parameters
    ----------
    lam : float or "auto", default="auto"
        Weight of the penalty. "auto" takes the weight of least risk on fresh labels, estimated
        without any label: S comes from rados that were held out, and Stein's lemma corrects for
        the noise in mu (`suffice.learner.penalty`).
    class_weight : dict, "balanced" or None, default=None
        What a mistake about each class costs: `predict` takes the class of largest weight times
        probability. A class that a dict lacks has weight 1; "balanced" weighs against the class
        proportions. Probabilities, scores and coefficients stay as they are.

    Attributes
    ----------
    coef_ : ndarray of shape (1, p)
        One coefficient per feature, in the units of its column (`get_feature_names_out`).
    intercept_ : ndarray of shape (1,)
        The score of a row whose features are all zero.
    theta_ : ndarray of shape (d,)
        One weight per coordinate of ``pipeline_``, the intercept's last: log odds, if
        ``calibrated_``, else ``minimiser_``.
    minimiser_ : ndarray of shape (d,)
        theta of the formula above.
    calibrated_ : bool
        Whether scores are log odds, and `predict_proba` works.
    risk_ : float or None
        The square risk on fresh labels, estimated without any label; with rows, that of the best
        multiple of theta. None where the noise on rados hides how much scores vary.
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
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, lam: float | str = "auto", class_weight: Any = None) -> None:
        self.lam = lam
        self.class_weight = class_weight

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
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
        moments = RadoMoments(edges.mean(axis=0), edges, Covariance("none"), len(edges))
        # The intercept of an edge y x has the sign of y.
        return self._fit_moments(moments, edges * np.sign(edges[:, -1:]))

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
    def fit_release(self, release: Release | Sequence[Release], X: Any = None) -> "RadoRidge":
        """Learn from a release of rados, or those of several owners. No rows are needed.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind rados. Several are merged first.
        X : array, table or path, optional
            Rows without labels, of the same population as the private ones, for example the public
            rows that scales come from, or those to predict. S and the probabilities then come from
            them.

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
        moments = moments_of(merged).with_label_mean(merged.pipeline.intercept)
        if len(moments.rows) < 2:
            raise ParameterError(
                "RadoRidge needs at least two rados, and this release has one. Use RadoBoost."
            )
        self._learn_from((merged,))
        if X is None:
            return self._fit_moments(moments, None)
        rows = design_matrix(X, self.pipeline_, new=True)
        of_rows = replace(moments, rows=rows, second_noise=None)
        return self._fit_moments(of_rows, rows, rescaled=True)

    def _fit_moments(
        self, moments: RadoMoments, rows: np.ndarray | None, *, rescaled: bool = False
    ) -> "RadoRidge":
        lams = None if self.lam == "auto" else [float(self.lam) / 2]  # on the diagonal of S
        best = fit_best_penalty(moments, lams, rescaled=rescaled)
        self.intercept_only_ = False
        if lams is None and self.pipeline_.intercept > 0:
            constant = fit_best_penalty(moments.last(), None, rescaled=rescaled)
            hidden = not exceeds_noise(moments)
            self.intercept_only_ = hidden and constant.charged <= min(best.charged, 1.0)
            best = constant if self.intercept_only_ else best
        self.minimiser_ = np.zeros(len(moments.operator))
        self.minimiser_[-len(best.parameters) :] = best.parameters
        if not np.isfinite(self.minimiser_).all():
            raise OptimisationError(
                "The rados are too large, or differ too much in size, for least squares. Use"
                " RadoBoost, or ask the owner to scale the columns."
            )
        self.lam_, self.risk_ = 2 * best.lam, best.risk
        self._calibrate(best, moments, rows)
        return self

    def _calibrate(self, best: Fitted, moments: RadoMoments, rows: np.ndarray | None) -> None:
        """Turn scores of the minimiser into log odds, where that is possible."""
        weight = self.pipeline_.intercept
        mean = float(moments.operator[-1] / weight) if weight > 0 else None
        labels = best.label_means(mean)
        log_odds: LogOdds | None
        if self.intercept_only_:
            log_odds = gaussian_log_odds(0.0, 0.0, LabelMeans(0.0, 0.0, mean))
        elif rows is not None:
            log_odds = log_odds_of_scores(rows @ self.minimiser_, labels)
        else:
            log_odds = log_odds_of_moments(self.minimiser_, moments, labels, weight)
        self.calibrated_ = log_odds is not None
        self.theta_ = self.minimiser_ * (1.0 if log_odds is None else log_odds.slope)
        if log_odds is not None and weight > 0:
            self.theta_[-1] += log_odds.offset / weight
        self._link = "logistic" if self.calibrated_ else f"square, {SCORES_ONLY}"

    def _probability_refusal(self) -> str:
        calibrated = getattr(self, "calibrated_", True)
        return super()._probability_refusal() if calibrated else _NO_PROBABILITIES

    def _details(self) -> dict[str, Any]:
        return {"loss": self._link, **dict.fromkeys(FIGURES), "risk": self.risk_}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.risk_, self._link = details["risk"], str(details["loss"])
        self.calibrated_ = not self._link.endswith(SCORES_ONLY)
        return self
