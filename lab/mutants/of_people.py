"""Slips in the unit person: weights, ids, what is divided by, labels of a person, who is charged."""

from mutant import Mutant

_NUMBERS = "privacy/test_person_sensitivity.py"
_RELEASES = "owner/test_people.py"
_SHOWN = f"{_RELEASES}::test_more_or_fewer_rows_of_a_person_show_nowhere"
_LABELS = f"{_RELEASES}::test_all_labels_of_a_person_are_protected_together"

MUTANTS = (
    Mutant(
        "person-weights-rounded-up",
        "engines/sums.py",
        "np.where(held, self.one // self.rows[places], 0)",
        "np.where(held, -(-self.one // self.rows[places]), 0)",
        (f"{_NUMBERS}::test_weights_of_a_person_never_exceed_one",),
        "Rows of one person weigh more than one row together.",
    ),
    Mutant(
        "person-nobody-weighs",
        "engines/sums.py",
        "np.where(held, self.one // self.rows[places], 0)",
        "self.one // self.rows[places]",
        (f"{_NUMBERS}::test_weights_of_a_person_never_exceed_one",),
        "A row without an id weighs something, and nobody limits how many there are.",
    ),
    Mutant(
        "person-ids-as-they-are-spelt",
        "tables/columns.py",
        'name = "" if cell is None else canonical_class(cell)',
        'name = "" if cell is None else str(cell)',
        (f"{_NUMBERS}::test_one_id_has_one_code_however_it_is_spelt",),
        "1 and 1.0 are two people, and a person with both spellings counts twice.",
    ),
    Mutant(
        "person-rows-for-people",
        "owner/scaling.py",
        "return len(people.people)",
        "return int(people.rows.sum())",
        (_SHOWN,),
        "Sums are divided by the number of rows, and the file shows it.",
    ),
    Mutant(
        "person-last-rounding-free",
        "owner/moments.py",
        "rounded = width if steps > 1 else 0.0",
        "rounded = 0.0",
        (f"{_NUMBERS}::test_the_noise_of_people_allows_for_the_last_rounding",),
        "Products are rounded down, which can part two people by more than is paid for.",
    ),
    Mutant(
        "person-target-in-whole-numbers",
        "owner/moments.py",
        "LONGEST_CODE * steps / weights.proportions, linear",
        "LONGEST_CODE / weights.proportions, linear",
        (f"{_NUMBERS}::test_the_noise_of_people_allows_for_the_last_rounding",),
        "Sums of people's targets are in steps of a weight, and get noise for whole numbers.",
    ),
    Mutant(
        "person-table-that-changes",
        "owner/scaling.py",
        "(exact.seen == people.seen).all()",
        "True",
        (f"{_RELEASES}::test_a_table_that_changes_between_the_passes_is_refused",),
        "A person who gets more rows after they were counted weighs more than one.",
    ),
    Mutant(
        "person-noise-of-one-label",
        "owner/mean_operator.py",
        "l1, l2 = float(people.l1), float(people.l2)",
        "pass",
        (_LABELS,),
        "Noise is for one label, and all labels of a person are said to be protected.",
    ),
    Mutant(
        "person-answers-at-full-epsilon",
        "owner/mean_operator.py",
        "epsilon *= (1 - 1e-12) / people.rows",
        "epsilon *= 1 - 1e-12",
        (_LABELS,),
        "Each of a person's labels is randomised at what all of them may cost.",
    ),
    Mutant(
        "person-row-kept-by-label",
        "owner/mean_operator.py",
        "for batch in public.table.batches([*names, person]):",
        "lanes = RowLanes(public.table.schema, names := [*names, 'y'])\n"
        "    for batch in public.table.batches([*names, person]):",
        (f"{_RELEASES}::test_one_row_of_each_person_is_used_where_some_have_many",),
        "Which row of a person is kept depends on labels, and the file says which.",
    ),
    Mutant(
        "person-signs-for-many-classes",
        "owner/mean_operator.py",
        "np.flatnonzero((rows > 1) & (rows <= 12)) if classes == 2 else np.zeros(0, dtype=int)",
        "np.flatnonzero((rows > 1) & (rows <= 12))",
        (f"{_NUMBERS}::test_signs_are_no_bound_for_three_classes",),
        "Labels of three classes can move the sums farther than any signs.",
    ),
    Mutant(
        "person-counts-in-one-bag",
        "owner/proportions.py",
        "int(np.bincount(owner, rows**2).max())",
        "int(np.bincount(owner, rows).max())",
        (f"{_NUMBERS}::test_labels_of_a_person_move_counts_no_farther_than_is_paid_for",),
        "All labels of a person in one bag move its counts farther than is paid for.",
    ),
    Mutant(
        "person-labels-pay-for-records",
        "privacy/guarantee.py",
        "Unit.PERSON_LABELS: frozenset({Unit.PERSON_LABELS, Unit.LABEL}),",
        "Unit.PERSON_LABELS: frozenset(Unit) - {Unit.PARTY, Unit.PERSON},",
        (f"{_RELEASES}::test_a_release_per_record_does_not_pay_for_people",),
        "A release whose rows are public is charged to a budget for whole records.",
    ),
)
