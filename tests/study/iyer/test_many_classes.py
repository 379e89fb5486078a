"""Figures about class ratios: sets as they are asked for, entries end to end on small files."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.errors import TableError
from suffice.study.data_sets import SETS
from suffice.study.iyer import distortion, many_classes, two_classes
from suffice.study.iyer.distortion import Point
from suffice.study.iyer.many_classes import _Task
from suffice.study.iyer.skewed_sets import draw_sets, l1_errors, rare_but_last
from suffice.study.reproduce import document, reproduce, write_report

EACH = 420


def blobs(rng: np.random.Generator, classes: int) -> tuple[pa.Table, np.ndarray]:
    """Return rows of classes that two columns tell apart, the third their place, and labels."""
    labels = rng.permutation(np.repeat(np.arange(classes), EACH))
    angles = 2 * np.pi * labels / classes
    columns = {
        "f0": 2 * np.cos(angles) + rng.normal(size=len(labels)),
        "f1": 2 * np.sin(angles) + rng.normal(size=len(labels)),
        "place": np.arange(len(labels), dtype=np.float64),
    }
    return pa.table(columns), labels


def test_sets_have_the_ratios_asked_for_and_share_no_row(rng):
    rows, labels = blobs(rng, 3)
    shares = rare_but_last(3, np.array([0.05, 0.2, 1 / 3]))
    np.testing.assert_allclose(shares[1], [0.2, 0.2, 0.6])
    sets = draw_sets(rows, labels, size=150, rare=0.1, shares=shares, rng=rng)
    expected = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    np.testing.assert_allclose(sets.proportions, expected)
    assert np.bincount(sets.bags).tolist() == [150] * 3
    own = sets.rows["place"].to_numpy().astype(int)
    np.testing.assert_array_equal(labels[own], sets.labels)
    assert len(set(own)) == 450
    for one, truth, asked in zip(sets.tests, sets.truth, shares, strict=True):
        there = one["place"].to_numpy().astype(int)
        assert len(set(there)) == 150
        assert not set(there) & set(own)
        np.testing.assert_allclose(np.bincount(labels[there]) / 150, truth)
        np.testing.assert_allclose(truth, asked, atol=0.01)
    assert l1_errors(sets.truth + np.array([0.1, -0.1, 0]), sets) == pytest.approx([0.2] * 3)
    with pytest.raises(TableError, match="too few rows"):
        draw_sets(rows, labels, size=300, rare=0.1, shares=shares, rng=rng)


def test_the_classical_gaussian_has_the_textbook_constant():
    """Two classes: |z1 - z2| / m with z of deviation s has mean 2 s / sqrt(pi) / m."""
    point = Point(classes=2, rare=0.5, epsilon=0.5)
    found = distortion._classical(point, 100_000)
    scale = np.sqrt(2 * np.log(1.25 / 0.05)) * np.sqrt(2) / 0.5
    assert found.mean() == pytest.approx(2 * scale / np.sqrt(np.pi) / 1000, rel=0.02)


def test_figure_1_sets_every_mechanism_beside_what_is_printed(monkeypatch, tmp_path):
    line = (Point(), Point(epsilon=0.01))
    monkeypatch.setattr(distortion, "_PANELS", {"epsilon": line})
    monkeypatch.setattr(distortion, "_DRAWS", 10)
    monkeypatch.setattr(distortion, "_MORE", 4)
    told = []
    results = reproduce(
        ["proportions-distortion"], seeds=1, progress=lambda *step: told.append(step)
    )
    (result,) = results.values()
    assert [step[0] for step in told] == [0, 1]
    first, second = (one["distortion"] for one in result.values["panels"]["epsilon"])
    assert set(first) == set(distortion._SHOWN)
    # 40 draws; bounds are six standard errors away
    assert first["Gaussian, analytic"] == pytest.approx(0.028, abs=0.01)
    assert first["Laplace"] == pytest.approx(0.165, abs=0.07)
    assert first["Dirichlet, exact"] == pytest.approx(0.036, abs=0.0135)
    assert first["Dirichlet, eq. 9"] > 0.17
    assert [name for name, one in second.items() if one is None] == ["Dirichlet, eq. 9"]
    assert "none" in {row[0]: row for row in result.tables[-1].rows}["Dirichlet, eq. 9"]
    printed = {one.what: one.printed for one in result.compared}
    assert printed["Scaled Dirichlet, eq. 9"] == 0.06
    assert printed["best existing one: Laplace"] == 0.15
    assert "cannot be reproduced" in " ".join(result.notes)
    beside = write_report(results, tmp_path / "page.html")
    assert json.loads(beside.read_text()) == document(results)
    assert (tmp_path / "page.html").read_text().count("<svg") == 1


@pytest.fixture
def folder(tmp_path, rng):
    rows, labels = blobs(rng, 2)
    kinds = pa.array(rng.choice(["a", "b"], len(labels))).dictionary_encode()
    table = rows.drop_columns(["place"]).append_column("kind", kinds)
    pq.write_table(
        table.append_column("label", pa.array(labels, pa.int8())), tmp_path / SETS["higgs"].file
    )
    return tmp_path


def test_figure_2_measures_every_method_at_every_ratio(folder, monkeypatch):
    monkeypatch.setattr(two_classes, "_SIZE", 120)
    monkeypatch.setattr(two_classes, "_SLOW_REPEATS", 1)
    told = []
    (result,) = reproduce(
        ["ratio-binary"],
        folder=folder,
        sets=("higgs",),
        seeds=2,
        progress=lambda *step: told.append(step),
    ).values()
    assert [step[:2] for step in told] == [(0, 2), (1, 2)]
    found = result.values["sets"]["higgs"]
    runs = {method: np.array(errors) for method, errors in found["errors"].items()}
    assert {method: one.shape for method, one in runs.items()} == {
        "ours": (2, 9),
        "MMD": (2, 9),
        "classify and count": (2, 9),
        "pSVM": (1, 9),
    }
    assert sum(found["ours_took"].values()) == 2
    assert all(one.mean() < 0.25 for one in runs.values())  # the classes are far apart
    assert [one.printed for one in result.compared] == [0.7, None]


def test_figure_3_learns_from_real_releases(tmp_path, monkeypatch, rng):
    task = _Task("mnist.parquet", lambda _: blobs(rng, 3), 3, 150, 0.1, 1)
    monkeypatch.setattr(many_classes, "_TASKS", {"mnist": task})
    monkeypatch.setattr(many_classes, "_EPSILON", 1.0)
    (tmp_path / "mnist.parquet").touch()
    (result,) = reproduce(["ratio-multiclass"], folder=tmp_path, sets=("mnist",), seeds=1).values()
    errors = result.values["sets"]["mnist"]
    assert list(errors) == [f"{who}, {fed}" for who, fed in many_classes._CURVES]
    assert all(len(runs) == 1 for runs in errors.values())
    assert np.mean(errors["MMD, no noise"][0]["errors"]) < 0.2
    assert np.mean(errors["ours, auto"][0]["errors"]) < 0.25
    assert errors["MMD, auto"][0]["method"] == "mmd"
    assert [one.printed for one in result.compared] == [0.6, None, None, None]


def test_refusals_are_counted_and_left_out_of_means():
    refused = {"errors": None, "method": "refused"}
    answered = {"errors": [0.1, 0.2, 0.3, 0.4], "method": "mmd"}
    errors = {f"{who}, {fed}": [answered, refused] for who, fed in many_classes._CURVES}
    errors["ours, Laplace"] = [refused, refused]
    rows = {row[0]: row[1:] for row in many_classes._table("twitter", errors).rows}
    assert rows["MMD, auto"] == ("0.100", "0.200", "0.300", "0.400", "0.250", "mmd 1, refused 1")
    assert rows["ours, Laplace"][-1] == "refused 2"
    compared = many_classes._compared("twitter", errors)
    assert [(one.what, one.ours, one.verdict) for one in compared] == [
        ("twitter: MMD, Scaled Dirichlet against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
        ("twitter: MMD, auto against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
        ("twitter: ours, auto against MMD, Laplace", 0.0, "lower in 0 of 1 draws"),
    ]


def test_tweets_become_components_that_are_left_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(many_classes, "_COMPONENTS", 2)
    words = ["good day", "bad day", "a day"] * 4
    table = pa.table({"text": words, "label": np.tile([2, 0, 1], 4)})
    pq.write_table(table, tmp_path / "tweets.parquet")
    rows, labels = many_classes._tweets(tmp_path / "tweets.parquet")
    assert rows.column_names == ["f0", "f1"]
    assert labels.tolist() == [2, 0, 1] * 4
    (batch,) = rows.to_batches()
    mapped = many_classes._as_they_are(rows)["pipeline"].transform(batch)
    np.testing.assert_allclose(mapped, np.column_stack([rows["f0"], rows["f1"]]))
