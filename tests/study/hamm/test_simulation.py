"""Simulated parties: who holds what, methods that agree with their definitions, figures anew."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from suffice.errors import ParameterError
from suffice.study.hamm import party_accuracy, simulation
from suffice.study.hamm.crowds import Crowd, Shares, auxiliary_of_unit_norm, crowd_of_table, dealt
from suffice.study.hamm.simulation import (
    METHODS,
    simulate,
    simulate_table,
    step_count,
    write_simulation,
)
from suffice.study.reproduce import document, reproduce, write_report
from suffice.study.reproduction import Steps

CLASSES = (0, 1, 2)


def activity_table(rows: int = 600, seed: int = 0) -> pa.Table:
    """Return three easy classes in four columns, with a column of 30 owners."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    columns = rng.normal(size=(rows, 4)) * 0.4
    columns[np.arange(rows), label] += 2.0
    named = {f"f{j}": column for j, column in enumerate(columns.T)}
    return pa.table({**named, "label": label, "user": rng.integers(0, 30, rows)})


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return activity_table()


@pytest.fixture(scope="module")
def crowd(table) -> Crowd:
    rng = np.random.default_rng(1)
    plain = table.drop_columns(["user"])
    return crowd_of_table(plain, rng, label="label", classes=CLASSES, parties=40)


# --- who holds what


def test_every_row_is_auxiliary_or_tested_or_one_partys(crowd):
    counts = np.bincount(crowd.parties.index)
    assert crowd.auxiliary.count == 60
    assert len(crowd.test_codes) == 150
    assert counts.sum() == 390
    assert counts.max() - counts.min() <= 1
    assert crowd.count == 40
    assert len(np.unique(crowd.auxiliary.rows, axis=0)) == 60


def test_shares_cut_every_row_once(rng):
    parts = Shares(0.2, 0.3).cut(50, rng)
    assert [len(part) for part in parts] == [10, 15, 25]
    assert sorted(np.concatenate(parts)) == list(range(50))
    for bad in (Shares(0.0, 0.3), Shares(0.5, 0.5), Shares(0.2, -0.1)):
        with pytest.raises(ParameterError, match="leave private ones"):
            bad.cut(50, rng)


def test_parties_come_from_a_column(table, rng):
    found = crowd_of_table(table, rng, label="label", classes=CLASSES, party="user")
    assert found.count == 30
    assert "user" not in [column.name for column in found.auxiliary.pipeline.columns]


def test_parties_come_from_a_column_or_a_number_never_both(table, rng):
    for both in ({}, {"party": "user", "parties": 3}):
        with pytest.raises(ParameterError, match="column, or"):
            crowd_of_table(table, rng, label="label", classes=CLASSES, **both)
    for count in (0, 10_000):
        with pytest.raises(ParameterError, match="a record for each"):
            crowd_of_table(table, rng, label="label", classes=CLASSES, parties=count)


def test_the_first_parties_are_a_crowd_of_their_own(crowd):
    few = crowd.first(7)
    assert few.count == 7
    assert few.parties.names == crowd.parties.names[:7]
    for party in range(7):
        own, same = few.parties.index == party, crowd.parties.index == party
        assert few.parties.rows[own].tolist() == crowd.parties.rows[same].tolist()
    assert few.auxiliary is crowd.auxiliary


def test_dealing_names_sort_as_numbers_and_take_no_column_that_is_there():
    records, name = dealt(pa.table({"party": range(25)}), 12)
    assert name == "party_"
    dealt_out = records[name].to_pylist()
    assert dealt_out[:13] == [f"{p:02d}" for p in range(12)] + ["00"]


def test_rows_have_norm_one_but_for_the_intercept(table):
    public = table.select(["f0", "f1", "f2", "f3"])
    rows = auxiliary_of_unit_norm(public).rows
    assert np.linalg.norm(rows[:, :-1], axis=1).max() == pytest.approx(1.0)
    assert rows[:, -1] == pytest.approx(0.25)


# --- what is measured


def test_without_noise_methods_are_what_their_names_say(crowd):
    found = simulate([crowd], [1.0], delta=1e-5, methods=["operator"])["without_noise"]
    rows, codes = crowd.parties.rows, crowd.parties.codes
    options = {"fit_intercept": False, "tol": 1e-8, "max_iter": 5000}
    batch = LogisticRegression(C=1 / (len(codes) * 1e-4), **options).fit(rows, codes)
    assert found["batch"] == [pytest.approx(batch.score(crowd.test_rows, crowd.test_codes))]
    votes, local, mean = np.zeros((60, 3)), [], 0.0
    for party in range(40):
        own = crowd.parties.index == party
        model = LogisticRegression(C=1 / (own.sum() * 1e-4), **options).fit(rows[own], codes[own])
        votes[np.arange(60), model.predict(crowd.auxiliary.rows)] += 1
        local.append(model.score(crowd.test_rows, crowd.test_codes))
        full = np.zeros((5, 3))
        if len(model.classes_) > 2:  # scikit-learn has one vector for two classes
            full[:, model.classes_] = model.coef_.T
        mean += full / 40
    assert found["indiv"] == [pytest.approx(np.mean(local), abs=2e-3)]
    vote = LogisticRegression(C=1 / (60 * 1e-4), **options)
    vote.fit(crowd.auxiliary.rows, votes.argmax(axis=1))
    accuracy = vote.score(crowd.test_rows, crowd.test_codes)
    assert found["vote"] == [pytest.approx(accuracy, abs=0.01)]
    assert found["average"] == [pytest.approx(crowd.accuracy(mean), abs=0.05)]
    assert min(found["soft"]) > 0.9
    assert found["larger_class"][0] < 0.5


