"""What privacy costs those who learn from rados, measured end to end on small files."""

import numpy as np
import pytest

from suffice.papers import nock
from suffice.papers.reproduce import reproduce, write_report


@pytest.mark.usefixtures("quick")
def test_the_mechanisms_of_the_paper_say_what_they_cost(folder, tmp_path):
    results = reproduce(["rados-dp"], folder=folder, sets=("magic", "transfusion"))
    (result,) = results.values()
    assert {len(runs) for runs in result.values["dp_feat"]["magic"].values()} == {2}
    assert len(result.tables) == 4
    rows = {row[0]: row for row in result.tables[0].rows}
    assert rows["epsilon 0.3"][2:] == ("1", "none")  # the edge is hit for certain
    assert float(rows["plain rados"][3]) > 1
    noisy = {row[0]: row for row in result.tables[2].rows}
    assert noisy["0"][1] == "no guarantee"
    assert float(noisy["2"][1]) > 1
    write_report(results, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<figure>") == 1


@pytest.mark.usefixtures("quick")
def test_units_are_measured_with_both_learners(folder):
    (result,) = reproduce(["rados-units"], folder=folder, sets=("magic",)).values()
    errors = result.values["sets"]["magic"]
    assert set(errors) == {
        f"{what}|{who}"
        for what in ("nothing", "labels, epsilon 3", "records, epsilon 10")
        for who in ("RadoBoost", "RadoRidge")
    }
    assert np.mean(errors["nothing|RadoRidge"]) < 30


def test_rejection_keeps_the_rados_of_algorithm_2_and_only_those(rng):
    edges = np.column_stack([np.where(np.arange(40) < 13, -1.0, 1.0), rng.normal(size=40)])
    rados = nock._truncated_rados(edges, 0, 17, 500, rng)
    sums = rados[:, 0] + 13  # K, of eq. (16)
    assert sums.min() == 17
    assert sums.max() == 23
    free = nock._truncated_rados(edges, 0, 0, 500, rng)[:, 0] + 13
    assert free.min() < 17


def test_supports_are_of_one_size(rng):
    inside = nock._supports(30, 0.3, 50, rng)
    assert set(inside.sum(axis=1)) == {9}
    assert inside.mean(axis=0).min() > 0
