"""The parts of class ratios: exact identities, each fast path against a slow one, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from suffice.errors import ParameterError
from suffice.learner.ratio.bags import KnownBags, balanced_groups, exact_bags, resample_counts
from suffice.learner.ratio.embedding import (
    KERNELS,
    CellGram,
    Collector,
    ErrorBound,
    FourierSums,
    KernelSums,
    LinearSums,
    MeanEmbedding,
    RowKeeper,
    proportion_noise,
)
from suffice.learner.ratio.posteriors import (
    calibrate,
    fit_bag_likelihood,
    label_counts,
)
from suffice.models.simplex import nearest_proportions

SKEWED = np.array([[0.9, 0.1], [0.1, 0.9]])


def known_bags(proportions, size: int = 100, variance: float = 0.0) -> KnownBags:
    shares = np.asarray(proportions, dtype=float)
    many, classes = shares.shape
    exact = exact_bags(range(many), np.full(many, size), shares, tuple(range(classes)))
    return replace(exact, variances=np.full(many, variance))


def naive_gram(kernel, rows, cells, count, bandwidth):
    values = kernel.values(rows, rows, bandwidth)
    member = np.eye(count)[cells]
    return member.T @ values @ member


@pytest.mark.parametrize("name", ["rbf", "laplace"])
def test_exact_sums_are_those_of_all_pairs(name, rng):
    rows, cells, bandwidths = (
        rng.normal(size=(70, 3)),
        rng.integers(0, 5, 70),
        np.array([4.0, 2, 1]),
    )
    kernel = KERNELS[name]
    sums = KernelSums(kernel, bandwidths, 5)
    sums.update(rows[:30], cells[:30])
    sums.update(rows[30:], cells[30:])
    new, parts = rng.normal(size=(20, 3)), rng.integers(0, 2, 20)
    for level, bandwidth in enumerate(bandwidths):
        naive = naive_gram(kernel, rows, cells, 5, bandwidth)
        assert np.allclose(sums.grams()[level], naive, rtol=1e-8)
        across = np.eye(2)[parts].T @ kernel.values(new, rows, bandwidth) @ np.eye(5)[cells]
        assert np.allclose(sums.across(new, parts, 2, level), across)


def test_kernels_are_what_their_names_say():
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert KERNELS["rbf"].values(rows, rows, 5.0)[0, 1] == pytest.approx(np.exp(-0.5))
    assert KERNELS["laplace"].values(rows, rows, 7.0)[0, 1] == pytest.approx(np.exp(-1.0))
    assert KERNELS["rbf"].distance(rows) == pytest.approx(5)
    assert KERNELS["laplace"].distance(rows) == pytest.approx(7)


@pytest.mark.parametrize("name", ["rbf", "laplace"])
def test_fourier_sums_come_near_the_kernel(name, rng):
    """With 40,000 frequencies the mean error of a kernel value is about .005."""
    rows, cells = rng.normal(size=(40, 2)), rng.integers(0, 4, 40)
    bandwidths = np.array([8.0, 4.0, 2.0])
    kernel = KERNELS[name]
    sums = FourierSums(kernel.draw(rng, (2, 40_000)), bandwidths, 4)
    sums.update(rows[:25], cells[:25])
    sums.update(rows[25:], cells[25:])
    new, parts = rng.normal(size=(10, 2)), np.zeros(10, dtype=int)
    for level, bandwidth in enumerate(bandwidths):
        naive = naive_gram(kernel, rows, cells, 4, bandwidth)
        assert np.allclose(sums.grams()[level], naive, atol=0.03 * 100)
        across = kernel.values(new, rows, bandwidth).sum(axis=0) @ np.eye(4)[cells]
        assert np.allclose(sums.across(new, parts, 1, level)[0], across, atol=0.03 * 100)
        diagonal = np.diag(sums.grams()[level]) / np.bincount(cells) ** 2
        assert np.all(diagonal <= 1 + 1e-9)


def test_linear_sums_are_products_of_sums(rng):
    rows, cells = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    sums = LinearSums(3)
    sums.update(rows, cells)
    totals = np.eye(3)[cells].T @ rows
    assert np.allclose(sums.grams()[0], totals @ totals.T)
    assert np.allclose(sums.squares, np.eye(3)[cells].T @ (rows**2).sum(axis=1))
    assert np.allclose(sums.across(rows[:4], np.zeros(4, int), 1, 0), rows[:4].sum(0) @ totals.T)


def embedded(bag_info: KnownBags, rows, codes, rng, **options) -> MeanEmbedding:
    groups = 10
    cells = codes * groups + balanced_groups(codes, groups, rng)
    count = groups * len(bag_info.names)
    sums = LinearSums(count)
    sums.update(rows, cells)
    gram = CellGram(sums.grams()[0], np.bincount(cells, minlength=count), sums.squares, groups)
    return MeanEmbedding(bag_info, gram, np.ones(count), **options)


def test_the_noise_that_is_taken_off_the_class_gram_is_what_sampling_adds():
    """Over 400 draws the mean class Gram is the true one; with the noise left in it is not."""
    means, rng = np.array([[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]]), np.random.default_rng(1)
    bag_info = known_bags(SKEWED, size=40)
    grams, raw = [], []
    for _ in range(400):
        labels = np.concatenate([np.repeat([0, 1], [36, 4]), np.repeat([0, 1], [4, 36])])
        rows = means[labels] + rng.normal(size=(80, 3))
        fitted = embedded(bag_info, rows, np.repeat([0, 1], 40), rng)
        direction = np.array([-1.0, 1.0])
        grams.append(fitted.energy(direction))
        raw.append(direction @ bag_info.solved @ fitted.bag_gram @ bag_info.solved.T @ direction)
    error = np.std(grams) / np.sqrt(len(grams))
    assert abs(np.mean(grams) - 1.25) < 4 * error
    assert np.mean(raw) - 1.25 > 6 * error


def test_both_constraints_agree_where_the_answer_is_inside(rng):
    """For M = K without sampling noise to take off, P^T alpha is the answer of either."""
    bag_info = known_bags(SKEWED, size=10**6)
    rows, codes = rng.normal(size=(400, 3)), np.repeat([0, 1], 200)
    rows[200:, 0] += 2.0
    across = embedded(bag_info, rows, codes, rng).cells.products.sum(axis=1) / 400
    paper = embedded(bag_info, rows, codes, np.random.default_rng(7), constraint="euclidean")
    kernel_metric = replace(paper, constraint="rkhs")
    object.__setattr__(
        kernel_metric, "class_gram", kernel_metric._solved_gram(kernel_metric.bag_gram)
    )  # noise left in
    assert np.allclose(paper.ratios(across), kernel_metric.ratios(across), atol=1e-8)


def test_more_bags_than_classes_are_solved_by_weighted_least_squares(rng):
    shares = rng.dirichlet(np.ones(3), size=7)
    sizes = rng.integers(50, 500, 7)
    bag_info = replace(known_bags(shares), sizes=sizes.astype(float))
    classes = rng.normal(size=(3, 4))
    assert np.allclose(bag_info.solved @ (shares @ classes), classes)
    moved = shares @ classes + rng.normal(size=(7, 4))
    root = np.sqrt(sizes)[:, None]
    direct = np.linalg.lstsq(root * shares, root * moved, rcond=None)[0]
    assert np.allclose(bag_info.solved @ moved, direct)


def test_the_channel_is_the_probability_of_bags_given_classes():
    bag_info = replace(known_bags([[0.5, 0.5], [0.25, 0.75]]), sizes=np.array([200.0, 400.0]))
    assert np.allclose(bag_info.channel.sum(axis=0), 1)
    assert np.allclose(bag_info.channel, [[0.5, 0.25], [0.5, 0.75]])
    assert np.allclose(bag_info.prior, [200 / 600, 400 / 600])


@pytest.mark.parametrize(
    ("shares", "match"),
    [
        ([[0.5, 0.25, 0.25], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]], "do not tell classes 1, 2 apart"),
        ([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.8, 0.2, 0.0]], "Class 2 occurs in no bag"),
        ([[0.5, 0.3, 0.2], [0.2, 0.8, 0.0]], "2 bags cannot tell 3 classes apart"),
        ([[0.5, 0.5], [0.5, 0.5]], "do not tell classes 0, 1 apart"),
    ],
)
def test_proportions_that_do_not_identify_the_classes_are_refused(shares, match):
    with pytest.raises(ParameterError, match=match):
        known_bags(shares).check()


def test_noise_that_hides_the_difference_of_bags_is_refused():
    close = [[0.52, 0.48], [0.48, 0.52]]
    known_bags(close).check()
    known_bags(close, variance=1e-5).check()
    with pytest.raises(ParameterError, match="The noise on the proportions hides"):
        known_bags(close, variance=1e-3).check()
    with pytest.raises(ParameterError, match="fewer than 10 rows"):
        known_bags(SKEWED, size=9).check()


def test_redrawn_proportions_have_the_stated_noise_and_stay_proportions(rng):
    bag_info = known_bags([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]], variance=1e-4)
    redrawn = np.array([bag_info.redraw(rng).proportions for _ in range(1500)])
    assert np.allclose(redrawn.sum(axis=2), 1)
    assert redrawn.min() >= 0
    spread = redrawn.var(axis=0) / (1e-4 * 2 / 3)  # a third goes with the total
    assert np.abs(spread - 1).max() < 6 * np.sqrt(2 / 1500)
    exact = known_bags(SKEWED)
    assert exact.redraw(rng) is exact


def drawn_bags(rng, size: int = 20_000) -> tuple[KnownBags, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of rows whose posterior has slope 2, three bags of them, and their labels."""
    scores = rng.normal(size=(size, 3))
    posterior = softmax(2.0 * scores + [0.0, 0.5, -0.5], axis=1)
    labels = (posterior.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    channel = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.2, 0.6]])
    codes = (channel.T[labels].cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    counts = np.zeros((3, 3))
    np.add.at(counts, (codes, labels), 1)
    sizes = counts.sum(axis=1)
    bag_info = exact_bags(range(3), sizes, counts / sizes[:, None], (0, 1, 2))
    return bag_info, scores, codes, labels


@pytest.mark.parametrize("complete", [True, False])
def test_calibration_finds_slope_and_shifts_through_the_channel(complete):
    bag_info, scores, codes, _ = drawn_bags(np.random.default_rng(3))
    start = calibrate(bag_info, scores, codes, alone=True)
    calibration = calibrate(bag_info, scores, codes, start, complete=complete)
    assert calibration.slope == pytest.approx(2.0, abs=0.2)
    assert calibration.shifts[1] - calibration.shifts[0] == pytest.approx(0.5, abs=0.2)
    assert calibration.shifts[2] - calibration.shifts[0] == pytest.approx(-0.5, abs=0.2)


def test_rows_that_count_nothing_are_as_if_left_out():
    rng = np.random.default_rng(4)
    bag_info, scores, codes, _ = drawn_bags(rng, 3000)
    half = rng.random(3000) < 0.5
    start = calibrate(bag_info, scores, codes, alone=True)
    weighted = calibrate(bag_info, scores, codes, start, counts=half.astype(float))
    of_half = calibrate(bag_info, scores[half], codes[half], replace(start, bend=None))
    assert weighted.slope == pytest.approx(of_half.slope, rel=5e-3)


def test_the_counts_of_labels_bring_calibration_nearer_to_that_by_labels():
    """Over 60 draws; without counts the shifts spread 1.2 times as much."""
    off = {True: [], False: []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size = 400
        labels = np.repeat([0, 1, 0, 1], [360, 40, 40, 360])
        scores = np.column_stack([np.zeros(2 * size), 2 * labels - 1 + rng.normal(size=2 * size)])
        codes, bag_info = np.repeat([0, 1], size), known_bags(SKEWED, size=size)
        by_bags = calibrate(bag_info, scores, codes, alone=True)  # slope 2, shift 0
        by_counts = calibrate(bag_info, scores, codes, by_bags, complete=True)
        off[False].append(by_bags.shifts[1] - by_bags.shifts[0])
        off[True].append(by_counts.shifts[1] - by_counts.shifts[0])
    assert np.std(off[True]) < 0.95 * np.std(off[False])
    assert abs(np.mean(off[True])) < 4 * np.std(off[True]) / np.sqrt(60)


def test_the_covariance_of_label_counts_is_that_of_draws(rng):
    """Labels drawn row by row from their probabilities; one row is added to the diagonal."""
    within, codes = rng.dirichlet(np.ones(3), size=80), np.repeat([0, 1], 40)
    bag_info = known_bags([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], size=40, variance=1e-3)
    expected, precisions = label_counts(bag_info, codes, np.ones(80), within)
    draws = rng.random((20_000, 40, 1)) > within[:40].cumsum(axis=1)
    drawn_counts = np.eye(3)[draws.sum(axis=2)].sum(axis=1)
    covariance = np.linalg.inv(precisions[0]) - np.eye(3) * (1 + 1e-3 * 40**2)
    assert np.allclose(expected[0], [20, 12, 8])
    assert np.allclose(covariance, np.cov(drawn_counts.T), atol=0.4)
    _, of_sample = label_counts(bag_info, codes, np.ones(80), None)
    shares = np.array([0.5, 0.3, 0.2])
    covariance = np.linalg.inv(of_sample[0]) - np.eye(3) * (1 + 1e-3 * 40**2)
    assert np.allclose(covariance, 40 * (np.diag(shares) - np.outer(shares, shares)))
    assert label_counts(replace(bag_info, variances=None), codes, np.ones(80), within) is None


def test_calibration_stops_where_its_objective_is_least(rng):
    """A slow twin: the likelihood and the counts' distance written out, moved a little each way."""
    bag_info, scores, codes, _ = drawn_bags(rng, 600)
    weights = rng.integers(0, 3, 600).astype(float)
    expected, precisions = label_counts(bag_info, codes, weights, None)
    start = calibrate(bag_info, scores, codes, alone=True)
    calibration = calibrate(bag_info, scores, codes, start, counts=weights)

    def loss(flat):
        value = flat @ flat / 2
        sums = np.zeros((3, 3))
        for row, code, weight in zip(scores, codes, weights, strict=True):
            joint = bag_info.channel[code] * softmax(np.exp(flat[0]) * row + flat[1:])
            value -= weight * np.log(joint.sum())
            sums[code] += weight * joint / joint.sum()
        off = sums - expected
        return value + sum(d @ c @ d for d, c in zip(off, precisions, strict=True)) / 2

    best = np.append(np.log(calibration.slope), calibration.shifts)
    for step in 0.05 * np.vstack([np.eye(4), -np.eye(4)]):
        assert loss(best) < loss(best + step)


def test_a_classifier_of_bags_finds_the_posterior_of_classes(rng):
    """Without one label: two Gaussian classes a distance of 2 apart have slope 2."""
    size = 1500
    labels = np.concatenate([rng.random(size) < 0.1, rng.random(size) < 0.9]).astype(int)
    rows = rng.normal(size=(2 * size, 2)) + 2.0 * labels[:, None] * [1, 0]
    codes = np.repeat([0, 1], size)
    bag_info = known_bags(SKEWED, size=size)
    fitted = fit_bag_likelihood(bag_info, rows, codes, rng)
    log = fitted.calibration.log_posteriors(fitted.scores_of(np.array([[0.0, 0], [1, 0], [2, 0]])))
    odds = log[:, 1] - log[:, 0]
    assert np.allclose(odds, [-2, 0, 2], atol=0.6)
    assert fitted.gain[0] > 10 * fitted.gain[1]
    wide = np.hstack([rows, 0.01 * rng.normal(size=(2 * size, 200))])
    assert fit_bag_likelihood(bag_info, wide, codes, rng).fold_weights.shape == (5, 129, 2)


def test_groups_are_even_and_draws_keep_their_number(rng):
    codes = np.repeat([0, 1, 2], [40, 7, 103])
    groups = balanced_groups(codes, 10, rng)
    for code, size in ((0, 40), (1, 7), (2, 103)):
        counts = np.bincount(groups[codes == code], minlength=10)
        assert counts.max() - counts.min() <= 1
        assert resample_counts(codes, rng)[codes == code].sum() == size


def test_a_keeper_samples_evenly_and_keeps_small_bags_whole(rng):
    keeper = RowKeeper(2, 500, rng)
    for first in range(0, 20_000, 1000):
        numbers = np.arange(first, first + 1000, dtype=float)[:, None]
        keeper.update(numbers, (numbers[:, 0] % 100 == 0).astype(int))
    rows, codes = keeper.result()
    assert np.array_equal(rows[codes == 1, 0], np.arange(0, 20_000, 100))
    kept_rows = rows[codes == 0, 0]
    assert len(kept_rows) == 500
    assert abs(kept_rows.mean() - 10_000) < 5 * 20_000 / np.sqrt(12 * 500)


def test_memory_of_sums_is_bounded_by_fewer_features(rng):
    rows = rng.normal(size=(50, 2))
    few = Collector(known_bags(SKEWED, size=5000), "rbf", "cv", "auto", rng)
    many = Collector(known_bags(np.tile(SKEWED, (150, 1)), size=5000), "rbf", "cv", "auto", rng)
    assert few._empty_sums(rows)._sums.shape[-1] == 512
    assert many._empty_sums(rows)._sums.nbytes <= 1 << 28


def test_the_bound_is_theorem_1_with_what_is_known_of_the_true_embeddings():
    bag_info = known_bags(SKEWED, size=10_000)
    gram = np.array([[0.5, 0.2], [0.2, 0.4]])
    bound = ErrorBound.of(gram, bag_info)
    s = np.sqrt(np.linalg.eigvalsh(gram)[0])
    c = 2 / 100 + np.sqrt(np.log(2 * 5 / 0.05) / 20_000)
    q = np.linalg.norm(SKEWED, 2) / s
    assert bound.condition == pytest.approx(q)
    assert bound(10_000) == pytest.approx(np.sqrt(2) * c / (s - np.sqrt(2) * c) * (1 + q) + q * c)
    noisy = ErrorBound.of(gram, replace(bag_info, variances=np.full(2, 1e-4)))
    assert noisy(10_000) > bound(10_000)
    unknown = ErrorBound.of(gram, replace(bag_info, variances=None))
    with pytest.raises(ParameterError, match="release that states its noise"):
        unknown(10_000)


def test_small_bags_and_more_bags_than_classes_have_no_bound():
    gram = np.array([[0.5, 0.2], [0.2, 0.4]])
    assert ErrorBound.of(gram, known_bags(SKEWED, size=20))(10_000) == np.inf
    three = ErrorBound.of(np.eye(3), known_bags([*SKEWED, [0.5, 0.5]], size=10_000))
    assert three.condition > 0
    with pytest.raises(ParameterError, match="as many bags as classes"):
        three(10_000)


def test_the_noise_of_proportions_stays_below_its_bound_and_lemma_4_above_it(rng):
    variances = np.full((4, 3), 1e-4)
    bound = proportion_noise(variances, 0.1)
    # Iyer et al. 2016, Lemma 4: M K max deviation / sqrt(zeta), a union bound over entries.
    printed = variances.size * np.sqrt(variances.max() / 0.1)
    noise = rng.normal(size=(20_000, 12)) * 1e-2
    norms = np.linalg.norm(noise, axis=1)
    assert np.mean(norms > bound) < 0.1
    assert printed >= np.sqrt(12) * bound * (1 - 1e-12)
    centre = np.array([0.5, 0.3, 0.2])
    moved = nearest_proportions(centre + 0.3 * rng.normal(size=(500, 3)))
    assert moved.min() >= 0
