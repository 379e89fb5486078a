"""The classifier of randomised records, and priors that let clean columns depend on each other.

A Gaussian prior with correlations predicts each clean coordinate also from the others.

Numeric columns x with mean mu and covariance Sigma are observed as x~ with E[x~ | x] = alpha x +
beta, column by column (alpha = 1 for added noise, keep - other for flips). Then Cov(x~)_ij =
alpha_i alpha_j Sigma_ij off the diagonal, which corrupted records alone can tell, and the best
linear prediction of x is

    mu + Sigma A (Cov x~)^-1 (x~ - E x~),     A = diag(alpha),

with covariance Sigma - Sigma A (Cov x~)^-1 A Sigma for all records alike. Sigma is taken as low
rank plus diagonal; directions that sampling noise alone could explain are left out. Independent
columns (`clean_features`) are the special case of rank zero: consistent only if columns are. Few
discrete columns have a joint prior of all combinations of their values (`JointStates`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from suffice.engines.engine import Progress
from suffice.learner.base import (
    CLASS_WEIGHT,
    FIGURES,
    RECORDS_HAVE_NONE,
    LinearModel,
    refuse_weights,
)
from suffice.learner.frequencies import deconvolve, maximum_likelihood, observed_frequencies
from suffice.learner.problem import matching_rows
from suffice.learner.reports import invented_records
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.spread_likelihood import (
    LEAST_VARIANCE,
    CleanFeatures,
    Corrupted,
    JointStates,
    Knowledge,
    Prior,
    SpreadLikelihood,
    check_prior,
    choose_lam,
    clean_features,
    coordinates,
    held_out_link,
    marginals_of,
    maximise,
)
from suffice.releases.columns import Flips, SpreadColumn
from suffice.releases.merge import merge
from suffice.releases.release import Release


def predicted_features(records: Corrupted) -> CleanFeatures:
    """Return mean and covariance of the clean coordinates, numeric columns jointly Gaussian.

    Columns of text, and those with a table of flips, are taken as independent of all others.
    """
    independent = clean_features(records, "marginals")
    # E[x~ | x] must be linear in x: that of added noise is, and that of even flips of numbers.
    joint = [
        j
        for j, column in enumerate(records.columns)
        if not isinstance(column.noise, Flips) or (column.numeric and column.noise.keep is not None)
    ]
    if not joint:
        return independent
    part = Corrupted(
        tuple(records.columns[j] for j in joint), tuple(records.cells[j] for j in joint)
    )
    coordinates_seen, mean, variance, alpha = _moments(part)
    shift = coordinates_seen - coordinates_seen.mean(axis=0)
    observed = shift.T @ shift / len(shift)
    # B (d, r) with B B^T the common part of Sigma, above the edge of sampling noise: that of a
    # covariance of independent coordinates of variance s has eigenvalues up to
    # s (2 sqrt(d/n) + d/n) above s (Marchenko & Pastur 1967).
    covariance = observed / np.outer(alpha, alpha)
    np.fill_diagonal(covariance, variance)
    values, vectors = np.linalg.eigh(covariance)
    share = len(variance) / len(shift)
    size = float(np.mean(observed.diagonal() / alpha**2))
    significant = values > size * (2 * np.sqrt(share) + share)
    loadings = vectors[:, significant] * np.sqrt(values[significant])
    common = loadings @ loadings.T
    clean = common + np.diag(np.maximum(variance - common.diagonal(), LEAST_VARIANCE))
    noisy = np.outer(alpha, alpha) * common
    np.fill_diagonal(noisy, np.maximum(observed.diagonal(), noisy.diagonal() + LEAST_VARIANCE))
    gain = np.linalg.solve(noisy, alpha[:, None] * clean)  # (Cov x~)^-1 A Sigma
    rest = clean - (alpha[:, None] * clean).T @ gain
    values, vectors = np.linalg.eigh((rest + rest.T) / 2)
    starts = np.concatenate([[0], np.cumsum([c.width for c in records.columns])])[joint]
    means, spread = independent.mean.copy(), np.array(independent.spread)
    means[:, starts], spread[:, starts] = mean + shift @ gain, 0.0
    root = np.zeros((means.shape[1], len(joint)))
    root[starts] = vectors * np.sqrt(np.maximum(values, 0.0))
    return replace(independent, mean=means, spread=spread if spread.any() else None, root=root)


def _moments(records: Corrupted) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the observed coordinates, and mean, variance and alpha of every clean one."""
    width = len(records.columns)
    observed = np.empty((records.count, width))
    mean, variance, alpha = np.empty(width), np.empty(width), np.ones(width)
    for (_, noise), positions in records.groups().items():
        cells = np.stack([records.cells[j] for j in positions], axis=1)
        if isinstance(noise, Flips):
            states = coordinates(records.columns[positions[0]])[:, 0]
            marginals = deconvolve(observed_frequencies(cells, noise.states), noise)
            observed[:, positions] = states[cells]
            mean[positions] = marginals @ states
            variance[positions] = marginals @ states**2 - mean[positions] ** 2
            alpha[positions] = noise.matrix[0, 0] - noise.matrix[0, 1]
        else:
            observed[:, positions] = noise.scaled(cells)
            mean[positions] = observed[:, positions].mean(axis=0)
            variance[positions] = observed[:, positions].var(axis=0) - noise.scaled_variance
    return observed, mean, np.maximum(variance, LEAST_VARIANCE), alpha


