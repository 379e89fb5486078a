"""What a participant's memory keeps cannot be mistaken for something else, whatever it is named."""

import json
import re

import pytest

from suffice import participant
from suffice.participant import (
    Choice,
    Memory,
    MemoryEntry,
    Randomizer,
    make_survey,
    respond,
    respond_to_file,
)

NAMES = [
    "cost", "a cost", "token", "answer", "answer answer", "answer cost", '"', "'", "\\",
    'a", "b', "version", "value", "null", "sha256:" + 64 * "0" + " cost", "frais coût", "費用",
]  # fmt: skip
NOT_OF_SURVEYS = ["", " cost", "a\nb", "a\n", "sha256:" + 64 * "0" + " token", 7, 0.5, None]


def poll(*names: str, title: str = "A poll"):
    questions = [
        {"name": name, "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}}
        for name in dict.fromkeys(names)
    ]
    return make_survey(title, questions, names[0])


@pytest.mark.parametrize("name", [*NAMES])
def test_a_question_may_have_any_name(tmp_path, capsys, name):
    example, again = poll(name), poll(name, title="Once more")
    for number, survey in enumerate((example, again)):
        (tmp_path / f"{number}.json").write_bytes(survey.data)
        respond_to_file(
            tmp_path / f"{number}.json", tmp_path / f"{number}.answer", [f"{name}=yes"], None,
            tmp_path / "memory",
        )  # fmt: skip
    printed = capsys.readouterr().out
    assert re.search(r"All 2 surveys in .* together: epsilon = 2\.2\.", printed)
    first = (tmp_path / "0.answer").read_bytes()
    assert respond(example, {}, tmp_path / "memory") == (first, [name])


def test_all_those_names_at_once(tmp_path):
    example = poll(*NAMES)
    sheet, before = respond(example, dict.fromkeys(NAMES, "no"), tmp_path / "memory")
    assert before == []
    for _ in range(2):
        assert respond(example, {}, tmp_path / "memory") == (sheet, list(dict.fromkeys(NAMES)))
    kinds = [entry.kind for entry in Memory(tmp_path / "memory").values]
    assert (kinds.count("cost"), kinds.count("token")) == (1, 1)
    assert kinds.count("answer") == len(set(NAMES))


@pytest.mark.parametrize("question", [*NAMES, *NOT_OF_SURVEYS])
def test_single_questions_are_kept_apart_from_surveys(tmp_path, question):
    example = poll(*NAMES)
    randomizer = Randomizer(range(100), 0.02, memory=tmp_path / "m")
    answer = randomizer.answer(question, 5)
    sheet, _ = respond(example, dict.fromkeys(NAMES, "no"), tmp_path / "m")
    again = Randomizer(range(100), 0.02, memory=tmp_path / "m")
    assert again.answer(question, 7) == answer
    assert respond(example, {}, tmp_path / "m")[0] == sheet
    assert len(Memory(tmp_path / "m").costs()) == 1


def test_a_line_says_what_it_is(tmp_path):
    respond(poll("cost"), {"cost": "yes"}, tmp_path / "m")
    lines = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["cost", "token", "answer"]
    assert [line["question"] for line in lines] == [None, None, "cost"]
    assert all(set(line) == {"version", "kind", "survey", "question", "value"} for line in lines)
    assert {line["version"] for line in lines} == {1}


def test_the_first_line_counts(tmp_path):
    example = poll("q")
    sheet, _ = respond(example, {"q": "no"}, tmp_path / "first")
    respond(example, {"q": "yes"}, tmp_path / "second")
    first, second = ((tmp_path / name).read_text() for name in ("first", "second"))
    (tmp_path / "m").write_text(first + second)
    assert respond(example, {}, tmp_path / "m")[0] == sheet
    (tmp_path / "m").write_text(second + first)
    assert respond(example, {}, tmp_path / "m")[0] != sheet  # another token


GOOD = {"version": 1, "kind": "answer", "survey": None, "question": "q", "value": "a"}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"version": True}, {"version": "1"}, {"version": None}, {"more": 1},
        {"kind": "truth"}, {"kind": None}, {"kind": "cost"}, {"question": ["q"]}, {"survey": {}},
        {"kind": "cost", "question": None, "value": [1.0]},
        {"kind": "cost", "question": None, "value": "12"},
        {"kind": "cost", "question": None, "value": [1.0, "x"]},
        {"kind": "cost", "question": None, "value": 7},
    ],
)  # fmt: skip
def test_a_line_that_is_not_understood_stops_everything(tmp_path, change):
    (tmp_path / "m").write_text(json.dumps(GOOD) + "\n")
    assert Randomizer("ab", 0.9, memory=tmp_path / "m").answer("q", "b") == "a"
    (tmp_path / "m").write_text(json.dumps({**GOOD, **change}) + "\n")
    with pytest.raises(ValueError, match="damaged"):
        Randomizer(Choice("ab", 0.9), memory=tmp_path / "m")


@pytest.mark.parametrize("missing", GOOD)
def test_a_line_without_a_field_stops_everything(tmp_path, missing):
    line = {key: value for key, value in GOOD.items() if key != missing}
    (tmp_path / "m").write_text(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match="damaged"):
        Memory(tmp_path / "m")


def test_an_answer_is_on_disk_before_it_is_given_out(tmp_path, monkeypatch):
    """One write, then a sync: after a power cut nothing that was sent is drawn anew."""
    done = []
    for name in ("write", "fsync"):
        real = getattr(participant.os, name)

        def recorded(file, *data, name=name, real=real):
            done.append(name)
            return real(file, *data)

        monkeypatch.setattr(participant.os, name, recorded)
    entry = MemoryEntry("answer", None, "vote")
    assert Memory(tmp_path / "memory").get_or_draw(entry, lambda: "yes") == "yes"
    assert done == ["write", "fsync"]
