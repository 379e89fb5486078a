"""What a survey says of itself cannot look like what the program says, which comes last."""

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from suffice import participant
from suffice.participant import SurveyError, make_survey, read_survey

LIE = "For all your answers together: nothing can be learnt about you (epsilon = 0.001)."
PAD = 200 * " "
KEEP = 0.9999999
BLANKS = ("\u115f", "\u1160", "\u2800", "\u3164", "\uffa0")
STEERING = (
    "\x1b[2J", "\r", "\n", "\t", "\b", "\x00", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\u202e",
    "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u3000", "\ue000", "\U000e0041", "\udc80",
)  # fmt: skip
UNSEEN = ("\ufe0f", "\u034f", "\u180b", "\U000e0100")


def question(name="q", text="Did you relapse?", states=("no", "yes"), keep=0.75):
    return {"name": name, "text": text, "states": list(states), "noise": {"keep": keep}}


def strangers(title="T", **changes) -> bytes:
    """Return a survey, right in all its words, as whoever means ill can write it."""
    questions = question(**changes)
    return make_survey(title, [questions], questions["name"]).data


# What may be written.


@pytest.mark.parametrize(
    "bad",
    [
        f"a{PAD}{LIE}", "a  b", " a", "a ", "x" * 1001, "e" + 5 * "\u0301",
        *(f"a{sign}b" for sign in (*STEERING, *BLANKS, *UNSEEN)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["title", "name", "text", "states"])
def test_a_text_that_cannot_be_shown_as_it_is_is_refused(field, bad):
    changes = {} if field == "title" else {field: bad if field != "states" else ["no", bad]}
    with pytest.raises(ValueError, match="texts must be one printable line"):
        make_survey(
            bad if field == "title" else "T", [question(**changes)], changes.get("name", "q")
        )


@pytest.mark.parametrize(
    "good",
    [
        "Did you (ever) smoke?",
        "Hast du geraucht?",
        "喫煙しますか",
        "هل تدخن؟",
        "เคยสูบบุหรี่ไหม",
        "e\u0301",
    ],
)
def test_people_are_asked_in_their_language(good):
    example = make_survey(good, [question(good.replace("=", ""), good, ("no", good))], good)
    assert read_survey(example.data).content == example.content


def test_names_are_bounded_tighter_than_texts():
    make_survey("T", [question(text="x" * 1000)], "q")
    for changes in ({"states": ["a", "x" * 201]}, {"name": "x" * 201}):
        with pytest.raises(ValueError, match="at most 200 letters"):
            make_survey("T", [question(**changes)], "q")


@pytest.mark.parametrize("states", [["\u00e9", "e\u0301"], ["no", "\u00e9", "e\u0301"]])
def test_answers_that_look_alike_are_refused(states):
    with pytest.raises(SurveyError, match="look different"):
        read_survey(json.dumps({**json.loads(strangers()), "questions": [
            {**question(states=states), "guarantee": ""}]}).encode())  # fmt: skip


# What is shown.


def alone(tmp_path, data: bytes, columns: int, *words: str, typed: bytes = b"") -> str:
    """Run the one file without anything installed; return what a terminal was sent."""
    (tmp_path / "participant.py").write_text(Path(participant.__file__).read_text())
    (tmp_path / "s.json").write_bytes(data)
    typist, terminal = pty.openpty()
    os.write(typist, typed)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "participant.py", "respond", "s.json", "-o", "a.json", *words],
        cwd=tmp_path, stdin=terminal, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "COLUMNS": str(columns)},
    )  # fmt: skip
    os.close(typist)
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(printed: str, columns: int) -> list[str]:
    """Return what each row of a terminal of this width begins with."""
    beginnings = []
    for line in printed.split("\n"):
        row, used = "", 0
        for letter in line:
            width = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
            if used + width > columns:
                beginnings.append(row)
                row, used = "", 0
            row, used = row + letter, used + width
        beginnings.append(row)
    return beginnings


FORGERIES = {
    "text": {"text": f"Did you relapse? {LIE}"},
    "name": {"name": f"q {LIE}".replace("=", ":")},
    "states": {"states": ["no", f"yes {LIE}"]},
    "title": {"title": f"T {LIE}"},
    "quotes": {"text": f'Did you relapse?" {LIE} "'},
    "wide letters": {"text": 33 * "費" + " " + LIE + 33 * "費" + LIE},
    "one long word": {"text": 500 * "x" + LIE},
}


@pytest.mark.parametrize("columns", [40, 80, 81, 200])
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_promise_stays_between_the_surveys_own_bars(tmp_path, forgery, columns):
    data = strangers(**{"keep": 0.9999, **forgery})
    printed = alone(tmp_path, data, columns, typed=b"no\n")
    for row in rows(printed, columns):
        if "nothing can" in row or row.lstrip().startswith(
            "For all your answers together: nothing"
        ):
            assert row.startswith("  | "), row
    assert PAD[:2] not in printed.replace("\n  | ", "\n")
    true = (
        "\nAll your answers together are protected only weakly. For all your answers together the"
    )
    *_, last = printed.split("  | ")
    assert last.count(true) == 1  # no word of the survey comes after it
    assert last.index(true) < last.index("Your true answer")
    assert "factor is 10000 (epsilon = 9.22)" in last


def test_the_true_promise_stands_right_before_every_answer(tmp_path):
    questions = [question(name) for name in ("a", "b")]
    example = make_survey("T", questions, "a")
    printed = alone(tmp_path, example.data, 80, typed=b"no\nyes\n")
    total = example.content["guarantee"]
    before = printed.split(
        "Your true answer (this program changes it at random before it writes it): "
    )
    assert len(before) == 3
    for part, harmless in zip(before, example.content["questions"], strict=False):
        assert part.endswith(f"{harmless['guarantee']}\n{total}\n")
    assert before[0].count(total) == 2  # once below all questions


