"""RadoBoost: a linear classifier boosted from rados, and the risks over rados that it uses.

An edge is y_i x_i. Over all 2^m rados pi of m examples, for every theta:

    logistic risk of the edges = log 2 + (1/m) log exponential risk of the rados
    (Nock, Patrini & Friedman 2015, Lemma 2),
    square risk of the edges = 1 + (4/m) (variance - mean) of <theta, pi>
    (the mean-variance rado-risk of Nock 2016).

Over a sample of rados the right sides are estimates: the second is good with few of them, the first
only where <theta, pi> varies by less than about sqrt(2 log n) over the n rados.

One loop boosts over rados and over examples. Rados of exact examples are drawn from simulated
randomness: for studies and `fit`, never a release.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from suffice.engines.sums import default_count
from suffice.errors import ParameterError
from suffice.kernels import rados as kernels_rados
from suffice.kernels.rados import subset_sums
from suffice.learner.base import FIGURES, TwoClasses
from suffice.learner.calibration import LabelMeans, LogOdds, log_odds_of_scores
from suffice.learner.rado_moments import (
    LARGEST_ERROR,
    SCORES_ONLY,
    RadoMoments,
    log_odds_of_moments,
    moments_of,
    rados_of,
)
from suffice.learner.rows import design_matrix
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.weights import CLASS_WEIGHT, RADOS_HAVE_NONE, refuse_weights
from suffice.release.merge import merge
from suffice.release.release import Covariance, Release

__all__ = [
    "BoostedModel",
    "Path",
    "RadoBoost",
    "exponential_rado_risk",
    "exponential_risk",
    "log_exponential_risk",
    "logistic_rado_risk",
    "logistic_risk",
    "mean_variance_rado_risk",
    "rados_of_subsets",
    "run_boosting",
    "sampling_term",
    "simulated_rados",
    "square_risk",
]


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
    subset_sums(np.ascontiguousarray(edges.T), np.ones(len(edges)), bits, 0.0, rados)
    return rados


_ORACLES = {"strong": kernels_rados.STRONGEST, "median": kernels_rados.MEDIAN}
_NO_PROBABILITIES = (
    "The noise of this release hides how sure this model can be, so it has no probabilities. Learn"
    " by RadoRidge, with rows that need no labels: suffice fit --loss square --rows TABLE (Python:"
    " RadoRidge().fit_release(release, X))."
)


@dataclass(frozen=True, eq=False)
class Path:
    """Holds every round of boosting, T of them.

    Attributes
    ----------
    width : int
        The number of coordinates of the classifier.
    features : ndarray of shape (T,)
        The coordinate iota(t) of each round.
    edges : ndarray of shape (T,)
        Its edge r_t.
    steps : ndarray of shape (T,)
        The value that was used for r_t in the step.
    alphas : ndarray of shape (T,)
        The step itself.
    log_risks : ndarray of shape (T,)
        The logarithm of F_exp after each round.
    errors : ndarray of shape (T,)
        The proportion of examples on the wrong side; NaN without examples.
    weights : ndarray of shape (n,)
        The weights of the rows after the last round.
    kappa : float
        What every step was divided by.
    """

    width: int
    features: np.ndarray
    edges: np.ndarray
    steps: np.ndarray
    alphas: np.ndarray
    log_risks: np.ndarray
    errors: np.ndarray
    weights: np.ndarray
    kappa: float

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
    rule, cap = kernels_rados.STRONGEST, 1.0
    if isinstance(oracle, str):
        rule = _ORACLES[oracle]
    else:
        cap = float(oracle)
    # The six numbers of a round are in the order of `suffice.kernels.rados.boost`.
    weights, table = np.empty(len(rows)), np.empty((int(rounds), 6))
    limits = (rule, cap, float(min_edge), 1.0 / kappa)
    done = kernels_rados.boost(rows, judged, *limits, gentle, weights, table)
    features, edges, steps, alphas, log_risks, wrong = table[:done].T.copy()
    errors = wrong / len(judged) if len(judged) else np.full(done, np.nan)
    return Path(
        rows.shape[1],
        features.astype(np.int64),
        edges,
        steps,
        alphas,
        log_risks,
        errors,
        weights,
        float(kappa),
    )


class BoostedModel(TwoClasses):
    """Computes a linear classifier round by round; ``path_`` holds the rounds, all of them.

    ``rounds_`` is how many make up ``theta_``; ``scale_`` times a score is its log-odds, about.
    """

    def _keep(self, path: Path, spreads: np.ndarray) -> None:
        """Take over the best round; ``spreads`` are sizes of the coordinates of examples."""
        self.path_ = path
        self.n_iter_ = len(path)
        self.rounds_ = path.best()
        self.theta_ = path.parameters(self.rounds_)
        self.lam_ = 0.0
        self._spreads = spreads

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in sum_k |theta_k| rms(x_k), without the intercept, (p,).

        A column of categories has the sum over its categories.
        """
        sizes = np.abs(self.theta_) * self._from_fit("_spreads", "importances")
        if self.pipeline_.map is not None:
            raise AttributeError(
                "The release maps its columns: no feature of the model belongs to one column. Read"
                " theta_."
            )
        columns = [j for j, c in enumerate(self.pipeline_.columns) for _ in c.outputs]
        sums = np.bincount(columns, sizes[: len(columns)], minlength=self.n_features_in_)
        return np.asarray(sums / (sums.sum() or 1.0))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores of rows after every round, also after the kept one.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Yields
        ------
        ndarray of shape (n,)
            The scores after one more round.

        Raises
        ------
        AttributeError
            If the model was loaded from a file.
        """
        path: Path = self._from_fit("path_", "rounds")
        rows = self._mapped(X)
        scores = np.zeros(len(rows))
        for feature, alpha in zip(path.features, path.alphas, strict=True):
            scores = scores + alpha * rows[:, feature]
            yield scores

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted classes of rows after every round, without ``class_weight``.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `decision_function`.

        Yields
        ------
        ndarray of shape (n,)
            The classes after one more round.

        Raises
        ------
        AttributeError
            If the model was loaded from a file.
        """
        for scores in self.staged_decision_function(X):
            yield self.classes_[(scores > 0).astype(int)]

    def _probability_refusal(self) -> str:
        calibrated = getattr(self, "calibrated_", True)
        return super()._probability_refusal() if calibrated else _NO_PROBABILITIES

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return super()._probabilities(self.scale_ * scores)

    def _details(self) -> dict[str, Any]:
        loss = "logistic" if self.gives_probabilities else f"logistic, {SCORES_ONLY}"
        return {"loss": loss, **dict.fromkeys(FIGURES)}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.scale_ = 1.0  # of a file the scores are log-odds
        self.calibrated_ = not str(details["loss"]).endswith(SCORES_ONLY)
        return self


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
        self.scale_ = 1.0 if log_odds is None else max(log_odds.slope, 1e-9)
        if log_odds is not None and weight > 0:
            self.theta_[-1] += log_odds.offset / self.scale_ / weight
        return self

    def sampling_term(self, eta: float = 0.05) -> float:
        """Return the order of Theorem 3's sampling term (`suffice.learner.rado_boosting`).

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
    if by_noise > LARGEST_ERROR * max(product, 0.0):
        return None
    error = float(np.sqrt(moments.noise.quadratic(theta)))
    mean = float(moments.operator[-1] / weight) if weight > 0 else None
    labels = LabelMeans(product, error, mean)
    if rows is not None:
        return log_odds_of_scores(rows @ theta, labels)
    return log_odds_of_moments(theta, moments, labels, 0.0)
