"""A reproduction: one table or figure of a paper, and how to compute it again.

The public data sets live outside the package: a folder with one Parquet file each. A file holds
feature columns, an integer column ``label`` and, where its origin has them, ``split`` ("train" or
"test") or ``subject``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.errors import StorageError, TableError
from suffice.pages.plots import draw_panels
from suffice.pages.report import PageTable

Progress = Callable[[int, int, str], None]  # steps done, number of steps, what is being done


@dataclass(frozen=True)
class Setting:
    """What a reproduction runs with."""

    folder: Path  # with the data sets
    sets: tuple[str, ...]  # the names of those to use
    seeds: int  # the number of repetitions
    progress: Progress

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if there is only one repetition."""
        warning = "One repetition depends much on chance. Use --seeds for more."
        return (warning,) if self.seeds == 1 else ()


@dataclass
class Steps:
    """Counts steps of equal weight for a progress bar, which hears of the start of every step."""

    progress: Progress
    total: int
    done: int = 0

    def begin(self, what: str) -> None:
        """Report that the next step begins, which is ``what``, and that the one before is done."""
        self.progress(self.done, self.total, what)
        self.done += 1


@dataclass(frozen=True)
class Figure:
    """A drawing and its caption."""

    caption: str  # one or more sentences
    drawing: str  # markup, from `suffice.pages.plots.draw_panels`

    @classmethod
    def of_panels(
        cls, caption: str, draw: Callable[[Any, Any, Any], None], panels: Mapping[Any, Any]
    ) -> "Figure":
        """Return a figure with one panel per entry, which ``draw(name, values, axes)`` draws."""
        drawn = (partial(draw, name, values) for name, values in panels.items())
        return cls(caption, draw_panels(*drawn))


@dataclass(frozen=True)
class Comparison:
    """One statement of a paper next to our number."""

    what: str
    printed: float | None  # None if the paper says it in words
    ours: float
    verdict: str  # how the two agree, in words
    digits: int = 3  # decimal places

    COLUMNS = ("printed", "ours", "difference", "verdict")

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The cells under `COLUMNS`; a statement in words has no number to differ from."""
        printed = "in words" if self.printed is None else self._text(self.printed)
        difference = "see verdict" if self.difference is None else self._text(self.difference, "+")
        return printed, self._text(self.ours), difference, self.verdict

    def _text(self, value: float, sign: str = "") -> str:
        return f"{round(value, self.digits) + 0.0:{sign}.{self.digits}f}"

    @property
    def difference(self) -> float | None:
        """Our number minus the printed one, or None if there is none."""
        return None if self.printed is None else self.ours - self.printed

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {key: value for key, value in asdict(self).items() if key != "digits"}
        return values | {"difference": self.difference}


def verdict_of(gains: np.ndarray) -> str:
    """Return whether a mean gain is above zero, by two standard errors of its runs (runs,)."""
    if len(gains) < 2:
        return "one repetition cannot tell"
    mean, error = float(gains.mean()), float(gains.std(ddof=1)) / np.sqrt(len(gains))
    if abs(mean) <= 2 * error:
        return "too close to tell"
    return "holds" if mean > 0 else "does not hold"


@dataclass(frozen=True)
class Result:
    """The result of a reproduction: tables and figures for people, values for programs."""

    tables: tuple[PageTable, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]  # how this differs from the paper; at least one
    values: Mapping[str, Any]  # the same numbers as plain JSON values
    compared: tuple[Comparison, ...] = ()  # the paper's statements with our numbers
    compared_as: str = "What the paper says, and our numbers."  # the title of their table
    seconds: float = 0.0

    @property
    def all_tables(self) -> tuple[PageTable, ...]:
        """All tables, the comparison last."""
        if not self.compared:
            return self.tables
        rows = tuple((statement.what, *statement.cells) for statement in self.compared)
        return (*self.tables, PageTable(self.compared_as, ("what", *Comparison.COLUMNS), rows))


@dataclass(frozen=True)
class Reproduction:
    """One table or figure of a paper that can be computed again."""

    name: str  # for the command line
    title: str  # what it shows
    paper: str  # which table or figure of which paper it is
    run: Callable[[Setting], Result]
    files: Mapping[str, str] = field(default_factory=dict)  # in the folder of --data, by data set
    seeds: int = 1  # the default number of repetitions
    repeats: bool = True  # whether it can be repeated at all
    uncompared: str = ""  # why there is nothing to compare with; empty if there is


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


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from and others to test on, as tables or arrays; labels are 0 or 1."""

    rows: Any
    labels: np.ndarray
    test_rows: Any
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
    if "split" in table.column_names:
        is_test = pc.equal(table["split"], "test").to_numpy()[order]
    elif "subject" in table.column_names:
        subjects = rng.permutation(table["subject"].unique().to_numpy())
        tested_subjects = subjects[: len(subjects) // 4]
        is_test = np.isin(table["subject"].to_numpy(), tested_subjects)[order]
    else:
        is_test = np.arange(len(table)) < len(table) // 4
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