def test_every_method_runs_and_hard_noise_harms(crowd):
    steps = []
    bar = Steps(lambda *told: steps.append(told), step_count(1, [200.0, 0.01]))
    found = simulate([crowd], [200.0, 0.01], delta=1e-5, steps=bar)
    runs = found["accuracies"]
    assert tuple(runs) == METHODS
    assert all(len(cell) == 1 for cells in runs.values() for cell in cells)
    for name in ("operator", "votes", "pate"):
        assert runs[name][0][0] > 0.9
    assert np.mean([cells[1][0] for cells in runs.values()]) < 0.7
    assert len(steps) == steps[-1][1] == 1 + 2 * len(METHODS)
    json.dumps(found, allow_nan=False)


def test_what_makes_no_sense_is_refused(crowd, table):
    with pytest.raises(ParameterError, match="methods must be some of"):
        simulate([crowd], [1.0], delta=1e-5, methods=["operator", "magic"])
    for bad in ([], [0.0], [np.inf]):
        with pytest.raises(ParameterError, match="positive numbers"):
            simulate([crowd], bad, delta=1e-5)
    with pytest.raises(ParameterError, match="trials"):
        simulate_table(table, [1.0], delta=1e-5, label="label", trials=0)


def test_trials_of_a_table_are_dealt_anew_and_repeat_with_their_seed(table, tmp_path):
    options = {"label": "label", "classes": CLASSES, "party": "user", "methods": ["soft"]}
    found, again = (
        simulate_table(table, [5.0], delta=1e-5, trials=2, seed=3, **options) for _ in range(2)
    )
    assert found["without_noise"] == again["without_noise"]  # the noise itself is never seeded
    assert len(set(found["without_noise"]["indiv"])) == 2
    drawn = write_simulation(found, tmp_path / "page.html")
    assert [row[0] for row in drawn.rows][:2] == ["soft", "batch"]
    page = (tmp_path / "page.html").read_text()
    assert "1 / epsilon" in page
    assert "mean and range of 2 trials" in page


# --- figures of the paper


def har_file(folder, rng):
    """Write a small file in the layout of UCI HAR: six classes, eight subjects."""
    label = rng.integers(0, 6, 480)
    columns = rng.normal(size=(480, 9)) * 0.2
    columns[np.arange(480), label] += 1.0
    named = {f"f{j}": column.astype(np.float32) for j, column in enumerate(columns.T)}
    subjects = np.sort(rng.integers(1, 9, 480)) * 3
    pq.write_table(pa.table({**named, "label": label, "subject": subjects}), folder / "har.parquet")


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
        "_ACTIVITY": "har.parquet",
        "_COMPONENTS": 6,
        "_PARTIES": 30,
        "_AUXILIARY": 60,
        "_INTRUSION": "kdd.parquet",
        "_CROWDS": (10, 20),
        "_SAMPLES": 15,
        "_INTRUSION_AUXILIARY": 100,
        "_EPSILONS": (100.0, 0.3),
    }
    for name, value in values.items():
        monkeypatch.setattr(party_accuracy, name, value)
    for entry in party_accuracy.ENTRIES:
        files = {"parties-har": "har.parquet", "parties-kdd99": "kdd.parquet"}[entry.name]
        monkeypatch.setitem(entry.files, next(iter(entry.files)), files)
    return tmp_path


def test_both_figures_are_computed_and_written(small):
    names = ["parties-har", "parties-kdd99"]
    results = reproduce(names, folder=small, seeds=1)
    har = results["parties-har"].values
    assert set(har["crowds"]) == {"30"}
    assert har["crowds"]["30"]["accuracies"]["operator"][0][0] > 0.8
    assert {one.what for one in results["parties-har"].compared} > {
        "soft, no noise",
        "batch, no noise",
    }
    kdd = results["parties-kdd99"].values["crowds"]
    assert list(kdd) == ["10", "20"]
    assert kdd["20"]["accuracies"]["operator"][0][0] > 0.8
    assert kdd["10"]["records"] == [150]
    write_report(results, small / "page.html")
    assert set(document(results)["reproductions"]) == set(names)
    assert "every fourth" in (small / "page.html").read_text()


def test_subjects_that_are_tested_take_no_part(small):
    table = pq.read_table(small / "har.parquet")
    made = party_accuracy._activity_crowd(table, 0)
    subjects = table["subject"].to_numpy()
    held = np.isin(subjects, np.unique(subjects)[::4])
    assert len(made.test_codes) == held.sum()
    assert len(made.parties.codes) == (~held).sum() - 60
    assert np.linalg.norm(made.auxiliary.rows[:, :-1], axis=1).max() == pytest.approx(1.0)
    # Components are those of the auxiliary rows: uncorrelated there, and not elsewhere.
    within = np.corrcoef(made.auxiliary.rows[:, :-1].T) - np.eye(6)
    elsewhere = np.corrcoef(made.parties.rows[:, :-1].T) - np.eye(6)
    assert np.abs(within).max() < 1e-9 < np.abs(elsewhere).max()


def test_batch_is_trained_on_a_part_of_very_many_records(crowd, monkeypatch):
    monkeypatch.setattr(simulation, "_BATCH_ROWS", 100)
    assert simulation._stride(crowd) == 4
    assert simulate([crowd], [1.0], delta=1e-5, methods=["soft"])["without_noise"]["batch"][0] > 0.8
