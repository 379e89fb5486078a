"""People leave after an unwelcome draw: "see, then send" is biased, "send, then see" is not.

A person whose truth is "yes" with probability s sends "yes" with probability

    q = s keep + (1 - s) (1 - keep).

If a person sees the draw first, and one who sees "yes" leaves with probability leaving, then "yes"
arrives with q (1 - leaving) / (1 - leaving q) instead of q. The estimate of s is linear in that
share, with the slope 1 / (2 keep - 1), so it is wrong by

    -leaving q (1 - q) / ((1 - leaving q) (2 keep - 1)).

If a person sees the draw after it arrived, leaving changes nothing.
"""

import random

import pytest

from suffice import participant
from suffice.learner.frequencies import estimate_frequencies
from suffice.owner.answers import AnswerStore, Outcome, Sent, new_invitations
from suffice.owner.survey import AnswerForm
from suffice.releases.columns import Flips

PEOPLE, TRUE_SHARE, KEEP, LEAVING = 6000, 0.2, 0.75, 0.4
QUESTION = {"name": "guilty", "text": "", "states": ["no", "yes"], "noise": {"keep": KEEP}}
SURVEY = participant.make_survey("Leaving", [QUESTION], "guilty")


def estimated(store: AnswerStore, *, seen_first: bool) -> float:
    """Return the estimate of the share of "yes" from those whose answers arrived."""
    form, rng, waiting = AnswerForm(SURVEY), random.Random(34), []
    store.open(SURVEY, None)
    for k, invitation in enumerate(new_invitations(PEOPLE)):
        truth = "yes" if k < TRUE_SHARE * PEOPLE else "no"
        sheet, _ = participant.respond(SURVEY, {"guilty": truth}, None)
        row = form.read(sheet)[1]
        wants_to_leave = b'"yes"' in sheet and rng.random() < LEAVING
        if not (seen_first and wants_to_leave):  # an answer that arrived cannot be withdrawn
            waiting.append(Sent.of(SURVEY.id, invitation, "00" * 16, sheet, row))
    for start in range(0, len(waiting), 500):
        assert set(store.take(waiting[start : start + 500])) == {Outcome.TAKEN}
    answers = form.columns(store.blocks(SURVEY.id))["answers"]
    return float(estimate_frequencies(answers, Flips(2, keep=KEEP), method="inverse").shares[1])


@pytest.mark.parametrize("seen_first", [True, False])
def test_leaving_biases_the_order_that_shows_the_draw_first(tmp_path, seen_first):
    sent_yes = TRUE_SHARE * KEEP + (1 - TRUE_SHARE) * (1 - KEEP)
    slope = 1 / (2 * KEEP - 1)
    bias = -LEAVING * sent_yes * (1 - sent_yes) / (1 - LEAVING * sent_yes) * slope
    error = slope * (sent_yes * (1 - sent_yes) / PEOPLE) ** 0.5  # standard error of an estimate
    found = estimated(AnswerStore(str(tmp_path / "answers")), seen_first=seen_first) - TRUE_SHARE
    assert bias < -10 * error  # so the two orders cannot be confused
    assert abs(found - (bias if seen_first else 0.0)) < 3 * error
