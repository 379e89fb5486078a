"""How good predictions are, measured on labels that the caller may see."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import binom, rankdata

from suffice.errors import ParameterError, TableError
from suffice.tables.columns import numeric_column

_PROBABILITY_BINS = 15  # Guo et al. 2017, Section 4.1


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Holds stated probabilities and what happened, bin by bin; bins without rows are left out."""

    stated: np.ndarray  # (B,): the mean probability that was stated in each bin
    observed: np.ndarray  # (B,): the proportion of its rows for which it came true
    rows: np.ndarray  # (B,): the number of its rows

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |observed - stated| over all rows."""
        return float(np.abs(self.observed - self.stated) @ self.rows / self.rows.sum())

    def chance_interval(self, level: float = 0.95) -> np.ndarray:
        """Return where ``observed`` lies by chance if the probabilities are right, (2, B).

        By the binomial distribution, which is exact for bins of few rows too.

        Examples
        --------
        >>> bins = calibration_bins(np.full(10, 0.1), np.zeros(10))
        >>> bins.chance_interval().round(1).tolist()
        [[0.0], [0.3]]
        """
        tails = np.array([[(1 - level) / 2], [(1 + level) / 2]])
        return np.asarray(binom.ppf(tails, self.rows, self.stated.clip(0, 1)) / self.rows)


def calibration_bins(probabilities: np.ndarray, outcomes: np.ndarray) -> CalibrationBins:
    """Return 15 bins of equal width of stated probabilities (Guo et al. 2017, eq. 3).

    ``outcomes`` (n,) say whether what was stated of each row came true, 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> calibration_bins(np.array([0.1, 0.1, 0.9, 0.9]), np.array([0, 0, 1, 0])).error
    0.25
    """
    bins = np.minimum((probabilities * _PROBABILITY_BINS).astype(int), _PROBABILITY_BINS - 1)
    rows = np.bincount(bins, minlength=_PROBABILITY_BINS)
    filled = rows > 0
    sums = (
        np.bincount(bins, values, _PROBABILITY_BINS)[filled] for values in (probabilities, outcomes)
    )
    stated, observed = (total / rows[filled] for total in sums)
    return CalibrationBins(stated, observed, rows[filled])


@dataclass(frozen=True, eq=False)
class Predictions:
    """Computes figures of quality from true classes and what a model says of the same rows."""

    classes: tuple[Any, ...]
    truth: np.ndarray  # (n,): the true class of each row, as a position in ``classes``
    predicted: np.ndarray  # (n,), the same
    probabilities: np.ndarray | None = None  # (n, K); None of a model that refuses them
    ranking: np.ndarray | None = None  # (n, K): larger for rows of which a class is more probable
    refusal: str = ""  # why there are no probabilities

    @cached_property
    def confusion(self) -> np.ndarray:
        """The number of rows of each true class (lines) that each class (columns) was said of."""
        count = len(self.classes)
        return np.bincount(self.truth * count + self.predicted, minlength=count**2).reshape(
            count, count
        )

    @property
    def accuracy(self) -> float:
        """The proportion of rows whose class is predicted correctly."""
        return float(np.mean(self.truth == self.predicted))

    @property
    def shares(self) -> np.ndarray:
        """The proportion of each true class (K,)."""
        return np.asarray(self.confusion.sum(axis=1) / len(self.truth))

    @property
    def recall(self) -> np.ndarray:
        """The proportion of rows of each class that are predicted to be of it; NaN without rows."""
        return _ratios(self.confusion.diagonal(), self.confusion.sum(axis=1))

    @property
    def precision(self) -> np.ndarray:
        """The proportion of rows said to be of each class that are of it; NaN if there are none."""
        return _ratios(self.confusion.diagonal(), self.confusion.sum(axis=0))

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that occur."""
        return float(np.nanmean(self.recall))

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve; of three classes or more the mean, one against the rest.

        It is the probability that a row of the class is ranked above one of the others, ties
        counted half. A class that does not occur is left out. None if nothing ranks rows, or all
        are of one class.
        """
        occurring = [k for k, share in enumerate(self.shares) if 0 < share < 1]
        if self.ranking is None or not occurring:
            return None
        areas = []
        for k in occurring:  # by the ranks of the class's rows (Mann-Whitney)
            of_class = self.truth == k
            inside = int(of_class.sum())
            above = rankdata(self.ranking[:, k])[of_class].sum() - inside * (inside + 1) / 2
            areas.append(float(above / (inside * (len(of_class) - inside))))
        return areas[1] if len(self.classes) == 2 else float(np.mean(areas))

    @property
    def log_loss(self) -> float | None:
        """The mean of -log p of the true class; None without probabilities."""
        if self.probabilities is None:
            return None
        stated = self.probabilities[np.arange(len(self.truth)), self.truth]
        return float(-np.log(np.maximum(stated, 1e-15)).mean())

    @property
    def constant_log_loss(self) -> float:
        """The log loss of stating the proportions of the true classes for every row."""
        some = self.shares[self.shares > 0]
        return float((some * -np.log(some)).sum() + 0.0)  # of one class 0, not -0

    @property
    def brier(self) -> float | None:
        """The mean squared difference of probabilities and truth; None without probabilities.

        Of two classes that of the second one; of more the sum over the classes, as scikit-learn's.
        """
        if self.probabilities is None:
            return None
        truth = self.truth[:, None] == np.arange(len(self.classes))
        squares = (self.probabilities - truth) ** 2
        return float((squares[:, 1] if len(self.classes) == 2 else squares.sum(axis=1)).mean())

    @cached_property
    def calibration(self) -> CalibrationBins | None:
        """Probabilities and outcomes in bins: of the second of two classes, else of the predicted.

        None without probabilities.
        """
        if self.probabilities is None:
            return None
        if len(self.classes) == 2:
            return calibration_bins(self.probabilities[:, 1], self.truth == 1)
        best = self.probabilities.argmax(axis=1)
        return calibration_bins(self.probabilities.max(axis=1), self.truth == best)

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON values; those that cannot be computed are left out."""
        calibration = self.calibration
        figures = {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "auc": self.auc,
            "log_loss": self.log_loss,
            "brier": self.brier,
            "ece": None if calibration is None else calibration.error,
        }
        reason = {} if self.probabilities is not None else {"no_probabilities": self.refusal}
        per_class = zip(
            self.classes, self.precision, self.recall, self.confusion.sum(axis=1), strict=True
        )
        return {
            **{key: value for key, value in figures.items() if value is not None},
            **reason,
            "rows": len(self.truth),
            "larger_class": float(self.shares.max()),
            "constant_log_loss": self.constant_log_loss,
            "classes": [
                {
                    "class": name,
                    "precision": None if np.isnan(precision) else float(precision),
                    "recall": None if np.isnan(recall) else float(recall),
                    "rows": int(rows),
                }
                for name, precision, recall, rows in per_class
            ],
            "confusion": self.confusion.tolist(),
        }


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(parts / wholes)


