"""Slips in rados: secret signs, sensitivities of sums over subsets, private scales."""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "record-moved-by-one-row",
        "owner/rados.py",
        "steps = 2 * math.sqrt(memberships) * _row_steps(pipeline, step) * _ROUNDING_MARGIN",
        "steps = math.sqrt(memberships) * _row_steps(pipeline, step) * _ROUNDING_MARGIN",
        (
            "owner/rados/test_rado_privacy.py::test_one_record_never_moves_the_matrix_further_than_is_paid_for",
            "owner/rados/test_rado_privacy.py::test_balanced_signs_attain_sqrt_two_n",
        ),
        "A replaced record takes one row away and brings another; noise hides one of them.",
    ),
    Mutant(
        "record-in-one-rado",
        "owner/rados.py",
        "steps = 2 * math.sqrt(memberships) * _row_steps(pipeline, step) * _ROUNDING_MARGIN",
        "steps = 2 * _row_steps(pipeline, step) * _ROUNDING_MARGIN",
        (
            "owner/rados/test_rado_privacy.py::test_one_record_never_moves_the_matrix_further_than_is_paid_for",
            "owner/rados/test_rado_privacy.py::test_balanced_signs_attain_sqrt_two_n",
        ),
        "A record is in half of all rados, and noise hides it in one.",
    ),
    Mutant(
        "free-signs-as-structured",
        "owner/rados.py",
        'return (1 << (count - 1).bit_length()) // 2 if signs == "hadamard" else count',
        "return (1 << (count - 1).bit_length()) // 2",
        (
            "owner/rados/test_rado_privacy.py::test_free_signs_come_near_their_bound",
            "owner/rados/test_rado_privacy.py::test_structured_signs_bound_memberships_by_half_a_block",
        ),
        "With free signs a record can be in all rados, and noise is for half of them.",
    ),
    Mutant(
        "row-not-rounded",
        "owner/rados.py",
        "return (clipped / step + math.sqrt(width) / 2) * _ROUNDING_MARGIN",
        "return (clipped / step) * _ROUNDING_MARGIN",
        (
            "owner/rados/test_rado_privacy.py::test_one_label_moves_the_shared_vector_by_its_row_at_most",
            "owner/rados/test_rado_privacy.py::test_a_row_at_the_bound_moves_it_as_far_as_is_paid_for",
        ),
        "On the lattice a row is longer than its bound, and noise is for the bound.",
    ),
    Mutant(
        "attribute-in-one-rado",
        "owner/rados.py",
        "return _sensitivity(math.sqrt(memberships) * steps * _ROUNDING_MARGIN, count * coordinates)",
        "return _sensitivity(steps * _ROUNDING_MARGIN, count * coordinates)",
        (
            "owner/rados/test_rado_privacy.py::test_one_value_moves_its_own_coordinates_by_its_range",
        ),
        "A value is in half of all rados, and noise hides it in one.",
    ),
    Mutant(
        "attribute-moved-from-zero",
        "owner/scaling.py",
        "return max(float(np.linalg.norm(a - b)) for a in corners for b in corners)",
        "return max(float(np.linalg.norm(a)) for a in corners)",
        (
            "owner/rados/test_rado_privacy.py::test_one_value_moves_its_own_coordinates_by_its_range",
        ),
        "A value can move from one end of its range to the other, and noise hides half of it.",
    ),
    Mutant(
        "none-is-no-corner",
        "owner/scaling.py",
        "cells = [*np.eye(count), np.zeros(count), pipeline.stand_ins[where]]",
        "cells = [*np.eye(count), pipeline.stand_ins[where]]",
        ("owner/rados/test_rados.py::test_cells_become_what_is_declared_for_them",),
        "A value of the only category can become none, and no noise hides that.",
    ),
    Mutant(
        "rado-cells-too-far-are-refused",
        "owner/scaling.py",
        "usable = np.abs(scaled) <= LARGEST_NUMBER",
        "usable = np.abs(scaled) < np.inf",
        ("owner/rados/test_rados.py::test_a_number_too_far_to_be_scaled_is_no_error",),
        "Whether a release is refused tells that a record holds an enormous number.",
    ),
    Mutant(
        "labels-in-the-subsets",
        "owner/rados.py",
        "subsets.update(rows, np.ones_like(labels))",
        "subsets.update(rows, np.where(labels < 0, 1.0, 1.0 + 2.0**-20))",
        ("owner/rados/test_rado_privacy.py::test_labels_are_in_the_shared_vector_only",),
        "Labels are in sums that have no noise of their own.",
    ),
    Mutant(
        "shared-noise-under-a-support",
        "owner/rados.py",
        "unit is not Unit.LABEL or asked.support is None,",
        "unit is not Unit.LABEL or asked.support != 0,",
        (
            "owner/rados/test_rado_privacy.py::test_under_a_fixed_support_shared_noise_would_tell_labels",
            "audit/test_rado_attacks.py::test_such_a_release_is_refused_and_uniform_signs_resist",
        ),
        "Differences of rados of one support carry no noise, and tell labels.",
    ),
    Mutant(
        "edges-drawn-before-paid",
        "owner/rados.py",
        "    draws_while_reading = True\n",
        "    draws_while_reading = False\n",
        ("owner/rados/test_rados.py::test_edges_get_their_noise_after_they_were_paid_for",),
        "Noise on records is drawn before it is paid for.",
    ),
    Mutant(
        "edges-without-noise",
        "owner/rados.py",
        "noisy = replace(self.noise, sensitivity=alike).add(edges).astype(np.float64)",
        "noisy = replace(self.noise, sensitivity=alike).add(edges).astype(np.float64)\n"
        "            noisy = np.where(edges == 0, 0.0, noisy)",
        ("owner/rados/test_rado_privacy.py::test_every_edge_has_all_of_its_noise",),
        "A coordinate that is zero stays exactly zero.",
    ),
    Mutant(
        "one-noise-for-all-rados",
        "owner/rados.py",
        "noisy = self.noise.add(state[0].result())",
        "exact = state[0].result()\n        noisy = exact + (self.noise.add(exact) - exact)[:1]",
        ("owner/rados/test_rado_privacy.py::test_records_have_independent_noise",),
        "The difference of two rados has no noise.",
    ),
    Mutant(
        "matrix-per-label",
        "owner/rados.py",
        '    mechanism = "matrix"\n    protects = Unit.RECORD\n',
        '    mechanism = "matrix"\n    protects = Unit.LABEL\n',
        (
            "owner/rados/test_rado_privacy.py::test_records_have_independent_noise",
            "owner/rados/test_rado_privacy.py::test_the_whole_matrix_has_all_of_its_noise",
        ),
        "What is charged per label is not what was asked for per record.",
    ),
    Mutant(
        "dp-feat-of-one-rado",
        "owner/rados.py",
        "cost = shift_epsilon(size, count, delta, low)",
        "cost = shift_epsilon(size, 1, delta, low)",
        (
            "owner/rados/test_rado_privacy.py::test_dp_feat_states_a_marginal_promise_composed_over_all_rados",
        ),
        "All rados together are said to cost what one does.",
    ),
    Mutant(
        "dp-feat-called-joint",
        "owner/rados.py",
        "scope=Scope.MARGINAL,",
        "scope=Scope.JOINT,",
        (
            "owner/rados/test_rado_privacy.py::test_dp_feat_states_a_marginal_promise_composed_over_all_rados",
        ),
        "What holds for one column read alone is promised of the whole release.",
    ),
    Mutant(
        "dp-feat-edges-not-refused",
        "owner/rados.py",
        "    if edges >= delta:\n",
        "    if edges >= 1:\n",
        ("owner/rados/test_rado_privacy.py::test_edges_that_weigh_more_than_delta_are_refused",),
        "The smallest sum that is kept tells one value with certainty, more often than delta.",
    ),
    Mutant(
        "signs-by-a-generator",
        "owner/rados.py",
        "bits = np.unpackbits(private_words(-(-count // 64)).view(np.uint8), count=count)",
        "bits = np.random.default_rng(0).integers(0, 2, count)",
        ("owner/rados/test_rados.py::test_the_secret_signs_are_drawn_from_private_words",),
        "Known signs give all examples back.",
    ),
    Mutant(
        "orders-not-drawn",
        "owner/rados.py",
        "orders = np.empty((blocks, self._size), dtype=np.int32)\n",
        "return np.tile(np.arange(self._size, dtype=np.int32), (blocks, 1))\n"
        "        orders = np.empty((blocks, self._size), dtype=np.int32)\n",
        (
            "owner/rados/test_rados.py::test_two_rados_agree_in_one_block_whatever_they_do_in_another",
        ),
        "All blocks have the same order: two rados agree in all of them or in none.",
    ),
    Mutant(
        "blocks-by-batch",
        "owner/rados.py",
        "        if first < rows.shape[1]:\n            self._hold(rows, weights, first)\n",
        "        if first < rows.shape[1]:\n            self._hold(rows, weights, first)\n"
        "        self._close()\n",
        ("owner/rados/test_rados.py::test_blocks_are_cut_by_place_and_not_by_batch",),
        "How a file was cut, which private cells decide, shows in which rows share a block.",
    ),
    Mutant(
        "support-of-any-size",
        "owner/rados.py",
        "self._remaining, self._rows = remaining, self._rows - rows",
        "self._remaining, self._rows = self._remaining, self._rows - rows",
        ("owner/rados/test_rados.py::test_a_fixed_support_is_fixed_however_rows_arrive",),
        "Rows of later batches are chosen too often, and supports are not those stated.",
    ),
    Mutant(
        "binomials-held-too-narrow",
        "owner/rados.py",
        "(draws < low) | (draws > trials - low)",
        "(draws <= low) | (draws > trials - low)",
        ("owner/rados/test_rado_privacy.py::test_counted_bits_are_binomial_and_held",),
        "The law of a truncated sum is another one than its cost was computed for.",
    ),
    Mutant(
        "edges-not-turned",
        "owner/rados.py",
        "flipped = rows[position] * labels < 0",
        "flipped = rows[position] < 0",
        (
            "owner/rados/test_rado_privacy.py::test_the_sum_of_a_protected_column_is_the_number_that_was_drawn_for_it",
        ),
        "The sum of a protected column is not the binomial that was paid for.",
    ),
    Mutant(
        "private-numbers-not-held",
        "owner/scaling.py",
        "            np.clip(np.where(np.isfinite(cells), cells, declared[j]), low, high, out=cells)\n",
        "            cells += 0.0\n",
        ("owner/rados/test_rados.py::test_numbers_outside_their_range_count_as_its_end",),
        "A number outside its declared range stands out from the rest.",
    ),
    Mutant(
        "private-scales-called-declared",
        "owner/scaling.py",
        "origin = PRIVATE_ROWS if public is None else public_rows(summary.rows_hash)",
        "origin = DECLARED if public is None else public_rows(summary.rows_hash)",
        ("owner/rados/test_rados.py::test_scales_read_off_private_rows_are_said_aloud",),
        "Means and deviations of private rows leave in the clear, and nobody says so.",
    ),
    Mutant(
        "private-types-read-off",
        "owner/scaling.py",
        "return open_declared(data, text=texts, numbers=[n for n in names if n not in texts])",
        "return open_table(data, text=texts)",
        ("owner/test_public_part.py::test_no_type_is_read_off_a_private_record",),
        "Whether a file can be read depends on a private cell among its first rows.",
    ),
    Mutant(
        "rados-named-by-private-rows",
        "owner/rados.py",
        'return self.released({"rados": np.ascontiguousarray(rados)}, details, noise, guarantees)',
        'made = self.released({"rados": np.ascontiguousarray(rados)}, details, noise, guarantees)\n'
        "        if exact.cells is None:\n"
        "            return made\n"
        "        named = replace(made.parts[0].rows, hash=exact.cells.unordered())\n"
        "        return replace(made, parts=(replace(made.parts[0], rows=named),))",
        (
            "owner/rados/test_rados.py::test_a_ledger_does_not_put_the_hash_of_private_rows_into_a_release",
        ),
        "A hash of private rows stands in the release, and guesses are tried against it.",
    ),
)
