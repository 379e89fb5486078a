"""What a participant's memory keeps cannot be mistaken for something else, whatever it is named."""

import json
import re
from pathlib import Path

import pytest

from suffice import participant
from suffice.participant import (
    Choice,
    Memory,
    MemoryEntry,
    Number,
    Randomizer,
    make_survey,
    read_survey,
    respond,
    respond_to_file,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version1"
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


def old_lines(made, sheet: bytes, cost=(1.0, 0.0)) -> str:
    """Return the memory that version 1 wrote after this answer."""
    answer = json.loads(sheet)
    pairs = [
        [f"{made.id} cost", list(cost)],
        [f"{made.id} token", answer["token"]],
        *([f"{made.id} answer {name}", value] for name, value in answer["answers"].items()),
    ]
    return "".join(json.dumps(pair) + "\n" for pair in pairs)


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
    assert {line["version"] for line in lines} == {2}


# Files of version 1.


@pytest.mark.parametrize("sheet", ["answer.json", "other.json"])
def test_an_old_memory_gives_the_same_answer_again(tmp_path, sheet):
    example = read_survey((FIXTURES / "survey.json").read_bytes())
    memory = tmp_path / "memory"
    memory.write_bytes((FIXTURES / f"{sheet}.memory").read_bytes())
    before = memory.read_bytes()
    given, known = respond(example, {"relapse": "no"}, memory)
    assert given == (FIXTURES / sheet).read_bytes()
    assert known == ["relapse", "smokes", "age"]
    assert memory.read_bytes() == before  # nothing was drawn
    assert [round(epsilon, 3) for epsilon, _ in Memory(memory).costs()] == [4.305]


def test_an_old_memory_goes_on_as_a_new_one(tmp_path):
    memory = tmp_path / "memory"
    memory.write_bytes((FIXTURES / "answer.json.memory").read_bytes())
    sheet, _ = respond(poll("cost"), {"cost": "yes"}, memory)
    assert respond(poll("cost"), {}, memory)[0] == sheet
    old = read_survey((FIXTURES / "survey.json").read_bytes())
    assert respond(old, {}, memory)[0] == (FIXTURES / "answer.json").read_bytes()
    assert len(Memory(memory).costs()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_old_files_with_such_a_question_are_read(tmp_path, name):
    example = poll(name, "other")
    sheet, _ = respond(example, {name: "no", "other": "no"}, None)
    (tmp_path / "m").write_text(old_lines(example, sheet))
    assert respond(example, {}, tmp_path / "m") == (sheet, [name, "other"])
    assert Memory(tmp_path / "m").costs() == [(1.0, 0.0)]


@pytest.mark.parametrize("question", [*NAMES, *NOT_OF_SURVEYS])
def test_old_answers_to_single_questions_are_given_again(tmp_path, question):
    number = Number(0, 1, "laplace", 1.0)
    (tmp_path / "m").write_text(json.dumps([question, 0.5]) + "\n")
    assert Randomizer(number, memory=tmp_path / "m").answer(question, 0.1) == 0.5
    assert Memory(tmp_path / "m").costs() == []


def test_the_first_line_counts_also_across_versions(tmp_path):
    example = poll("q")
    sheet, _ = respond(example, {"q": "no"}, None)
    old = old_lines(example, sheet)
    respond(example, {"q": "yes"}, tmp_path / "m")
    new = (tmp_path / "m").read_text()
    (tmp_path / "m").write_text(old + new)
    assert respond(example, {}, tmp_path / "m")[0] == sheet
    (tmp_path / "m").write_text(new + old)
    assert respond(example, {}, tmp_path / "m")[0] != sheet  # another token


GOOD = {"version": 2, "kind": "answer", "survey": None, "question": "q", "value": "a"}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 3}, {"version": True}, {"version": "2"}, {"version": None}, {"more": 1},
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
