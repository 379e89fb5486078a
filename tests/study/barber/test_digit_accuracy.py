"""Figures of randomised response: formulas against their definitions; entries end to end."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import TableError
from suffice.study.barber import digit_accuracy, voting
from suffice.study.barber.digits import flipped, read_digits
from suffice.study.barber.voting import likelihood_limit, reconstruction_limit
from suffice.study.comparison import Comparison, comparison_table, comparison_values
from suffice.study.reproduce import document, reproduce, write_report

SIDE = 3
EACH = 40
METHODS = ["clean", "true", "learned", "marginals", "flat", "naive", "whitened", "reconstruction"]

shares = st.floats(0.01, 0.99)
flips = st.floats(0.01, 0.45)


def pictures_of(rng: np.random.Generator, side: int = SIDE) -> pa.Table:
    """Return small pictures in the layout of mnist.parquet: nines are bright on top, sevens not."""
    digits = np.repeat([7, 9, 3], EACH)
    pixels = rng.integers(0, 60, size=(len(digits), side**2))
    pixels[digits == 9, :side] += 150
    columns = {f"f{j}": column.astype(np.uint8) for j, column in enumerate(pixels.T)}
    parts = pa.array(rng.choice(["train", "test"], len(digits))).dictionary_encode()
    return pa.table({**columns, "label": digits.astype(np.int8), "split": parts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    pq.write_table(pictures_of(np.random.default_rng(0)), place / "mnist.parquet")
    return place


@pytest.fixture
def small(monkeypatch):
    """Ask for samples that the small file can give."""
    for name, value in (("_TRAIN", 25), ("_TEST", 15), ("_MANY", 25), ("_PF", (0.1, 0.3))):
        monkeypatch.setattr(digit_accuracy, name, value)


def test_the_printed_estimate_of_a_vote_is_wrong_and_ours_is_right():
    found = reproduce(["voting"])["voting"].compared
    assert [one.printed for one in found] == pytest.approx([0.967, 0.633], abs=0.005)
    for one in found:
        assert one.ours == pytest.approx(0.3, abs=0.005)  # six standard errors
        assert one.difference == one.ours - one.printed
        assert "print wrong, ours right" in one.verdict
        assert "holds the truth" in one.verdict


@given(theta=shares, true=shares, p=flips)
def test_the_reconstruction_objective_is_equation_38(theta, true, p):
    total = 0.0
    for seen in (0, 1):
        noise = [p if seen else 1 - p, 1 - p if seen else p]  # of x = 0, of x = 1
        model, law = [1 - theta, theta], [1 - true, true]
        evidence = sum(a * b for a, b in zip(noise, model, strict=True))
        chance = sum(a * b for a, b in zip(noise, law, strict=True))
        total += chance * sum(noise[x] * model[x] / evidence * np.log(model[x]) for x in (0, 1))
    assert reconstruction_limit(np.array([theta]), true, p)[0] == pytest.approx(total, rel=1e-9)


@given(true=shares, p=flips)
def test_the_reconstruction_is_best_at_the_ends_and_the_likelihood_at_the_truth(true, p):
    grid = np.linspace(0, 1, 501)
    values = reconstruction_limit(grid, true, p)
    assert values[0] == values[-1] == 0
    assert values[1:-1].max() < 0
    likelihood = likelihood_limit(np.append(grid, true), true, p)
    assert likelihood[:-1].max() <= likelihood[-1] + 1e-12


@given(true=shares)
def test_without_noise_the_reconstruction_is_the_plain_likelihood(true):
    grid = np.linspace(0.01, 0.99, 99)
    plain = true * np.log(grid) + (1 - true) * np.log(1 - grid)
    assert np.allclose(reconstruction_limit(grid, true, 0.0), plain)
    assert np.allclose(likelihood_limit(grid, true, 0.0), plain)


def test_figure_1_is_straight_without_noise_only():
    result = reproduce(["spread-reconstruction"])["spread-reconstruction"]
    values = result.values
    assert [one.verdict for one in result.compared] == [
        "straight, as the paper says",
        *["not straight, as the paper says"] * 5,
    ]
    truth = np.array(values["true"])
    for curve in values["curves"].values():
        assert np.allclose(curve["spread"], truth, atol=1e-9)
    noisy = values["curves"]["0.05"]
    sides = truth != 0.5
    assert np.array_equal(np.round(noisy["reconstruction"])[sides], np.round(truth)[sides])
    inner = {round(t, 2): one for t, one in zip(truth, noisy["inner"], strict=True)}
    assert inner[0.4] == pytest.approx(0.367, abs=0.002)
    assert inner[0.2] is None
    assert set(values["curves"]["0.2"]["inner"]) == {None}


def test_flips_are_as_many_as_said_and_even_over_the_other_states(rng):
    """200,000 draws; six standard errors on either side, so half the noise is caught too."""
    codes = np.full(200_000, 3)
    seen = np.bincount(flipped(codes, 0.3, rng, 8), minlength=8) / len(codes)
    right = np.full(8, 0.3 / 7)
    right[3] = 0.7
    assert (np.abs(seen - right) < 6 * np.sqrt(right * (1 - right) / len(codes))).all()


def test_samples_share_no_digit_and_have_both_classes_alike(folder, rng):
    digits = read_digits(folder)
    assert digits.side == SIDE
    assert len(digits.labels) == 2 * EACH
    assert digits.pixels[digits.labels == 1, 0].min() >= 150
    assert digits.pixels[digits.labels == 0, 0].max() < 60
    assert digits.first(1)[0] >= 150 > digits.first(0)[0]
    sample = digits.sample(rng, 25, None)
    assert np.bincount(sample.labels).tolist() == [25, 25]
    assert np.bincount(sample.test_labels).tolist() == [15, 15]
    both = np.vstack([sample.pixels, sample.test_pixels])
    assert len(np.unique(both, axis=0)) == len(np.unique(digits.pixels, axis=0))
    assert len(digits.sample(rng, 10, 5).test_labels) == 10
    with pytest.raises(TableError, match="too few digits"):
        digits.sample(rng, 25, 16)
    with pytest.raises(TableError, match="too few digits"):
        digits.sample(rng, 40, None)


def test_pictures_come_with_what_each_pixel_and_each_picture_is_promised(tmp_path, rng):
    """At full size: the epsilon of a few Gaussian pixels takes longer than that of many."""
    pq.write_table(pictures_of(rng, side=28), tmp_path / "mnist.parquet")
    result = reproduce(["spread-pictures"], folder=tmp_path)["spread-pictures"]
    assert len(result.figures) == 2
    assert all("data:image/png;base64," in figure.svg for figure in result.figures)
    assert len(result.compared) == 6
    promises = {name: found for name, *found in result.values["promises"]}
    pixel, picture = promises["p_f = 0.2"]
    assert float(pixel) == pytest.approx(np.log(0.8 * 255 / 0.2), abs=0.01)
    assert picture == f"{784 * np.log(0.8 * 255 / 0.2) + np.log(4):,.0f}"


def test_pictures_are_square(tmp_path, rng):
    pq.write_table(pictures_of(rng).drop_columns(["f0"]), tmp_path / "mnist.parquet")
    with pytest.raises(TableError, match="8 pixels make no square"):
        reproduce(["spread-pictures"], folder=tmp_path)


def test_what_was_drawn_is_judged():
    assert voting._agrees("share", 0.3, 0.33, 0.01).verdict == "as it should be"
    assert voting._agrees("share", 0.3, 0.35, 0.01).verdict == "too far off"
    assert voting._agrees("share", 0.3, 0.25, 0.01).verdict == "too far off"


@pytest.mark.usefixtures("small")
def test_figure_3_measures_every_method_and_judges_the_paper_s_sentences(folder, tmp_path):
    told = []
    results = reproduce(
        ["spread-mnist"], folder=folder, seeds=2, progress=lambda *step: told.append(step)
    )
    values = results["spread-mnist"].values
    assert list(values["accuracies"]) == list(values["penalties"]) == METHODS
    for curve in values["accuracies"].values():
        assert [len(runs) for runs in curve] == [2, 2]
    assert np.mean(values["accuracies"]["clean"]) > 0.95  # the classes are far apart
    assert np.mean(values["accuracies"]["naive"][0]) > 0.9
    verdicts = {"holds", "does not hold", "too close to tell"}
    assert {one.verdict for one in results["spread-mnist"].compared} <= verdicts
    assert [done for done, _, _ in told] == [0, 1, 2, 3]
    write_report(results, tmp_path / "page.html")
    assert json.loads((tmp_path / "page.json").read_text()) == document(results)
    assert "Share of the gap" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("small")
def test_section_6_1_measures_every_method_beside_what_is_printed(folder):
    result = reproduce(["spread-gaussian"], folder=folder, seeds=1)["spread-gaussian"]
    assert list(result.values["accuracies"]) == [name for name in METHODS if name != "true"]
    printed = [one.printed for one in result.compared]
    assert printed == [95.7, 94.4, 93.0, 94.4, 93.0]
    assert result.values["accuracies"]["learned"][0][0] > 0.8
    assert "One seed shows luck" in result.notes[-1]


def test_shares_of_a_gap_and_verdicts(monkeypatch):
    monkeypatch.setattr(digit_accuracy, "_PF", (0.1, 0.2))
    mean = {
        "naive": np.array([0.9, 0.8]),
        "true": np.array([0.89, 0.9]),
        "learned": np.array([0.9, 0.85]),
        "marginals": np.array([0.9, 0.79]),
        "flat": np.array([0.9, 0.785]),
    }
    gaps, learned, marginals, _ = digit_accuracy._gap_table(mean).rows
    assert gaps[1:] == ("-0.010", "0.100")
    assert learned[1:] == ("no gap", "0.50")
    assert marginals[1:] == ("no gap", "-0.10")
    runs = {name: [[value - 0.001, value + 0.001] for value in mean[name]] for name in mean}
    verdicts = [one.verdict for one in digit_accuracy._sentences(runs)]
    assert verdicts == ["does not hold", "does not hold", "holds"]
    assert digit_accuracy._against(95.0, 94.4) == "better than printed"
    assert digit_accuracy._against(94.8, 94.4) == "as printed, to half a point"
    assert digit_accuracy._against(93.0, 94.4) == "worse than printed"


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
    assert digit_accuracy._ahead("gain", np.array(gains)).verdict == verdict


def test_comparisons_show_both_numbers_and_their_difference():
    found = [Comparison("share", 0.3, 0.29999, "fine"), Comparison("gap", None, 0.5, "holds", 1)]
    rows = comparison_table("both", found).rows
    assert rows == (
        ("share", "0.300", "0.300", "+0.000", "fine"),
        ("gap", "in words", "0.5", "see verdict", "holds"),
    )
    assert comparison_values(found)[1] == {
        "what": "gap",
        "printed": None,
        "ours": 0.5,
        "verdict": "holds",
        "difference": None,
    }
