"""``suffice survey`` as people meet it: new, respond, collect, and what the result is good for.

The CLI calls the participant's own program. Nothing here depends on what it draws, but for a share
that is right for all seeds but one of a million.
"""

import json
from pathlib import Path

import pytest

from suffice.owner.survey import load_survey
from suffice.participant import respond
from suffice.releases.codec import load

NEW = (
    "survey", "new", "-o", "s.json", "--about", "title=Health", "--categories", "sick=no,yes",
    "--categories", "grade=1..5", "--range", "age=0,120", "--text", "sick=Were you ill?",
    "--flip", "0.1", "--epsilon", "grade=2", "--noise-variance", "3600",
)  # fmt: skip
ANSWER = ("survey", "respond", "s.json", "-o", "a.json")
TRUTH = ("--truth", "sick=yes", "--truth", "grade=3", "--truth", "age=44.5")


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_survey_says_what_it_promises(suffice):
    printed = suffice(*NEW)
    made = load_survey("s.json")
    assert made.id in printed
    assert "more than 9 times as likely as another (epsilon = 2.2)" in printed
    assert "epsilon = 2)" in printed
    assert "For all your answers together" in printed
    told = json.loads(suffice(*NEW[:3], "t.json", *NEW[4:], "--json"))
    assert told["written"] == "t.json"
    assert [q["name"] for q in told["questions"]] == ["sick", "grade", "age"]
    assert told["label"] == "sick"


def test_a_matrix_is_read_from_a_file(suffice, desk):
    (desk / "p.json").write_text("[[0.9, 0.3], [0.1, 0.7]]")
    suffice("survey", "new", "-o", "s.json", "--categories", "q=a,b", "--flip", "q=p.json")
    question = load_survey("s.json").content["questions"][0]
    assert question["noise"] == {"table": [[0.9, 0.3], [0.1, 0.7]]}


def test_answering_twice_gives_the_same_file(suffice, desk):
    suffice(*NEW)
    printed = suffice(*ANSWER, *TRUTH)
    assert "more than 9 times as likely as another (epsilon = 2.2)" in printed
    first = (desk / "a.json").read_bytes()
    (desk / "a.json").unlink()
    (desk / "t.json").write_text('{"sick": "no", "grade": 1, "age": 3}')
    printed = suffice(*ANSWER, "--truth-file", "t.json")
    assert "You have answered before" in printed
    assert (desk / "a.json").read_bytes() == first
    suffice("survey", "respond", "s.json", "-o", "b.json", "--memory", "a.json.memory")
    assert (desk / "b.json").read_bytes() == first
    error = suffice("survey", "collect", "s.json", "a.json", "b.json", "-o", "r", code=3)
    assert "b.json: same participant as a.json." in error
    assert error.count("\n") == 1
    assert not (desk / "r").exists()


def test_answers_become_shares_and_a_model(suffice, desk):
    """400 people, of whom those above 60 are ill; the estimate is off by six errors or less."""
    suffice(*NEW)
    made = load_survey("s.json")
    for number in range(399):
        age = 20 + number / 5
        truths = {"sick": "yes" if age > 60 else "no", "grade": 1 + number % 2, "age": age}
        (desk / f"{number}.json").write_bytes(respond(made, truths, None)[0])
    suffice(*ANSWER, *TRUTH)
    paths = sorted(path.name for path in desk.glob("*.json") if path.name != "s.json")
    printed = suffice("survey", "collect", "s.json", *paths, "-o", "r.suffice")
    assert "Protects each label" in printed
    assert "per record" in printed
    assert load("r.suffice").rows == 400
    shares = json.loads(suffice("frequencies", "r.suffice", "--json"))["columns"]
    assert [column["name"] for column in shares] == ["label", "grade"]
    assert shares[0]["frequencies"] == pytest.approx([0.5, 0.5], abs=6 * 0.5 / 20 / 0.8)
    assert "survey sha256:" in suffice("inspect", "r.suffice")
    fitted = json.loads(suffice("fit", "r.suffice", "-o", "m", "--json"))
    assert fitted["classes"] == ["no", "yes"]


