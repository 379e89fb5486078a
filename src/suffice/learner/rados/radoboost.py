"""RadoBoost: a linear classifier boosted from sums over random subsets of examples, and no more."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from suffice.engines.rados import default_count
from suffice.errors import ParameterError
from suffice.learner.class_weights import CLASS_WEIGHT
from suffice.learner.rados.boosting import BoostedModel, run_boosting
from suffice.learner.rados.calibration import (
    LabelMeans,
    LogOdds,
    log_odds_of_moments,
    log_odds_of_scores,
)
from suffice.learner.rados.moments import RadoMoments, moments_of, rados_of
from suffice.learner.rados.risks import logistic_rado_risk, sampling_term
from suffice.learner.rados.simulated import simulated_rados
from suffice.learner.rows import design_matrix
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.weights import RADOS_HAVE_NONE, refuse_weights
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.release.merge import merge

__all__ = ["RadoBoost"]

_MOST_BY_NOISE = 0.25  # of <theta, mu>, at worst, if there are to be probabilities
_LEAST_SLOPE = 1e-9  # of scores that tell nothing


class RadoBoost(BoostedModel):
    """Computes a linear classifier of examples from their rados (Nock et al. 2015, Algorithm 1).

    F_exp(theta) = (1/n) sum_j exp(-<theta, pi_j>) over rados pi_j falls by the factor
    sqrt(1 - r_t^2) in each round (Lemma 4). Over all possible rados it is the logistic risk of the
    examples (Lemma 2). With few rados that holds for small theta only: `RadoRidge` learns more from
    the same release. Two classes.

    Parameters
    ----------
    rounds : int, default=1000
        The largest number of rounds, each of one feature.
    oracle : {"strong", "median"} or float, default="strong"
        Which feature a round takes: that of largest |r_t|, or the median one. A number lambda_p
        is the prudent oracle of Section 5.2: |r_t| counts as lambda_p at most. The paper's oracle
        takes only features with such an |r_t|, never the strong ones, which left half of Magic and
        of Abalone wrong. Here the strongest is taken, with the step that lambda_p would have.
    kappa : float, default=1.0
        Divides every step, alpha_t = log((1 + r_t)/(1 - r_t)) / (2 kappa pi_*) (5.2, corrected in
        docs/errata.md). Weights do not depend on it, so it scales scores.
    min_edge : float, default=0.0
        A smaller |r_t| counts as this one: outliers make pi_* large and |r_t| tiny (Section 4).
    count : int or None, default=None
        In `fit` only: how many rados it computes; None for min(1000, m/2).
    random_state : int, RandomState or None, default=0
        In `fit` only: the seed of the signs.
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
        One weight per coordinate of ``pipeline_``, the intercept's last: theta of the kept round.
    rado_risk_ : float
        The logistic rado-risk of ``theta_``, eq. (4).
    rounds_ : int
        The kept round: that of least rado-risk, or of fewest errors where there are examples.
    n_iter_ : int
        The number of rounds that were run.
    path_ : Path
        Every round, with the bound of Lemma 4.
    feature_importances_ : ndarray of shape (p,)
        The share of each column in the scores, without the intercept. They sum to one.
    scale_ : float
        A score times ``scale_`` is about its log-odds, by the mean and the variance of scores that
        the rados or the rows show.
    calibrated_ : bool
        Whether ``scale_`` is known, and `predict_proba` works. Noise per record hides it, unless
        rows are passed.
    lam_ : float
        Always 0: there is no penalty.
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
    >>> model = suffice.RadoBoost(rounds=50).fit(X, labels)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """

    stored_as = "RadoBoost"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "rounds": [Interval(Integral, 1, None, closed="left")],
        "oracle": [StrOptions({"strong", "median"}), Interval(Real, 0, 1, closed="neither")],
        "kappa": [Interval(Real, 1, None, closed="left")],
        "min_edge": [Interval(Real, 0, 1, closed="left")],
        "count": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(  # noqa: PLR0917  # scikit-learn's convention
        self,
        rounds: int = 1000,
        oracle: Any = "strong",
        kappa: float = 1.0,
        min_edge: float = 0.0,
        count: int | None = None,
        random_state: Any = 0,
        class_weight: Any = None,
    ) -> None:
        self.rounds = rounds
        self.oracle = oracle
        self.kappa = kappa
        self.min_edge = min_edge
        self.count = count
        self.random_state = random_state
        self.class_weight = class_weight

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "RadoBoost":
        """Learn from simulated rados of exact examples. This protects nothing.

        The kept round is that of fewest errors on the examples, as in Section 4 of the paper.

        Parameters
        ----------
        X : array of shape (n, p)
            The rows: numbers without missing values.
        y : array of shape (n,)
            One label per row, of two classes.

        Returns
        -------
        RadoBoost
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If the labels hold another number of classes than two, or a parameter is not valid.
        """
        edges = self._mapped_edges(X, y)
        count = default_count(len(edges)) if self.count is None else int(self.count)
        seed = check_random_state(self.random_state).randint(2**31)
        rados = simulated_rados(edges, count, np.random.default_rng(seed))
        moments = RadoMoments(edges.mean(axis=0), edges, Covariance("none"), len(edges))
        return self._fit_rados(rados, moments, edges, None)

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any = None, y: Any = None
    ) -> "RadoBoost":
        """Learn from a release of rados, or those of several owners. No rows are needed.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind rados. Several are merged first.
        X : array, table or path, optional
            Rows of the same population as the private ones. Probabilities come from them. Without
            labels they also move the intercept, so that these are calibrated.
        y : array of shape (n,), optional
            Their labels, if the caller may see them. The kept round is then that of fewest errors.

        Returns
        -------
        RadoBoost
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If a release holds no rados or cannot be merged with the others, or if labels come
            without rows.
        """
        merged = merge(release)
        rados = rados_of(merged)
        moments = moments_of(merged).with_label_mean(merged.pipeline.intercept)
        if X is None and y is not None:
            raise ParameterError("Labels belong to rows. Pass X together with y, or neither.")
        self._learn_from((merged,))
        rows = None if X is None else design_matrix(X, self.pipeline_, new=y is None)
        examples = None if rows is None or y is None else self._edges(rows, y)
        return self._fit_rados(rados, moments, examples, rows)

    def _edges(self, rows: np.ndarray, y: Any) -> np.ndarray:
        """Return y_i x_i of the caller's examples."""
        labels = np.asarray(y)
        second = labels == self.classes_[1]
        if labels.shape != (len(rows),) or not (second | (labels == self.classes_[0])).all():
            raise ParameterError("y must hold one of the classes of the release for each row of X.")
        return np.where(second, 1.0, -1.0)[:, None] * rows

    def _fit_rados(
        self,
        rados: np.ndarray,
        moments: RadoMoments,
        examples: np.ndarray | None,
        rows: np.ndarray | None,
    ) -> "RadoBoost":
        path = run_boosting(
            rados,
            rounds=self.rounds,
            examples=examples,
            oracle=self.oracle,
            kappa=self.kappa,
            min_edge=self.min_edge,
        )
        self._keep(path, np.sqrt(np.maximum(moments.second.diagonal(), 0.0)))
        self._rados, self._examples = rados, moments.examples
        self.rado_risk_ = logistic_rado_risk(rados, self.theta_, moments.examples)
        weight = self.pipeline_.intercept if examples is None and rows is not None else 0.0
        log_odds = _log_odds(self.theta_, moments, rows, weight)
        self.calibrated_ = log_odds is not None
        self.scale_ = 1.0 if log_odds is None else max(log_odds.slope, _LEAST_SLOPE)
        if log_odds is not None and weight > 0:
            self.theta_[-1] += log_odds.offset / self.scale_ / weight
        return self

    def sampling_term(self, eta: float = 0.05) -> float:
        """Return the order of Theorem 3's sampling term (`suffice.learner.rados.risks`).

        Of the theorem's terms only this one can be computed without the examples. It is infinite
        unless theta is small and there are many rados.

        Parameters
        ----------
        eta : float, default=0.05
            The probability that the theorem's bound fails.

        Returns
        -------
        float
            The term; may be infinite.

        Raises
        ------
        ParameterError
            If the signs of the rados were not drawn independently.
        AttributeError
            If the model was loaded from a file.
        """
        rados = self._from_fit("_rados", "rados")
        signs = self.releases_[0].details["signs"] if self.releases_ else "iid"
        if signs != "iid":
            raise ParameterError(
                f"This term exists only for rados whose signs were drawn independently. These have"
                f" {signs} signs."
            )
        return sampling_term(rados, self.theta_, self._examples, eta)

    def to_release(self) -> Release:
        """Return the model as a release, with log-odds as scores.

        Returns
        -------
        Release
            A release of kind "model" with the guarantees of the releases behind it.

        Raises
        ------
        ParameterError
            If the model was learnt from exact data: it has no guarantee.
        """
        model = super().to_release()
        return replace(model, arrays={"coefficients": self.scale_ * self.theta_})


def _log_odds(
    theta: np.ndarray, moments: RadoMoments, rows: np.ndarray | None, weight: float
) -> LogOdds | None:
    """Return the log odds of scores; None if noise hides them.

    A score of 0 has even odds unless the intercept may move, that is unless it has a ``weight``.
    How much of <theta, mu> boosting has learnt from the noise in mu is not known, but at most
    ||theta|| times the length of the noise.
    """
    product = float(theta @ moments.operator)
    by_noise = float(np.linalg.norm(theta) * np.sqrt(moments.noise.diagonal(len(theta)).sum()))
    if by_noise > _MOST_BY_NOISE * max(product, 0.0):
        return None
    error = float(np.sqrt(moments.noise.quadratic(theta)))
    mean = float(moments.operator[-1] / weight) if weight > 0 else None
    labels = LabelMeans(product, error, mean)
    if rows is not None:
        return log_odds_of_scores(rows @ theta, labels)
    return log_odds_of_moments(theta, moments, labels, 0.0)
