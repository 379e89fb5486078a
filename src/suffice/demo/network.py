"""The demo's network of clinics: invented tables that imitate data which scikit-learn includes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.datasets import load_breast_cancer

from suffice.release.file import write_whole

__all__ = [
    "ANSWERS",
    "MEASURED",
    "PATIENT_COLUMNS",
    "Network",
    "clinic_network",
    "invented_patients",
    "table_files",
    "write_tables",
]


MEASURED = (
    "radius", "texture", "perimeter", "area", "smoothness",
    "compactness", "concavity", "indentations", "symmetry", "roughness",
)  # fmt: skip
ANSWERS = {
    "sleep": ("good", "poor"),
    "smokes": ("never", "sometimes", "daily"),
    "sport": ("no", "yes"),
    "pills": ("all", "some", "none"),
}  # what participants may say, question by question
_TENDS = {
    "sleep": (0.0, 1.0),
    "smokes": (0.0, 0.6, 1.6),
    "sport": (0.8, -0.4),
    "pills": (-1.0, 0.8, 2.0),
}  # log-odds of a relapse
_COMMON = {
    "sleep": (0.6, 0.4),
    "smokes": (0.55, 0.2, 0.25),
    "sport": (0.6, 0.4),
    "pills": (0.6, 0.3, 0.1),
}
_WARDS = {"north": 0.15, "south": 0.45, "west": 0.75}  # proportions of malignant samples
_NEW_WARD, _EVERYBODY = 0.30, 0.37  # those of the new ward, and of all others
_ROWS, _TEST, _WARD, _NEW, _AUXILIARY, _PARTICIPANTS = 3000, 3000, 1000, 800, 500, 4000
_PRACTICES, _EACH = 1000, 6
_BASE = -1.3
_FILES = (
    "biopsies", "public", "records", "test", "wards",
    "new_ward", "practices", "auxiliary", "answers", "later",
)  # fmt: skip


@dataclass(frozen=True)
class Network:
    """The tables of the demo. A ``diagnosis`` of 1 is malignant; a ``relapse`` of 1 is yes.

    Parameters
    ----------
    biopsies, records, test
        Measurements and diagnoses.
    wards
        The same, with the ward.
    new
        Measurements of the ward that has no diagnoses.
    share
        The proportion of malignant samples in ``new``.
    practices
        Measurements and diagnoses, with the practice.
    auxiliary
        Public measurements.
    answers, later
        True answers of participants, and of other people.
    """

    biopsies: pa.Table
    records: pa.Table
    test: pa.Table
    wards: pa.Table
    new: pa.Table
    share: float
    practices: pa.Table
    auxiliary: pa.Table
    answers: pa.Table
    later: pa.Table


def clinic_network(seed: int = 0, *, smaller: int = 1) -> Network:
    """Return the tables of the demo; the same seed gives the same tables.

    Measurements are lognormal, with the means and covariances of benign and malignant samples in
    the Wisconsin breast cancer data (Street et al. 1993).

    Parameters
    ----------
    seed
        Seed of the random numbers.
    smaller
        The number by which the sizes of the tables are divided.
    """
    rng = np.random.default_rng(seed)

    def patients(
        count: int, share: float | np.ndarray = _EVERYBODY, **more: np.ndarray
    ) -> pa.Table:
        sick = rng.random(count) < share
        table = _measured(sick, rng)
        for name, column in more.items():
            table = table.append_column(name, pa.array(column))
        return table.append_column("diagnosis", pa.array(sick.astype(np.int64)))

    wards = np.repeat(list(_WARDS), _WARD // smaller)
    shares = np.repeat(list(_WARDS.values()), _WARD // smaller)
    practices = np.repeat([f"p{n:04}" for n in range(_PRACTICES // smaller)], _EACH)
    new = patients(_NEW, _NEW_WARD)
    return Network(
        biopsies=patients(_ROWS // smaller),
        records=patients(_ROWS // smaller),
        test=patients(_TEST),
        wards=patients(len(wards), shares, ward=wards),
        new=new.select(MEASURED),
        share=float(new["diagnosis"].to_numpy().mean()),
        practices=patients(len(practices), practice=practices),
        auxiliary=patients(_AUXILIARY).select(MEASURED),
        answers=_answered(_PARTICIPANTS // smaller, rng),
        later=_answered(_TEST, rng),
    )


def _measured(sick: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Return measurements of benign and malignant samples."""
    samples = load_breast_cancer()
    logs = np.log(samples.data[:, : len(MEASURED)] + 0.01)  # some concavities are zero
    rows = np.empty((len(sick), len(MEASURED)))
    for malignant in (False, True):
        group = logs[samples.target == (0 if malignant else 1)]
        in_class = sick == malignant
        rows[in_class] = rng.multivariate_normal(
            group.mean(axis=0), np.cov(group.T), size=int(in_class.sum())
        )
    return pa.table({name: np.exp(rows[:, j]).round(4) for j, name in enumerate(MEASURED)})