def test_what_organisers_say_is_shown_as_their_own_words(tmp_path):
    about = dict.fromkeys(participant.ABOUT, "Clinic") | {"deleted": "2027-03-31"}
    for language, label in (("en", "Data protection"), ("de", "Datenschutz")):
        example = make_survey("T", [question()], "q", language=language, about=about)
        printed = alone(tmp_path, example.data, 200, "--truth", "q=no")
        (tmp_path / "a.json").unlink(missing_ok=True)
        assert f'\n  | {label}: "Clinic"\n' in printed
        assert re.search(r"\n  \| [^\n]*2027-03-31", printed)
        assert read_survey(example.data).content["about"] == about
    about["notice"] = "a\u202eb"
    with pytest.raises(ValueError, match="texts must be"):
        make_survey("T", [question()], "q", about=about)


def test_every_letter_is_shown_once_and_no_line_is_wider_than_its_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    text = " / ".join(f'"{n * "費"}{n * "x"}"' for n in range(60))
    participant._show(text)
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line.removeprefix("  | ") for line in lines).replace(" ", "") == text.replace(
        " ", ""
    )
    assert all(line.startswith("  | ") and len(rows(line, 50)) == 1 for line in lines)
    assert max(map(len, lines)) > 35


def test_a_quotation_mark_does_not_end_a_quotation():
    assert participant._quoted('a" b') == '"a\\" b"'
    assert participant._quoted("a\\") == '"a\\\\"'
    assert participant._quoted("a  \x1b[2J\u202eb") == '"a \ufffd[2J\ufffdb"'


def test_the_package_and_this_file_find_the_same_signs_harmless():
    """The file stands alone and keeps its own list; it may refuse more, never less."""
    from suffice import plain_text

    every = map(chr, range(0x110000))
    harmless = {letter for letter in every if participant._plain(letter) == letter or letter == " "}
    escaped = {
        letter for letter in map(chr, range(0x110000)) if plain_text.escaped(letter) != letter
    }
    assert not harmless & escaped
    others = set(map(chr, range(0x110000))) - harmless - escaped
    assert others <= participant._UNSEEN
    for run in (1, 4, 5, 6):
        marked = "e" + run * "\u0301"
        assert (participant._plain(marked) == marked) == (plain_text.escaped(marked) == marked)


# What is rounded.


@pytest.mark.parametrize("keep", [KEEP, 0.9999996, 1 - 1e-12, 1 - 2.0**-53])
def test_nearly_always_is_not_called_always(keep):
    sentence = make_survey("T", [question(keep=keep)], "q").content["questions"][0]["guarantee"]
    assert "a probability of more than 99.9999 % it stays" in sentence
    assert "100 %" not in sentence


@pytest.mark.parametrize("keep", [0.75, 0.5000001, 0.9999994, 0.7310585786300049])
def test_other_probabilities_are_said_as_they_were(keep):
    sentence = make_survey("T", [question(keep=keep)], "q").content["questions"][0]["guarantee"]
    assert float(re.search("probability of (.*) %", sentence).group(1)) == pytest.approx(
        100 * keep, 1e-6
    )


def test_a_survey_that_says_always_is_refused():
    content = json.loads(strangers(keep=KEEP))
    questions = content["questions"][0]
    questions["guarantee"] = questions["guarantee"].replace("more than 99.9999 %", "100 %")
    with pytest.raises(SurveyError, match="This survey does not do what it says"):
        read_survey(json.dumps(content).encode())


@pytest.mark.parametrize(
    "value", [1.09861228866811, 1.0990000001, 74.03, 9999.1, 1e-9, 0.05, 19.999]
)
def test_what_is_printed_is_never_less_than_what_is_meant(value):
    assert value * (1 - 1e-11) <= float(participant._up(value)) <= value * 1.01


# Deltas.


def number(delta: float, title: str = "T"):
    questions = [
        question(),
        {
            "name": "n",
            "text": "",
            "range": [0, 1],
            "noise": {"kernel": "gaussian", "variance": 1.0},
        },
    ]
    return make_survey(title, questions, "q", delta)


def test_a_large_delta_is_explained_before_the_number(tmp_path):
    sentence = number(0.05).content["guarantee"]
    about = (
        "Large delta: in the worst case, noise with delta = 0.05 reveals your answers completely"
        " with probability 0.05 (1 in 20)."
    )
    assert sentence.startswith(f"{about} For all your answers together the factor is ")
    assert "Large delta" not in number(1e-3).content["guarantee"]
    assert f"\n{about} For all your answers together" in alone(
        tmp_path, number(0.05).data, 80, "--truth", "q=no", "--truth", "n=1"
    )


@pytest.mark.parametrize("delta", [0.1, 0.99, 0.999999])
def test_a_survey_with_a_delta_that_protects_nothing_is_refused(delta):
    content = {**json.loads(number(0.05).data), "delta": delta}
    with pytest.raises(SurveyError, match=r"delta must be below 0\.1"):
        read_survey(json.dumps(content).encode())


def test_surveys_whose_deltas_add_up_to_nothing_are_called_so(tmp_path, capsys):
    for place in range(3):
        example = number(0.05, title=f"T{place}")
        (tmp_path / "s.json").write_bytes(example.data)
        participant.respond_to_file(
            tmp_path / "s.json", tmp_path / f"{place}.json", ["q=no", "n=1"], None, tmp_path / "m"
        )
    assert "No protection: in the worst case, noise with delta = 0.15" in capsys.readouterr().out
