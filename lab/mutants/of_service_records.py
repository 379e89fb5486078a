"""Slips in the records of the service: tokens in the log, proposals that change once, turns."""

from mutant import Mutant

_ONCE = "transport/http/test_records.py::test_only_who_saw_the_present_state_changes_it"
_LEASE = "transport/http/test_records.py::test_a_lease_is_held_alone_and_for_one_data_set"
_JOBS = "transport/http/test_jobs.py"
_ALTERED = "owner/ledger/test_tokens.py::test_an_altered_token_is_noticed"

MUTANTS = (
    Mutant(
        "refused-after-it-was-granted",
        "service/records.py",
        '" AND digest = ? AND state = ?"\n',
        "\" AND digest = ? AND (state <> 'answered' OR state = ?)\"\n",
        (_ONCE,),
        "A learner is told no, and the release is drawn and charged.",
    ),
    Mutant(
        "decided-twice",
        "service/records.py",
        "SET state = ? WHERE dataset = ? AND digest = ? AND state = ?",
        "SET state = ? WHERE dataset = ? AND digest = ? AND state >= ?",
        (_ONCE,),
        "What an owner decided at one server is decided otherwise at another.",
    ),
    Mutant(
        "turns-of-everybody",
        "service/records.py",
        "        if before and self._store.held(before):\n            return None\n",
        "",
        (_LEASE,),
        "Two servers answer the proposals of a data set in an order that times of draws decide.",
    ),
    Mutant(
        "newest-proposal-first",
        "service/records.py",
        "SELECT s.token, min(p.number) FROM",
        "SELECT s.token, max(p.number) FROM",
        ("transport/http/test_records.py::test_the_oldest_open_proposal_is_next",),
        "Who asks later is served before those who wait.",
    ),
    Mutant(
        "no-turns",
        "service/records.py",
        "            self._turns[proposal.dataset, token] = turn\n",
        "            pass\n",
        ("transport/http/test_records.py::test_tokens_take_turns",),
        "Who sends many proposals keeps others waiting.",
    ),
    Mutant(
        "agreed-in-an-older-block",
        "service/records.py",
        "        return self._ledger.agreed(dataset, digest)\n",
        "        with self._store.reading() as records:\n"
        "            return self._ledger.agreed(dataset, digest, records)\n",
        ("transport/http/test_records.py::test_who_agreed_is_read_after_what_others_have_read",),
        "Two readers at once: one is told that the ledger was put back from a copy.",
    ),
    Mutant(
        "three-deaths",
        "service/workers.py",
        "self._deaths[digest] < 10:",
        "self._deaths[digest] < 3:",
        (
            f"{_JOBS}::test_a_proposal_that_kills_its_worker_is_refused_in_the_end_and_others_go_first",
        ),
        "Whoever shoots workers at random takes grants away.",
    ),
    Mutant(
        "idle-deaths-count",
        "service/workers.py",
        "self._deaths[digest] += looked",
        "self._deaths[digest] += 1",
        (
            f"{_JOBS}::test_a_proposal_that_kills_its_worker_is_refused_in_the_end_and_others_go_first",
        ),
        "A machine that cannot start workers refuses every proposal for good.",
    ),
    Mutant(
        "a-turn-that-does-not-end",
        "service/workers.py",
        "                        try:\n"
        "                            is_done = self.store(proposal, worker)\n"
        "                        finally:",
        "                        if True:\n"
        "                            is_done = self.store(proposal, worker)\n"
        "                        if True:",
        (f"{_JOBS}::test_a_proposal_that_cannot_be_answered_now_keeps_no_other_waiting",),
        "One proposal that cannot be answered keeps all others waiting.",
    ),
    Mutant(
        "tokens-beside-the-log",
        "owner/ledger/ledger.py",
        "if tokens != self.tokens:",
        "if len(tokens) < len(self.tokens):",
        (_ALTERED,),
        "A token smuggled into the table is not noticed by anybody who verifies the ledger.",
    ),
    Mutant(
        "rights-not-in-the-log",
        "owner/ledger/store.py",
        '        "role": str(token.role),\n',
        "",
        (_ALTERED,),
        "A learner's token becomes an owner's, and the log does not contradict.",
    ),
    Mutant(
        "token-of-any-secret",
        "owner/ledger/tokens.py",
        "return hmac.compare_digest(self.hash, secret_hash(secret))",
        "return hmac.compare_digest(self.hash, self.hash)",
        (
            "owner/ledger/test_tokens.py::test_a_token_comes_back_as_it_was_made_until_it_is_revoked",
        ),
        "Whoever knows the id of a token, which lists and logs show, acts as its holder.",
    ),
)
