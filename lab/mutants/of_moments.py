"""Slips in noisy second moments: sensitivity, integers, noise, and errors that tell of records."""

from mutant import Mutant, Place

_SEARCH = "privacy/test_moment_sensitivity.py::test_a_search_reaches_the_bound_and_never_passes_it"
_LATTICE = "privacy/test_moment_sensitivity.py::test_rounded_rows_are_no_longer_than_is_paid_for"
_NOISE = "owner/moments/test_moments.py::test_every_block_has_the_noise_that_is_stated"

_TARGET = "privacy/test_moment_sensitivity.py::test_targets_move_moments_no_farther_than_labels"

_ALONE = (
    "owner/moments/test_target_operator.py::test_no_two_targets_are_farther_apart_than_is_paid_for"
)
_FORGED = (
    "owner/moments/test_target_operator.py::test_a_file_cannot_claim_more_than_its_noise_keeps"
)

_UNSEEN = (
    "owner/moments/test_target_operator.py"
    "::test_rows_that_scale_themselves_show_nothing_of_a_target"
)

MUTANTS = (
    Mutant(
        "moments-public-table-shows-a-target",
        "owner/scaling.py",
        "text=[*(self.categories or ()), *unseen]",
        "text=[*(self.categories or ())]",
        (_UNSEEN,),
        "A private target of public rows decides how they are read, or is an error.",
    ),
    Mutant(
        "moments-target-moves-by-its-length",
        "privacy/moments.py",
        "return 2 * math.hypot(self.operator, self.proportions)",
        "return math.hypot(self.operator, self.proportions)",
        (_ALONE,),
        "Another target moves the sums by twice what is paid for.",
    ),
    Mutant(
        "moments-square-beside-public-rows",
        "privacy/moments.py",
        "free = (1 - 1e-9) / (10 * math.sqrt(5) - 22)",
        "free = 5.0",
        (_ALONE,),
        "Squares of targets are released with more weight than is free, and nothing is charged.",
    ),
    Mutant(
        "moments-target-claims-records",
        "releases/claims.py",
        "_by_multiplier((Unit.LABEL,), multiplier",
        "_by_multiplier((Unit.LABEL, Unit.RECORD), multiplier",
        (_FORGED,),
        "A file of exact moments of rows is read as if it protected records.",
    ),
    Mutant(
        "moments-rows-without-noise",
        "owner/moments.py",
        "(self.epsilon, self.delta), self.unit == MomentsUnit.LABEL",
        "(self.epsilon, self.delta), not public.classes",
        ("owner/moments/test_target_moments.py",),
        "Moments of private rows leave without noise where there is a target.",
    ),
    Mutant(
        "moments-square-of-a-target",
        "privacy/moments.py",
        "return math.sqrt(self.operator**2 + self.proportions**2 + bent)",
        "return 1.2 * math.sqrt(self.operator**2 + self.proportions**2 + bent)",
        (_TARGET,),
        "Squares of targets are released with more weight than is free, and nothing is charged.",
    ),
    Mutant(
        "moments-target-beyond-its-range",
        "owner/moments.py",
        "targets = np.clip((held - middle) / half, -1.0, 1.0)",
        "targets = (cells - middle) / half",
        ("owner/moments/test_target_moments.py::test_a_target_is_held_to_its_range",),
        "A target outside its range moves the sums as far as it likes.",
    ),
    Mutant(
        "moments-continuous-label",
        "owner/source.py",
        "pa.types.is_floating(kind) or pa.types.is_decimal(kind)",
        "pa.types.is_null(kind)",
        ("owner/moments/test_target_moments.py::test_a_continuous_label_is_refused_by_its_type",),
        "A label of decimals is released as labels of no class, and a budget is charged for it.",
    ),
    Mutant(
        "moments-of-the-same-label",
        "privacy/moments.py",
        "same_label = 2 * (1 + total / 2) ** 2 if total <= 2 else 4 * total",
        "same_label = 2 + 2 * total",
        (_SEARCH,),
        "Rows at an obtuse angle are farther apart than rows at a right one, which are paid for.",
    ),
    Mutant(
        "moments-counts-for-nothing",
        "privacy/moments.py",
        "return math.sqrt(max(same_label, other_label + counts))",
        "return math.sqrt(max(same_label, other_label))",
        (_SEARCH,),
        "Class counts are released with more weight than is free, and nothing is paid for it.",
    ),
    Mutant(
        "moments-two-classes-as-many",
        "privacy/moments.py",
        "return 4.0 if classes <= 2 else 2.0",
        "return 2.0",
        (_SEARCH,),
        "Of two classes another label moves y by 2, and half of its square is paid for.",
    ),
    Mutant(
        "moments-without-sensitivity",
        "owner/moments.py",
        "scale = multiplier * (weights.sensitivity +",
        "scale = multiplier * (2**0.5 +",
        (_NOISE,),
        "Noise is for the second moments alone, and means and counts are released as well.",
    ),
    Mutant(
        "moments-products-once",
        "owner/moments.py",
        '"products": (width * (width - 1) // 2, LONGEST_CODE**2 / math.sqrt(2), square),',
        '"products": (width * (width - 1) // 2, LONGEST_CODE**2 / 2, square),',
        (_NOISE,),
        "Each product is in the matrix twice, and has too little noise for it.",
    ),
    Mutant(
        "moments-halves-of-their-own",
        "owner/moments.py",
        "second.T[upper] = second[upper]",
        'second.T[upper] = self.blocks["products"].add(exact.second[upper])',
        (_NOISE,),
        "Products are released twice, with independent noise, and are paid for once.",
    ),
    Mutant(
        "moments-operator-of-many-classes",
        "owner/moments.py",
        "times * LONGEST_CODE * steps / weights.operator,",
        "LONGEST_CODE * steps / weights.operator,",
        (_NOISE,),
        "Means by class are summed K times, and have the noise of once.",
    ),
    Mutant(
        "moments-lattice-for-free",
        "owner/moments.py",
        "event = Gaussian(multiplier * (1 - 1e-12), slack, tail)",
        "event = Gaussian(multiplier)",
        ("owner/moments/test_moments.py::test_the_noise_costs_what_was_asked_and_hardly_less",),
        "The event is that of continuous noise, and the noise is on integers.",
    ),
    Mutant(
        "moments-row-not-rounded",
        "engines/sums.py",
        "return LONGEST_CODE - math.ceil(math.sqrt(width) / 2)",
        "return LONGEST_CODE",
        (_LATTICE,),
        "On the lattice rows are longer than what noise is scaled to.",
        also=(
            Place(
                "kernels/sums.py",
                "if lengths[i] > most * most:",
                "if lengths[i] > 4 * most * most:",
            ),
        ),
    ),
    Mutant(
        "moments-long-row-kept",
        "kernels/sums.py",
        "if lengths[i] > most * most:",
        "if lengths[i] > 4 * most * most:",
        (
            "privacy/test_moment_sensitivity.py::test_a_row_of_codes_that_is_too_long_is_shortened_silently",
        ),
        "A row that floats made too long moves the sums further than is paid for.",
    ),
    Mutant(
        "moments-infinite-cell",
        "kernels/sums.py",
        "v = v if abs(v) <= LARGEST_NUMBER else instead",
        "v = v if v == v else instead",
        (
            "owner/moments/test_moments.py::test_no_record_is_an_error_and_the_owner_alone_is_told",
            "privacy/test_moment_sensitivity.py::test_no_two_rows_on_the_lattice_pass_the_bound",
        ),
        "An infinite cell makes a row of no length at all, and sums that are no numbers.",
    ),
    Mutant(
        "moments-strange-category-refused",
        "owner/scaling.py",
        "columns = encode(batch, pipeline.columns, unknown=unknown)",
        "columns = encode(batch, pipeline.columns, unknown=None)",
        (
            "owner/moments/test_moments.py::test_categories_that_were_not_declared_count_as_none",
            "owner/rados/test_rados.py::test_no_private_cell_is_an_error_and_the_owner_alone_is_told",
        ),
        "Whether a release is refused tells that a record holds a category.",
    ),
    Mutant(
        "moments-strange-label-refused",
        "owner/scaling.py",
        'replace(source, outside="none")',
        "source",
        ("owner/moments/test_moments.py::test_no_record_is_an_error_and_the_owner_alone_is_told",),
        "Whether a release is refused tells that a record has no label.",
    ),
    Mutant(
        "short-intervals",
        "learner/moments.py",
        "reach = float(ndtri(0.5 + level / 2)) * deviation\n",
        "reach = 0.9 * float(ndtri(0.5 + level / 2)) * deviation\n",
        (
            "learner/moments/test_moment_classifier.py::test_intervals_cover_what_exact_moments_would_give",
        ),
        "Nothing private, but 86 % where 90 % are stated.",
    ),
    Mutant(
        "short-intervals-of-a-regression",
        "learner/moments.py",
        "reach = float(ndtri(0.5 + level / 2)) * self.deviations_\n        names",
        "reach = 0.9 * float(ndtri(0.5 + level / 2)) * self.deviations_\n        names",
        (
            "learner/moments/test_moment_regressor.py::test_intervals_are_as_long_as_errors_where_noise_outweighs_sampling",
        ),
        "Nothing private, but too few intervals hold.",
    ),
)
