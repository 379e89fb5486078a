"""Whether bags contradict label shift: false alarms, power, noise on proportions, and the range."""

from dataclasses import replace

import numpy as np
import pytest

from suffice.learner.ratio import natural
from suffice.learner.ratio.bags import KnownBags, exact_bags
from suffice.learner.ratio.estimator import ClassRatio
from suffice.learner.ratio.natural import (
    LabelShiftTest,
    NaturalRange,
    RatioEstimate,
    _few_bags,
    assess_label_shift,
    fit_stable_classifier,
    natural_range,
)
from suffice.learner.ratio.posteriors import ByMoments, ScoreMoments, fit_bag_likelihood
from suffice.models.simplex import nearest_proportions

MEANS = np.array([[0.0] * 6, [1.5, 1.0, 0.0, 0.0, 0.0, 0.0]])


def draw_bags(rng, shares, size: int, epsilon: float | None = None):
    """Return label-shifted bags with skewed columns: what is known of them, rows and codes."""
    many = len(shares)
    ones = np.rint(size * np.asarray(shares)).astype(int)
    labels = np.concatenate([np.repeat([1, 0], [one, size - one]) for one in ones])
    rows = MEANS[labels] + rng.exponential(size=(many * size, 6))
    exact = np.column_stack([1 - ones / size, ones / size])
    bags = exact_bags(range(many), np.full(many, size), exact, (0, 1))
    if epsilon is not None:
        bags = with_noise(bags, rng, epsilon)
    return bags, rows, np.repeat(np.arange(many), size), labels


def with_noise(bags: KnownBags, rng, epsilon: float) -> KnownBags:
    """Return the bags as Laplace noise on one count leaves them."""
    noise = rng.laplace(size=len(bags.sizes)) / epsilon / bags.sizes
    noisy = bags.proportions + np.outer(noise, [-1, 1])
    variances = 4 / (epsilon * bags.sizes) ** 2  # of a unit direction: two entries move
    return replace(
        bags, proportions=nearest_proportions(noisy), unprojected=noisy, variances=variances
    )


@pytest.mark.parametrize(("size", "epsilon"), [(100, None), (100, 0.1), (100, 1.0), (400, 0.1)])
def test_label_shifted_bags_are_rejected_about_as_often_as_the_level_says(size, epsilon):
    """200 nulls: more than 20 happen with a probability of .002 if the level of .05 holds."""
    rng = np.random.default_rng(5)
    tests = []
    for _ in range(200):
        bags, rows, codes, _ = draw_bags(rng, np.linspace(0.1, 0.9, 7), size, epsilon)
        tests.append(assess_label_shift(bags, rows, codes))
    assert sum(test.rejected for test in tests) <= 20
    assert all(test.excess >= 1 for test in tests)


def test_noise_on_proportions_would_be_taken_for_another_difference():
    """With the noise left out of the covariances a fifth of the nulls or more are rejected."""
    rng = np.random.default_rng(5)
    rejected = []
    for _ in range(60):
        bags, rows, codes, _ = draw_bags(rng, np.linspace(0.1, 0.9, 7), 100, 0.1)
        unaware = replace(bags, variances=np.zeros(7))
        rejected.append(assess_label_shift(unaware, rows, codes).rejected)
    assert np.mean(rejected) > 0.2


def test_noise_does_not_hide_bags_that_lie_farther_apart_than_classes_can(monkeypatch):
    """Bags by x, and p(y | x) stable: bag means differ by x, and x says the class.

    As class means, those lie farther apart than the rows within bags allow. The noise on P counts
    for no more than possible class means would make of it: else it hides the contradiction.
    """
    rng = np.random.default_rng(12)
    codes = np.repeat(np.arange(10), 250)
    rows = rng.normal(size=(2500, 4))
    rows[:, 0] = np.linspace(-2, 2, 10)[codes] + 0.3 * rows[:, 0]
    labels = (rng.random(2500) < 1 / (1 + np.exp(-rows[:, 0]))).astype(int)
    exact = exact_bags(range(10), np.full(10, 250), shares_of(codes, labels), (0, 1))
    draws = [with_noise(exact, rng, 0.05) for _ in range(20)]
    assert sum(assess_label_shift(bags, rows, codes).rejected for bags in draws) >= 19
    monkeypatch.setattr(natural, "_possible_means", lambda _, psi: psi)
    assert sum(assess_label_shift(bags, rows, codes).rejected for bags in draws) <= 10


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_bags_that_differ_otherwise_are_rejected(epsilon):
    """Each bag's rows are moved by a third of a standard deviation: rejected in 19 of 20."""
    rng = np.random.default_rng(6)
    rejected = 0
    for _ in range(20):
        bags, rows, codes, _ = draw_bags(rng, np.linspace(0.1, 0.9, 7), 200, epsilon)
        moved = rows + 0.33 * rng.normal(size=(7, 6))[codes]
        rejected += bool(assess_label_shift(bags, moved, codes).rejected)
    assert rejected >= 19


