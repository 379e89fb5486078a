"""Slips at the doors for parties: whose token opens what, what stays stored, what decides."""

from mutant import Mutant

_ROUNDS = "transport/http/test_rounds.py"
_TOKEN = f"{_ROUNDS}::test_a_token_is_for_one_party_and_one_round"
_FITS = f"{_ROUNDS}::test_what_does_not_fit_is_refused_with_the_reason_and_may_be_sent_anew"
_AGAIN = f"{_ROUNDS}::test_the_same_bytes_again_are_recognised_and_others_wait_for_a_withdrawal"
_RELEASED = f"{_ROUNDS}::test_a_contribution_and_its_bytes_are_gone_once_they_are_released"

MUTANTS = (
    Mutant(
        "part-under-another-name",
        "owner/parties/rounds.py",
        "if part.party != party:",
        'if part.party == "":',
        (_FITS,),
        "A party replays what another one sent, and that party's votes count twice.",
    ),
    Mutant(
        "token-of-any-round",
        "service/surveys.py",
        "store.round(digest) if caller.scope == (digest,) else None",
        "store.round(digest) if caller.scope else None",
        (_TOKEN,),
        "Whoever has a token of one round sends to another, and takes back what is there.",
    ),
    Mutant(
        "closed-twice",
        "owner/parties/rounds.py",
        'if state == "released":\n                raise',
        'if state == "never":\n                raise',
        (_RELEASED,),
        "A second release of fewer contributions shows what those that are missing said.",
    ),
    Mutant(
        "votes-decide-at-the-door",
        "owner/parties/rounds.py",
        "return form.misfit(part) or form.shape_misfit(part)",
        'return form.misfit(part) or ("" if abs(part.array).max() < 2**40 else "too large")',
        (f"{_ROUNDS}::test_votes_decide_nothing_at_the_door", _FITS),
        "The answer to an upload depends on private votes.",
    ),
    Mutant(
        "part-overwritten",
        "owner/parties/rounds.py",
        'if row is not None and row[0] == "stored":',
        'if row is not None and row[0] == "stored" and bytes(row[1]) == data:',
        (_AGAIN,),
        "Whoever stole a token changes what a party has sent, and nobody notices.",
    ),
    Mutant(
        "withdrawn-after-the-closing-time",
        "owner/parties/rounds.py",
        'if self._state(db, made.id) != "open" or made.is_over(now):',
        'if self._state(db, made.id) != "open":',
        (f"{_ROUNDS}::test_after_the_closing_time_nothing_is_taken_nor_withdrawn",),
        "Who counts is decided after the time that all were promised.",
    ),
    Mutant(
        "parts-kept-for-ever",
        "owner/parties/rounds.py",
        'db.execute("UPDATE parts SET part = ? WHERE round = ?", (b"", made.id))',
        "pass",
        (_RELEASED,),
        "Exact votes stay on the disk of the service after they were released.",
    ),
    Mutant(
        "closed-before-its-time",
        "owner/parties/rounds.py",
        'if state == "open" and not complete and not made.is_over(now):',
        'if state == "gone" and not complete and not made.is_over(now):',
        (f"{_ROUNDS}::test_a_round_closes_in_its_time_or_when_all_have_sent",),
        "An aggregator picks who counts by the moment of closing.",
    ),
    Mutant(
        "page-names-the-round",
        "service/surveys.py",
        "        del digest  # the page is the same for every round: it asks with the party's token\n",
        "        store.standings(store.round(digest)[0])\n",
        (f"{_ROUNDS}::test_a_stranger_learns_nothing_of_a_round_from_its_page",),
        "Strangers find out which rounds there are.",
    ),
)
