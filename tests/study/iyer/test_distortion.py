"""Figure 1 sets every mechanism beside what is printed."""

import json

import numpy as np
import pytest

from suffice.papers import iyer
from suffice.papers.iyer import Point
from suffice.papers.reproduce import document, reproduce, write_report


def test_the_classical_gaussian_has_the_textbook_constant():
    """Two classes: |z1 - z2| / m with z of deviation s has mean 2 s / sqrt(pi) / m."""
    point = Point(classes=2, rare=0.5, epsilon=0.5)
    distances = iyer._classical(point, 100_000)
    scale = np.sqrt(2 * np.log(1.25 / 0.05)) * np.sqrt(2) / 0.5
    assert distances.mean() == pytest.approx(2 * scale / np.sqrt(np.pi) / 1000, rel=0.02)


def test_figure_1_sets_every_mechanism_beside_what_is_printed(monkeypatch, tmp_path):
    line = (Point(), Point(epsilon=0.01))
    monkeypatch.setattr(iyer, "_PANELS", {"epsilon": line})
    monkeypatch.setattr(iyer, "_DRAWS", 10)
    monkeypatch.setattr(iyer, "_MORE", 4)
    steps = []
    results = reproduce(
        ["proportions-distortion"], seeds=1, progress=lambda *step: steps.append(step)
    )
    (result,) = results.values()
    assert [step[0] for step in steps] == [0, 1]
    first, second = (point["distortion"] for point in result.values["panels"]["epsilon"])
    assert set(first) == set(iyer._SHOWN)
    # 40 draws; bounds are six standard errors away
    assert first["Gaussian, analytic"] == pytest.approx(0.028, abs=0.01)
    assert first["Laplace"] == pytest.approx(0.165, abs=0.07)
    assert first["Dirichlet, exact"] == pytest.approx(0.036, abs=0.0135)
    assert first["Dirichlet, eq. 9"] > 0.17
    assert [name for name, mean in second.items() if mean is None] == ["Dirichlet, eq. 9"]
    assert "none" in {row[0]: row for row in result.tables[-1].rows}["Dirichlet, eq. 9"]
    said = {statement.what: statement for statement in result.compared}
    assert said["Scaled Dirichlet, eq. 9"].printed == 0.06
    assert said["Scaled Dirichlet, eq. 9"].verdict == "not the same"
    assert said["Scaled Dirichlet, eq. 9, mean over classes"].verdict.startswith("the same")
    assert said["best existing one: Laplace"].printed == 0.15
    assert said["best existing one: Laplace"].verdict.startswith("the same")
    assert said["best existing one: Laplace, mean over classes"].verdict == "not the same"
    beside = write_report(results, tmp_path / "page.html")
    assert json.loads(beside.read_text()) == document(results)
    assert (tmp_path / "page.html").read_text().count("<figure>") == 1
