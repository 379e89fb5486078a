"""The tables about rados run on files like the real ones, and say what they compare."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.study.data_sets import SETS, numbers
from suffice.study.nock import private_rados, table_one
from suffice.study.nock.folds import Fold, folds_of
from suffice.study.reproduce import REPRODUCTIONS, document, reproduce, write_report

ROWS = 160


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make files in the layout of the real ones: numbers, a category, a missing number."""
    place = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    second = rng.random(ROWS) < 0.4
    columns = {
        "f0": (rng.normal(size=ROWS) + 2 * second).astype(np.float32),
        "f1": rng.integers(0, 200, ROWS).astype(np.uint8) + (40 * second).astype(np.uint8),
        "kind": pa.array(rng.choice(["b", "a", "c"], ROWS)).dictionary_encode(),
        "flag": rng.integers(0, 2, ROWS).astype(np.int8),
        "hole": np.where(np.arange(ROWS) == 3, np.nan, second + rng.normal(size=ROWS)),
    }
    for name, labels in {"magic": second, "transfusion": second, "abalone": 9 + second}.items():
        table = pa.table({**columns, "label": labels.astype(np.int8)})
        pq.write_table(table, place / SETS[name].file)
    return place


@pytest.fixture
def quick(monkeypatch):
    for module in (table_one, private_rados):
        monkeypatch.setattr(module, "_FOLDS", 2)
        monkeypatch.setattr(module, "_ROUNDS", 20)
    monkeypatch.setattr(private_rados, "_TRUNCATIONS", (0.3, 2.0))
    monkeypatch.setattr(private_rados, "_NOISES", (0.0, 2.0))
    monkeypatch.setattr(private_rados, "_LABEL_EPSILONS", (3.0,))
    monkeypatch.setattr(private_rados, "_RECORD_EPSILONS", (10.0,))
    monkeypatch.setattr(private_rados, "_RECORD_RADOS", 8)


def test_every_row_is_numbers_and_every_row_is_tested_once(folder):
    rows, labels = numbers("abalone", folder)
    assert rows.shape == (ROWS, 5)
    assert np.isfinite(rows).all()
    assert set(np.unique(rows[:, 2])) == {1.0, 2.0, 3.0}
    kinds = pq.read_table(folder / "abalone.parquet")["kind"].to_pylist()
    assert [dict(zip(kinds, rows[:, 2], strict=True))[k] for k in "abc"] == [1.0, 2.0, 3.0]
    folds = list(folds_of("abalone", folder, 4, seed=1))
    tested = np.concatenate([fold.test_rows for fold in folds])
    assert sorted(map(tuple, tested)) == sorted(map(tuple, rows))
    assert sum(fold.test_labels.sum() for fold in folds) == labels.sum()
    for fold in folds:
        assert abs(fold.labels.mean() - labels.mean()) < 0.03


def test_a_fold_is_standardised_by_what_is_learnt_from():
    rng = np.random.default_rng(1)
    fold = Fold(rng.normal(5, 3, (50, 3)), np.arange(50) % 2, np.full((2, 3), 5.0), np.zeros(2))
    scaled = fold.standardised(coded=1)
    assert np.abs(scaled.rows[:, [0, 2]].mean(axis=0)).max() < 1e-12
    assert np.abs(scaled.rows[:, [0, 2]].std(axis=0) - 1).max() < 1e-12
    assert set(scaled.rows[:, 1]) == {-1.0, 1.0}
    assert set(scaled.test_rows[:, 1]) <= {-1.0, 1.0}
    np.testing.assert_array_equal(scaled.edges()[1], scaled.rows[1])
    np.testing.assert_array_equal(scaled.edges()[0], -scaled.rows[0])


@pytest.mark.usefixtures("quick", "seeded")
def test_table_one_sets_ours_beside_the_printed_errors(folder, tmp_path):
    told = []
    results = reproduce(
        ["rados-table1"],
        folder=folder,
        sets=("magic", "transfusion"),
        seeds=2,
        progress=lambda *step: told.append(step),
    )
    (result,) = results.values()
    for found in result.values["sets"].values():
        assert all(len(errors) == 4 for errors in found["errors"].values())
        assert all(0 <= np.mean(errors) < 45 for errors in found["errors"].values())
        assert np.mean(found["errors"]["RadoRidge, our options"]) < 30
    assert [step[0] for step in told] == list(range(8))
    printed = {one.what: one.printed for one in result.compared}
    assert printed["magic, RadoBoost"] == 22.75
    assert len(printed) == 3  # of transfusion nothing is printed
    write_report(results, tmp_path / "page.html")
    assert "21.07 ± 0.98" in (tmp_path / "page.html").read_text()
    assert document(results)["reproductions"]["rados-table1"]["paper"].endswith("Table 1")


@pytest.mark.usefixtures("quick", "seeded")
def test_the_mechanisms_of_the_paper_say_what_they_cost(folder, tmp_path):
    results = reproduce(["rados-dp"], folder=folder, sets=("magic", "transfusion"))
    (result,) = results.values()
    assert {len(runs) for runs in result.values["dp_feat"]["magic"].values()} == {2}
    assert len(result.tables) == 4
    rows = {row[0]: row for row in result.tables[0].rows}
    assert rows["epsilon 0.3"][2:] == ("1", "none")  # the edge is hit for certain
    assert float(rows["plain rados"][3]) > 1
    noisy = {row[0]: row for row in result.tables[2].rows}
    assert noisy["0"][1] == "no promise"
    assert float(noisy["2"][1]) > 1
    write_report(results, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<svg") == 1


@pytest.mark.usefixtures("quick", "seeded")
def test_units_are_measured_with_both_learners(folder):
    (result,) = reproduce(["rados-units"], folder=folder, sets=("magic",)).values()
    errors = result.values["sets"]["magic"]
    assert set(errors) == {
        f"{what}|{who}"
        for what in ("nothing", "labels, epsilon 3", "records, epsilon 10")
        for who in ("RadoBoost", "RadoRidge")
    }
    assert np.mean(errors["nothing|RadoRidge"]) < 30


def test_rejection_keeps_the_rados_of_algorithm_2_and_only_those():
    rng = np.random.default_rng(0)
    edges = np.column_stack([np.where(np.arange(40) < 13, -1.0, 1.0), rng.normal(size=40)])
    rados = private_rados._truncated_rados(edges, 0, 17, 500, rng)
    sums = rados[:, 0] + 13  # K, of eq. (16)
    assert sums.min() == 17
    assert sums.max() == 23
    free = private_rados._truncated_rados(edges, 0, 0, 500, rng)[:, 0] + 13
    assert free.min() < 17


def test_supports_are_of_one_size():
    inside = private_rados._supports(30, 0.3, 50, np.random.default_rng(0))
    assert set(inside.sum(axis=1)) == {9}
    assert inside.mean(axis=0).min() > 0
    assert {"rados-table1", "rados-dp", "rados-units"} <= set(REPRODUCTIONS)