def test_what_cannot_be_tested_is_said(rng):
    bags, rows, codes, _ = draw_bags(rng, [0.2, 0.8], 100)
    test = assess_label_shift(bags, rows, codes)
    assert not test.tested
    assert test.rejected is test.p is None
    assert "2 bags with 2 classes leave nothing to test" in test.reason
    bags, rows, codes, _ = draw_bags(rng, [0.2, 0.5, 0.8], 100)
    assert assess_label_shift(bags, rows, codes).tested
    overlapping = assess_label_shift(replace(bags, disjoint=False), rows, codes)
    assert "several bags" in overlapping.reason
    unstated = assess_label_shift(replace(bags, variances=None), rows, codes)
    assert "does not state its noise" in unstated.reason


def inverted_share(rng, *, subtract: bool) -> float:
    """Return the share of a table of 0.8, from 50 bags of 60 rows at epsilon .2."""
    bags, rows, codes, _ = draw_bags(rng, np.linspace(0.1, 0.6, 50), 60, 0.2)
    if not subtract:
        bags = replace(bags, variances=np.zeros(50))
    means = ScoreMoments.of(bags, rows[:, :2], codes).class_means()
    labels = np.repeat([0, 1], [400, 1600])
    new = (MEANS[labels] + rng.exponential(size=(2000, 6)))[:, :2].mean(axis=0)
    first, second = means.psi
    return float((new - first) @ (second - first) / ((second - first) @ (second - first)))


def test_the_noise_on_proportions_is_taken_off_their_second_moments():
    """Class means are not shrunk together: 0.8 is found, and far less than 0.8 + .1 is missed."""
    rng = np.random.default_rng(7)
    shares = [inverted_share(rng, subtract=True) for _ in range(30)]
    assert np.mean(shares) == pytest.approx(0.8, abs=0.06)  # five standard errors
    rng = np.random.default_rng(7)
    naive = [inverted_share(rng, subtract=False) for _ in range(30)]
    assert np.mean(naive) > 0.95


def test_private_intervals_hold_the_truth_far_from_the_pooled_share():
    """20 tables at share .8 from bags of .1 to .5; at 95 % fewer than 16 happen in one of 400.

    The estimates spread about the truth by four standard errors of their mean at most.
    """
    rng = np.random.default_rng(8)
    inside, errors = 0, []
    for _ in range(20):
        bags, rows, codes, _ = draw_bags(rng, np.linspace(0.1, 0.5, 4), 150, 1.0)
        method = ByMoments.of(fit_bag_likelihood(bags, rows, codes, rng), complete=True)
        new = MEANS[np.repeat([0, 1], [60, 240])] + rng.exponential(size=(300, 6))
        summary = method.summarise([new], rng)
        ((low, high),) = method.ends([summary], 0.95, 200, rng, excess=1.0)[:, :, 1]
        inside += bool(low <= 0.8 <= high)
        errors.append(method.ratios(summary)[1] - 0.8)
    assert inside >= 16
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(20)


def draw_natural(rng, size: int = 200, bags: int = 12):
    """Return rows, codes and labels of bags that differ in x, while p(y | x) is the same."""
    centres = rng.normal(size=(bags, 4))
    codes = np.repeat(np.arange(bags), size)
    rows = centres[codes] + rng.normal(size=(bags * size, 4))
    return rows, codes, draw_labels(rng, rows)


def draw_labels(rng, rows):
    return (rng.random(len(rows)) < 1 / (1 + np.exp(-1.5 * rows[:, 0] + rows[:, 1]))).astype(int)


def shares_of(codes, labels):
    ones = np.bincount(codes, weights=labels) / np.bincount(codes)
    return np.column_stack([1 - ones, ones])


def test_natural_bags_get_a_range_and_words_before_it():
    """The range holds the truth in 8 of 9 draws or more, where label shift is far off."""
    rng = np.random.default_rng(9)
    inside, errors = [], []
    for _ in range(3):
        rows, codes, labels = draw_natural(rng)
        model = ClassRatio()
        model.fit_proportions(rows, codes, shares_of(codes, labels), classes=["no", "yes"])
        assert model.label_shift_.rejected
        pool = rows[rng.permutation(len(rows))] + 0.01 * rng.normal(size=rows.shape)
        pool_labels = draw_labels(rng, pool)
        for share in (0.1, 0.5, 0.9):
            ones = pool[pool_labels == 1][: int(500 * share)]
            zeros = pool[pool_labels == 0][: 500 - int(500 * share)]
            estimate = model.estimate(np.vstack([ones, zeros]))
            assert estimate.ratios is estimate.level is None
            assert "differ in more than their class proportions" in estimate.words[0]
            assert list(estimate.estimates) == ["label_shift", "stable"]
            for values in estimate.estimates.values():
                assert estimate.low[1] - 1e-9 <= values[1] <= estimate.high[1] + 1e-9
            inside.append(estimate.low[1] <= share <= estimate.high[1])
            errors.append([abs(v[1] - share) for v in estimate.estimates.values()])
    assert sum(inside) >= 8
    natural, stable = np.mean(errors, axis=0)
    assert stable < 0.06
    assert natural > 0.12