_MOST_COMBINATIONS = 1024  # the table of posteriors is their square: 8 MB
_RECORDS_PER_COMBINATION = 10  # from which on p(x) is learnt combination by combination


def joint_states(records: Corrupted, prior: Prior) -> JointStates | None:
    """Return what is known of clean combinations; None where there are too many of them.

    ``prior``: as of `clean_features`, its marginals taken as independent, or "learned": any
    distribution of combinations, if there are records enough to tell it.
    """
    noises = [c.noise for c in records.columns if isinstance(c.noise, Flips)]
    combinations = math.prod(noise.states for noise in noises)
    if not noises or len(noises) < len(records.columns) or combinations > _MOST_COMBINATIONS:
        return None
    learned = isinstance(prior, str) and prior == "learned"
    if learned and records.count < _RECORDS_PER_COMBINATION * combinations:
        return None
    sizes = tuple(noise.states for noise in noises)
    observed_codes = np.ravel_multi_index(
        tuple(np.asarray(c, dtype=np.int64) for c in records.cells), sizes
    )
    matrices: list[np.ndarray] = [noise.matrix for noise in noises]
    channel = reduce(np.kron, matrices)
    if learned:
        observed = np.bincount(observed_codes, minlength=combinations) / records.count
        likely = maximum_likelihood(observed[None, :], channel)[0]
    else:
        marginals = []
        for j, noise in enumerate(noises):
            own_prior = None if isinstance(prior, str) else [np.asarray(prior[j])]
            marginals.append(marginals_of(records.cells[j][:, None], noise, prior, own_prior)[0])
        likely = reduce(np.kron, marginals)
    joint = channel * likely
    posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    places = np.indices(sizes).reshape(len(sizes), -1)  # the last column changes fastest
    parts = [coordinates(c)[at] for c, at in zip(records.columns, places, strict=True)]
    points = np.hstack([*parts, np.ones((combinations, 1))])
    return JointStates(points, posterior, observed_codes)


