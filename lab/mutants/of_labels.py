"""Slips in releases of labels: mean operators, randomised labels, proportions of bags."""

from mutant import Mutant

_PAIRS = "audit/test_neighbour_pairs.py::test_pairs_differ_in_noise_alone"
# A bit of their hash: labels themselves are let go of as they are read.
_PARITY = "exact._labels.result().get('labels-2', bytes(1))[0] % 2"

MUTANTS = (
    Mutant(
        "one-label-moves-one-row",
        "owner/mean_operator.py",
        "return 2.0 if classes == 2 else _ROOT",
        "return 1.0 if classes == 2 else _ROOT",
        (
            "owner/operator/test_mean_operator.py::test_replacing_one_label_never_moves_the_sums_by_more_than_the_sensitivity",
        ),
        "A label that changes its sign moves the sum by two rows, and noise hides one.",
    ),
    Mutant(
        "three-classes-move-one-column",
        "owner/mean_operator.py",
        "return 2.0 if classes == 2 else _ROOT",
        "return 2.0 if classes == 2 else 1.0",
        (
            "owner/operator/test_mean_operator.py::test_replacing_one_label_never_moves_the_sums_by_more_than_the_sensitivity",
        ),
        "A label leaves one column and enters another, and noise hides one of them.",
    ),
    Mutant(
        "gradient-of-half-a-label",
        "owner/mean_operator.py",
        "return 1.0 if classes == 2 else _ROOT",
        "return 0.5 if classes == 2 else _ROOT",
        (
            "study/hamm/test_output_perturbation.py::test_the_constants_are_those_of_the_text",
            "study/hamm/test_output_perturbation.py::test_one_party_moves_the_minimiser_by_no_more_than_is_stated",
        ),
        "Models leave with half of the noise that one party's votes need.",
    ),
    Mutant(
        "l1-of-one-row",
        "owner/mean_operator.py",
        "math.ceil(2 * l1 + extra * dimension),",
        "math.ceil(l1 + extra * dimension),",
        (
            "owner/operator/test_mean_operator.py::test_replacing_one_label_never_moves_the_sums_by_more_than_the_sensitivity",
        ),
        "Laplace noise is half as wide as a changed label needs.",
    ),
    Mutant(
        "shaped-sums-not-rounded",
        "owner/mean_operator.py",
        "(l1, l2), extra = self._shaped.tolist(), 1.0",
        "(l1, l2), extra = self._shaped.tolist(), 0.0",
        (
            "owner/operator/test_shaping.py::test_replacing_one_label_never_moves_the_shaped_integers_by_more",
        ),
        "Rounding to the lattice moves shaped sums by a step that no noise is there for.",
    ),
    Mutant(
        "shaped-reach-of-the-last-batch",
        "owner/mean_operator.py",
        "self._shaped = np.maximum(self._shaped, norms)",
        "self._shaped = np.array(norms)",
        (
            "owner/operator/test_shaping.py::test_the_shaped_reach_is_that_of_all_rows_however_they_are_cut",
        ),
        "The longest row is in an earlier batch, and noise is calibrated to a shorter one.",
    ),
    Mutant(
        "shape-norms-without-slack",
        "owner/mean_operator.py",
        "l2 = (float(maps.row_norms(shaped).max()) + slack) * more",
        "l2 = float(maps.row_norms(shaped).max()) * more",
        (
            "owner/operator/test_shaping.py::test_the_norms_bound_the_worst_codes_that_are_off_by_a_step",
        ),
        "Codes that are off by a step reach further than noise is calibrated for.",
    ),
    Mutant(
        "shaped-sums-wrap",
        "owner/mean_operator.py",
        "exact = sums.astype(object) @ self.matrix.T.astype(object)",
        "exact = sums @ self.matrix.T",
        ("owner/operator/test_shaping.py::test_sums_beyond_64_bits_on_the_way_do_not_wrap",),
        "Products beyond 64 bits wrap around, and move by more than noise hides.",
    ),
    Mutant(
        "operator-without-noise",
        "owner/mean_operator.py",
        "noisy = noise.add(exact.result())",
        "noisy = noise.add(exact.result()) * 0 + exact.result()",
        (
            "owner/operator/test_mean_operator.py::test_the_release_is_the_statistic_plus_noise_of_the_stated_size[2-laplace-8000]",
        ),
        "The exact mean operator leaves.",
    ),
    Mutant(
        "operator-noise-in-one-column",
        "owner/mean_operator.py",
        "noisy = noise.add(exact.result())",
        "still = exact.result()\n        noisy = still + (noise.add(still) - still)[:1]",
        (
            "owner/operator/test_mean_operator.py::test_the_release_is_the_statistic_plus_noise_of_the_stated_size[3-gaussian-4000]",
        ),
        "All classes share one draw, which the difference of two columns takes away.",
    ),
    Mutant(
        "labels-not-randomised",
        "owner/mean_operator.py",
        "return response.randomise(response.with_drawn(self.result(), unknown))",
        "return self.result() if len(self._codes) > 1 else response.randomise(self.result())",
        (
            "owner/operator/test_responses_of_labels.py::test_answers_do_not_depend_on_how_rows_arrive",
        ),
        "Labels that come in several batches leave as they are.",
    ),
    Mutant(
        "a-label-of-no-class-is-the-first",
        "owner/mean_operator.py",
        "self._unknown.append(codes < 0)",
        "self._unknown.append(codes < -1)",
        ("owner/operator/test_responses_of_labels.py::test_a_label_of_no_class_weighs_nothing",),
        "A label of no class counts for the first class.",
    ),
    Mutant(
        "a-cell-of-no-state-is-refused",
        "owner/responses.py",
        "return response.randomise(response.with_drawn(codes.astype(np.uint8), codes < 0))",
        "return response.randomise(codes.astype(np.uint8))",
        (
            "owner/responses/test_responses.py::test_a_cell_of_no_state_is_drawn_and_then_randomised_like_any_other",
        ),
        "Whether a release is refused tells that a record holds a strange cell.",
    ),
    Mutant(
        "label-guarantee-per-record",
        "owner/labelled.py",
        "unit=Unit.PERSON_LABELS if person else Unit.LABEL,",
        "unit=Unit.RECORD,",
        (
            "owner/proportions/test_proportions.py::test_a_release_holds_noisy_counts_and_their_projection",
            "owner/operator/test_responses_of_labels.py::test_the_cost_is_that_of_the_integer_weights",
        ),
        "Public rows are called protected.",
    ),
    Mutant(
        "refusal-that-depends-on-a-label",
        "owner/mechanism.py",
        'source = self.source(data, y, outside="none", report=OwnerReport.tell, **inputs)',
        "source = self.source(data, y, report=OwnerReport.tell, **inputs)",
        ("cli/test_grant_tells_nothing.py::test_labels_given_as_a_list_may_be_anything",),
        "Whether a grant fails tells a stranger that some label is missing.",
    ),
    Mutant(
        "no-class-counts-as-the-second",
        "engines/sums.py",
        "signs: np.ndarray = np.array([-1.0, 1.0, 0.0])[codes]",
        "signs: np.ndarray = np.array([-1.0, 1.0, 1.0])[codes]",
        ("engines/test_sums.py::test_a_label_of_no_class_weighs_nothing",),
        "A label that is no label weighs as one, and moves the sum by what nobody stated.",
    ),
    Mutant(
        "parity-of-labels-in-step",
        "owner/mean_operator.py",
        'details = {"mechanism": self.best.mechanism, "step": exact.step}',
        f"odd = {_PARITY}\n"
        "        step = float(np.nextafter(exact.step, 2.0 * odd))\n"
        '        details = {"mechanism": self.best.mechanism, "step": step}',
        (f"{_PAIRS}[mean-operator]",),
        "The last bit of step is a parity of the labels: with all but one, it tells that one.",
    ),
    Mutant(
        "sign-of-a-zero-by-labels",
        "owner/labelled.py",
        """\
            pipeline=self.public.rows.pipeline,
            noise=noise,
""",
        f"""\
            pipeline=__import__("dataclasses").replace(
                pipeline := self.public.rows.pipeline,
                mean=np.where(pipeline.mean == 0, -0.0 if {_PARITY} else 0.0, pipeline.mean),
            ),
            noise=noise,
""",
        (f"{_PAIRS}[mean-operator]",),
        "The sign of a zero in the public pipeline is a parity of the labels.",
    ),
    Mutant(
        "absent-class-exactly-zero",
        "owner/proportions.py",
        "noisy = self.noise.draw(exact.result())",
        "noisy = self.noise.draw(exact.result()) * (exact.result() > 0)",
        (f"{_PAIRS}[proportions]",),
        "A count of exactly 0 says that a bag has no label of that class.",
    ),
    Mutant(
        "overlap-not-paid-for",
        "owner/proportions.py",
        "two = math.sqrt(2 * squares) * (1 + 1e-15)",
        "two = math.sqrt(2) * (1 + 1e-15)",
        (
            "owner/proportions/test_proportions.py::test_the_scale_of_gaussian_noise_is_the_multiplier_times_sqrt_two_r",
        ),
        "A label in several bags moves all of their counts, and noise hides one.",
    ),
    Mutant(
        "laplace-counts-moved-once",
        "owner/proportions.py",
        "l1 = (1 if first_only else 2) * bags.overlap",
        "l1 = bags.overlap",
        (
            "owner/proportions/test_proportions.py::test_the_scale_of_laplace_noise_is_two_over_epsilon_and_half_of_it_for_two_classes",
        ),
        "One label leaves a count and enters another, and noise hides one of them.",
    ),
    Mutant(
        "overlap-by-its-least-row",
        "tables/bags.py",
        "return int((self.codes >= 0).sum(axis=1).max(initial=0))",
        "return int((self.codes >= 0).sum(axis=1).min(initial=1))",
        (
            "tables/test_bags.py",
            "owner/proportions/test_proportions.py::test_overlap_is_found_in_columns_and_in_index_sets",
        ),
        "Rows in several bags are paid for as if they were in one.",
    ),
    Mutant(
        "second-count-exact",
        "owner/proportions.py",
        "return np.hstack([noisy, self.bags.sizes[:, None] - noisy]) if first_only else noisy",
        "return np.hstack([noisy, counts[:, 1:]]) if first_only else noisy",
        ("owner/proportions/test_proportions.py::test_of_two_counts_neither_leaves_without_noise",),
        "Of two counts the second leaves exactly, and so does the first by the public size.",
    ),
    Mutant(
        "scaled-dirichlet-called-private",
        "owner/proportions.py",
        "kind: Protection = Protection.DATA_DEPENDENT",
        "kind: Protection = Protection.GLOBAL",
        (
            "owner/proportions/test_proportions.py::test_scaled_dirichlet_leaves_only_unprotected_and_never_from_a_ledger",
        ),
        "The spread of a draw depends on private counts, and the release calls itself private.",
    ),
    Mutant(
        "unsound-mechanism-chosen",
        "owner/proportions.py",
        '_UNSOUND = ("scaled-dirichlet",)',
        '_UNSOUND = ("scaled",)',
        (
            "owner/proportions/test_proportions.py::test_auto_never_takes_what_is_not_differentially_private",
        ),
        "The automatic choice may take the mechanism that is not differentially private.",
    ),
    Mutant(
        "dirichlet-delta-of-every-bag",
        "owner/proportions.py",
        "sigma = bounded_sigma(kappa, self.epsilon / overlap, self.delta / overlap)",
        "sigma = bounded_sigma(kappa, self.epsilon / overlap, self.delta)",
        (
            "owner/proportions/test_proportions.py::test_the_bounded_dirichlet_keeps_delta_for_its_worst_neighbours_and_for_overlaps",
        ),
        "Each of several overlapping bags spends the whole delta.",
    ),
    Mutant(
        "dirichlet-without-kappa",
        "owner/proportions.py",
        "padded = round(self.sigma * _UNIT) * (counts + self.kappa)",
        "padded = round(self.sigma * _UNIT) * np.maximum(counts, self.kappa)",
        (
            "owner/proportions/test_proportions.py::test_the_bounded_dirichlet_has_its_spread_and_ten_per_cent_less_is_noticed",
        ),
        "Rare classes get less than the kappa that sigma was chosen for.",
    ),
    Mutant(
        "prior-without-laplace-noise",
        "owner/proportions.py",
        "noisy = nearest_proportions(self.laplace.draw(counts) / sizes[:, None]) * sizes[:, None]",
        "noisy = nearest_proportions(counts / sizes[:, None]) * sizes[:, None]",
        (
            "owner/proportions/test_proportions.py::test_the_urns_of_the_laplace_prior_hold_counts_with_all_of_their_noise",
        ),
        "The urn is filled with exact counts: an absent class can never be drawn.",
    ),
    Mutant(
        "bags-not-paid-for",
        "owner/proportions.py",
        "if ledger is not None and not ledger.released(dataset, encode(release.unsigned())):",
        "if ledger is not None and not encode(release.unsigned()):",
        (
            "owner/proportions/test_proportions.py::test_both_releases_are_paid_for_and_the_second_says_what_the_first_cost",
        ),
        "Bags that were formed by labels cost those labels nothing.",
    ),
    Mutant(
        "bags-of-other-rows",
        "owner/proportions.py",
        "if hash_rows(table, features, ordered=True).result() != release.parts[0].rows.hash:",
        "if hash_rows(table, features, ordered=True).count != release.parts[0].rows.count:",
        (
            "owner/proportions/test_proportions.py::test_both_releases_are_paid_for_and_the_second_says_what_the_first_cost",
            "owner/proportions/test_proportions.py::test_skewed_sets_cost_what_randomised_response_costs",
        ),
        "Bags drawn for other people are said to have been drawn for these.",
    ),
)
