"""Folds of public data sets as in the paper on rados, and errors in per cent on their test rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from suffice.study.data_sets import numbers
from suffice.study.reproduction import Setting, Steps

__all__ = ["FOLDS", "ROUNDS", "Fold", "folds_of", "mean_and_deviation", "repeated_folds"]

FOLDS = 10  # of every table
ROUNDS = 1000  # of boosting


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn from and rows to test on, one number per column; labels are 0 or 1."""

    rows: np.ndarray
    labels: np.ndarray
    test_rows: np.ndarray
    test_labels: np.ndarray

    def error(self, model: Any) -> float:
        """Return how many test rows, in per cent, a model puts into the wrong class."""
        return 100 * float(np.mean(model.predict(self.test_rows) != self.test_labels))

    def standardised(self, coded: int | None = None) -> "Fold":
        """Return the fold with mean zero and variance one in every column of its rows.

        Column ``coded`` becomes -1 up to its median and +1 above it instead.
        """
        mean, scale = self.rows.mean(axis=0), self.rows.std(axis=0)
        scale[scale == 0] = 1.0
        scaled = [(rows - mean) / scale for rows in (self.rows, self.test_rows)]
        if coded is not None:
            middle = np.median(self.rows[:, coded])
            for rows, unscaled in zip(scaled, (self.rows, self.test_rows), strict=True):
                rows[:, coded] = np.where(unscaled[:, coded] > middle, 1.0, -1.0)
        return Fold(scaled[0], self.labels, scaled[1], self.test_labels)

    def edges(self) -> np.ndarray:
        """Return y_i x_i of the rows to learn from, y_i = -1 or +1."""
        return np.asarray((2.0 * self.labels - 1)[:, None] * self.rows)

    def error_of(self, parameters: np.ndarray) -> float:
        """Return the error of the linear classifier theta, in per cent."""
        predicted = self.test_rows @ parameters > 0
        return 100 * float(np.mean(predicted != self.test_labels))


def folds_of(name: str, folder: Path, count: int, seed: int) -> Iterator[Fold]:
    """Yield ``count`` stratified folds of a data set, shuffled by ``seed``."""
    rows, labels = numbers(name, folder)
    cuts = StratifiedKFold(count, shuffle=True, random_state=seed).split(rows, labels)
    for train, test in cuts:
        yield Fold(rows[train], labels[train], rows[test], labels[test])


def repeated_folds(name: str, setting: Setting, steps: Steps, count: int) -> Iterator[Fold]:
    """Yield the folds of a data set for every seed, each as a step."""
    for seed in range(setting.seeds):
        for fold in folds_of(name, setting.folder, count, seed):
            steps.begin(f"{name}, {len(fold.rows):,} rows")
            yield fold


def mean_and_deviation(values: list[float]) -> str:
    """Return the mean over folds with its standard deviation, as the paper prints errors."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) if len(values) > 1 else 0.0:.2f}"
