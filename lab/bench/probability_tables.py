"""The tables on which probabilities are measured: those that rules were chosen on, and others.

Every column is a number between 0 and 1, cut at its 2 % and 98 % quantiles. Rows are shuffled by a
seed; a quarter of them, at most 6,000, are test rows, and at most 8,000 others are private.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn import datasets
from sklearn.feature_extraction.text import CountVectorizer

from suffice.papers.reproduction import numbers

__all__ = ["CHOSEN", "HELD_OUT", "MANY_CLASSES", "TABLES", "Data", "read"]

_MOST_ROWS, _MOST_TEST = 8_000, 6_000
_WORDS = 60  # the most frequent, as columns

Numbers = tuple[np.ndarray, np.ndarray]  # rows and labels


@dataclass(frozen=True)
class Data:
    """Private training rows with labels, and test rows with labels, numbers without gaps."""

    rows: pa.Table
    labels: np.ndarray
    test_rows: pa.Table
    test_labels: np.ndarray

    @property
    def classes(self) -> tuple[int, ...]:
        """All classes; their list is public."""
        return tuple(range(int(max(self.labels.max(), self.test_labels.max())) + 1))


def _grades(name: str, ends: tuple[int, ...], folder: Path) -> Numbers:
    """Return the rows of a table whose label is a grade, in classes between ``ends``."""
    rows, _ = numbers(name, folder)
    file = {"wine-white": "wine_white", "abalone": "abalone"}[name]
    grades = pq.read_table(folder / f"{file}.parquet")["label"].to_numpy()
    return rows, np.digitize(grades, ends)


def _digits(classes: Callable[[np.ndarray], np.ndarray], digits: str, folder: Path) -> Numbers:
    """Return digits of MNIST in 49 squares of 4 x 4 pixels."""
    table = pq.read_table(folder / "mnist.parquet")
    label = table["label"].to_numpy()
    taken = np.flatnonzero(np.isin(label, [int(digit) for digit in digits]))[:30_000]
    pixels = np.column_stack([table[f"f{j}"].to_numpy()[taken] for j in range(784)])
    squares = pixels.reshape(-1, 7, 4, 7, 4).astype(float).mean(axis=(2, 4))
    return squares.reshape(-1, 49), classes(label[taken]).astype(int)


def _covertype(classes: Callable[[np.ndarray], np.ndarray], folder: Path) -> Numbers:
    """Return every 20th row, with classes made of the seven covers."""
    table = pq.read_table(folder / "covertype.parquet")
    rows = np.column_stack(
        [table[n].to_numpy()[::20].astype(float) for n in table.column_names if n != "label"]
    )
    return rows, classes(table["label"].to_numpy()[::20]).astype(int)


def _network(folder: Path) -> Numbers:
    """Return distinct connections of KDD Cup 99 by their rates, attacks against normal ones."""
    table = pq.read_table(folder / "kddcup99_10pct.parquet")
    names = [n for n in table.column_names if n.endswith(("rate", "count"))]
    rows = np.column_stack([table[n].to_numpy().astype(float) for n in [*names, "label"]])
    rows = np.unique(rows, axis=0)
    return rows[:, :-1], rows[:, -1].astype(int)


def _tweets(folder: Path) -> Numbers:
    """Return which frequent words a tweet has; the class is whether it is neutral."""
    table = pq.read_table(folder / "twitter_sentiment.parquet")
    counts = CountVectorizer(max_features=_WORDS, binary=True)
    words = counts.fit_transform(table["text"].to_pylist()).toarray().astype(float)
    return words, (table["label"].to_numpy() == 1).astype(int)


def _postures(folder: Path) -> Numbers:
    """Return sitting against standing people, by 60 of the sensors' numbers."""
    table = pq.read_table(folder / "uci_har_train.parquet")
    label = table["label"].to_numpy()
    taken = np.isin(label, (3, 4))
    rows = np.column_stack([table[f"f{j}"].to_numpy()[taken] for j in range(0, 540, 9)])
    return rows.astype(float), (label[taken] == 4).astype(int)


def _bundled(load: Callable[..., Numbers], above: float | None, folder: Path) -> Numbers:
    """Return a table of scikit-learn; the second class is above a number, unless it is None."""
    del folder
    rows, target = load(return_X_y=True)
    return rows, (target if above is None else target > above).astype(int)


Read = Callable[[Path], Numbers]
_OF_STUDIES = (
    "magic", "adult", "ijcnn1", "eeg", "higgs", "abalone", "wine-white", "wine-red", "spambase",
    "banknote",
)  # fmt: skip
CHOSEN: Mapping[str, Read] = {name: partial(numbers, name) for name in _OF_STUDIES}
HELD_OUT: Mapping[str, Read] = {
    "covertype": partial(_covertype, lambda cover: cover == 1),
    "covertype-rare": partial(_covertype, lambda cover: cover >= 2),
    "mnist-3v5": partial(_digits, lambda digit: digit == 5, "35"),
    "mnist-even": partial(_digits, lambda digit: digit % 2 == 0, "0123456789"),
    "kdd99": _network,
    "tweets": _tweets,
    "postures": _postures,
    "breast-569": partial(_bundled, datasets.load_breast_cancer, None),
    "diabetes": partial(_bundled, datasets.load_diabetes, 140.0),
    "transfusion": partial(numbers, "transfusion"),
    "ionosphere": partial(numbers, "ionosphere"),
}
MANY_CLASSES: Mapping[str, Read] = {
    "wine-3": partial(_grades, "wine-white", (6, 7)),
    "abalone-3": partial(_grades, "abalone", (9, 11)),
    "covertype-7": partial(_covertype, lambda cover: cover),
    "mnist-10": partial(_digits, lambda digit: digit, "0123456789"),
}
TABLES = {**CHOSEN, **HELD_OUT, **MANY_CLASSES}


@cache
def _numbers_of(name: str, folder: Path) -> Numbers:
    return TABLES[name](folder)


def read(name: str, seed: int, folder: Path) -> Data:
    """Return private and test rows of a table, as one seed shuffles them."""
    whole, labels = _numbers_of(name, folder)
    order = np.random.default_rng(seed).permutation(len(whole))
    tested = min(len(order) // 4, _MOST_TEST)
    private, test = order[tested : tested + _MOST_ROWS], order[:tested]
    low, high = np.nanquantile(whole[private], [0.02, 0.98], axis=0)
    varying = high > low
    scaled = (whole[:, varying] - low[varying]) / (high - low)[varying]
    scaled = np.clip(np.nan_to_num(scaled, nan=0.0), 0, 1)
    names = [f"x{j}" for j in range(scaled.shape[1])]
    rows, test_rows = (
        pa.Table.from_arrays([pa.array(column) for column in scaled[part].T], names=names)
        for part in (private, test)
    )
    return Data(rows, labels[private], test_rows, labels[test])
