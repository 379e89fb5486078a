"""Linear classifiers from rados: boosted round by round, or by least squares from two moments.

An edge is y_i x_i. Over all 2^m rados pi of m examples, for every theta:

    logistic risk of the edges = log 2 + (1/m) log exponential risk of the rados
    (Nock, Patrini & Friedman 2015, Lemma 2),
    square risk of the edges = 1 + (4/m) (variance - mean) of <theta, pi>
    (the mean-variance rado-risk of Nock 2016).

Over a sample of rados the right sides are estimates: the second is good with few of them, the first
only where <theta, pi> varies by less than about sqrt(2 log n) over the n rados. `RadoBoost`
minimises the first, `RadoRidge` the second, from the mean and the covariance of rados and with a
penalty that is chosen without labels.

One loop boosts over rados and over examples. Rados of exact examples are drawn from simulated
randomness: for studies and `fit`, never a release.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from suffice.engines.sums import default_count
from suffice.errors import OptimisationError, ParameterError
from suffice.kernels import rados as kernels_rados
from suffice.learner.base import (
    CLASS_WEIGHT,
    FIGURES,
    RADOS_HAVE_NONE,
    TwoClasses,
    refuse_weights,
)
from suffice.learner.calibration import LabelMeans, LogOdds, gaussian_log_odds, log_odds_of_scores
from suffice.learner.problem import design_matrix
from suffice.learner.rado_moments import (
    LARGEST_ERROR,
    RadoMoments,
    log_odds_of_moments,
    moments_of,
)
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.releases.merge import merge
from suffice.releases.release import Covariance, Release

_SCORES_ONLY = "scores only"  # what a model file adds to its loss if it has no probabilities


def simulated_rados(edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``count`` uniform rados of ``edges`` (m, d), signs drawn independently.

    pi = (1/2) sum_i (sigma_i + y_i) x_i is the sum of the edges y_i x_i with sigma_i = y_i
    (Definition 1), and which those are is uniform when sigma is.
    """
    return _sums(edges, rng.integers(0, 256, (-(-len(edges) // 8), count), dtype=np.uint8))


def rados_of_subsets(edges: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the sum of the edges in each subset; ``inside`` (count, m) says which those are."""
    return _sums(edges, np.packbits(inside.T, axis=0, bitorder="little"))


def _sums(edges: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the sums of subsets given as bits: bit k of bits[g, s] is edge 8 g + k in subset s."""
    if len(bits) % 2:  # the kernel takes groups in pairs
        bits = np.vstack([bits, np.zeros((1, bits.shape[1]), dtype=np.uint8)])
    rados = np.zeros((bits.shape[1], edges.shape[1]))
    columns = np.ascontiguousarray(edges.T)
    kernels_rados.subset_sums(columns, np.ones(len(edges)), bits, 0.0, rados)
    return rados


@dataclass(frozen=True, eq=False)
class Path:
    """Holds every round of boosting, T of them: arrays of shape (T,) but for the weights."""

    width: int  # coordinates of the classifier
    features: np.ndarray  # the coordinate iota(t)
    edges: np.ndarray  # its edge r_t
    steps: np.ndarray  # the value that was used for r_t in the step
    alphas: np.ndarray  # the step itself
    log_risks: np.ndarray  # log F_exp after the round
    errors: np.ndarray  # the proportion of examples on the wrong side; NaN without examples
    weights: np.ndarray  # (n,): of the rows after the last round
    kappa: float  # what every step was divided by

    def __len__(self) -> int:
        return len(self.features)

    def parameters(self, rounds: int) -> np.ndarray:
        """Return theta after so many rounds: theta_k = sum of alpha_t with iota(t) = k."""
        return np.bincount(
            self.features[:rounds], weights=self.alphas[:rounds], minlength=self.width
        )

    def best(self) -> int:
        """Return the first number of rounds of smallest error, or risk where nobody gave examples.

        No round at all has log F_exp = 0, and nothing on the right side.
        """
        has_errors = len(self) > 0 and not np.isnan(self.errors[0])
        scores = np.concatenate([[1.0], self.errors] if has_errors else [[0.0], self.log_risks])
        return int(np.argmin(scores))

    def log_bounds(self) -> np.ndarray:
        """Return what log F_exp is at most after each round (Lemma 4 and ineq. 17).

        (1/kappa) sum_t log((1 - s_t r_t) / sqrt(1 - s_t^2)), which is at most
        -(1/(2 kappa)) sum_t r_t^2 where each step used its edge, s_t = r_t.
        """
        gains = np.log1p(-self.steps * self.edges) - np.log1p(-(self.steps**2)) / 2
        return np.cumsum(gains) / self.kappa


def run_boosting(
    rows: np.ndarray,
    *,
    rounds: int,
    examples: np.ndarray | None = None,
    oracle: str | float = "strong",
    kappa: float = 1.0,
    min_edge: float = 0.0,
    gentle: bool = True,
) -> Path:
    """Return the path of boosting over ``rows`` (n, d): rados, or edges y_i x_i.

    ``oracle`` says which feature a round takes, ``gentle`` whether weights follow eq. (11) or
    AdaBoost's rule (`suffice.kernels.rados.boost`); ``examples`` are edges to count errors on.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    judged = np.empty((0, rows.shape[1])) if examples is None else np.ascontiguousarray(examples)
    rule = kernels_rados.MEDIAN if oracle == "median" else kernels_rados.STRONGEST
    cap = 1.0 if isinstance(oracle, str) else float(oracle)
    # The six numbers of a round are in the order of `suffice.kernels.rados.boost`.
    weights, table = np.empty(len(rows)), np.empty((int(rounds), 6))
    limits = (rule, cap, float(min_edge), 1.0 / kappa)
    done = kernels_rados.boost(rows, judged, *limits, gentle, weights, table)
    features, edges, steps, alphas, log_risks, wrong = table[:done].T.copy()
    return Path(
        rows.shape[1],
        features.astype(np.int64),
        edges,
        steps,
        alphas,
        log_risks,
        wrong / len(judged) if len(judged) else np.full(done, np.nan),
        weights,
        float(kappa),
    )


def log_exponential_risk(rados: np.ndarray, parameters: np.ndarray) -> float:
    """Return log (1/n) sum_j exp(-<theta, pi_j>), which never overflows."""
    rows, theta = np.asarray(rados, dtype=np.float64), np.asarray(parameters, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or theta.shape != (rows.shape[1],):
        raise ParameterError(
            "rados must be a matrix with at least one row, and parameters one number per column."
        )
    return float(logsumexp(-(rows @ theta)) - np.log(len(rows)))


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


def logistic_rado_risk(rados: np.ndarray, parameters: np.ndarray, examples: int) -> float:
    """Return the logistic rado-risk log 2 + (1/m) log F_exp, eq. (4).

    Over all 2^m rados it is the logistic risk of the m examples.

    Parameters
    ----------
    rados, parameters
        As in `exponential_rado_risk`.
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
    log_risk = log_exponential_risk(rados, parameters)
    if not 0 < eta < 1:
        raise ParameterError(f"eta must lie between 0 and 1. It is {eta!r}.")
    n, width = np.shape(rados)
    reach = float(np.linalg.norm(parameters) * np.linalg.norm(rados, axis=1).max())
    inside = reach + width * np.log(max(2 * np.e * n / width, 1.0)) + np.log(1 / eta)
    log_share = reach - log_risk + (np.log(inside) - np.log(n)) / 2  # of q / sqrt(n)
    return float("inf") if log_share >= 0 else float(-np.log1p(-np.exp(log_share)) / examples)


class RadoModel(TwoClasses):
    """Computes scores for two classes, which are log odds where noise does not hide them.

    ``calibrated_`` says whether they are. A file stores which loss was minimised if they are not.
    """

    calibrated_: bool
    _loss: ClassVar[str]
    _no_probabilities: ClassVar[str]

    def _probability_refusal(self) -> str:
        calibrated = getattr(self, "calibrated_", True)
        return super()._probability_refusal() if calibrated else self._no_probabilities

    def _details(self) -> dict[str, Any]:
        loss = "logistic" if self.gives_probabilities else f"{self._loss}, {_SCORES_ONLY}"
        return {"loss": loss, **dict.fromkeys(FIGURES)}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.calibrated_ = not str(details["loss"]).endswith(_SCORES_ONLY)
        return self


class BoostedModel(RadoModel):
    """Computes a linear classifier round by round; ``path_`` holds the rounds, all of them.

    ``rounds_`` is how many make up ``theta_``; ``scale_`` times a score is its log-odds, about.
    """

    _loss = "logistic"

    def _keep(self, path: Path) -> None:
        """Take over the best round."""
        self.path_ = path
        self.n_iter_ = len(path)
        self.rounds_ = path.best()
        self.theta_ = path.parameters(self.rounds_)
        self.lam_ = 0.0

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores (n,) of rows after every round, also after the kept one.

        X is as in `decision_function`. A model that was loaded from a file has no rounds.
        """
        path: Path = self._from_fit("path_", "rounds")
        rows = self._mapped(X)
        scores = np.zeros(len(rows))
        for feature, alpha in zip(path.features, path.alphas, strict=True):
            scores = scores + alpha * rows[:, feature]
            yield scores

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted classes of rows after every round, without ``class_weight``."""
        for scores in self.staged_decision_function(X):
            yield self.classes_[(scores > 0).astype(int)]

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return super()._probabilities(self.scale_ * scores)

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.scale_ = 1.0  # of a file the scores are log-odds
        return self


@dataclass(eq=False, repr=False)
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
    class_weight

    Attributes
    ----------
    coef_, intercept_, theta_, classes_, n_features_in_, pipeline_, releases_
        As in `FactoredClassifier`; ``theta_`` is that of the kept round.
    rado_risk_ : float
        The logistic rado-risk of ``theta_``, eq. (4).
    rounds_ : int
        The kept round: that of least rado-risk, or of fewest errors where there are examples.
    n_iter_ : int
        The number of rounds that were run.
    path_ : Path
        Every round, with the bound of Lemma 4.
    scale_ : float
        A score times ``scale_`` is about its log-odds, by the mean and the variance of scores that
        the rados or the rows show.
    calibrated_ : bool
        Whether ``scale_`` is known, and `predict_proba` works. Noise per record hides it, unless
        rows are passed.
    lam_ : float
        Always 0: there is no penalty.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.RadoBoost(rounds=50).fit(X, labels)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """

    rounds: int = 1000
    oracle: Any = "strong"
    kappa: float = 1.0
    min_edge: float = 0.0
    count: int | None = None
    random_state: Any = 0
    class_weight: Any = None

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
    _no_probabilities = (
        "The noise of this release hides how sure this model can be, so it has no probabilities."
        " Learn by RadoRidge, with rows that need no labels: suffice fit --loss square --rows TABLE"
        " (Python: RadoRidge().fit_release(release, X))."
    )

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "RadoBoost":
        """Learn from simulated rados of exact examples, of two classes. This protects nothing.

        X and y are as in `FactoredClassifier.fit`. The kept round is that of fewest errors on the
        examples, as in Section 4 of the paper.
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

        Raises
        ------
        ParameterError
            If a release holds no rados or cannot be merged with the others, or if labels come
            without rows.
        """
        merged = merge(release)
        moments = moments_of(merged).with_label_mean(merged.pipeline.intercept)
        if X is None and y is not None:
            raise ParameterError("Labels belong to rows. Pass X together with y, or neither.")
        self._learn_from((merged,))
        rows = None if X is None else design_matrix(X, self.pipeline_, new=y is None)
        examples = None
        if rows is not None and y is not None:
            labels = np.asarray(y)
            second = labels == self.classes_[1]
            if labels.shape != (len(rows),) or not (second | (labels == self.classes_[0])).all():
                raise ParameterError(
                    "y must hold one of the classes of the release for each row of X."
                )
            examples = np.where(second, 1.0, -1.0)[:, None] * rows
        return self._fit_rados(merged.arrays["rados"], moments, examples, rows)

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
        self._keep(path)
        self._rados, self._examples = rados, moments.examples
        theta = self.theta_
        self.rado_risk_ = logistic_rado_risk(rados, theta, moments.examples)
        # A score of 0 has even odds unless the intercept may move, that is unless it has a weight.
        weight = self.pipeline_.intercept if examples is None and rows is not None else 0.0
        mean = float(moments.operator[-1] / weight) if weight > 0 else None
        product = float(theta @ moments.operator)
        labels = LabelMeans(product, float(np.sqrt(moments.noise.quadratic(theta))), mean)
        # How much of <theta, mu> boosting has learnt from the noise in mu is not known, but at most
        # ||theta|| times the length of the noise.
        by_noise = float(np.linalg.norm(theta) * np.sqrt(moments.noise.diagonal(len(theta)).sum()))
        log_odds: LogOdds | None = None
        if by_noise <= LARGEST_ERROR * max(product, 0.0):
            log_odds = (
                log_odds_of_moments(theta, moments, labels, 0.0)
                if rows is None
                else log_odds_of_scores(rows @ theta, labels)
            )
        self.calibrated_ = log_odds is not None
        self.scale_ = 1.0 if log_odds is None else max(log_odds.slope, 1e-9)
        if log_odds is not None and weight > 0:
            self.theta_[-1] += log_odds.offset / self.scale_ / weight
        return self

    def sampling_term(self, eta: float = 0.05) -> float:
        """Return the order of Theorem 3's sampling term (`suffice.learner.rados.sampling_term`).

        Of the theorem's terms only this one can be computed without the examples. It is infinite
        unless theta is small and there are many rados, and an error if the signs of the rados were
        not drawn independently, or the model was loaded from a file. The theorem's bound fails with
        probability ``eta``.
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
        """Return the model as a release, with log-odds as scores; see `FactoredClassifier`."""
        model = super().to_release()
        return replace(model, arrays={"coefficients": self.scale_ * self.theta_})


_LAMS = 10.0 ** np.arange(-5.0, 3.01, 0.5)  # times the mean of S's diagonal
_NOISE_CHARGE = 2.0  # deviations of <theta, mu> by noise: what a model is charged
_LARGEST_RISK_ERROR = 0.05  # standard deviation; the risk of always predicting 0 is 1


def rescaled_risks(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the square risk of the best multiple of each model: 1 - product^2/square.

    Where a charge has made the product negative the multiple is too, and worse than none: above 1.
    """
    return np.asarray(1 - products * np.abs(products) / np.maximum(squares, 1e-300))


def _solutions(
    moments: RadoMoments, second: np.ndarray, lams: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, per penalty, the column (S + lam I)^-1 mu and its optimism tr(Q (S + lam I)^-1)."""
    values, vectors = np.linalg.eigh(second)
    shrunk = np.maximum(values, 0.0)[:, None] + lams
    models = vectors @ ((vectors.T @ moments.operator)[:, None] / shrunk)
    spread = moments.noise.dense(len(vectors)) + moments.second / moments.examples
    along_axes = np.sum(vectors * (spread @ vectors), axis=0)
    return models, np.asarray((along_axes[:, None] / shrunk).sum(axis=0))


def risks_by_penalty(moments: RadoMoments, lams: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what the risk 1 - 2 product + square consists of, one number per penalty.

    The product E[y <theta, x>] without optimism; the square E[<theta, x>^2] as it is expected; the
    same as measured, which differs where noise is in S; and what a model is charged for the noise.

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
        models, optimism = _solutions(moments, moments.second_of(rest), lams)
        products += (moments.operator @ models - optimism) / folds
        squares += np.sum(models * (moments.second_of(held_out) @ models), axis=0) / folds
        measured += moments.square_of(models, held_out) / folds
    models, _ = _solutions(moments, moments.second, lams)
    charges = _NOISE_CHARGE * np.sqrt(moments.noise.along(models))
    return products, squares, measured, charges


@dataclass(frozen=True, eq=False)
class Fitted:
    """A minimiser and what is known of it."""

    parameters: np.ndarray  # theta = (S + lam I)^-1 mu
    lam: float  # what is added to the diagonal of S
    risk: float | None  # the estimated square risk; None where S is not measured well enough
    charged: float  # the expected risk with the charge for noise, by which penalties are compared
    product: float  # E[y <theta, x>], without what theta has learnt from noise
    error: float  # the standard deviation of ``product`` by noise


def fit_best_penalty(
    moments: RadoMoments, lams: Sequence[float] | None, *, rescaled: bool = False
) -> Fitted:
    """Return the minimiser whose charged risk is least over the penalties.

    If scores are ``rescaled`` afterwards, the risk is that of the best multiple of each minimiser.
    """
    size = float(np.trace(moments.second)) / len(moments.second) or 1.0
    tried = size * _LAMS if lams is None else np.asarray(lams)
    products, squares, measured_squares, charges = risks_by_penalty(moments, tried)
    if rescaled:
        charged = rescaled_risks(products - charges, squares)
        measured = rescaled_risks(products, squares)
    else:
        charged = 1 - 2 * products + squares + charges
        measured = 1 - 2 * products + measured_squares
    best = int(np.argmin(charged))
    models, optimism = _solutions(moments, moments.second, tried[best : best + 1])
    theta = models[:, 0]
    is_known = moments.square_error(theta) <= _LARGEST_RISK_ERROR
    return Fitted(
        theta,
        float(tried[best]),
        float(measured[best]) if is_known else None,
        float(charged[best]),
        float(moments.operator @ theta) - float(optimism[0]),
        float(np.sqrt(moments.noise.quadratic(theta))),
    )


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


@dataclass(eq=False, repr=False)
class RadoRidge(RadoModel):
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
    class_weight

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, pipeline_, releases_
        As in `FactoredClassifier`.
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

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.RadoRidge().fit(X, labels)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """

    lam: float | str = "auto"
    class_weight: Any = None

    stored_as = "RadoRidge"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "class_weight": CLASS_WEIGHT,
    }
    _loss = "square"
    _no_probabilities = (
        "The noise of this release hides how much the model's scores vary, so it has no"
        " probabilities. Fit it with rows, which need no labels: suffice fit --rows TABLE (Python:"
        " fit_release(release, X))."
    )

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(RADOS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "RadoRidge":
        """Learn from exact examples, as from all their rados. This protects nothing.

        X and y are as in `FactoredClassifier.fit`, of two classes. Rows that are too large, or
        differ too much in size, for least squares raise ``OptimisationError``.
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
        """Minimise, and turn scores into log odds where that is possible."""
        lams = None if self.lam == "auto" else [float(self.lam) / 2]  # on the diagonal of S
        weight = self.pipeline_.intercept
        best = fit_best_penalty(moments, lams, rescaled=rescaled)
        self.intercept_only_ = False
        if lams is None and weight > 0:
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
        # The mean of labels is known where rows have an intercept.
        mean = float(moments.operator[-1] / weight) if weight > 0 else None
        labels = LabelMeans(best.product, best.error, mean)
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
        return self

    def _details(self) -> dict[str, Any]:
        return {**super()._details(), "risk": self.risk_}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.risk_ = details["risk"]
        return self
