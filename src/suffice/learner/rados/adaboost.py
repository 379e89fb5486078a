"""AdaBoost of linear classifiers on plain examples: what boosting over rados is held against."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from suffice.learner.rados.boosting import BoostedModel, run_boosting
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context

__all__ = ["AdaBoostLinear"]


class AdaBoostLinear(BoostedModel):
    """Computes AdaBoost's linear classifier of plain examples; nothing is protected.

    Each round adds one feature, the one of largest |r_t| over the edges y_i x_i, eq. (14) of Nock,
    Patrini & Friedman 2015, with the step and weights of Schapire & Singer 1999. The classifier
    kept is the one of fewest errors on the examples it boosts, over all rounds (Section 4).

    Parameters
    ----------
    rounds : int, default=1000
        The most rounds.
    examples : int or None, default=None
        Boost over so many random examples, AdaBoost(n) of Table 1; None for all.
    oracle : {"strong", "median"} or float, default="strong"
        As of `RadoBoost`.
    min_edge : float, default=0.0
        As of `RadoBoost`.
    random_state : int, RandomState or None, default=0
        Which examples.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One weight per coordinate of ``pipeline_``, the intercept's last.
    rounds_ : int
        How many rounds make up the kept classifier.
    path_ : Path
        Every round.
    feature_importances_ : ndarray of shape (d,)
        How much each coordinate moves scores.
    classes_, pipeline_
        As of `FactoredClassifier`.
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "rounds": [Interval(Integral, 1, None, closed="left")],
        "examples": [Interval(Integral, 1, None, closed="left"), None],
        "oracle": [StrOptions({"strong", "median"}), Interval(Real, 0, 1, closed="neither")],
        "min_edge": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(  # scikit-learn's convention
        self,
        rounds: int = 1000,
        examples: int | None = None,
        oracle: Any = "strong",
        min_edge: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.rounds = rounds
        self.examples = examples
        self.oracle = oracle
        self.min_edge = min_edge
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "AdaBoostLinear":
        """Learn from plain examples; this promises nothing about them."""
        edges = self._plain_edges(X, y)
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
        self._keep(path, np.sqrt(np.mean(edges**2, axis=0)))
        self.scale_ = 2.0  # the exponential loss is least at half the log-odds
        return self
