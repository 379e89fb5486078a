"""Slips in the one door: order of debit and draw, provenance, what is checked before and after."""

from mutant import Mutant, Place

_PAIRS = "audit/test_neighbour_pairs.py::test_pairs_differ_in_noise_alone"
_LAUNDERED = "Numbers of private rows stand in a release that promises differential privacy."

MUTANTS = (
    Mutant(
        "drawn-before-the-debit",
        "owner/mechanism.py",
        """\
        stored = ledger.debit(dataset, own, request, also, report=payment.report)
        if stored is not None:
            return decode(stored)
    try:
        release = draw()
""",
        """\
        release = draw()
        stored = ledger.debit(dataset, own, request, also, report=payment.report)
        if stored is not None:
            return decode(stored)
    try:
        release = draw() if ledger is None else release
""",
        (
            "owner/operator/test_mean_operator.py::test_an_output_lost_in_drawing_is_burnt",
            "owner/rados/test_rados.py::test_edges_get_their_noise_after_they_were_paid_for",
        ),
        "Noise that a crash shows before the charge is written costs nothing.",
    ),
    Mutant(
        "bytes-not-kept",
        "owner/mechanism.py",
        "            ledger.finish(dataset, name, encode(release))\n",
        "            ledger.abandon(dataset, name)\n",
        (
            "owner/operator/test_mean_operator.py::test_the_ledger_pays_once_and_the_same_request_gets_the_same_bytes",
        ),
        "The same request cannot be answered with the same bytes, and is drawn anew.",
    ),
    Mutant(
        "stored-bytes-drawn-anew",
        "owner/mechanism.py",
        "        if stored is not None:\n            return decode(stored)\n",
        "",
        (
            "owner/operator/test_mean_operator.py::test_the_ledger_pays_once_and_the_same_request_gets_the_same_bytes",
        ),
        "Each time that a request is repeated fresh noise is drawn, and averages away.",
    ),
    Mutant(
        "other-guarantees-than-paid-for",
        "owner/mechanism.py",
        "if release.guarantees != tuple(guarantees):",
        "if len(release.guarantees) != len(guarantees):",
        ("owner/operator/test_mean_operator.py::test_only_what_was_paid_for_leaves",),
        "A release states more protection than was charged.",
    ),
    Mutant(
        "unprotected-without-a-word",
        "owner/mechanism.py",
        "if not payment.unprotected and not all(guarantee.protected for guarantee in guarantees):",
        "if not payment.unprotected and not any(guarantee.protected for guarantee in guarantees):",
        (
            "owner/operator/test_mean_operator.py::test_what_protects_nothing_leaves_only_if_somebody_says_so",
        ),
        "A release leaves although one of its guarantees is none.",
    ),
    Mutant(
        "fingerprints-without-a-key",
        "owner/ledger/ledger.py",
        "keyed = hmac.new(key, content, hashlib.sha256).hexdigest()",
        "keyed = hashlib.sha256(content).hexdigest()",
        (
            "owner/operator/test_mean_operator.py::test_the_ledger_does_not_store_the_labels_or_an_unkeyed_hash_of_them",
        ),
        "Whoever reads a ledger tries labels against the fingerprints in it.",
    ),
    Mutant(
        "request-named-by-its-data",
        "owner/mechanism.py",
        "payment.request or hashlib.sha256(canonical(named)).hexdigest()[:16]",
        "payment.request or hashlib.sha256(fingerprint).hexdigest()[:16]",
        (
            "owner/ledger/test_changed_data.py::test_a_flipped_label_gets_the_stored_bytes_and_costs_nothing",
            "audit/test_histories.py::test_pairs_of_histories_differ_in_noise_alone",
        ),
        "Whether bytes repeat, and what is charged, tells whether a label changed.",
    ),
    Mutant(
        "records-not-counted-in-the-name",
        "owner/scaling.py",
        '            "people" if self.unit is Unit.PERSON else "records": self.size,\n',
        "",
        ("owner/moments/test_moments.py::test_a_table_that_grew_is_another_request",),
        "A table that grew gets last month's file.",
    ),
    Mutant(
        "enrolment-not-in-the-name",
        "owner/parties/ensemble.py",
        '            "enrolment": public.enrolled.digest(),\n',
        "",
        ("owner/parties/test_aggregate.py::test_another_enrolment_is_another_request",),
        "A round of other parties gets the file of the former ones.",
    ),
    Mutant(
        "edges-drawn-while-identifying",
        "owner/mechanism.py",
        "procedure.identifier if draws_while_reading else statistic",
        "statistic",
        ("owner/rados/test_rados.py::test_edges_get_their_noise_after_they_were_paid_for",),
        "Noise on records is drawn before it is paid for.",
    ),
    Mutant(
        "other-records-after-they-were-paid-for",
        "owner/mechanism.py",
        "            if noisy.fingerprint != exact.fingerprint:\n",
        "            if noisy is None:\n",
        (
            "engines/test_thread_pool.py::test_records_that_change_after_they_were_paid_for_are_not_drawn_from",
        ),
        "Records leave that the ledger did not charge for.",
    ),
    Mutant(
        "other-rows-in-the-second-pass",
        "owner/labelled.py",
        "        if summary is not None and exact.rows.unordered() != summary.rows_hash:\n",
        "        if summary is None and exact.rows.unordered():\n",
        (
            "engines/test_thread_pool.py::test_a_part_that_changes_between_the_passes_is_noticed_before_it_is_paid",
        ),
        "Scales of rows that are not released leave, and what they reach is not what was promised.",
    ),
    Mutant(
        "labels-as-public-features",
        "owner/mechanism.py",
        'if private := sorted(shown & {*declared} - {""}):',
        "if private := []:",
        ("cli/test_grant_tells_nothing.py::test_a_label_that_the_ledger_knows_is_no_feature",),
        "A private label leaves in the clear as a feature of another label's release.",
    ),
    Mutant(
        "labels-beside-private-records",
        "owner/scaling.py",
        "shown = rows.roles.features if unit == Unit.LABEL else ()",
        "shown = ()",
        ("cli/test_grant_tells_nothing.py::test_a_label_is_no_feature_beside_private_records",),
        "A private label leaves in the clear in moments, or rados, that protect another label.",
    ),
    Mutant(
        "labels-as-public-bags",
        "owner/proportions.py",
        "        return (*super().shown, *bag_columns(self.source.bags))\n",
        "        return super().shown\n",
        (
            "cli/test_grant_tells_nothing.py::test_a_label_that_the_ledger_knows_is_no_bag_id_or_order",
        ),
        "A private label leaves in the clear as the bags of another label's release.",
    ),
    Mutant(
        "labels-as-public-ids",
        "owner/labelled.py",
        "        return (*self.rows.roles.features, *([] if person is None else [person]))\n",
        "        return self.rows.roles.features\n",
        (
            "cli/test_grant_tells_nothing.py::test_a_label_that_the_ledger_knows_is_no_bag_id_or_order",
        ),
        "How often a private label occurs leaves as the number of rows of a person.",
    ),
    Mutant(
        "private-counts-in-json",
        "owner/scaling.py",
        "        return OwnerReport(tuple(lines)) if lines else None\n",
        "        return OwnerReport(tuple(lines), facts=dict(self.unknown)) if lines else None\n",
        ("cli/test_moments_cli.py::test_odd_cells_are_told_on_stderr_alone",),
        "The JSON of a release tells how many private cells are odd.",
    ),
    Mutant(
        "classes-chosen-by-who-asks",
        "owner/mechanism.py",
        "if listed_there is not None and not same_classes(classes, listed_there):",
        "if listed_there is None and not same_classes(classes, classes):",
        (
            "owner/ledger/test_changed_data.py::test_declared_classes_are_final_and_other_ones_are_refused_before_rows_are_read",
        ),
        "Whether a label occurs is found out by naming it as a class.",
    ),
    Mutant(
        "classes-of-a-label-that-is-called-a-target",
        "owner/mechanism.py",
        "    if source.target is not None and not issubclass(mechanism.source, TargetSource):\n",
        "    if source.target is not None and not issubclass(mechanism.source, Source):\n",
        (
            "owner/moments/test_target_moments.py::test_a_label_that_is_called_a_target_is_refused_as_classes_would_not_be_checked",
        ),
        "Whether a label occurs is found out by naming it as a class.",
    ),
    Mutant(
        "rows-charged-as-parties",
        "owner/mechanism.py",
        "guarantees[: len(guarantees) - sum(len(charge.guarantees) for charge in also)]",
        "guarantees[:]",
        ("owner/parties/test_auxiliary_budget.py::test_the_release_states_what_both_were_charged",),
        "What protects auxiliary rows is charged to the parties, who are not protected by it.",
    ),
    Mutant(
        "laundered-everywhere",
        "owner/mechanism.py",
        "    if origin.is_public:\n",
        "    if origin.is_public or not origin.is_public:\n",
        ("owner/test_laundering.py::test_private_scales_cannot_be_laundered_by_a_pipeline",),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-by-unknown-scales",
        "tables/pipeline.py",
        "return self.source in {Origin.DECLARED, Origin.PUBLIC_ROWS}",
        "return self.source is not Origin.PRIVATE_ROWS",
        (
            "owner/test_laundering.py::test_scales_of_unknown_origin_stay_unknown_when_they_are_used_again",
        ),
        "A file that says nothing of its scales passes for one with public scales.",
    ),
    Mutant(
        "laundered-by-a-merge",
        "tables/pipeline.py",
        "for weak in (PRIVATE_ROWS, UNKNOWN):",
        "for weak in (UNKNOWN,):",
        ("tables/test_provenance.py::test_the_weakest_origin_wins",),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-by-the-first-owner",
        "releases/merge.py",
        "origins = (release.pipeline.origin for release in releases)",
        "origins = (release.pipeline.origin for release in releases[:1])",
        ("owner/test_laundering.py::test_private_scales_cannot_be_laundered_by_a_merge",),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-by-a-file",
        "tables/pipeline.py",
        "origin=stated.origin,",
        'origin=Provenance("declared"),',
        (
            "tables/test_provenance.py::test_an_origin_travels_and_is_no_part_of_what_a_pipeline_does",
        ),
        "A file whose scales come from private rows passes for one with declared scales.",
    ),
    Mutant(
        "laundered-labels",
        "owner/labelled.py",
        "return (as_scaled(self.guarantee(exact), self.public.rows.pipeline.origin),)",
        "return (self.guarantee(exact),)",
        ("owner/test_laundering.py::test_private_scales_cannot_be_laundered_by_a_pipeline",),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-rados",
        "owner/scaling.py",
        "    return as_scaled(guarantee, origin)\n",
        "    return guarantee\n",
        (
            "owner/test_laundering.py::test_private_scales_cannot_be_laundered_by_a_pipeline",
            "owner/rados/test_rado_privacy.py::test_a_given_pipeline_of_private_rows_is_data_dependent",
        ),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-parties",
        "owner/parties/ensemble.py",
        "return tuple(as_scaled(guarantee, origin) for guarantee in guarantees)",
        "return tuple(guarantee for guarantee in guarantees if origin)",
        ("owner/test_laundering.py::test_private_scales_cannot_be_laundered_through_parties",),
        _LAUNDERED,
    ),
    Mutant(
        "laundered-past-the-door",
        "owner/mechanism.py",
        "if any(as_scaled(guarantee, origin).kind is not guarantee.kind for guarantee in guarantees):",
        "if any(as_scaled(guarantee, origin).unit is not guarantee.unit for guarantee in guarantees):",
        (
            "owner/test_laundering.py::test_the_door_stays_shut_for_a_mechanism_that_forgets_where_scales_come_from",
        ),
        "A mechanism that forgets where scales come from is not stopped.",
    ),
    Mutant(
        "laundered-by-keeping-the-kind",
        "owner/mechanism.py",
        "kind = Protection.DATA_DEPENDENT if guarantee.kind is Protection.GLOBAL else guarantee.kind",
        "kind = guarantee.kind",
        (f"{_PAIRS}[rados]",),
        _LAUNDERED,
    ),
    Mutant(
        "float-sums-by-block",
        "engines/summary.py",
        """\
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)
""",
        """\
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)
        self._floats = getattr(self, "_floats", 0.0) + np.nansum(columns, axis=1)
""",
        ("owner/test_public_part.py::test_public_numbers_are_a_function_of_the_set_of_rows[None]",),
        "The length of one label moves the cuts of a file, and so the last bits of all means.",
        (
            Place(
                "engines/summary.py",
                "mean[j] = float(Fraction(total, size << 1074))",
                "mean[j] = float(self._floats[j] / size)",
            ),
            Place(
                "tables/files.py",
                "parts = [read_ahead(equal_batches(r, tables_table.BATCH_ROWS)) for r in readers]",
                "parts = [read_ahead(_uneven(r, tables_table.BATCH_ROWS)) for r in readers]",
            ),
            Place(
                "tables/files.py",
                "_WRITTEN = (",
                "def _uneven(batches, rows):\n    return iter(batches)\n\n\n_WRITTEN = (",
            ),
        ),
    ),
)
