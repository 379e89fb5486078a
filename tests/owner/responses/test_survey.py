"""Surveys as files: what is asked, what is refused when answers are gathered, and what they become.

Participants' randomness is seeded like all other. Statistical tests hold for all seeds but about
one of a million.
"""

import json
import math

import numpy as np
import pytest

from suffice.errors import CorruptFileError, ParameterError, ReleaseError, StorageError
from suffice.learner.frequencies import release_frequencies
from suffice.owner.responses import RandomizedResponse
from suffice.owner.survey import collect, load_survey, new_survey
from suffice.participant import make_survey, respond
from suffice.privacy.guarantee import Unit
from suffice.releases.codec import decode
from suffice.releases.merge import merge
from suffice.releases.release import encode

ANY = [[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]]
DECLARED = {
    "states": {"vote": ["no", "yes"], "ward": ["n", "s", "w"], "grade": range(1, 6)},
    "ranges": {"age": (0, 120)},
    "flip": {"vote": 0.05, "ward": ANY, "grade": 0.3},
    "noise": 14400.0,
    "texts": {"ward": "Where?", "age": "How old?"},
}


def survey(**changes):
    return new_survey("A poll", **{**DECLARED, "label": "vote", **changes})


def person(seed: int) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "vote": "yes" if rng.random() < 0.2 else "no",
        "ward": str(rng.choice(["n", "s", "w"], p=[0.6, 0.3, 0.1])),
        "grade": int(rng.integers(1, 6)),
        "age": float(rng.uniform(20, 80)),
    }