def test_a_new_natural_bag_is_recognised_and_a_shifted_table_is_not():
    rng = np.random.default_rng(10)
    rows, codes, labels = draw_natural(rng)
    bags = exact_bags(range(12), np.bincount(codes), shares_of(codes, labels), (0, 1))
    classifier = fit_stable_classifier(bags, rows, codes, rng)
    recognised, errors = [], []
    for centre in rng.normal(size=(8, 4)):
        new = centre + rng.normal(size=(300, 4))
        outcome = natural_range(classifier, new, (0.5, 0.5), 0.95, rng)
        recognised.append(outcome.new_bag)
        errors.append(abs(outcome.stable - draw_labels(rng, new).mean()))
    assert np.mean(recognised) >= 0.75
    assert np.mean(errors) < 0.06
    again = rng.permutation(len(rows))[:1500]
    share = labels[again] == 1
    for ones, zeros in ((60, 240), (240, 60)):
        table = np.vstack([rows[again][share][:ones], rows[again][~share][:zeros]])
        assert not natural_range(classifier, table, (0.5, 0.5), 0.95, rng).new_bag


def test_python_warns_where_the_command_line_does(rng):
    rows, codes, labels = draw_natural(rng)
    model = ClassRatio(method="mmd", kernel="linear")
    model.fit_proportions(rows, codes, shares_of(codes, labels), classes=[0, 1])
    with pytest.warns(UserWarning, match="differ in more than their class proportions"):
        model.quantify(rows[:100])
    with pytest.warns(UserWarning, match="See estimate"):
        ends = model.interval([rows[:100], rows[:200]])
    estimate = model.estimate(rows[:100])
    assert np.array_equal(ends[0], [estimate.low, estimate.high])


def three_classes(rng, rows):
    return draw_labels(rng, rows) + (rows[:, 2] > 0.5)


def test_three_classes_get_a_range_each():
    """Fixed seeds. The ranges hold the truth of all classes in 5 of 6 tables or more."""
    rng = np.random.default_rng(11)
    rows, codes, _ = draw_natural(rng)
    labels = three_classes(rng, rows)
    counts = np.array([np.bincount(labels[codes == i], minlength=3) for i in range(12)]) / 200
    model = ClassRatio(method="moments")
    model.fit_proportions(rows, codes, counts, classes=["a", "b", "c"])
    assert model.label_shift_.rejected
    order = rng.permutation(len(rows))
    pool, pool_labels = rows[order], labels[order]
    inside = []
    for shares in ((0.1, 0.3, 0.6), (0.4, 0.2, 0.4), (0.3, 0.6, 0.1)):
        numbers = np.rint(400 * np.array(shares)).astype(int)
        table = np.vstack([pool[pool_labels == k][:n] for k, n in enumerate(numbers)])
        estimate = model.estimate(table)
        inside.append(((estimate.low <= shares) & (shares <= estimate.high)).all())
        assert ((estimate.low >= 0) & (estimate.low < estimate.high) & (estimate.high <= 1)).all()
        assert estimate.estimates["stable"].sum() == pytest.approx(1)
        for name, values in estimate.estimates.items():
            slack = 0.1 if name == "stable" else 1e-9  # stable ones are made to sum to one
            assert (estimate.low - slack <= values).all()
            assert (values <= estimate.high + slack).all()
    for centre in rng.normal(size=(3, 4)):
        new = centre + rng.normal(size=(400, 4))
        truth = np.bincount(three_classes(rng, new), minlength=3) / 400
        estimate = model.estimate(new)
        inside.append(((estimate.low <= truth) & (truth <= estimate.high)).all())
    assert sum(inside) >= 5
    assert estimate.ratios is estimate.level is estimate.new_bag is None
    assert "does not test whether the new table is a new bag" in estimate.words[1]


