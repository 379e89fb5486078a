"""What a survey forecasts of its intervals is what its release then has."""

import math

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner.frequencies import estimate_frequencies
from suffice.owner.survey import new_survey, plan_survey
from suffice.releases.columns import Flips

STATES = {"ill": ["no", "yes"], "grade": [1, 2, 3, 4]}


def rows(survey, people, **options):
    return {row["question"]: row for row in plan_survey(survey, people, **options).rows}


def test_half_widths_are_those_of_the_estimate():
    people, keep = 4000, 0.7
    table = [[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]]
    asked = {"grade": [1, 2, 3, 4], "table": list("abc")}
    survey = new_survey("T", states=asked, flip={"grade": 1 - keep, "table": table})
    found = rows(survey, people)
    for name, noise in (
        ("grade", Flips(4, keep=keep)),
        ("table", Flips(3, table=tuple(map(tuple, table)))),
    ):
        seen = noise.matrix.mean(axis=1)  # of answers that are all equally frequent
        codes = np.repeat(np.arange(len(seen)), np.rint(seen * people).astype(int))
        estimate = estimate_frequencies(codes, noise)
        width = (estimate.high - estimate.low).max() / 2
        assert found[name]["half_width"] == pytest.approx(width, rel=0.03)


def test_reports_are_forecast_as_their_intervals_are():
    from suffice.learner.reports import Reports
    from suffice.releases.columns import ReportNoise

    survey, people = new_survey("T", states=STATES, epsilon=1.0, report="whole"), 5000
    noise = ReportNoise(survey.report.count, survey.report.size, survey.report.keep)
    reports = Reports((2, 4), noise, people, np.full((2, 4), 1 / 8))
    for name, count, share in (("ill", 4, 0.5), ("grade", 2, 0.25)):
        low, high = reports.interval(np.array([share]), count, 0.95)
        expected = rows(survey, people)[name]["half_width"]
        assert expected == pytest.approx(float((high - low)[0]) / 2, rel=0.02)


def test_numbers_and_all_questions_together():
    survey = new_survey(
        "T", states={"ill": ["no", "yes"]}, ranges={"age": (0, 120)}, flip=0.25, noise=14400.0
    )
    found = rows(survey, 900)
    deviation = math.sqrt(14400 + 120**2 / 12)
    assert found["age"]["half_width"] == pytest.approx(1.959964 * deviation / 30)
    assert found["age"]["together"] == pytest.approx(2.241403 * deviation / 30)  # at 97.5 %
    assert found["ill"]["without_noise"] == pytest.approx(1.959964 * 0.5 / 30)


def test_it_says_when_noise_is_hopeless_and_how_many_people_would_do():
    survey = new_survey("T", states={"ill": ["no", "yes"]}, epsilon=0.1)
    (said,) = plan_survey(survey, 500).advice
    assert "too strong for 500 people" in said
    needed = int(said.split("At least ")[1].split(" ")[0].replace(",", ""))
    assert plan_survey(survey, needed + 1).advice == []
    assert "too strong" in plan_survey(survey, needed - 1).advice[0]


def test_it_advises_the_report_with_shorter_intervals():
    few = {f"q{k}": ["no", "yes"] for k in range(2)}
    apart = plan_survey(new_survey("T", states=few, epsilon=0.5), 10**6)
    assert "--report whole has a largest half width 0.82 times" in apart.advice[0]
    whole = plan_survey(new_survey("T", states=few, epsilon=1.0, report="whole"), 10**6)
    assert whole.advice == []
    many = {f"q{k}": ["no", "yes"] for k in range(8)}
    whole = plan_survey(new_survey("T", states=many, epsilon=1.0, report="whole"), 10**6)
    assert "--report per-question has a largest half width 0.52 times" in whole.advice[0]
    one = plan_survey(new_survey("T", states={"q": ["no", "yes"]}, epsilon=1.0), 10**6)
    assert one.advice == []


@pytest.mark.parametrize(("people", "level"), [(0, 0.95), (-1, 0.95), (10, 0.0), (10, 1.0)])
def test_a_forecast_for_nobody_is_refused(people, level):
    survey = new_survey("T", states=STATES, epsilon=1.0)
    with pytest.raises(ParameterError, match="at least one person"):
        plan_survey(survey, people, level=level)
