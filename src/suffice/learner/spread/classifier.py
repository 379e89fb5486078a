"""A linear classifier of clean records, learnt from corrupted ones by their spread likelihood."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils import check_random_state

from suffice.engines.engine import Progress
from suffice.learner.base import FIGURES, LinearModel
from suffice.learner.class_weights import CLASS_WEIGHT
from suffice.learner.rows import matching_rows
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.spread.gaussian import predicted_features
from suffice.learner.spread.importance import expectation_maximisation, sampled_records
from suffice.learner.spread.joint import joint_states
from suffice.learner.spread.likelihood import CleanFeatures, Knowledge, SpreadLikelihood
from suffice.learner.spread.posterior import Corrupted, Prior, check_prior, clean_features
from suffice.learner.spread.selection import choose_lam, held_out_link, maximise
from suffice.learner.weights import RECORDS_HAVE_NONE, refuse_weights
from suffice.release.artifact import Release
from suffice.release.merge import merge
from suffice.release.spread import SpreadColumn

__all__ = ["SpreadClassifier", "corrupted_records"]


class SpreadClassifier(LinearModel):
    """Computes the logistic (softmax) model of clean records from randomised ones.

    maximise (1/n) sum_i log sum_c P[c~_i | c] E[p(c | x) | x~_i] - (lam/2) ||w||^2

    (Barber 2020, Section 5). The likelihood contains the noise, so that it estimates the model of
    the clean data. The expectation needs a prior of clean features. With independent columns it is
    inconsistent where features are both correlated and randomised: coefficients come out too small.
    The learned prior allows dependence: of any kind where columns are discrete and have few
    combinations of values, else of second order.

    Parameters
    ----------
    prior : {"learned", "gaussian", "marginals", "flat"} or sequence of arrays, default="learned"
        What clean features look like. Learnt from the randomised records: "gaussian", with
        correlations of numeric columns; "marginals", each column alone (the paper's learned
        prior); "learned", the joint distribution of few discrete columns, else "gaussian".
        "flat": all values alike. A sequence holds one array per column: the probabilities of its
        possible values, or its mean and variance.
    solver : {"deterministic", "importance"}, default="deterministic"
        The expectation in closed form (exact for few combinations, else for a Gaussian score), or
        the paper's sampled EM, whose draws are independent by column: "learned" and "gaussian" are
        marginals there. Exact records need no draws in either.
    lam : float or "auto", default="auto"
        Weight of the squared 2-norm of all weights but the constant's. "auto": by the evidence of
        randomised labels (empirical Bayes), or by cross-validation where labels are exact.
    samples : int, default=10
        The number of draws per record, of the importance solver.
    tol : float, default=1e-5
        The solver stops where the largest entry of the gradient is at most ``tol``. More than ten
        times as much is an error.
    max_iter : int, default=1000
        The largest number of iterations.
    random_state : int, RandomState or None, default=0
        The seed of the folds and of the importance solver.
    class_weight : dict, "balanced" or None, default=None
        What a mistake about each class costs: `predict` takes the class of largest weight times
        probability. A class that a dict lacks has weight 1; "balanced" weighs against the class
        proportions. Probabilities, scores and coefficients stay as they are.

    Attributes
    ----------
    coef_ : ndarray of shape (1, p) or (K, p)
        One coefficient per feature, in the units of its column (`get_feature_names_out`).
    intercept_ : ndarray of shape (1,) or (K,)
        The score of a row whose features are all zero.
    theta_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``, the intercept's last.
    slope_ : float
        What the weights of the largest likelihood are multiplied by, so that scores are log-odds
        of fresh rows: the mean over slopes that held-out records make likely, with ``lam="auto"``
        and randomised records or labels; else 1. The constant then moves as well, so that
        probabilities have the class proportions that the release tells.
    probability_error_ : float
        How far off probabilities are on average, because held-out records leave the slope open.
    likelihood_ : float
        The mean log likelihood per randomised label at the solution.
    lam_ : float
        The weight of the penalty that was used.
    n_iter_ : int
        The number of iterations; 0 for the importance solver.
    gradient_norm_ : float
        The largest entry of the gradient at the solution; deterministic solver only.
    classes_ : ndarray of shape (K,)
        The classes. With two classes, positive scores mean the second.
    n_features_in_ : int
        The number of columns that the model reads.
    pipeline_ : Pipeline
        Turns raw rows into coordinates.
    releases_ : tuple of Release
        The releases that the model was learnt from; empty after `fit`.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(300, 1))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.SpreadClassifier(lam=0.01).fit(X, labels)
    >>> model.predict([[2.0], [-2.0]])
    array([1, 0])
    """

    stored_as = "SpreadClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "prior": [StrOptions({"learned", "gaussian", "marginals", "flat"}), "array-like"],
        "solver": [StrOptions({"deterministic", "importance"})],
        "lam": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "samples": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(  # noqa: PLR0917  # scikit-learn's convention
        self,
        prior: Any = "learned",
        solver: str = "deterministic",
        lam: float | str = "auto",
        samples: int = 10,
        tol: float = 1e-5,
        max_iter: int = 1000,
        random_state: Any = 0,
        class_weight: Any = None,
    ) -> None:
        self.prior = prior
        self.solver = solver
        self.lam = lam
        self.samples = samples
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.class_weight = class_weight

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RECORDS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "SpreadClassifier":
        """Learn from exact records: logistic regression. This protects nothing about them.

        Parameters
        ----------
        X : array of shape (n, p)
            The rows: numbers without missing values.
        y : array of shape (n,)
            One label per row.

        Returns
        -------
        SpreadClassifier
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If the labels hold one class only, or a parameter is not valid.
        OptimisationError
            If the solver stops short of ``tol``.
        """
        rows, codes = self._mapped_data(X, y)
        channel = np.eye(len(self.classes_))
        return self._fit_rows(rows, codes, channel)

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RECORDS_HAVE_NONE)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any = None, *, progress: Progress = None
    ) -> "SpreadClassifier":
        """Learn from randomised records, or from randomised labels and their public rows.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind responses or label-responses. Several are merged first.
        X : array, table or path, optional
            Of label-responses only: the public rows that the labels belong to, in their order.
        progress : callable, optional
            Called with the number of rows of each batch of ``X`` that was read.

        Returns
        -------
        SpreadClassifier
            The fitted classifier itself.

        Raises
        ------
        ForeignRowsError
            If the rows are not those that the release belongs to.
        ParameterError
            If a release holds no randomised labels, or a parameter is not valid.
        OptimisationError
            If the solver stops short of ``tol``.
        """
        merged = merge(release)
        channel, codes = (
            merged.array(name, "randomised labels") for name in ("channel", "answers")
        )
        self._learn_from((merged,))
        if "codes" not in merged.arrays:  # labels alone: their rows are public
            (rows,) = matching_rows(X, [merged], progress)
            return self._fit_rows(rows, codes, channel)
        return self.fit_corrupted(corrupted_records(merged), codes, channel, merged.classes)

    def fit_corrupted(
        self, records: Corrupted, codes: np.ndarray, channel: np.ndarray, classes: Sequence[Any]
    ) -> "SpreadClassifier":
        """Learn from randomised records and labels that are not in a release.

        Parameters
        ----------
        records : Corrupted
            The randomised columns.
        codes : array of shape (n,)
            The randomised labels, as positions in ``classes``.
        channel : array of shape (K, K)
            P[observed i | true j] of the labels.
        classes : sequence
            The classes.

        Returns
        -------
        SpreadClassifier
            The fitted classifier itself.

        Raises
        ------
        ParameterError
            If there are no columns, or the prior does not fit them.
        OptimisationError
            If the solver stops short of ``tol``.
        """
        check_prior(records, self.prior)
        self.classes_ = np.array(classes)
        knowledge = _knowledge_of(records, self.prior)
        return self._fit_likelihood(SpreadLikelihood(knowledge, codes, channel), records)

    def _fit_rows(
        self, rows: np.ndarray, codes: np.ndarray, channel: np.ndarray
    ) -> "SpreadClassifier":
        constant = self.pipeline_.intercept > 0
        likelihood = SpreadLikelihood(CleanFeatures(rows), codes, channel, constant)
        return self._fit_likelihood(likelihood, None)

    def _fit_likelihood(
        self, likelihood: SpreadLikelihood, records: Corrupted | None
    ) -> "SpreadClassifier":
        seed = check_random_state(self.random_state).randint(2**31)
        self.lam_ = (
            choose_lam(likelihood, max_iter=int(self.max_iter), seed=seed)
            if self.lam == "auto"
            else float(self.lam)
        )
        if self.solver == "importance" and records is not None:
            prior = "marginals" if _is_dependent(self.prior) else self.prior
            draws = sampled_records(records, prior, self.samples, np.random.default_rng(seed))
            self.theta_ = expectation_maximisation(draws, likelihood, self.lam_, tol=self.tol)
            self.n_iter_ = 0
        else:
            self.theta_, self.gradient_norm_, self.n_iter_ = maximise(
                likelihood, self.lam_, tol=self.tol, max_iter=int(self.max_iter)
            )
        self.slope_, self.probability_error_ = 1.0, 0.0
        channel = likelihood.channel
        exact = records is None and np.array_equal(channel, np.eye(*channel.shape))
        if self.lam == "auto" and not exact:
            link = held_out_link(likelihood, self.lam_, max_iter=int(self.max_iter), seed=seed)
            self.slope_, self.probability_error_ = link.slope, link.error
            self.theta_ = likelihood.linked(self.theta_, link.slope, link.shift)
        self.likelihood_ = -likelihood(self.theta_)[0]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class of clean rows.

        They are means over all slopes that held-out records leave open, with ``lam="auto"``.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n, K)
            One probability per row and class, in the order of ``classes_``.

        Raises
        ------
        ParameterError
            If the release protects whole parties.
        TableError
            If the table has no rows or lacks a column.
        """
        self._check_probabilities()
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])

    def _details(self) -> dict[str, Any]:
        return {"loss": "logistic", **dict.fromkeys(FIGURES)}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.slope_, self.probability_error_ = 1.0, 0.0
        return self


def _is_dependent(prior: Prior) -> bool:
    """Whether the prior lets columns depend on each other."""
    return isinstance(prior, str) and prior in {"learned", "gaussian"}


def _knowledge_of(records: Corrupted, prior: Prior) -> Knowledge:
    """Return what is known of the clean records: by combinations if few, else by moments."""
    gaussian = isinstance(prior, str) and prior == "gaussian"
    joint = None if gaussian else joint_states(records, prior)
    if joint is not None:
        return joint
    return predicted_features(records) if _is_dependent(prior) else clean_features(records, prior)


def corrupted_records(release: Release) -> Corrupted:
    """Return the randomised records of a release, column by column."""
    columns = tuple(SpreadColumn.from_json(item) for item in release.details["columns"])
    codes, values = iter(release.arrays["codes"].T), iter(release.arrays["values"].T)
    return Corrupted(columns, tuple(next(values if c.states is None else codes) for c in columns))
