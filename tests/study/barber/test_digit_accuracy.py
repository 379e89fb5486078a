"""Figure 3 and Section 6.1 end to end on small pictures, and how sentences are judged."""

import json

import numpy as np
import pytest

from suffice.papers import barber
from suffice.papers.reproduce import document, reproduce, write_report

METHODS = ["clean", "true", "learned", "marginals", "flat", "naive", "whitened", "reconstruction"]


@pytest.fixture
def small(monkeypatch):
    """Ask for samples that the small file can give."""
    for name, value in (("_TRAIN", 25), ("_TEST", 15), ("_MANY", 25), ("_PF", (0.1, 0.3))):
        monkeypatch.setattr(barber, name, value)


@pytest.mark.usefixtures("small")
def test_figure_3_measures_every_method_and_judges_the_paper_s_sentences(folder, tmp_path):
    steps = []
    results = reproduce(
        ["spread-mnist"], folder=folder, seeds=2, progress=lambda *step: steps.append(step)
    )
    values = results["spread-mnist"].values
    assert list(values["accuracies"]) == list(values["penalties"]) == METHODS
    for curve in values["accuracies"].values():
        assert [len(runs) for runs in curve] == [2, 2]
    assert np.mean(values["accuracies"]["clean"]) > 0.95  # the classes are far apart
    assert np.mean(values["accuracies"]["naive"][0]) > 0.9
    verdicts = {"holds", "does not hold", "too close to tell"}
    assert {statement.verdict for statement in results["spread-mnist"].compared} <= verdicts
    assert [done for done, _, _ in steps] == [0, 1, 2, 3]
    write_report(results, tmp_path / "page.html")
    assert json.loads((tmp_path / "page.json").read_text()) == document(results)
    assert "How much of the gap" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("small")
def test_section_6_1_measures_every_method_beside_what_is_printed(folder):
    result = reproduce(["spread-gaussian"], folder=folder, seeds=1)["spread-gaussian"]
    assert list(result.values["accuracies"]) == [name for name in METHODS if name != "true"]
    printed = [statement.printed for statement in result.compared]
    assert printed == [95.7, 94.4, 93.0, 94.4, 93.0]
    assert result.values["accuracies"]["learned"][0][0] > 0.8
    assert "One repetition depends much on chance" in result.notes[-1]


def test_shares_of_a_gap_and_verdicts(monkeypatch):
    monkeypatch.setattr(barber, "_PF", (0.1, 0.2))
    mean = {
        "naive": np.array([0.9, 0.8]),
        "true": np.array([0.89, 0.9]),
        "learned": np.array([0.9, 0.85]),
        "marginals": np.array([0.9, 0.79]),
        "flat": np.array([0.9, 0.785]),
    }
    gaps, learned, marginals, _ = barber._gap_table(mean).rows
    assert gaps[1:] == ("-0.010", "0.100")
    assert learned[1:] == ("no gap", "0.50")
    assert marginals[1:] == ("no gap", "-0.10")
    runs = {name: [[value - 0.001, value + 0.001] for value in mean[name]] for name in mean}
    verdicts = [statement.verdict for statement in barber._sentences(runs)]
    assert verdicts == ["does not hold", "does not hold", "holds"]
    assert barber._against(95.0, 94.4) == "better than printed"
    assert barber._against(94.8, 94.4) == "as printed, to half a point"
    assert barber._against(93.0, 94.4) == "worse than printed"


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([[0.03, 0.05], [0.01, 0.02]], "holds"),
        ([[0.03, 0.05], [-0.01, -0.02]], "does not hold"),
        ([[0.03, 0.05], [-0.01, 0.03]], "too close to tell"),
        ([[0.03], [0.05]], "one repetition cannot tell"),
    ],
)
def test_a_sentence_is_judged_by_its_worst_level_and_the_error_there(gains, verdict):
    assert barber._ahead("gain", np.array(gains)).verdict == verdict
