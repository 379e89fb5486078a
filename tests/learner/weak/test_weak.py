"""Weak supervision: unbiased where it says so, covariances right from both sides, and refusals."""

import numpy as np
import pytest

from builders import make_release
from suffice.errors import ForeignRowsError, ParameterError, TableError
from suffice.learner.problem import design_matrix
from suffice.learner.weak import (
    FlippedLabels,
    PlainLabels,
    PositiveUnlabelled,
    Released,
    SemiSupervised,
    estimate_mean_operator,
)

DRAWS = 500
_rng = np.random.default_rng(11)
ROWS = np.column_stack([_rng.normal(size=(600, 3)) * [1.0, 2.0, 0.5], np.ones(600)])
SIGNS = np.where(ROWS @ [1.0, -0.5, 0.0, 0.3] + _rng.normal(size=600) > 0, 1, -1)
THREE = np.digitize(ROWS[:, 0] + 0.5 * _rng.normal(size=600), [-0.5, 0.5])
del _rng  # tests draw from the fixture
MU = ROWS.T @ SIGNS / 600
M = ROWS.T @ np.eye(3)[THREE] / 600


def dense(noise, d=4):
    root = np.eye(d) if noise.array is None else noise.array
    return noise.variance * root @ root.T


def errors_and_trace(source_of, truth, draws=DRAWS):
    """Return errors of the estimates over fresh draws, and the mean stated covariance."""
    estimates = [estimate_mean_operator(ROWS, source_of()) for _ in range(draws)]
    return (
        np.array([estimate.operator - truth for estimate in estimates]),
        np.mean([dense(estimate.noise) for estimate in estimates], axis=0),
    )


def mean_is_zero(errors):
    """Say whether all coordinates' means are within 4.5 standard errors: false alarm < 1e-4."""
    flat = errors.reshape(len(errors), -1)
    spread = flat.std(axis=0) / np.sqrt(len(flat))
    return bool((np.abs(flat.mean(axis=0)) <= 4.5 * spread + 1e-12).all())


def is_the_covariance(errors, stated):
    """Compare the whitened spread with one; for a matrix, the mean over its columns.

    The ratio's deviation is about sqrt(2 / (d draws)) = .032 for four coordinates: .13 is four of
    those, a false alarm in 10^4. A covariance that is off by 1.3 either way is refused.
    """
    columns = errors.reshape(*errors.shape[:2], -1)
    inverse = np.linalg.pinv(stated, rcond=1e-9, hermitian=True)
    rank = np.linalg.matrix_rank(stated, tol=1e-9 * np.linalg.norm(stated, 2), hermitian=True)
    ratio = np.einsum("nic,ij,njc->", columns, inverse, columns) / (
        len(errors) * rank * columns.shape[2]
    )
    return abs(ratio - 1) < 0.13


def holds_from_both_sides(errors, stated):
    return (
        is_the_covariance(errors, stated)
        and not is_the_covariance(errors, 1.3 * stated)
        and not is_the_covariance(errors, stated / 1.3)
    )


def flipped(codes, channel, rng):
    """Return labels drawn from the column of each true one."""
    return (rng.random(len(codes)) > np.cumsum(channel, axis=0)[:, codes]).sum(axis=0)


# Labels that are all there


def test_exact_labels_give_the_mean_operator():
    two = estimate_mean_operator(ROWS, PlainLabels(SIGNS, (-1, 1)))
    assert np.allclose(two.operator, MU, atol=1e-12)
    assert not dense(two.noise).any()
    three = estimate_mean_operator(ROWS, PlainLabels(THREE, (0, 1, 2)))
    assert np.allclose(three.operator, M, atol=1e-12)
    assert three.classes == (0, 1, 2)


