"""Whole-record reports become counts, and counts become proportions, intervals and a model."""

import math

import numpy as np
import pyarrow as pa
import pytest

from suffice import participant
from suffice.errors import CorruptFileError, ParameterError
from suffice.learner.frequencies import release_frequencies
from suffice.learner.reports import Reports
from suffice.learner.spread import SpreadClassifier
from suffice.owner.survey import AnswerForm, collect, new_survey
from suffice.privacy.guarantee import Unit
from suffice.releases.codec import decode
from suffice.releases.columns import ReportNoise
from suffice.releases.release import encode

ASKED = {"smokes": ["no", "yes"], "ill": ["no", "yes"], "ward": [1, 2, 3]}
SURVEY = new_survey("T", states=ASKED, label="ill", epsilon=2.0, report="whole")
PEOPLE = 900


def truth(k: int) -> dict:
    smokes = k % 3 == 0
    return {"smokes": ASKED["smokes"][smokes], "ill": ASKED["ill"][smokes ^ (k % 10 == 9)],
            "ward": k % 3 + 1}  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder, files = tmp_path_factory.mktemp("reports"), []
    for k in range(PEOPLE):
        files.append(folder / f"{k}.json")
        files[-1].write_bytes(participant.respond(SURVEY, truth(k), None)[0])
    return collect(SURVEY, files)


def test_counts_are_those_of_the_sheets_with_the_label_first():
    rows, expected = [], np.zeros((2, 2, 3), dtype=int)
    form = AnswerForm(SURVEY)
    for k in range(40):
        sheet, _ = participant.respond(SURVEY, truth(k), None)
        rows.append(form.read(sheet)[1])
        for number in _numbers(sheet):
            smokes, ill, ward = np.unravel_index(number, (2, 2, 3))
            expected[ill, smokes, ward] += 1
    assert np.array_equal(form.columns([b"".join(rows)])["counts"], expected.ravel())
    assert {len(row) for row in rows} == {2}


def _numbers(sheet: bytes) -> list[int]:
    return participant._parsed(sheet)["report"]


def test_the_release_states_the_same_epsilon_for_every_unit(release):
    assert [g.unit for g in release.guarantees] == [Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD]
    assert {g.epsilon for g in release.guarantees} == {SURVEY.report.pure}
    assert 2.0 - 1e-6 <= SURVEY.report.pure <= 2.0
    assert (release.kind, release.rows) == ("reports", PEOPLE)
    assert decode(encode(release)) == release


def test_proportions_and_a_model_are_found(release):
    found = {one.name: one for one in release_frequencies(release)}
    assert list(found) == ["label", "smokes", "ward", "all answers together"]
    for name, expected in (("smokes", [2 / 3, 1 / 3]), ("ward", [1 / 3, 1 / 3, 1 / 3])):
        one = found[name]
        assert (one.low <= expected).all()
        assert (expected <= one.high).all()
        assert one.shares.sum() == pytest.approx(1)
    model = SpreadClassifier().fit_release(release)
    rows = pa.table({"smokes": ["no", "yes"], "ward": [2, 1]})
    assert list(model.predict(rows)) == ["no", "yes"]
    stored = SpreadClassifier.from_release(model.to_release())
    assert np.allclose(stored.predict_proba(rows), model.predict_proba(rows))


def test_moments_of_a_report_are_those_of_its_law():
    noise = ReportNoise(7, 3, 0.6)
    from itertools import combinations

    for marked in (1, 3, 6):
        for inside in (False, True):
            own = 0 if inside else 6  # combinations below ``marked`` are in the set
            first = second = 0.0
            for drawn in combinations(range(7), 3):
                chance = 0.6 / math.comb(6, 2) if own in drawn else 0.4 / math.comb(6, 3)
                count = sum(number < marked for number in drawn)
                first, second = first + chance * count, second + chance * count**2
            assert noise.moments(marked, inside=inside) == pytest.approx((first, second))
    assert noise.loss == pytest.approx(math.log(0.6 / 0.4 * 4 / 3))


def test_intervals_cover_as_often_as_stated():
    """Of 400 samples of people, between 93 and 97 % of the intervals hold the true proportion."""
    rng = np.random.default_rng(5)
    sizes, people, draws = (2, 3, 2), 400, 400
    noise = ReportNoise(12, 3, 3 * math.e / (3 * math.e + 9))
    true = rng.dirichlet(np.full(12, 0.7))
    covered: list[bool] = []
    for _ in range(draws):
        own = rng.choice(12, size=people, p=true)
        ranks = rng.random((people, 12))
        ranks[np.arange(people), own] = 2.0
        order = np.argsort(ranks, axis=1)[:, :3]
        order[:, -1] = np.where(rng.random(people) < noise.keep, own, order[:, -1])
        counts = np.bincount(order.ravel(), minlength=12).reshape(sizes)
        shares = (counts / people - noise.inclusion) / (noise.keep - noise.inclusion)
        reports = Reports(sizes, noise, people, shares)
        for place, (found, axes) in enumerate(
            zip(reports.marginals(), ((1, 2), (0, 2), (0, 1)), strict=True)
        ):
            exact = true.reshape(sizes).sum(axis=axes)
            low, high = reports.interval(found, 12 // sizes[place], 0.95)
            covered += [*((low <= exact) & (exact <= high))]
        low, high = reports.interval(shares.ravel(), 1, 0.95)
        covered += [*((low <= true) & (true <= high))]
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("change", [{"size": 3}, {"keep": 0.99}, {"count": 12, "keep": 1.5}])
def test_a_release_that_cannot_keep_its_guarantee_is_not_read(release, change):
    from dataclasses import replace

    altered = replace(release, details={**release.details, **change})
    with pytest.raises(CorruptFileError):
        decode(encode(altered))


@pytest.mark.parametrize(
    "change",
    [{"flip": 0.2}, {"ranges": {"age": (0, 9)}}, {"epsilon": {"ill": 1.0}}, {"epsilon": None},
     {"states": {"a": range(33), "b": range(32)}}, {"report": "half"}],
)  # fmt: skip
def test_what_cannot_be_reported_together_is_refused(change):
    asked = {"states": ASKED, "epsilon": 1.0, "report": "whole", **change}
    with pytest.raises(ParameterError, match=r"report|combinations"):
        new_survey("T", **asked)
