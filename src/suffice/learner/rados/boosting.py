"""One boosting loop for rados and for examples, and what its path says about risk and features."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from suffice.errors import ParameterError
from suffice.kernels import boosting
from suffice.learner.base import FIGURES, TwoClasses
from suffice.learner.rados.calibration import SCORES_ONLY, class_probabilities

__all__ = ["BoostedModel", "Path", "run_boosting"]

_ORACLES = {"strong": boosting.STRONGEST, "median": boosting.MEDIAN}
_NO_PROBABILITIES = (
    "The noise of this release hides how sure this model can be, so it has no probabilities. Learn"
    " by RadoRidge, with rows that need no labels: suffice fit --loss square --rows TABLE (Python:"
    " RadoRidge().fit_release(release, X))."
)
_FIELDS = 6  # of a round, in the order of `suffice.kernels.boosting.boost`


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
    AdaBoost's rule (`suffice.kernels.boosting.boost`); ``examples`` are edges to count errors on.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    judged = np.empty((0, rows.shape[1])) if examples is None else np.ascontiguousarray(examples)
    rule, cap = boosting.STRONGEST, 1.0
    if isinstance(oracle, str):
        rule = _ORACLES[oracle]
    else:
        cap = float(oracle)
    weights, table = np.empty(len(rows)), np.empty((int(rounds), _FIELDS))
    limits = (rule, cap, float(min_edge), 1.0 / kappa)
    done = boosting.boost(rows, judged, *limits, gentle, weights, table)
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

    @property
    def gives_probabilities(self) -> bool:
        """Whether `predict_proba` works."""
        return bool(getattr(self, "calibrated_", True))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class: a logistic function of the score.

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
        ParameterError
            If the noise hides how large probabilities are.
        TableError
            If the table has no rows or lacks a column.
        """
        scores = self.decision_function(X)
        if not self.gives_probabilities:
            raise ParameterError(_NO_PROBABILITIES)
        return class_probabilities(self.scale_ * scores)

    def _details(self) -> dict[str, Any]:
        loss = "logistic" if self.gives_probabilities else f"logistic, {SCORES_ONLY}"
        return {"loss": loss, **dict.fromkeys(FIGURES)}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        self = super()._unfitted(details)
        self.scale_ = 1.0  # of a file the scores are log-odds
        self.calibrated_ = not str(details["loss"]).endswith(SCORES_ONLY)
        return self