def test_the_second_declared_class_is_the_positive_one():
    swapped = estimate_mean_operator(ROWS, PlainLabels(SIGNS, (1, -1)))
    assert np.allclose(swapped.operator, -MU, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_release_is_taken_as_it_is(classes):
    release = make_release(classes, mechanism="laplace")
    raw = np.random.default_rng(0).normal(size=(60, 4))
    rows = design_matrix(raw, release.pipeline)
    estimate = estimate_mean_operator(rows, Released(release))
    assert estimate.operator is release.arrays["mean_operator"]
    assert estimate.noise is release.noise
    assert estimate.classes == release.classes
    with pytest.raises(ForeignRowsError, match="60 rows"):
        estimate_mean_operator(rows[:-1], Released(release))
    with pytest.raises(ForeignRowsError, match="coordinates"):
        estimate_mean_operator(rows[:, :-1], Released(release))


@pytest.mark.parametrize("classes", [2, 3])
def test_randomised_labels_of_a_release_are_corrected_like_flips(classes):
    release = make_release(classes, mechanism="response")
    rows = design_matrix(np.random.default_rng(0).normal(size=(60, 4)), release.pipeline)
    estimate = estimate_mean_operator(rows, Released(release))
    observed = np.eye(classes)[release.arrays["answers"]]
    matrix = rows.T @ observed @ np.linalg.inv(release.arrays["channel"]).T / 60
    expected = matrix[:, 1] - matrix[:, 0] if classes == 2 else matrix
    assert np.allclose(estimate.operator, expected, atol=1e-12)
    assert estimate.noise.form == "factor"


@pytest.mark.parametrize(
    "rows", [[1.0, 2.0], [["a"]], np.ones((3, 0)), [[np.nan]]], ids=["1d", "text", "empty", "nan"]
)
def test_rows_that_are_no_matrix_are_refused(rows):
    with pytest.raises(ParameterError, match="rows must be a matrix"):
        estimate_mean_operator(rows, PlainLabels([0], (0, 1)))


def test_something_that_is_no_source_is_refused():
    with pytest.raises(ParameterError, match="source must be"):
        estimate_mean_operator(ROWS, SIGNS)


def test_labels_must_be_one_per_row_and_declared():
    with pytest.raises(ParameterError, match="599 labels for 600 rows"):
        estimate_mean_operator(ROWS, PlainLabels(SIGNS[:-1], (-1, 1)))
    with pytest.raises(TableError, match="not in the class list"):
        estimate_mean_operator(ROWS, PlainLabels(THREE, (0, 1)))


# Flipped labels

PAIR = (0.1, 0.35)  # rho_neg, rho_pos
CHANNEL = np.array([[0.7, 0.2, 0.1], [0.2, 0.75, 0.05], [0.1, 0.05, 0.85]])


def draw_two():
    rng = np.random.default_rng(3)
    channel = np.array([[0.9, 0.35], [0.1, 0.65]])
    return lambda: 2 * flipped((SIGNS + 1) // 2, channel, rng) - 1


def draw_three():
    rng = np.random.default_rng(4)
    return lambda: flipped(THREE, CHANNEL, rng)


def test_the_correction_is_the_printed_one():
    labels = draw_two()()
    estimate = estimate_mean_operator(ROWS, FlippedLabels(labels, (-1, 1), PAIR))
    neg, pos = PAIR
    corrected = (labels + pos - neg) / (1 - pos - neg)
    assert np.allclose(estimate.operator, ROWS.T @ corrected / 600, atol=1e-12)
    matrix = np.array([[1 - neg, pos], [neg, 1 - pos]])
    same = estimate_mean_operator(ROWS, FlippedLabels(labels, (-1, 1), matrix))
    assert np.allclose(same.operator, estimate.operator, atol=1e-12)


@pytest.mark.parametrize(
    ("draw", "classes", "rates", "truth"),
    [(draw_two, (-1, 1), PAIR, MU), (draw_three, (0, 1, 2), CHANNEL, M)],
    ids=["two", "three"],
)
def test_flips_are_corrected_without_bias_and_their_noise_is_known(draw, classes, rates, truth):
    observed = draw()
    errors, stated = errors_and_trace(lambda: FlippedLabels(observed(), classes, rates), truth)
    assert mean_is_zero(errors)
    if len(classes) == 2:
        assert holds_from_both_sides(errors, stated)
    else:  # the mean over the columns, which differ: their sum is what can be compared
        ratio = (errors**2).sum(axis=2).mean(axis=0) / 3 / np.diag(stated)
        assert (np.abs(ratio - 1) < 0.16).all()  # deviation sqrt(2 / 1500) = .037 each
    again = draw()
    raw, _ = errors_and_trace(lambda: PlainLabels(again(), classes), truth, 100)
    assert not mean_is_zero(raw)


def test_the_variance_of_symmetric_flips_is_the_closed_form():
    """4 q (1 - q) / (1 - 2 q)^2 S / m, whatever the labels are."""
    estimate = estimate_mean_operator(ROWS, FlippedLabels(SIGNS, (-1, 1), (0.2, 0.2)))
    expected = 4 * 0.2 * 0.8 / 0.6**2 * ROWS.T @ ROWS / 600**2
    assert np.allclose(dense(estimate.noise), expected, rtol=1e-10)
    assert estimate.noise.array.shape == (4, 4)


def test_rates_of_zero_are_exact_labels():
    estimate = estimate_mean_operator(ROWS, FlippedLabels(THREE, (0, 1, 2), np.eye(3)))
    assert np.allclose(estimate.operator, M, atol=1e-12)
    assert not dense(estimate.noise).any()


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ((0.5, 0.5), "sum to 1, but"),
        ((0.7, 0.4), "sum to 1.1"),
        ((-0.1, 0.2), "probabilities"),
        ((0.5, 0.4999999), "condition number"),
        ((0.1, 0.2, 0.3), "2 x 2 matrix"),
        ([[0.9, 0.2], [0.2, 0.8]], "each column"),
        ("often", "2 x 2 matrix"),
    ],
)
def test_flip_rates_that_leave_nothing_are_refused(rates, reason):
    with pytest.raises(ParameterError, match=reason):
        estimate_mean_operator(ROWS, FlippedLabels(SIGNS, (-1, 1), rates))