def test_a_release_can_be_signed_and_read_by_programs(suffice):
    suffice(*NEW)
    suffice(*ANSWER, *TRUTH)
    suffice("keygen", "k")
    collected = ("survey", "collect", "s.json", "a.json", "-o", "r", "--sign", "k.key", "--json")
    told = json.loads(suffice(*collected))
    assert (told["written"], told["rows"]) == ("r", 1)
    assert [p["unit"] for p in told["guarantees"]] == ["label", "attribute", "record"]
    suffice("verify", "r", "--key", "k.pub")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--flip", "0.2"), "--flip has two values"),
        (("--epsilon", "x=y"), "--epsilon must be a number"),
        (("--flip", "grade=0.1"), "Use one of --flip and --epsilon."),
        (("--flip", "shoe=0.1"), "'shoe'"),
        (("--noise-variance", "shoe=0.1"), "'shoe'"),
        (("--categories", "sick"), "--categories takes COLUMN=VALUE"),
        (("--range", "shoe=3,4", "--noise-variance", "shoe=-1"), "positive"),
        (("--label", "age"), "the label must be"),
        (("--text", "shoe=Which size?"), "No question is named 'shoe'"),
        (("--flip", "grade=0.9"), "Use one of --flip and --epsilon."),
        (
            ("--categories", "q=a,b,c", "--flip", "q=0.9"),
            "'q': flip must lie above 0 and below 0.6667",
        ),
        (
            ("--categories", "q=a,b,c", "--flip", "q=0"),
            "'q': flip must lie above 0 and below 0.6667",
        ),
    ],
)
def test_a_wrong_survey_is_one_line(suffice, desk, words, reason):
    error = suffice(*NEW, *words, code=2)
    assert reason in error
    assert error.count("\n") == 1
    assert not (desk / "s.json").exists()


def test_a_wrong_answer_is_one_line(suffice, desk):
    suffice(*NEW)
    assert 'There is no truth for "sick", "grade", "age"' in suffice(*ANSWER, code=2)
    error = suffice(*ANSWER, *TRUTH, "--truth", "grade=17", code=2)
    assert '"grade": The truth must be one of the possible answers' in error
    assert "17" not in error
    assert "none.json" in suffice("survey", "respond", "none.json", "-o", "a.json", code=6)
    assert "none.json" in suffice(*ANSWER, "--truth-file", "none.json", code=6)
    data = (desk / "s.json").read_bytes()
    (desk / "s.json").write_bytes(data.replace(b'"keep": 0.9', b'"keep": 0.99'))
    assert "This survey does not do what it says" in suffice(*ANSWER, *TRUTH, code=3)
    assert "This survey does not do what it says" in suffice(
        "survey", "collect", "s.json", "x", "-o", "r", code=3
    )
    assert not list(desk.glob("a.json*"))


def test_a_folder_of_answers_is_collected_in_the_order_of_names(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suffice("survey", "new", "--categories", "ill=no,yes", "--flip", "0.25", "-o", "survey.json")
    Path("sent").mkdir()
    Path("sent/survey.json").write_bytes(Path("survey.json").read_bytes())
    names = [f"sent/{letter}.json" for letter in "cab"]
    for name in names:
        suffice("survey", "respond", "survey.json", "--truth", "ill=no", "-o", name)
    suffice("survey", "collect", "survey.json", "sent", "-o", "folder.suffice")
    suffice("survey", "collect", "survey.json", *names, "-o", "files.suffice")
    assert Path("folder.suffice").read_bytes() == Path("files.suffice").read_bytes()
    again = ("survey", "collect", "survey.json", "sent", names[0], "-o", "x.suffice")
    assert "it is listed twice" in suffice(*again, code=3)
    Path("empty").mkdir()
    empty = suffice("survey", "collect", "survey.json", "empty", "-o", "x.suffice", code=2)
    assert "The folder empty holds no answer files (*.json)." in empty
    Path("sent/a.json").write_text("{}")
    broken = suffice("survey", "collect", "survey.json", "sent", "-o", "x.suffice", code=3)
    assert "1 of 3 answer files cannot be used" in broken
