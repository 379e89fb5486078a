"""``suffice inspect --explain`` shows a model in the units of its columns."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import suffice as sf
from builders import clinic_table
from suffice.errors import CorruptFileError
from suffice.learner.base import model_coefficients


@pytest.fixture
def model(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic_table(400), "clinic.parquet")
    words = ("clinic.parquet", "--label", "sick", "--epsilon", "5", "--no-ledger")
    suffice("release", "mean-operator", "--map", "none", *words, "-o", "r.suffice")
    fit = ("fit", "r.suffice", "--rows", "clinic.parquet")
    suffice(*fit, "-o", "m.suffice")
    suffice(*fit, "--penalty", "l1", "-o", "sparse.suffice")
    return sf.load("m.suffice")


def test_coefficients_come_with_intervals_sorted_by_size(suffice, model):
    printed = suffice("inspect", "m.suffice", "--explain")
    assert "95 % interval (noise of the release)" in printed
    assert "rows that are not clipped" in printed
    lines = json.loads(suffice("inspect", "m.suffice", "--explain", "--json"))["coefficients"]
    sizes = [abs(line["scaled"]) for line in lines[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert lines[-1]["feature"] == "(intercept)"
    assert all(line["low"] < line["coefficient"] < line["high"] for line in lines)
    fitted = model.model
    by_name = dict(zip(fitted.get_feature_names_out(), fitted.coef_[0], strict=True))
    assert {line["feature"]: line["coefficient"] for line in lines[:-1]} == by_name
    assert printed.index(lines[0]["feature"]) < printed.rindex(lines[-2]["feature"])


def test_stored_intervals_are_those_of_the_fit(model):
    release = sf.load("r.suffice")
    table = pq.read_table("clinic.parquet")
    fitted = sf.FactoredClassifier().fit_release(release, table)
    low, high = fitted.coef_interval_
    stored = {line.feature: line for line in model_coefficients(model)}
    for j, feature in enumerate(fitted.get_feature_names_out()):
        assert stored[feature].low == pytest.approx(low[0, j])
        assert stored[feature].high == pytest.approx(high[0, j])
    low, high = fitted.intercept_interval_
    assert stored["(intercept)"].low == pytest.approx(low[0])
    assert stored["(intercept)"].high == pytest.approx(high[0])


def test_intervals_that_do_not_exist_are_absent_with_a_word(suffice, model):
    assert model.details["coefficient_deviations"] is not None
    printed = suffice("inspect", "sparse.suffice", "--explain")
    assert "Intervals are absent" in printed
    assert "95 % interval" not in printed


def test_deviations_that_do_not_fit_are_damage(model):
    stated = model.details["coefficient_deviations"]
    for wrong in (stated[:-1], [*stated, 1.0]):
        changed = replace(model, details={**model.details, "coefficient_deviations": wrong})
        with pytest.raises(CorruptFileError, match="do not fit"):
            model_coefficients(changed)
    for wrong in ([-1.0], "one", [float("nan")], [True]):
        with pytest.raises(CorruptFileError):
            replace(model, details={**model.details, "coefficient_deviations": wrong})


def test_three_classes_have_a_line_for_each_class(rng):
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    release = sf.MeanOperator(epsilon=20.0, classes=(0, 1, 2), map=None).release(X, y, ledger=None)
    model = sf.FactoredClassifier().fit_release(release, X)
    lines = model_coefficients(model.to_release())
    assert len(lines) == 9
    assert {line.class_name for line in lines} == {0, 1, 2}
    value = next(line.value for line in lines if (line.feature, line.class_name) == ("x0", 2))
    assert value == pytest.approx(model.coef_[2, 0])