def test_classes_that_look_alike_are_refused():
    alike = np.array([[0.5, 0.5, 0.1], [0.3, 0.3, 0.1], [0.2, 0.2, 0.8]])
    with pytest.raises(ParameterError, match="hardly be told apart"):
        estimate_mean_operator(ROWS, FlippedLabels(THREE, (0, 1, 2), alike))


# Positives and unlabelled rows

PRIOR = float((SIGNS > 0).mean())


def test_all_positives_and_the_right_prior_give_the_operator_itself():
    source = PositiveUnlabelled(SIGNS > 0, PRIOR, (-1, 1))
    estimate = estimate_mean_operator(ROWS, source)
    assert np.allclose(estimate.operator, MU, atol=1e-12)
    assert np.abs(dense(estimate.noise)).max() < 1e-15


def test_a_sample_of_the_positives_is_unbiased_with_the_stated_covariance():
    rng = np.random.default_rng(5)
    positive = np.flatnonzero(SIGNS > 0)

    def source():
        mask = np.zeros(600, dtype=bool)
        mask[rng.choice(positive, 60, replace=False)] = True
        return PositiveUnlabelled(mask, PRIOR, (-1, 1))

    errors, stated = errors_and_trace(source, MU)
    assert mean_is_zero(errors)
    assert holds_from_both_sides(errors, stated)


def test_positives_from_elsewhere_add_the_noise_of_the_rows_own():
    rng = np.random.default_rng(6)
    errors, stated = [], np.zeros((3, 3))
    for _ in range(DRAWS):
        signs = np.repeat([1, -1], [80, 120])
        rows = rng.normal(size=(200, 3)) + 0.5 * signs[:, None]
        outside = rng.normal(size=(40, 3)) + 0.5
        estimate = estimate_mean_operator(rows, PositiveUnlabelled(outside, 0.4, (-1, 1)))
        errors.append(estimate.operator - rows.T @ signs / 200)
        stated += dense(estimate.noise, 3) / DRAWS
    assert mean_is_zero(np.array(errors))
    assert holds_from_both_sides(np.array(errors), stated)


@pytest.mark.parametrize(
    ("positives", "prior", "classes", "reason"),
    [
        (SIGNS > 0, 0.0, (-1, 1), "prior"),
        (SIGNS > 0, 1.0, (-1, 1), "prior"),
        (SIGNS > 0, PRIOR / 2, (-1, 1), "Raise the prior"),
        (SIGNS > 0, PRIOR, (0, 1, 2), "two classes"),
        (SIGNS > 9, PRIOR, (-1, 1), "two or more"),
        (SIGNS, PRIOR, (-1, 1), "mask"),
        (ROWS[:5, :2], PRIOR, (-1, 1), "rows of 4"),
    ],
)
def test_positives_that_do_not_fit_are_refused(positives, prior, classes, reason):
    with pytest.raises(ParameterError, match=reason):
        estimate_mean_operator(ROWS, PositiveUnlabelled(positives, prior, classes))


# A labelled sample