def predictions_of(classifier: Any, rows: Any, truth: Sequence[int] | np.ndarray) -> Predictions:
    """Return what a fitted classifier says of rows, beside their true classes.

    The rows are read twice. ``truth`` (n,) are positions in the classes. Without probabilities the
    classifier's reason is stated.
    """
    classes = classifier.classes_
    order = np.argsort(classes)
    predicted = order[np.searchsorted(classes, classifier.predict(rows), sorter=order)]
    probabilities, refusal = None, ""
    try:
        probabilities = np.asarray(classifier.predict_proba(rows))
    except ParameterError as error:
        if classifier.gives_probabilities:
            raise
        refusal = str(error)
    ranking = probabilities
    if ranking is None and hasattr(classifier, "decision_function"):
        scores = classifier.decision_function(rows)
        ranking = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    names = tuple(classes.tolist())
    return Predictions(names, np.asarray(truth), predicted, probabilities, ranking, refusal)


def errors_of(model: Any, rows: Any, label: str) -> dict[str, Any]:
    """Return how far a regression is from the numbers in column ``label`` of rows.

    Rows are read twice.
    """
    truth = np.concatenate(
        [np.empty(0), *(numeric_column(b.column(label)) for b in rows.batches([label]))]
    )
    if not len(truth):
        raise TableError("The table has no rows.")
    missing = int(np.count_nonzero(~np.isfinite(truth)))
    if missing:
        raise TableError(
            f"{missing:,} of {len(truth):,} cells of column {label!r} hold no number. Remove their"
            " rows."
        )
    off, around = truth - model.predict(rows), truth - truth.mean()
    return {
        "r2": 1 - float(off @ off) / max(float(around @ around), 1e-300),
        "rmse": float(np.sqrt(np.mean(off**2))),
        "mean_absolute_error": float(np.abs(off).mean()),
        "constant_rmse": float(np.sqrt(np.mean(around**2))),
        "rows": len(truth),
    }
