"""Slips in what officers are shown: entries of other data sets, exports that nobody signed."""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "officer-of-one-data-set-reads-all",
        "service/oversight.py",
        "    if not token.scope:\n        return iter(entries)\n",
        "    if token.scope is not None:\n        return iter(entries)\n",
        (
            "transport/http/test_oversight.py::test_a_scoped_officer_reads_of_its_data_set_alone",
            "transport/http/test_oversight.py::test_a_charge_of_several_data_sets_shows_each_officer_its_own",
        ),
        "An officer of one data set reads the log of all others.",
    ),
    Mutant(
        "tokens-of-other-data-sets-shown",
        "service/oversight.py",
        "        own = [t for t in tokens if any(t.covers(name) for name in token.scope)]\n",
        "        own = tokens\n",
        ("transport/http/test_oversight.py::test_tokens_of_other_data_sets_are_not_shown",),
        "An officer of one data set reads who may use the others.",
    ),
    Mutant(
        "export-of-any-signer",
        "protocol/export.py",
        'check_signer(signature, key, "export")',
        "pass",
        ("transport/test_export.py::test_another_key_is_noticed",),
        "A stranger's export passes for the owner's.",
    ),
    Mutant(
        "log-of-an-export-not-checked",
        "protocol/export.py",
        "checked = list(checked_chain(content.log))",
        "checked = list(content.log)",
        ("transport/test_export.py::test_a_log_that_was_changed_is_not_one_chain",),
        "An owner exports a log whose entries were changed.",
    ),
    Mutant(
        "forecast-reads-private-records",
        "service/planning.py",
        "        subject, person = served.sheet, None\n",
        "        subject, person = served.sheet, None\n"
        "        rows = sum(1 for line in open(served.table) if line.rstrip().endswith('1'))\n"
        "        subject = type(subject)(**{**vars(subject), 'rows': rows})\n",
        (
            "transport/http/test_planning.py::test_what_pages_say_before_a_decision_is_the_same_for_neighbours",
        ),
        "The owner's decision, which others see, follows a forecast that counted labels.",
    ),
    Mutant(
        "people-counted-for-a-forecast",
        "service/planning.py",
        "served.sheet is None or served.policy.person is not None",
        "served.sheet is None",
        (
            "transport/http/test_planning.py::test_where_people_have_several_records_there_is_no_number",
        ),
        "A page promises a person what only one record gets.",
    ),
    Mutant(
        "kept-log-of-another-scope",
        "service/oversight.py",
        '("log", token.scope)',
        '("log",)',
        (
            "transport/http/test_oversight.py::test_what_an_export_keeps_is_what_another_server_reads",
        ),
        "An officer of one data set gets the log that was made for an officer of all.",
    ),
    Mutant(
        "kept-pieces-for-ever",
        "service/records.py",
        "if about != self._about or records.head(self._end[0]) != self._end:",
        "if not self._about:",
        (
            "transport/http/test_oversight.py::test_what_an_export_keeps_is_what_another_server_reads",
        ),
        "An officer is shown who asked as it was when the server began.",
    ),
    Mutant(
        "learners-read-pages-of-officers",
        "service/auth.py",
        "        if not sees_all(session.token):\n",
        "        if False:\n",
        ("transport/http/test_asking.py::test_learners_see_their_own_pages_alone",),
        "A learner reads what others propose, and the log.",
    ),
    Mutant(
        "learners-list-proposals-of-others",
        "service/pages.py",
        "MANY, sender=session.token.id)",
        "MANY)",
        ("transport/http/test_asking.py::test_learners_see_their_own_pages_alone",),
        "A learner's first page lists what others propose.",
    ),
)