def answered(folder, made, people) -> list:
    """Let everybody answer; return their files."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, truths in enumerate(people):
        paths.append(folder / f"{number}.json")
        paths[-1].write_bytes(respond(made, truths, None)[0])
    return paths


# What is asked.


def test_a_survey_asks_in_the_order_of_its_texts_and_has_a_label():
    made = survey(label=None)
    questions = made.content["questions"]
    assert [question["name"] for question in questions] == ["ward", "age", "vote", "grade"]
    assert made.content["label"] == "ward"
    assert questions[0]["noise"] == {"table": ANY}
    assert questions[1]["range"] == [0.0, 120.0]
    assert questions[3]["states"] == [1, 2, 3, 4, 5]
    assert load_survey(made.data).content == made.content


def test_the_same_declaration_is_the_same_survey():
    assert survey().data == survey().data
    assert survey().id != survey(flip={**DECLARED["flip"], "vote": 0.06}).id


def test_what_cannot_be_spent_is_not_stated():
    made = new_survey("", states={"q": range(2)}, epsilon=60.0)
    assert made.noises["q"].pure < 40
    assert "practically not hidden" in made.content["guarantee"]


@pytest.mark.parametrize("count", [2, 3, 7, 256])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 3.3, 12.0, 30.0])
def test_noise_by_epsilon_spends_it_and_no_more(count, epsilon):
    made = new_survey("", states={"q": range(count)}, epsilon=epsilon)
    spent = made.noises["q"].pure
    assert spent <= epsilon
    assert spent == pytest.approx(epsilon, rel=1e-2 if epsilon == 30.0 else 1e-6)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flip": None}, "'vote': give its noise once"),
        ({"epsilon": {"vote": 1.0}}, "'vote': give its noise once"),
        ({"flip": {**DECLARED["flip"], "vote": 0.5}}, "flip must lie above 0 and below 0.5"),
        ({"flip": {**DECLARED["flip"], "vote": 0.7}}, "flip must lie above 0 and below 0.5"),
        ({"flip": {**DECLARED["flip"], "ward": [[0.5, 0.5], [0.5, 0.5]]}}, "3 rows"),
        ({"flip": {**DECLARED["flip"], "ward": np.full((3, 3), 1 / 3)}}, "singular"),
        ({"noise": None}, "needs noise"),
        ({"noise": {}}, "needs noise"),
        ({"noise": -1.0}, "positive"),
        ({"kernel": "uniform"}, "must be one of gaussian, laplace"),
        ({"kernel": "gaussian", "delta": 0.0}, "delta"),
        ({"label": "age"}, "the label"),
        ({"label": "nobody"}, "the label"),
        ({"texts": {"shoe": "Size?"}}, "states or a range"),
        ({"states": {}, "label": None}, "A survey needs a question with possible values"),
        ({"ranges": {"vote": (0, 1), "age": (0, 120)}}, "both possible values and a range"),
        ({"texts": {"vote": "a\nb"}}, "printable"),
        ({"states": {**DECLARED["states"], "vote": ["no", 1]}}, "texts, or integers"),
        (
            {"flip": {**DECLARED["flip"], "age": 0.1}},
            "No question with possible values is named 'age'",
        ),
    ],
)
def test_a_survey_that_cannot_work_is_refused(changes, reason):
    with pytest.raises(ParameterError, match=reason):
        survey(**changes)


# What comes back.


def test_three_hundred_people_answer_and_shares_are_found(tmp_path):
    made, people = survey(), [person(seed) for seed in range(300)]
    paths = answered(tmp_path / "in", made, people)
    release = decode(encode(collect(made, paths)))
    assert release.rows == 300
    sheets = sorted((json.loads(p.read_bytes()) for p in paths), key=lambda sheet: sheet["token"])
    ages = [sheet["answers"]["age"] for sheet in sheets]
    assert release.arrays["values"][:, 0].tolist() == ages
    assert [release.classes[code] for code in release.arrays["answers"]] == [
        sheet["answers"]["vote"] for sheet in sheets
    ]
    for shares in release_frequencies(release, level=1 - 1e-6):
        name = "vote" if shares.name == "label" else shares.name
        truth = [sum(p[name] == state for p in people) / 300 for state in shares.states]
        assert (shares.low <= truth).all()
        assert (truth <= shares.high).all()
        assert name != "vote" or (shares.high - shares.low).max() < 0.3  # it says something
    error = math.sqrt(2 * 14400.0 / 300)  # the ages themselves vary far less
    assert abs(np.mean(ages) - np.mean([p["age"] for p in people])) < 5 * error


def test_the_order_of_files_says_nothing(tmp_path):
    made = survey()
    paths = answered(tmp_path / "in", made, [person(seed) for seed in range(20)])
    assert encode(collect(made, paths)) == encode(collect(made, paths[::-1]))


def test_promises_are_those_of_an_owners_records_and_what_participants_were_told(tmp_path):
    made = survey(kernel="gaussian", delta=1e-5)
    release = collect(made, answered(tmp_path / "in", made, [person(0)]))
    bulk = RandomizedResponse(
        classes=("no", "yes"),
        label_flip=0.05,
        states={name: DECLARED["states"][name] for name in ("ward", "grade")},
        ranges=DECLARED["ranges"],
        feature_flip={name: DECLARED["flip"][name] for name in ("ward", "grade")},
        feature_noise=14400.0,
        delta=1e-5,
    )
    units = [promise.unit for promise in release.guarantees]
    assert units == [Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD]
    for promise, other in zip(release.guarantees, bulk.guarantees(), strict=True):
        assert (promise.event, promise.delta) == (other.event, other.delta)
        assert f"as survey {made.id[:23]} asks, once each" in str(promise)
    record = release.guarantees[2].epsilon
    told = float(made.content["guarantee"].split("epsilon = ")[1].split(",")[0])
    assert record <= told < 1.3 * record  # a sum, where the accountant composes


def test_questions_may_have_noise_of_either_kind(tmp_path):
    numbers = [
        {"name": kernel, "text": "", "range": [0, 1], "noise": {"kernel": kernel, "variance": 1.0}}
        for kernel in ("laplace", "gaussian")
    ]
    vote = {"name": "v", "text": "", "states": [0, 1], "noise": {"keep": 0.75}}
    made = make_survey("mixed", [numbers[0], vote, numbers[1]], "v")
    path = answered(tmp_path / "in", made, [{"v": 1, "laplace": 0.5, "gaussian": 9.0}])
    release = collect(made, path)
    answers = json.loads(path[0].read_bytes())["answers"]
    assert release.arrays["values"].tolist() == [[answers["laplace"], answers["gaussian"]]]
    assert release.arrays["codes"].shape == (1, 0)
    assert release.classes == (0, 1)


def test_a_poll_of_one_question_is_a_release_of_labels(tmp_path):
    # Forty each: releases of few answers can be equal by chance, and are then the same rows.
    made = new_survey("poll", states={"q": ["no", "yes"]}, epsilon=1.0)
    release = collect(made, answered(tmp_path / "in", made, [{"q": "no"}] * 40))
    assert [promise.unit for promise in release.guarantees] == [Unit.LABEL, Unit.RECORD]
    assert release.guarantees[0].epsilon <= 1.0
    again = collect(made, answered(tmp_path / "more", made, [{"q": "yes"}] * 40))
    assert merge([release, again]).rows == 80


def test_a_second_answer_of_one_participant_is_refused(tmp_path):
    made = survey()
    paths = answered(tmp_path / "in", made, [person(0), person(1)])
    copy = tmp_path / "in" / "copy.json"
    copy.write_bytes(paths[0].read_bytes())
    with pytest.raises(ReleaseError, match=r"1 of 3 .*copy.json: same participant as .*0.json"):
        collect(made, [*paths, copy])
    with pytest.raises(ReleaseError, match=r"1 of 3 .*0.json: it is listed twice"):
        collect(made, [*paths, tmp_path / "in" / ".." / "in" / "0.json"])
    sheet = json.loads(paths[0].read_bytes())
    sheet["answers"]["vote"] = "no" if sheet["answers"]["vote"] == "yes" else "yes"
    copy.write_text(json.dumps(sheet))
    with pytest.raises(ReleaseError, match=r"copy.json: same participant as"):
        collect(made, [*paths, copy])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: s["answers"].update(vote="perhaps"), "answer to 'vote' cannot"),
        (lambda s: s["answers"].update(vote=True), "answer to 'vote' cannot"),
        (lambda s: s["answers"].update(grade=True), "answer to 'grade' cannot"),
        (lambda s: s["answers"].update(grade=6), "answer to 'grade' cannot"),
        (lambda s: s["answers"].update(grade=[1]), "answer to 'grade' cannot"),
        (lambda s: s["answers"].update(age="44"), "answer to 'age' cannot"),
        (lambda s: s["answers"].update(age=0.1), "answer to 'age' cannot"),
        (lambda s: s["answers"].update(shoe=44), "every question once"),
        (lambda s: s["answers"].pop("age"), "every question once"),
        (lambda s: s.update(answers=[1]), "every question once"),
        (lambda s: s.update(token="me"), "token"),
        (lambda s: s.update(token=7), "text belongs"),
        (lambda s: s.update(version=2), "version"),
        (lambda s: s.update(version=True), "version"),
        (lambda s: s.update(survey="sha256:0"), "another survey"),
        (lambda s: s.update(suffice="survey"), "not an answer to a survey"),
        (lambda s: s.update(note="hello"), "not an answer to a survey"),
        (lambda s: s.pop("token"), "not an answer to a survey"),
    ],
)
def test_a_malformed_answer_is_named_and_its_value_is_not(tmp_path, change, reason):
    made = survey()
    paths = answered(tmp_path / "in", made, [person(0), person(1)])
    sheet = json.loads(paths[1].read_bytes())
    change(sheet)
    paths[1].write_text(json.dumps(sheet))
    with pytest.raises(ReleaseError, match=reason) as caught:
        collect(made, paths)
    assert "1.json: " in str(caught.value)
    assert "0.json" not in str(caught.value)
    assert "perhaps" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"token":1,"token":1}', b"NaN"])
def test_what_is_no_json_is_named(tmp_path, data):
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(ReleaseError, match=r"x.json: "):
        collect(survey(), [tmp_path / "x.json"])


def test_many_troubles_are_told_at_once(tmp_path):
    made = survey()
    paths = answered(tmp_path / "in", made, [person(seed) for seed in range(30)])
    for path in paths[:25]:
        path.write_bytes(b"{}")
    with pytest.raises(ReleaseError, match=r"25 of 30 .*/9.json: .* and 15 more") as caught:
        collect(made, paths)
    assert "11.json" not in str(caught.value)


def test_nothing_and_too_much_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="no answer files"):
        collect(survey(), [])
    with pytest.raises(StorageError, match=r"none.json"):
        collect(survey(), [tmp_path / "none.json"])
    (tmp_path / "large.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(StorageError, match=r"large.json"):
        collect(survey(), [tmp_path / "large.json"])


def test_a_tampered_survey_is_not_collected():
    data = survey().data.replace(b'"keep": 0.95', b'"keep": 0.9999')
    with pytest.raises(CorruptFileError, match="This survey does not do what it says"):
        load_survey(data)
