"""Slips where people answer: the draw in the browser, the store of answers, the doors for people."""

from mutant import Mutant

_PAGE = "transport/http/test_participant_page.py"
_DOORS = "transport/http/test_surveys.py"
_STORE = "owner/test_answers.py"
_LINKED = (
    f"{_STORE}::test_nothing_in_a_closed_file_joins_invitations_and_answers",
    f"{_STORE}::test_nothing_in_a_closed_database_joins_invitations_and_answers",
)

MUTANTS = (
    Mutant(
        "draw-stored-after-sending",
        "participant_page.js",
        "    await memory((draws) => draws.put(record, key));\n    return record;",
        "    return record;",
        (f"{_PAGE}::test_a_killed_browser_sends_the_same_answer",),
        "A browser that ends while it sends draws again: two draws of one truth.",
    ),
    Mutant(
        "one-draw-for-all-invitations",
        "participant_page.js",
        "const key = `${survey.id} ${owner}`;",
        "const key = survey.id;",
        (f"{_PAGE}::test_two_people_on_one_browser_have_two_draws",),
        "The second person sees and sends the draw of the first.",
    ),
    Mutant(
        "each-press-draws-anew",
        "participant_page.js",
        "if (before) return before;",
        "",
        (f"{_PAGE}::test_reload_double_click_two_tabs_and_back_are_one_answer",),
        "Two tabs send two draws of one truth.",
    ),
    Mutant(
        "saved-truths-stay",
        "participant_page.js",
        "      await eraseSaved();\n      next(record",
        "      next(record",
        (f"{_PAGE}::test_no_true_answer_is_in_the_profile_after_sending",),
        "True answers stay on the computer after sending.",
    ),
    Mutant(
        "saved-truths-in-the-memory",
        "participant_page.js",
        "      sheet: draw(),",
        "      sheet: draw(), form: [...document.querySelectorAll('input')].map((i) => i.value),",
        (f"{_PAGE}::test_no_true_answer_is_in_the_profile_after_sending",),
        "The memory holds more than the draw.",
    ),
    Mutant(
        "shared-computer-remembers",
        "participant_page.js",
        "    if (shared) {\n      await memory((draws) => draws.delete(key));",
        "    if (shared) {",
        (f"{_PAGE}::test_a_shared_computer_keeps_nothing",),
        "The next person at the computer sees what was sent.",
    ),
    Mutant(
        "draw-shown-before-sending",
        "participant_page.js",
        '...(final ? [] : [line(say("waiting")), button])',
        '...(final ? [] : [line(say("waiting")), ...receipt(record, "drawn"), button])',
        (f"{_PAGE}::test_without_a_network_the_answer_waits",),
        "People leave after an unwelcome draw, and whether an answer arrives tells of it.",
    ),
    Mutant(
        "truth-beside-the-draw",
        "participant_page.js",
        "finish(() => suffice.respond(survey, truths, suffice.freshBytes));",
        "finish(() => `${suffice.respond(survey, truths, suffice.freshBytes)}"
        "${' '.repeat(Number(truths.get('age')))}`);",
        (f"{_PAGE}::test_the_draw_alone_decides_the_size_of_an_answer",),
        "The size of a request tells of the truth.",
    ),
    Mutant(
        "proof-by-invitation",
        "owner/answers.py",
        'hmac.digest(bytes.fromhex(r), sheet, "sha256")',
        'hmac.digest(invitation.encode(), answer, "sha256")',
        (f"{_STORE}::test_an_open_store_cannot_be_tried", f"{_DOORS}"),
        "Whoever has the invitations tries which answer belongs to which.",
    ),
    Mutant(
        "closing-keeps-proofs",
        "owner/answers.py",
        'db.execute("UPDATE spent SET proof = ? WHERE survey = ?", (b"", identity))',
        "pass",
        _LINKED,
        "A proof that is kept can be tried once r is known.",
    ),
    Mutant(
        "closing-does-not-rewrite",
        "owner/answers.py",
        "        self._rewrite()\n        return self.answered(identity)",
        "        return self.answered(identity)",
        _LINKED,
        "The order of writing joins invitations and answers.",
    ),
    Mutant(
        "a-group-in-the-order-of-arrival",
        "owner/answers.py",
        "for row in sorted(rows) for value in (survey, *row)",
        "for row in rows for value in (survey, *row)",
        (f"{_STORE}::test_a_group_hides_who_is_who_in_it_until_closing",),
        "Rows of one transaction stand in the same order in both tables.",
    ),
    Mutant(
        "exact-counts-while-people-answer",
        "owner/answers.py",
        'int(count) // 10 * 10 if state == "open" else int(count)',
        "int(count)",
        (f"{_STORE}::test_everybody_may_answer_an_open_survey",),
        "Counts of two moments say when a person answered.",
    ),
    Mutant(
        "answers-outlive-their-day",
        "owner/survey.py",
        "            store.forget(identity)\n",
        "",
        (f"{_STORE}::test_answers_are_deleted_on_the_day_that_the_survey_states",),
        "Answers stay longer than participants were told.",
    ),
    Mutant(
        "a-survey-of-nobody",
        "owner/survey.py",
        'if not survey.content["about"]:',
        "if False:",
        (f"{_STORE}::test_answers_are_deleted_on_the_day_that_the_survey_states",),
        "People answer without knowing who asks, and when answers are deleted.",
    ),
    Mutant(
        "another-answer-with-one-invitation",
        "owner/answers.py",
        "outcomes[k] = Outcome.AGAIN if same else Outcome.OTHER",
        "outcomes[k] = Outcome.AGAIN",
        (f"{_STORE}::test_one_invitation_is_one_answer",),
        "A second answer is acknowledged, and is lost.",
    ),
    Mutant(
        "people-are-counted",
        "service/limits.py",
        'counted = not scope["path"].startswith(self._people)',
        "counted = True",
        (f"{_DOORS}::test_nothing_is_logged_or_counted_about_people",),
        "Metrics of two moments say when a person answered.",
    ),
)
