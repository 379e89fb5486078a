"""People who answer a survey of a clinic's service, for the tests of doors, pages and crowds."""

import json

from served import Clinic, make_clinic

from suffice import participant
from suffice.owner.answers import AnswerStore, new_invitations
from suffice.owner.survey import new_survey, open_survey

R = "3c" * 16


ABOUT = {
    "organiser": "Clinic North", "contact": "people@clinic.example", "purpose": "To plan beds.",
    "notice": "Nobody gets the answers of one person.", "deleted": "2999-12-31",
}  # fmt: skip


def asked(language: str = "en", **changes):
    """Return a survey with a choice, a table, a long list and a number."""
    return new_survey(
        "After the clinic",
        states={"relapse": ["no", "yes"], "grade": [1, 2, 3], "month": list(range(1, 21))},
        ranges={"age": (0, 120)},
        flip={"relapse": 0.25, "grade": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
              "month": 0.5},
        noise=14400.0,
        texts={"relapse": "Did you relapse?", "grade": "How are you?", "month": "Which month?",
               "age": "How old are you?"},
        language=language, about={**ABOUT, **changes},
    )  # fmt: skip


SURVEY = asked()
TRUTHS = {"relapse": "yes", "grade": 2, "month": 11, "age": 37}


def asking_clinic(folder, people: int | None, survey=SURVEY, place: str | None = None):
    """Make a clinic whose service asks people; return it, its store, and all invitations."""
    clinic = make_clinic(folder)
    text = (folder / "suffice.toml").read_text()
    place = place or str(folder / "clinic.answers")
    (folder / "suffice.toml").write_text(f'answers = "{place}"\n{text}')
    invitations = None if people is None else new_invitations(people)
    store = AnswerStore(place)
    open_survey(survey, clinic.place, store, invitations)
    return clinic, store, invitations


def sheet_of(survey=SURVEY, truths=TRUTHS) -> str:
    return participant.respond(survey, truths, None)[0].decode()


def body_of(invitation: str, sheet: str, r: str = R) -> bytes:
    return json.dumps({"invitation": invitation, "r": r, "answer": sheet}).encode()


def answers_in(store: AnswerStore, survey=SURVEY) -> int:
    """Return how many answers are stored."""
    from suffice.owner.survey import AnswerForm

    return sum(map(len, store.blocks(survey.id))) // AnswerForm(survey).row_bytes


__all__ = ["ABOUT", "Clinic", "answers_in", "asked", "asking_clinic", "body_of", "sheet_of"]
