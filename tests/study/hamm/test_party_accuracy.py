"""Figures 2 and 3 end to end, on small files in the layout of the real ones."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.papers import hamm
from suffice.papers.hamm import ENTRIES
from suffice.papers.reproduce import document, reproduce, write_report


def har_file(folder, rng):
    """Write a small file in the layout of UCI HAR: six classes, eight subjects."""
    label = rng.integers(0, 6, 480)
    columns = rng.normal(size=(480, 9)) * 0.2
    columns[np.arange(480), label] += 1.0
    numbers = {f"f{j}": column.astype(np.float32) for j, column in enumerate(columns.T)}
    subjects = np.sort(rng.integers(1, 9, 480)) * 3
    pq.write_table(
        pa.table({**numbers, "label": label, "subject": subjects}), folder / "har.parquet"
    )


def kdd_file(folder, rng):
    """Write a small file in the layout of KDD-99: numbers, flags, categories, two parts."""
    label = rng.integers(0, 2, 700).astype(np.int8)
    columns = {
        "bytes": (rng.exponential(100, 700) * (1 + label)).astype(np.int32),
        "land": rng.integers(0, 2, 700).astype(np.uint8),
        "rate": (label + rng.normal(0, 0.3, 700)).astype(np.float32),
        "service": pa.array(rng.choice(["http", "smtp", "ftp"], 700)).dictionary_encode(),
        "attack": pa.array(np.where(label, "smurf", "normal")).dictionary_encode(),
        "split": pa.array(np.where(np.arange(700) < 500, "train", "test")).dictionary_encode(),
    }
    pq.write_table(pa.table({**columns, "label": label}), folder / "kdd.parquet")


@pytest.fixture
def small(monkeypatch, tmp_path, rng):
    """Write both files and ask for samples that they can give."""
    har_file(tmp_path, rng)
    kdd_file(tmp_path, rng)
    values = {
        "ACTIVITIES": "har.parquet",
        "_COMPONENTS": 6,
        "_PARTIES": 30,
        "_AUXILIARY": 60,
        "INTRUSIONS": "kdd.parquet",
        "_CROWDS": (10, 20),
        "_SAMPLES": 15,
        "_INTRUSION_AUXILIARY": 100,
        "_EPSILONS": (100.0, 0.3),
        "_ABOVE_INDIV": 100.0,
        "_NEARLY_BATCH": 0.3,
        "_LAMS": (hamm.LAM, 1e-2),
    }
    for name, value in values.items():
        monkeypatch.setattr(hamm, name, value)
    for entry in ENTRIES:
        files = {"parties-har": "har.parquet", "parties-kdd99": "kdd.parquet"}[entry.name]
        monkeypatch.setitem(entry.files, next(iter(entry.files)), files)
    return tmp_path


def test_both_figures_are_computed_and_written(small):
    names = ["parties-har", "parties-kdd99"]
    results = reproduce(names, folder=small, seeds=1)
    har = results["parties-har"].values
    assert set(har["crowds"]) == {"30"}
    assert har["crowds"]["30"]["accuracies"]["operator"][0][0] > 0.8
    assert {comparison.what for comparison in results["parties-har"].compared} > {
        "soft, no noise",
        "batch, no noise",
    }
    assert set(har["pure"]) == {"0.0001", "0.01"}
    assert har["pure"]["0.01"]["delta"] == 0
    kdd = results["parties-kdd99"].values["crowds"]
    assert list(kdd) == ["10", "20"]
    assert kdd["20"]["accuracies"]["operator"][0][0] > 0.8
    assert kdd["10"]["records"] == [150]
    write_report(results, small / "page.html")
    assert set(document(results)["reproductions"]) == set(names)
    assert "every fourth" in (small / "page.html").read_text()


@pytest.mark.parametrize(
    ("stated", "larger", "verdict"),
    [
        (0.6, 0.4, "as the text says"),
        (0.4, 0.6, "as the text says, but not at its lam"),
        (0.4, 0.3, "against the text at every lam tried"),
    ],
)
def test_the_best_lam_decides_what_is_said_of_private_methods(stated, larger, verdict):
    outcomes = {
        lam: {"epsilons": [1.0], "accuracies": {"soft": [[a]]}, "without_noise": {"indiv": [0.5]}}
        for lam, a in ((hamm.LAM, stated), (1e-2, larger))
    }
    found = hamm._best_gain(outcomes, "soft", "indiv", 1.0, 0.0)
    assert found.verdict == verdict
    assert found.ours == pytest.approx(max(stated, larger) - 0.5)


def test_subjects_that_are_tested_take_no_part(small):
    table = pq.read_table(small / "har.parquet")
    crowd = hamm._activity_crowd(table, 0)
    subjects = table["subject"].to_numpy()
    is_test = np.isin(subjects, np.unique(subjects)[::4])
    assert len(crowd.test_codes) == is_test.sum()
    assert len(crowd.parties.codes) == (~is_test).sum() - 60
    assert np.linalg.norm(crowd.auxiliary.rows[:, :-1], axis=1).max() == pytest.approx(1.0)
    # Components are those of the auxiliary rows: uncorrelated there, and not elsewhere.
    within = np.corrcoef(crowd.auxiliary.rows[:, :-1].T) - np.eye(6)
    elsewhere = np.corrcoef(crowd.parties.rows[:, :-1].T) - np.eye(6)
    assert np.abs(within).max() < 1e-9 < np.abs(elsewhere).max()
