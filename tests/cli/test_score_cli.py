"""``suffice score`` prints every figure, draws them, and says which ones are absent."""

import json

import pyarrow.parquet as pq
import pytest

from builders import clinic_table


@pytest.fixture
def desk(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic_table(400), "clinic.parquet")
    words = ("clinic.parquet", "--label", "sick", "--epsilon", "100", "--no-ledger")
    suffice("release", "mean-operator", "--map", "none", *words, "-o", "r.suffice")
    for loss in ("logistic", "linear"):
        fit = ("fit", "r.suffice", "--rows", "clinic.parquet", "--loss", loss)
        suffice(*fit, "-o", f"{loss}.suffice")
    return ("clinic.parquet", "--label", "sick")


def test_all_figures_are_printed_and_written_as_json(suffice, desk):
    printed = suffice("score", "logistic.suffice", *desk)
    for words in (
        "accuracy 0.", "always the larger class", "balanced accuracy", "AUC", "log loss",
        "class proportions alone", "Brier score", "ECE", "precision", "recall", "predicted 1",
    ):  # fmt: skip
        assert words in printed
    figures = json.loads(suffice("score", "logistic.suffice", *desk, "--json"))
    assert {
        "accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "ece", "larger_class", "rows",
        "constant_log_loss", "classes", "confusion",
    } == set(figures)  # fmt: skip
    assert sum(map(sum, figures["confusion"])) == figures["rows"] == 400
    assert figures["log_loss"] < figures["constant_log_loss"]


def test_what_needs_probabilities_is_absent_with_the_reason(suffice, desk):
    printed = suffice("score", "linear.suffice", *desk)
    assert "absent: The linear loss gives scores but no probabilities" in printed
    figures = json.loads(suffice("score", "linear.suffice", *desk, "--json"))
    assert not {"log_loss", "brier", "ece"} & set(figures)
    assert "no probabilities" in figures["no_probabilities"]
    assert figures["auc"] > 0.8


def test_a_picture_is_drawn_and_not_over_another(suffice, desk, tmp_path):
    suffice("score", "logistic.suffice", *desk, "--plot", "s.svg")
    drawn = (tmp_path / "s.svg").read_text()
    assert "<svg" in drawn
    assert "s.svg" in suffice("score", "linear.suffice", *desk, "--plot", "s.svg", code=6)
    suffice("score", "linear.suffice", *desk, "--plot", "s.svg", "--force")
    assert (tmp_path / "s.svg").read_text() != drawn
    assert ".svg, .png, .pdf" in suffice("score", "m", *desk, "--plot", "s.gif", code=2)


def test_kept_columns_and_one_probability_for_each_class_are_written(suffice, desk):
    table, *_ = desk
    names = clinic_table(4).column_names
    suffice(
        "predict", "logistic.suffice", table, "--keep", names[0], "--keep", "sick", "-o",
        "p.parquet",
    )  # fmt: skip
    written = pq.read_table("p.parquet")
    columns = [names[0], "sick", "prediction", "probability of 0", "probability of 1"]
    assert written.column_names == columns
    total = sum(written[name].to_numpy() for name in columns[-2:])
    assert total == pytest.approx(1)


@pytest.mark.parametrize("taken", ["prediction", "probability of 1"])
def test_a_kept_column_is_not_replaced_by_a_written_one(suffice, desk, taken):
    table = clinic_table(20)
    pq.write_table(table.append_column(taken, table["sick"]), "new.parquet")
    del desk
    words = ("predict", "logistic.suffice", "new.parquet", "--keep", taken, "-o", "p.parquet")
    assert f"called {taken}. Rename" in suffice(*words, code=2)


def test_labels_of_one_class_leave_no_area_and_no_signed_zero(suffice, desk):
    del desk
    table = clinic_table(400)
    pq.write_table(table.filter(table["sick"].to_numpy() == 1), "one.parquet")
    words = ("score", "logistic.suffice", "one.parquet", "--label", "sick")
    printed = suffice(*words, "--plot", "one.svg")
    assert "absent: all rows are of one class" in printed
    assert "-0.0" not in printed
    figures = json.loads(suffice(*words, "--json"))
    assert "auc" not in figures
    assert str(figures["constant_log_loss"]) == "0.0"


def test_costs_of_classes_move_predictions_and_not_probabilities(suffice, desk):
    table, *_ = desk
    plain = json.loads(suffice("score", "logistic.suffice", *desk, "--json"))
    costly = json.loads(
        suffice("score", "logistic.suffice", *desk, "--json", "--class-weight", "1=1e9")
    )
    assert costly["log_loss"] == plain["log_loss"]
    assert costly["classes"][1]["recall"] == 1
    assert costly["classes"][0]["recall"] == 0
    words = ("predict", "logistic.suffice", table, "--class-weight", "0=3", "--class-weight", "1=2")
    suffice(*words, "-o", "p.parquet")
    written = pq.read_table("p.parquet")
    chance = written["probability of 1"].to_numpy()
    assert (written["prediction"].to_numpy() == (2 * chance > 3 * (1 - chance))).all()


@pytest.mark.parametrize("wrong", [("1",), ("2=1",), ("1=much",), ("1=2", "1=3"), ("1=-1",)])
def test_costs_that_make_no_sense_are_refused(suffice, desk, wrong):
    options = [word for text in wrong for word in ("--class-weight", text)]
    refused = suffice("score", "logistic.suffice", *desk, *options, code=2)
    assert "class-weight takes CLASS=NUMBER" in refused or "none below zero" in refused


def test_costs_need_probabilities(suffice, desk):
    words = ("score", "linear.suffice", *desk, "--class-weight", "1=2")
    assert "class_weight multiplies probabilities" in suffice(*words, code=2)
