"""Slips in tables, engines and kernels: what is summed, clipped, hashed and read.

Left out, since it changes no result: carrying no words in `add_moments` (they overflow only after
2^31 blocks, and are read with their carries); no row count in a row hash (its sum has it).
"""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "pipeline-rounding-removed",
        "engines/summary.py",
        """\
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)
""",
        """\
        kernel.add_moments(columns, self._counts, self._sums, self._squares, self._wrong)
        self._floats = getattr(self, "_floats", 0.0) + np.nansum(columns, axis=1)
        exact = ColumnMoments._moments
        self._moments = lambda j: (float(self._floats[j] / self._counts[j]), exact(self, j)[1])
""",
        ("owner/test_public_part.py::test_public_numbers_are_a_function_of_the_set_of_rows[None]",),
        "The last bits of public means depend on batches, and those on private cells.",
    ),
    Mutant(
        "moments-by-the-fast-way-only",
        "kernels/moments.py",
        "    if lost:\n        return False\n",
        "",
        ("kernels/test_moments_twins.py::test_numbers_far_apart_in_size_are_added_exactly",),
        "Small numbers beside large ones are rounded, and the sum depends on their order.",
    ),
    Mutant(
        "reach-not-rounded-up",
        "engines/sums.py",
        "l2 = math.sqrt(self._reach[1]) * slack",
        "l2 = math.sqrt(self._reach[1])",
        ("engines/test_sums.py::test_the_reach_is_never_below_the_true_norm",),
        "The largest norm lies below the true one, and noise is calibrated to it.",
    ),
    Mutant(
        "reach-of-one-part",
        "engines/sums.py",
        "self._reach = np.maximum(self._reach, other._reach)",
        "self._reach = np.minimum(self._reach, other._reach)",
        ("engines/test_sums.py::test_merged_parts_of_mapped_rows_equal_one_pass_exactly",),
        "The longest row is in another part, and noise is calibrated to a shorter one.",
    ),
    Mutant(
        "reach-without-the-intercept",
        "kernels/mapping.py",
        "twos[:size] = constant * constant",
        "twos[:size] = 0.0",
        ("engines/test_sums.py::test_the_reach_is_the_largest_norm_of_a_row_on_the_lattice",),
        "The constant coordinate moves with a label too, and noise does not count it.",
    ),
    Mutant(
        "reach-with-signs",
        "kernels/mapping.py",
        "ones[i] += abs(codes[i])",
        "ones[i] += codes[i]",
        ("engines/test_sums.py::test_the_reach_is_the_largest_norm_of_a_row_on_the_lattice",),
        "Coordinates of either sign cancel in the 1-norm that Laplace noise is scaled by.",
    ),
    Mutant(
        "sums-without-a-lattice",
        "kernels/mapping.py",
        "codes[i] = np.rint(codes[i] * inverse_step)",
        "codes[i] = codes[i] * inverse_step",
        ("engines/test_sums.py::test_mapped_sums_are_the_weighted_sums_of_the_transformed_rows",),
        "Sums of floats are rounded by place, and noise is on numbers that are no integers.",
    ),
    Mutant(
        "rows-not-clipped",
        "kernels/mapping.py",
        "factors[i] = bound / norm if norm > bound else 1.0",
        "factors[i] = 1.0",
        ("tables/test_pipeline.py::test_no_row_is_longer_than_the_norm_bound",),
        "A long row moves the sum further than its declared bound.",
    ),
    Mutant(
        "column-sums-not-rounded",
        "kernels/sums.py",
        "total += weight[i] * np.rint(values[i] * inverse_step)",
        "total += weight[i] * (values[i] * inverse_step)",
        ("kernels/test_twins.py::test_sums_of_column_are_the_sums_of_python_integers",),
        "Floats are summed in an order that shows, and cut to integers at its end.",
    ),
    Mutant(
        "subset-sums-flushed-late",
        "engines/rados.py",
        "if self._rows > _EXACT_ROWS:",
        "if self._rows > 2**40:",
        ("kernels/test_rado_twins.py::test_sums_beyond_what_floats_hold_stay_exact",),
        "Beyond 2^53 floats round integers, and a record moves sums by more than its row.",
    ),
    Mutant(
        "norm-bound-without-intercept",
        "tables/pipeline.py",
        "return math.hypot(self.bound, self.intercept)",
        "return self.bound",
        ("tables/test_pipeline.py::test_no_row_is_longer_than_the_norm_bound",),
        "Rows are longer than the bound that noise is calibrated to.",
    ),
    Mutant(
        "hash-tells-zeros-apart",
        "kernels/digests.py",
        "bits = np.float64(column[i] + 0.0).view(np.uint64)",
        "bits = np.float64(column[i]).view(np.uint64)",
        ("tables/test_rowhash.py::test_minus_zero_is_zero",),
        "The sign of a zero, which no sum sees, gives the same rows another name.",
    ),
    Mutant(
        "hash-in-order",
        "kernels/digests.py",
        "sums[1] += _mix(second ^ lanes[0, i])",
        "sums[1] = _mix(sums[1] ^ second ^ lanes[0, i])",
        ("tables/test_rowhash.py::test_neither_the_order_of_rows_nor_their_batches_matter",),
        "The order of rows, which can follow the labels, is in the name of public rows.",
    ),
    Mutant(
        "answers-without-the-order-of-rows",
        "owner/operator/exact.py",
        "    ordered = True\n",
        "    ordered = False\n",
        ("owner/operator/test_responses_of_labels.py::test_answers_belong_to_rows_in_their_order",),
        "Answers are read beside other people's rows.",
    ),
    Mutant(
        "label-in-an-error",
        "tables/labels.py",
        "raise StrangeLabelsError(strange, len(codes), classes)",
        'raise StrangeLabelsError(strange, len(codes), classes, f" {list(labels)}")',
        ("tables/test_labels.py::test_a_text_outside_the_classes_is_counted_and_not_shown",),
        "An error quotes a private label.",
    ),
    Mutant(
        "cell-in-an-error",
        "tables/pipeline.py",
        'f"column {column.name!r}: {strange} cells hold a category that was not declared."',
        'f"column {column.name!r}: {cells.unique()} hold a category that was not declared."',
        (
            "tables/test_pipeline.py::test_an_unknown_category_is_an_error_that_counts_but_does_not_show_it",
        ),
        "An error quotes private cells.",
    ),
    Mutant(
        "label-by-its-looks",
        "tables/labels.py",
        "return str(int(whole[1])) if whole else _TRUTH.get(spelled.lower(), spelled)",
        "return spelled",
        ("tables/test_labels.py::test_a_class_has_one_spelling",),
        "How one label is spelt decides what all others count as.",
    ),
    Mutant(
        "label-outside-is-a-class",
        "tables/labels.py",
        "return np.maximum(codes, -1)",
        "return np.maximum(codes, 0)",
        ("tables/test_labels.py::test_labels_outside_the_classes_can_count_as_none",),
        "A label that is none counts as the first class, and moves the sum.",
    ),
    Mutant(
        "type-by-the-label",
        "owner/public_rows.py",
        "return open_table(source.data, text=[source.label])",
        "return open_table(source.data)",
        ("owner/test_public_part.py::test_a_class_may_be_called_as_missing_values_often_are",),
        "One private label decides the type of its column, and whether a release succeeds.",
    ),
    Mutant(
        "batches-as-the-reader-cuts",
        "tables/batching.py",
        "while count + rest.num_rows >= rows:",
        "while rest.num_rows >= rows:",
        ("tables/test_batching.py",),
        "Where a file is cut depends on the length of private cells.",
    ),
    Mutant(
        "origin-in-no-file",
        "tables/pipeline.py",
        "return {**self._function(), **known}",
        "return {**self._function()}",
        (
            "tables/test_provenance.py::test_an_origin_travels_and_is_no_part_of_what_a_pipeline_does",
        ),
        "Where scales came from is lost when a release is saved.",
    ),
)
