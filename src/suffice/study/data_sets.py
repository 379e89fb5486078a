"""The public data sets of the studies, as Arrow tables with a label of two classes.

They live outside the package: a folder with one Parquet file each. A file holds feature columns, an
integer column ``label`` and, where its origin has them, ``split`` ("train" or "test") or
``subject``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.errors import StorageError, TableError

__all__ = [
    "SETS",
    "DataSet",
    "Split",
    "files_of",
    "numbers",
    "real_numbers",
    "require_files",
    "split",
]

_NO_FEATURES = ("label", "split", "subject", "attack")


@dataclass(frozen=True)
class DataSet:
    """Where a data set is kept, and how two classes come from its labels.

    ``positive`` says which labels are the second class; ``labels`` lists those whose rows are
    used, None for all.
    """

    file: str
    positive: Callable[[np.ndarray], np.ndarray] = lambda label: label == 1
    labels: tuple[int, ...] | None = None


SETS: Mapping[str, DataSet] = {
    "spambase": DataSet("spambase.parquet"),
    "wine-white": DataSet("wine_white.parquet", lambda quality: quality > 5),
    "magic": DataSet("magic.parquet"),
    "adult": DataSet("adult.parquet"),
    "covertype": DataSet("covertype.parquet"),  # lodgepole pine against the rest
    "ijcnn1": DataSet("ijcnn1.parquet"),
    "uci-har": DataSet("uci_har_train.parquet", lambda activity: activity >= 3),
    "mnist-7v9": DataSet("mnist.parquet", lambda digit: digit == 9, labels=(7, 9)),
    "banknote": DataSet("banknote.parquet"),
    "higgs": DataSet("higgs_11k.parquet"),
    "abalone": DataSet("abalone.parquet", lambda rings: rings > 9),  # the median
    "wine-red": DataSet("wine_red.parquet", lambda quality: quality > 5),
    "eeg": DataSet("eeg_eye_state.parquet"),
    "haberman": DataSet("haberman.parquet"),
    "transfusion": DataSet("blood_transfusion.parquet"),
    "breast": DataSet("breast_cancer_wisconsin.parquet"),
    "ionosphere": DataSet("ionosphere.parquet"),
    "sonar": DataSet("sonar.parquet"),
    "fertility": DataSet("fertility.parquet"),
}


@dataclass(frozen=True)
class Split:
    """Public training rows with private labels, and test rows with labels, both 0 or 1."""

    rows: pa.Table
    labels: np.ndarray
    test_rows: pa.Table
    test_labels: np.ndarray

    @property
    def all_rows(self) -> tuple[pa.Table, np.ndarray]:
        """All rows, and all labels."""
        rows = pa.concat_tables([self.rows, self.test_rows])
        return rows, np.concatenate([self.labels, self.test_labels])

    @property
    def majority(self) -> float:
        """The accuracy of always predicting the larger class of the training labels."""
        larger = int(self.labels.mean() > 0.5)
        return float((self.test_labels == larger).mean())


def files_of(*names: str) -> dict[str, str]:
    """Return the file of each named data set."""
    return {name: SETS[name].file for name in names}


def require_files(folder: Path, files: Iterable[str]) -> None:
    """Raise unless ``folder`` holds every one of ``files``; the error names those it lacks."""
    if not folder.is_dir():
        raise StorageError(f"{folder} is not a folder. Name an existing one.")
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        raise StorageError(
            f"{folder} does not contain {', '.join(missing)}. Add the missing files."
        )


def split(name: str, seed: int, folder: Path) -> Split:
    """Return the origin's split where there is one, else by subject, else a random quarter.

    Rows are shuffled by ``seed``, so that every seed is another repetition.
    """
    data_set = SETS[name]
    table = _read(folder, data_set)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    is_test = _is_test_row(table, order, rng)
    labels = data_set.positive(table["label"].to_numpy()).astype(int)
    features = _features(table)
    train, test = order[~is_test], order[is_test]
    return Split(features.take(train), labels[train], features.take(test), labels[test])


def numbers(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows as one number per column, and labels 0 or 1, in the file's order.

    A category becomes its rank among the sorted ones, a missing number the mean of its column.
    """
    table = _read(folder, SETS[name])
    columns = []
    for column in _features(table).columns:
        values = column.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
            values = pc.rank(values, tiebreaker="dense")
        cells = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        columns.append(np.where(np.isnan(cells), np.nanmean(cells), cells))
    labels = SETS[name].positive(table["label"].to_numpy()).astype(int)
    return np.column_stack(columns), labels


def _read(folder: Path, data_set: DataSet) -> pa.Table:
    require_files(folder, [data_set.file])
    try:
        table = pq.read_table(folder / data_set.file)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{folder / data_set.file} is not a readable table ({type(error).__name__})."
        ) from None
    if "label" not in table.column_names:
        raise TableError(
            f"{folder / data_set.file} has no column 'label'. Add one with the classes."
        )
    if data_set.labels is None:
        return table
    return table.filter(pc.is_in(table["label"], pa.array(data_set.labels, table["label"].type)))


def _is_test_row(table: pa.Table, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which rows, in ``order``, are for testing."""
    if "split" in table.column_names:
        return np.asarray(pc.equal(table["split"], "test").to_numpy()[order])
    if "subject" in table.column_names:
        subjects = rng.permutation(table["subject"].unique().to_numpy())
        tested_subjects = subjects[: len(subjects) // 4]
        return np.asarray(np.isin(table["subject"].to_numpy(), tested_subjects)[order])
    return np.arange(len(table)) < len(table) // 4


def _features(table: pa.Table) -> pa.Table:
    """Return the feature columns, small integers as real numbers."""
    return real_numbers(table.drop_columns([n for n in _NO_FEATURES if n in table.column_names]))


def real_numbers(table: pa.Table) -> pa.Table:
    """Return the table with its small integers, such as pixels, as real numbers."""
    fields = [
        field.with_type(pa.float32()) if field.type == pa.uint8() else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()