@dataclass(eq=False, repr=False)
class SpreadClassifier(LinearModel):
    """Computes the logistic (softmax) model of clean records from randomised ones.

    maximise (1/n) sum_i log sum_c P[c~_i | c] E[p(c | x) | x~_i] - (lam/2) ||w||^2

    (Barber 2020, Section 5). The likelihood contains the noise, so that it estimates the model of
    the clean data. The expectation is in closed form: exact for few combinations of values, else
    for a Gaussian score (the paper's sampled EM is in `suffice.papers.spread`). It needs a prior of
    clean features. With independent columns it is
    inconsistent where features are both correlated and randomised: coefficients come out too small.
    The learned prior allows dependence: of any kind where columns are discrete and have few
    combinations of values, else of second order. With ``lam="auto"``, probabilities are means over
    all slopes that held-out records leave open.

    Parameters
    ----------
    prior : {"learned", "marginals", "flat"} or sequence of arrays, default="learned"
        What clean features look like. Learnt from the randomised records: "learned", the joint
        distribution of few discrete columns, else a Gaussian one with correlations of numeric
        columns; "marginals", each column alone (the paper's learned prior). "flat": all values
        alike. A sequence holds one array per column: the probabilities of its possible values, or
        its mean and variance.
    lam : float or "auto", default="auto"
        Weight of the squared 2-norm of all weights but the constant's. "auto": by the evidence of
        randomised labels (empirical Bayes), or by cross-validation where labels are exact.
    tol : float, default=1e-5
        The solver stops where the largest entry of the gradient is at most ``tol``. More than ten
        times as much is an error.
    max_iter : int, default=1000
        The largest number of iterations.
    random_state : int, RandomState or None, default=0
        The seed of the folds.
    class_weight

    Attributes
    ----------
    coef_, intercept_, theta_, lam_, classes_, n_features_in_, pipeline_, releases_
        As in `FactoredClassifier`.
    slope_ : float
        What the weights of the largest likelihood are multiplied by, so that scores are log-odds
        of fresh rows: the mean over slopes that held-out records make likely, with ``lam="auto"``
        and randomised records or labels; else 1. The constant then moves as well, so that
        probabilities have the class proportions that the release tells.
    probability_error_ : float
        How far off probabilities are on average, because held-out records leave the slope open.
    likelihood_ : float
        The mean log likelihood per randomised label at the solution.
    n_iter_ : int
        The number of iterations.
    gradient_norm_ : float
        The largest entry of the gradient at the solution.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(300, 1))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.SpreadClassifier(lam=0.01).fit(X, labels)
    >>> model.predict([[2.0], [-2.0]])
    array([1, 0])
    """

    prior: Any = "learned"
    lam: float | str = "auto"
    tol: float = 1e-5
    max_iter: int = 1000
    random_state: Any = 0
    class_weight: Any = None

    stored_as = "SpreadClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "prior": [StrOptions({"learned", "marginals", "flat"}), "array-like"],
        "lam": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RECORDS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "SpreadClassifier":
        """Learn from exact records: logistic regression. This protects nothing about them.

        X and y are as in `FactoredClassifier.fit`.
        """
        rows, codes, _ = self._weighted_data(X, y, None)
        return self._fit_rows(rows, codes, np.eye(len(self.classes_)))

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RECORDS_HAVE_NONE)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any = None, *, progress: Progress = None
    ) -> "SpreadClassifier":
        """Learn from randomised records, or from randomised labels and their public rows.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind responses, reports or label-responses. Several are merged first.
        X : array, table or path, optional
            Of label-responses only: the public rows that the labels belong to, in their order.
        progress : callable, optional
            Called with the number of rows of each batch of ``X`` that was read.

        Raises
        ------
        ForeignRowsError
        ParameterError
            If a release holds no randomised labels, or a parameter is not valid.
        OptimisationError
        """
        merged = merge(release)
        if merged.kind == "reports":
            self._learn_from((merged,))
            rows, codes = invented_records(merged, coordinates)
            classes = np.eye(len(merged.classes))
            self.lam_ = 1e-4 if self.lam == "auto" else float(self.lam)  # the noise was smoothed
            return self._maximise(SpreadLikelihood(CleanFeatures(rows), codes, classes))
        channel, codes = (
            merged.array(name, "randomised labels") for name in ("channel", "answers")
        )
        self._learn_from((merged,))
        if "codes" not in merged.arrays:  # labels alone: their rows are public
            (rows,) = matching_rows(X, [merged], progress)
            return self._fit_rows(rows, codes, channel)
        columns = tuple(SpreadColumn.from_json(item) for item in merged.details["columns"])
        discrete, others = iter(merged.arrays["codes"].T), iter(merged.arrays["values"].T)
        cells = tuple(next(others if c.states is None else discrete) for c in columns)
        return self.fit_corrupted(Corrupted(columns, cells), codes, channel, merged.classes)

    def fit_corrupted(
        self, records: Corrupted, codes: np.ndarray, channel: np.ndarray, classes: Sequence[Any]
    ) -> "SpreadClassifier":
        """Learn from randomised records and labels that are not in a release.

        Parameters
        ----------
        records : Corrupted
            The randomised columns.
        codes, channel : arrays of shape (n,) and (K, K)
            The randomised labels as positions in ``classes``, and P[observed i | true j] of them.
        classes : sequence
            The classes.
        """
        check_prior(records, self.prior)
        self.classes_ = np.array(classes)
        knowledge: Knowledge | None = joint_states(records, self.prior)  # combinations are few
        if knowledge is None and isinstance(self.prior, str) and self.prior == "learned":
            knowledge = predicted_features(records)
        elif knowledge is None:
            knowledge = clean_features(records, self.prior)
        return self._fit_likelihood(SpreadLikelihood(knowledge, codes, channel), exact=False)

    def _fit_rows(
        self, rows: np.ndarray, codes: np.ndarray, channel: np.ndarray
    ) -> "SpreadClassifier":
        constant = self.pipeline_.intercept > 0
        likelihood = SpreadLikelihood(CleanFeatures(rows), codes, channel, constant)
        exact = np.array_equal(channel, np.eye(*channel.shape))
        return self._fit_likelihood(likelihood, exact=exact)

    def _fit_likelihood(self, likelihood: SpreadLikelihood, *, exact: bool) -> "SpreadClassifier":
        seed = check_random_state(self.random_state).randint(2**31)
        self.lam_ = (
            choose_lam(likelihood, max_iter=int(self.max_iter), seed=seed)
            if self.lam == "auto"
            else float(self.lam)
        )
        self._maximise(likelihood)
        if self.lam == "auto" and not exact:
            link = held_out_link(likelihood, self.lam_, max_iter=int(self.max_iter), seed=seed)
            self.slope_, self.probability_error_ = link.slope, link.error
            self.theta_ = likelihood.linked(self.theta_, link.slope, link.shift)
        self.likelihood_ = -likelihood(self.theta_)[0]
        return self

    def _maximise(self, likelihood: SpreadLikelihood) -> "SpreadClassifier":
        """Find the weights of largest likelihood at the penalty that was chosen."""
        self.theta_, self.gradient_norm_, self.n_iter_ = maximise(
            likelihood, self.lam_, tol=self.tol, max_iter=int(self.max_iter)
        )
        self.slope_, self.probability_error_ = 1.0, 0.0
        self.likelihood_ = -likelihood(self.theta_)[0]
        return self

    def _details(self) -> dict[str, Any]:
        return {"loss": "logistic", **dict.fromkeys(FIGURES)}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.slope_, self.probability_error_ = 1.0, 0.0
        return self
