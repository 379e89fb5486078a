"""AdaBoost of linear classifiers on exact examples: the baseline of boosting over rados."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.utils import check_random_state

from suffice.learner.base import CLASS_WEIGHT, EXAMPLES_HAVE_NONE, refuse_weights
from suffice.learner.rados import BoostedModel, run_boosting
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context


@dataclass(eq=False, repr=False)
class AdaBoostLinear(BoostedModel):
    """Computes AdaBoost's linear classifier of exact examples; nothing is protected.

    Each round adds one feature, that of largest |r_t| over the edges y_i x_i, eq. (14) of Nock,
    Patrini & Friedman 2015, with the step and weights of Schapire & Singer 1999. The kept
    classifier is that of fewest errors on the examples it boosts, over all rounds (Section 4). Two
    classes.

    Parameters
    ----------
    rounds : int, default=1000
        The largest number of rounds, each of one feature.
    examples : int or None, default=None
        Boost over so many random examples, AdaBoost(n) of Table 1; None for all.
    oracle : {"strong", "median"} or float, default="strong"
        Which feature a round takes: that of largest |r_t|, or the median one. A number is the most
        that |r_t| counts for; see `RadoBoost`.
    min_edge : float, default=0.0
        A smaller |r_t| counts as this one.
    random_state : int, RandomState or None, default=0
        The seed of the choice of examples.
    class_weight : dict, "balanced" or None, default=None
        What a mistake about each class costs, as in `FactoredClassifier`.

    Attributes
    ----------
    coef_, intercept_, theta_, classes_, n_features_in_, pipeline_, releases_
        As in `FactoredClassifier`; ``releases_`` is always empty.
    rounds_ : int
        The kept round: that of fewest errors.
    n_iter_, path_, lam_
        As in `RadoBoost`.
    scale_ : float
        A score times ``scale_`` is about its log-odds; always 2.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> model = suffice.AdaBoostLinear(rounds=50).fit(X, labels)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """

    rounds: int = 1000
    examples: int | None = None
    oracle: Any = "strong"
    min_edge: float = 0.0
    random_state: Any = 0
    class_weight: Any = None

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "rounds": [Interval(Integral, 1, None, closed="left")],
        "examples": [Interval(Integral, 1, None, closed="left"), None],
        "oracle": [StrOptions({"strong", "median"}), Interval(Real, 0, 1, closed="neither")],
        "min_edge": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(EXAMPLES_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "AdaBoostLinear":
        """Learn from exact examples of two classes. This protects nothing about them.

        X and y are as in `FactoredClassifier.fit`.
        """
        edges = self._mapped_edges(X, y)
        rows = edges
        if self.examples is not None and self.examples < len(edges):
            rng = check_random_state(self.random_state)
            rows = edges[rng.permutation(len(edges))[: self.examples]]
        path = run_boosting(
            rows,
            rounds=self.rounds,
            examples=rows,
            oracle=self.oracle,
            min_edge=self.min_edge,
            gentle=False,
        )
        self._keep(path)
        self.scale_ = 2.0  # the exponential loss is least at half the log-odds
        return self
