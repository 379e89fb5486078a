"""Learning from bags as the papers do: two more mean maps, and baselines of class ratios.

`KnownProportions` reaches the mean maps of Patrini et al. 2014 by name ("laplacian",
"alternating-min", "alternating-max"). Its default is that of Quadrianto et al. 2009. The baselines
of `ClassRatio` classify every row and count, with classifiers learnt from bags. They assume that
classes are as frequent in U as in the bags, and are wrong where they are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.svm import SVC

from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.weak import (
    BagMethod,
    BagMoments,
    KnownProportions,
    Mapped,
    MeanMap,
    bags_of,
    check_identified,
    operator_of_bags,
    within_bags,
)
from suffice.models.problem import LOSSES, FactoredProblem
from suffice.releases.release import Covariance

_SIMILARITIES = ("gaussian", "normalised-cut", "none")
_RIDGE = 1e-9  # makes classes definite in a part of the graph whose bags are all alike


@dataclass(frozen=True)
class LaplacianMeanMap(BagMethod):
    """Computes class means per bag that vary smoothly along a graph of bags (Patrini et al. 2014).

    minimise  sum_j w_j ||b_j - pi_j b+_j - (1 - pi_j) b-_j||^2
              + (weight/2) sum_jj' v_jj' (||b+_j - b+_j'||^2 + ||b-_j - b-_j'||^2)
    mu = sum_j p_j (pi_j b+_j - (1 - pi_j) b-_j)

    with w_j the bag sizes, one on average, and v the similarity of two bags: "gaussian",
    exp(-||b_j - b_j'|| / scale), "normalised-cut", the paper's v^nc, or "none", zero. Two classes.
    Assumes that similar bags have similar class means. The covariance is that of the rows about
    their bag's mean (at least that about class means), carried through the smoothed class means;
    the smoothing's bias is not in it.
    """

    similarity: str = "gaussian"
    scale: float | None = None  # of "gaussian"; None for the median distance of bag means
    # How much class means of similar bags must agree. As it grows, they become equal in all bags:
    # the mean map.
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.similarity not in _SIMILARITIES:
            raise ParameterError(f"similarity must be one of {', '.join(_SIMILARITIES)}.")
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise ParameterError(f"weight must be a positive number. It is {self.weight!r}.")
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise ParameterError(f"scale must be a positive number, or None. It is {self.scale!r}.")

    def weights(self, bags: BagMoments) -> np.ndarray:
        """Return G (n, 2) with M = B^T G."""
        if bags.shares.shape[1] != 2:
            raise ParameterError(
                "This method works for two classes only. For more, use method='mean-map'."
            )
        check_identified(bags)
        near = similarity_of(bags, self.similarity, self.scale)
        laplacian = np.diag(near.sum(axis=1)) - near
        count = len(bags.sizes)
        smooth = np.kron(np.eye(2), self.weight * laplacian) + _RIDGE * np.eye(2 * count)
        both = np.vstack([np.diag(share) for share in bags.shares.T])  # Pi (2n, n)
        weighted = both * (count * bags.weights)
        # Algorithm 1; epsilon = _RIDGE
        solved = np.linalg.solve(weighted @ both.T + smooth, weighted)
        parts = solved.reshape(2, count, count)  # class, bag of the class mean, bag of the row mean
        return np.einsum("jk,kji->ik", bags.weights[:, None] * bags.shares, parts)

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator and its covariance."""
        return operator_of_bags(bags, self.weights(bags), within_bags(rows, bags))


def similarity_of(bags: BagMoments, similarity: str, scale: float | None) -> np.ndarray:
    """Return v (n, n) with a diagonal of zeros (Patrini et al. 2014, section 3)."""
    count = len(bags.sizes)
    if similarity == "none" or count < 2:
        return np.zeros((count, count))
    if similarity == "gaussian":
        apart = pdist(bags.means)
        near = np.exp(-apart / (scale or float(np.median(apart)) or 1.0))
        return squareform(near)
    # ASSOC(j, j') sums ||x - x'||^2 over pairs of rows, which needs means and traces only; the
    # authors' code sums the distances themselves, quadratic in the rows.
    spread = bags.spread
    apart = spread[:, None] + spread + squareform(pdist(bags.means, "sqeuclidean"))
    across = np.outer(bags.sizes, bags.sizes) * apart
    own = np.diag(across)[:, None]
    own_shares = np.divide(own, own + across, out=np.full_like(across, 0.5), where=own + across > 0)
    near = own_shares + own_shares.T
    np.fill_diagonal(near, 0.0)
    return near


_TOL = 1e-5  # of each inner fit's gradient
_MAX_ITER = 1000
_FALL = 1e-6  # the least fall of the risk that is worth another round


@dataclass(frozen=True)
class AlternatingMeanMap(BagMethod):
    """Computes mu of labels that fit every bag's proportion and a model fitted to them.

    theta_t+1 = argmin_theta F(theta, sigma_t),   sigma_t = argmin (argmax) F(theta_t, sigma)

    over labels sigma with round(n_j pi_j) positives in bag j, F the logistic risk with penalty
    (lam/2) ||theta||^2 (Patrini et al. 2014, Algorithm 2). mu is that of the labels with the
    smallest F. Two classes. There is no covariance. ``labelling`` "min" gives a bag's best rows the
    positive label, so that F never rises; "max" its worst.
    """

    labelling: str = "min"
    lam: float = 1e-2  # the learner should use the same one
    # The method whose mean operator the first model is fitted to.
    start: MeanMap | LaplacianMeanMap = field(default_factory=LaplacianMeanMap)
    max_rounds: int = 30

    def __post_init__(self) -> None:
        if self.labelling not in ("min", "max"):
            raise ParameterError(f"labelling must be min or max. It is {self.labelling!r}.")
        if not (np.isfinite(self.lam) and self.lam > 0):
            raise ParameterError(f"lam must be a positive number. It is {self.lam!r}.")
        if self.max_rounds < 1:
            raise ParameterError(f"max_rounds must be at least 1. It is {self.max_rounds!r}.")

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator of the best labels; how sure it is, nobody knows."""
        if bags.shares.shape[1] != 2:
            raise ParameterError(
                "This method works for two classes only. For more, use method='mean-map'."
            )
        weights = self.start.weights(bags)
        first = bags.means.T @ (weights[:, 1] - weights[:, 0])
        operator, _ = alternate(rows, bags, first, self)
        return operator, Covariance("none")


def alternate(
    rows: np.ndarray, bags: BagMoments, operator: np.ndarray, options: AlternatingMeanMap
) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return the best labels' operator, from this one on, and the risk after each round.

    (Patrini et al. 2014, Algorithm 2.)
    """
    theta, _ = _fit_model(rows, operator, options.lam, None)
    risks: list[float] = []
    best, last = operator, None
    for _ in range(options.max_rounds):
        signs = consistent_labels(rows @ theta, bags, worst=options.labelling == "max")  # step 2.1
        if last is not None and np.array_equal(signs, last):
            break
        last, operator = signs, rows.T @ signs / len(rows)
        theta, risk = _fit_model(rows, operator, options.lam, theta)  # step 2.2
        fall = min(risks, default=np.inf) - risk
        risks.append(risk)
        if fall > 0:
            best = operator  # step 3: the smallest risk of all rounds
        if abs(fall) <= _FALL or (fall < 0 and options.labelling == "min"):
            break
    return best, tuple(risks)


def _fit_model(
    rows: np.ndarray, operator: np.ndarray, lam: float, start: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Return the model of this operator and its regularised risk."""
    problem = FactoredProblem(rows, operator, LOSSES["logistic"])
    theta = problem.solve(lam, tol=_TOL, max_iter=_MAX_ITER, start=start).parameters
    half = rows @ theta / 2
    risk = np.logaddexp(half, -half).mean() - operator @ theta / 2 + lam / 2 * theta @ theta
    return theta, float(risk)


def consistent_labels(scores: np.ndarray, bags: BagMoments, *, worst: bool) -> np.ndarray:
    """Return labels with round(n_j pi_j) positives in bag j: its highest scores, or its lowest."""
    positives = np.rint(bags.sizes * bags.shares[:, 1])
    order = np.lexsort((scores if worst else -scores, bags.codes))
    firsts = np.concatenate([[0], np.cumsum(bags.sizes)[:-1]])
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(len(scores)) - firsts[bags.codes[order]]
    return np.where(ranks < positives[bags.codes], 1.0, -1.0)


METHODS: Mapping[str, BagMethod] = {
    "laplacian": LaplacianMeanMap(),
    "alternating-min": AlternatingMeanMap("min"),
    "alternating-max": AlternatingMeanMap("max"),
}


_FIRST, _GROWTH = 1e-4, 4.0  # where the weight of the losses starts, and how it grows
_MOST_ROUNDS = 20


def classify_and_count(classifier: Any, U: Any, classes: Sequence[Any]) -> np.ndarray:
    """Return the share of rows that ``classifier`` puts in each class."""
    predicted = classifier.predict(U)
    return np.array([np.mean(predicted == class_name) for class_name in classes])


def mean_map_classifier(
    rows: np.ndarray, bags: np.ndarray, proportions: np.ndarray, classes: Sequence[Any]
) -> FactoredClassifier:
    """Return the classifier that the mean map of Quadrianto et al. 2009 learns from bags."""
    return FactoredClassifier().fit_weak(rows, KnownProportions(bags, proportions, classes))


class ProportionSVM:
    """Computes a support vector machine from bags whose proportion of positives is known.

    minimise over w and labels y   1/2 ||w||^2 + C sum_i hinge(y_i <w, x_i>)
                                   + C_p sum_j n_j |share of positives in j - p_j|

    (Yu et al. 2013, alter-pSVM): labels and machine in turn, C growing from C / 10^4. Two things
    differ: it starts from the mean map's labels and not from random ones, and the last term counts
    rows (n_j), which keeps it from vanishing beside the losses of large bags. Two classes, 0 and 1.
    """

    def __init__(
        self, kernel: str = "rbf", C: float = 1.0, proportion_weight: float = 10.0
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.proportion_weight = proportion_weight

    def fit(self, rows: np.ndarray, bags: np.ndarray, proportions: np.ndarray) -> "ProportionSVM":
        """Learn from rows, the number of each one's bag, and the bags' proportions (M, 2)."""
        moments = bags_of(rows, bags, proportions, 2)
        weights = MeanMap().weights(moments)
        scores = rows @ (moments.means.T @ (weights[:, 1] - weights[:, 0]))
        labels = self._labels(scores / (np.abs(scores).max() or 1.0), moments, self.C)
        weight = _FIRST * self.C
        while True:
            weight = min(weight * _GROWTH, self.C)
            for _ in range(_MOST_ROUNDS):  # until the labels stay; the last machine is kept
                if len(np.unique(labels)) < 2:
                    raise ParameterError(
                        "These bags give every row the same class. Use bags whose proportions"
                        " differ."
                    )
                self.machine_ = SVC(C=weight, kernel=self.kernel).fit(rows, labels)
                new_labels = self._labels(self.machine_.decision_function(rows), moments, weight)
                if np.array_equal(new_labels, labels):
                    break
                labels = new_labels
            if weight >= self.C:
                return self

    def _labels(self, scores: np.ndarray, moments: BagMoments, weight: float) -> np.ndarray:
        """Return the labels of least loss: in each bag its best rows are the positive ones."""
        extra = weight * (np.maximum(1 - scores, 0) - np.maximum(1 + scores, 0))
        labels = np.zeros(len(scores), dtype=np.int64)
        for j, share in enumerate(moments.shares[:, 1]):
            members = np.flatnonzero(moments.codes == j)
            order = members[np.argsort(extra[members], kind="stable")]
            positives = np.arange(len(order) + 1)
            losses = np.append(0.0, np.cumsum(extra[order]))
            losses += self.proportion_weight * np.abs(positives - share * len(order))
            labels[order[: losses.argmin()]] = 1
        return labels

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return the class of each row."""
        return np.asarray(self.machine_.predict(rows))