def sampled(labels, rng, count=120):
    labels_given = np.full(600, None, dtype=object)
    chosen = rng.choice(600, count, replace=False)
    labels_given[chosen] = labels[chosen]
    return labels_given


def test_a_labelled_sample_is_unbiased_and_its_noise_is_known():
    rng = np.random.default_rng(8)
    errors, stated = errors_and_trace(lambda: SemiSupervised(sampled(SIGNS, rng), (-1, 1)), MU)
    assert mean_is_zero(errors)
    assert holds_from_both_sides(errors, stated)


def test_a_labelled_sample_of_three_classes_is_unbiased_too():
    """Each coordinate's spread, a mean over three columns, deviates by about sqrt(2 / 200) = .1."""
    rng = np.random.default_rng(8)
    errors, stated = errors_and_trace(
        lambda: SemiSupervised(sampled(THREE, rng), (0, 1, 2)), M, 200
    )
    assert mean_is_zero(errors)
    ratio = (errors**2).mean(axis=(0, 2)) / np.diag(stated)
    assert (np.abs(ratio - 1) < 0.4).all()
    assert not (np.abs(ratio / 2 - 1) < 0.4).all()
    assert not (np.abs(ratio * 2 - 1) < 0.4).all()


def test_the_control_variate_beats_the_labelled_rows_alone():
    """Residual variance is well below that of the labels: at most .75 of the squared error."""
    rng = np.random.default_rng(9)
    corrected_error, labelled_error = 0.0, 0.0
    for _ in range(100):
        sample = sampled(SIGNS, rng)
        labelled = np.array([label is not None for label in sample])
        estimate = estimate_mean_operator(ROWS, SemiSupervised(sample, (-1, 1)))
        corrected_error += np.sum((estimate.operator - MU) ** 2)
        labelled_error += np.sum((ROWS[labelled].T @ SIGNS[labelled] / labelled.sum() - MU) ** 2)
    assert corrected_error < 0.75 * labelled_error


def test_labels_without_a_trend_fall_back_on_the_labelled_rows():
    """No prediction of a fair coin is better than none: at most 5 % more noise than without."""
    rng = np.random.default_rng(10)
    coin = rng.choice([-1, 1], 600)
    sample = sampled(coin, rng, 60)
    labelled = np.array([label is not None for label in sample])
    estimate = estimate_mean_operator(ROWS, SemiSupervised(sample, (-1, 1)))
    labelled_covariance = np.cov((ROWS[labelled] * coin[labelled, None]).T) * (1 / 60 - 1 / 600)
    assert np.trace(dense(estimate.noise)) <= 1.05 * np.trace(labelled_covariance)


def test_missing_labels_may_be_nan_and_none_missing_is_exact():
    numbers = SIGNS.astype(float)
    numbers[::3] = np.nan
    objects = np.where(np.isnan(numbers), None, numbers)
    first = estimate_mean_operator(ROWS, SemiSupervised(numbers, (-1, 1)))
    second = estimate_mean_operator(ROWS, SemiSupervised(objects, (-1, 1)))
    assert np.array_equal(first.operator, second.operator)
    full = estimate_mean_operator(ROWS, SemiSupervised(SIGNS, (-1, 1)))
    assert np.allclose(full.operator, MU, atol=1e-12)
    assert not dense(full.noise).any()


def test_more_coordinates_than_labels_are_no_trouble():
    rng = np.random.default_rng(12)
    wide = rng.normal(size=(600, 150)) / 10
    estimate = estimate_mean_operator(wide, SemiSupervised(sampled(SIGNS, rng, 30), (-1, 1)))
    assert np.isfinite(estimate.operator).all()
    assert estimate.noise.array.shape[1] <= 150


@pytest.mark.parametrize(
    ("labels", "error", "reason"),
    [
        ([1] * 5 + [-1] * 4 + [None] * 591, ParameterError, "Only 9 rows have a label"),
        ([1] * 20 + [None] * 580, ParameterError, "1 of the classes"),
        ([1, -1] * 20, ParameterError, "40 labels for"),
        ([1, "a", *[None] * 598], TableError, "of one type"),
        ([1, -1, 7] * 200, TableError, "not in the class list"),
    ],
)
def test_samples_of_labels_that_do_not_fit_are_refused(labels, error, reason):
    with pytest.raises(error, match=reason):
        estimate_mean_operator(ROWS, SemiSupervised(labels, (-1, 1)))