def _answered(people: int, rng: np.random.Generator) -> pa.Table:
    """Return the true answers of participants, and whether they relapsed."""
    odds = np.full(people, _BASE)
    columns: dict[str, np.ndarray] = {}
    for name, states in ANSWERS.items():
        codes = rng.choice(len(states), size=people, p=_COMMON[name])
        odds += np.array(_TENDS[name])[codes]
        columns[name] = np.array(states)[codes]
    columns["relapse"] = (rng.random(people) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return pa.table(columns)


def table_files(folder: Path) -> tuple[Path, ...]:
    """Return the files that `write_tables` writes into ``folder``."""
    return tuple(folder / f"{name}.csv" for name in _FILES)


def write_tables(network: Network, folder: Path, *, overwrite: bool = True) -> tuple[Path, ...]:
    """Write every table as CSV into ``folder``, and the biopsies without diagnoses beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = (
        network.biopsies,
        network.biopsies.drop_columns(["diagnosis"]),
        network.records,
        network.test,
        network.wards,
        network.new,
        network.practices,
        network.auxiliary,
        network.answers,
        network.later,
    )
    paths = table_files(folder)
    for path, table in zip(paths, tables, strict=True):
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        write_whole(path, sink.getvalue().to_pybytes(), overwrite=overwrite)
    return paths


PATIENT_COLUMNS = ("age", "size", "nodes", "stage")  # the public ones
_PATIENTS = 600
_SICK, _BACK = (0.03, 0.6, 0.5, 0.4), (0.01, 0.3, 0.2, 0.9)  # log-odds of one more of each column


def invented_patients(seed: int = 0) -> pa.Table:
    """Return 600 patients whom nobody ever met; the same seed gives the same patients.

    Columns are age, size, nodes and stage, and the labels diagnosis and relapse (0 or 1). Labels
    follow a logistic model of the centred columns, so a learner finds something.

    Parameters
    ----------
    seed
        Seed of the random numbers.

    Examples
    --------
    >>> invented_patients().column_names
    ['age', 'size', 'nodes', 'stage', 'diagnosis', 'relapse']
    """
    rng = np.random.default_rng(seed)
    columns = np.column_stack(
        [
            rng.integers(25, 90, _PATIENTS),
            rng.lognormal(0.7, 0.5, _PATIENTS).round(2),
            rng.poisson(2.0, _PATIENTS),
            rng.integers(1, 5, _PATIENTS),
        ]
    )
    table = pa.table(dict(zip(PATIENT_COLUMNS, columns.T, strict=True)))
    for name, weights in (("diagnosis", _SICK), ("relapse", _BACK)):
        odds = (columns - columns.mean(axis=0)) @ np.array(weights)
        labels = (rng.random(_PATIENTS) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        table = table.append_column(name, pa.array(labels))
    return table