def test_proportions_that_contradict_each_other_are_those_of_a_new_bag():
    """Each class against the rest: a sum of nearly one is divided, a sum of two is not believed."""

    def estimate(*stable: float):
        outcomes = [NaturalRange(s, 0.0, 1.0, None, 0.1 * (k + 1)) for k, s in enumerate(stable)]
        ratios, test = np.full(len(stable), 1 / len(stable)), LabelShiftTest(tested=True, p=1e-9)
        return RatioEstimate.with_range(range(len(stable)), ratios, outcomes, test)

    near = estimate(0.5, 0.3, 0.4)
    assert near.estimates["stable"] == pytest.approx(np.array([5, 3, 4]) / 12)
    assert not any("would sum" in words for words in near.words)
    far = estimate(0.9, 0.9, 0.2)
    assert far.estimates["stable"] == pytest.approx(np.array([1, 2, 3]) / 6)
    assert "the classes would sum to 2.0" in far.words[-1]


def test_a_class_against_the_rest_keeps_its_noise():
    proportions = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    bags = exact_bags(range(3), np.full(3, 100), proportions, (0, 1, 2))
    noisy = replace(bags, variances=np.array([0.01, 0.02, 0.03]), unprojected=proportions - 0.1)
    binary = noisy.against_rest(1)
    assert np.allclose(binary.proportions[:, 1], proportions[:, 1])
    assert np.allclose(binary.unbiased_proportions[:, 1], proportions[:, 1] - 0.1)
    assert np.allclose(binary.unbiased_proportions.sum(axis=1), 1)
    assert np.allclose(binary.noise_covariances[:, 1, 1], noisy.noise_covariances[:, 1, 1])


def test_few_bags_widen_the_range_of_a_new_bag():
    """Student's quantile: with 3 bags it is 6.5 times the normal one, with many the same."""
    assert _few_bags(3, 0.95) == pytest.approx(12.706 / 1.96, rel=1e-3)
    assert _few_bags(7, 0.95) == pytest.approx(2.571 / 1.96, rel=1e-3)
    assert _few_bags(2, 0.95) == _few_bags(3, 0.95)
    assert _few_bags(10**6, 0.95) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("method", ["moments", "mmd"])
def test_intervals_grow_with_what_label_shift_does_not_explain(rng, method):
    """Variances are four times as large. Intervals of moments are not symmetric: not quite 2."""
    bags, rows, codes, _ = draw_bags(rng, [0.1, 0.4, 0.6, 0.9], 150)
    model = ClassRatio(method=method)
    model.fit_proportions(rows, codes, bags.proportions, classes=[0, 1])
    model.label_shift_ = replace(model.label_shift_, rejected=False, excess=1.0)
    table = np.vstack([rows[:60], rows[-60:]])
    low, high = model.interval(table)
    model.label_shift_ = replace(model.label_shift_, excess=4.0)
    wider = model.interval(table)
    middle = model.quantify(table)
    off = 0.25 if method == "moments" else 1e-9
    assert wider[1] - middle == pytest.approx(2 * (high - middle), rel=off)
    assert middle - wider[0] == pytest.approx(2 * (middle - low), rel=off)


def bags_of(*shares: tuple[float, ...]) -> KnownBags:
    proportions = np.array(shares)
    count = len(proportions)
    classes = tuple(range(proportions.shape[1]))
    return exact_bags(tuple(range(count)), np.full(count, 300), proportions, classes)


def test_bags_that_hardly_differ_are_doubted():
    alike = bags_of((0.4, 0.6), (0.44, 0.56), (0.38, 0.62))
    assert alike.least_spread == pytest.approx(np.std([0.6, 0.56, 0.62]))
    assert "may be too narrow" in (alike.doubt or "")
    assert bags_of((0.4, 0.6), (0.7, 0.3), (0.2, 0.8)).doubt is None
    # Three classes that differ in one direction only, and the same with bags of the other kind.
    line = [(0.5, 0.1, 0.4), (0.3, 0.3, 0.4), (0.1, 0.5, 0.4), (0.2, 0.4, 0.4)]
    assert bags_of(*line).doubt is not None
    assert bags_of(*line, (0.8, 0.1, 0.1), (0.1, 0.1, 0.8)).doubt is None


def test_the_doubt_stands_before_the_intervals(rng):
    shares = np.array([0.46, 0.5, 0.54])
    index = np.repeat([0, 1, 2], 1000)
    labels = np.concatenate([np.arange(1000) < 1000 * share for share in shares]).astype(int)
    rows = rng.normal(size=(3000, 2)) + 3.0 * labels[:, None]
    proportions = np.column_stack([1 - shares, shares])
    model = ClassRatio(method="likelihood")
    model.fit_proportions(rows, index, proportions, classes=[0, 1])
    assert not model.label_shift_.rejected
    assert "may be too narrow" in model.estimate(rows[:50], draws=5).words[0]
    model = ClassRatio(method="moments").fit_proportions(rows, index, proportions, classes=[0, 1])
    assert model.estimate(rows[:50]).words == ()
