"""Learning from label proportions: mean maps that are exact where they should be, and refusals."""

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner.weak import (
    KnownProportions,
    MeanMap,
    PlainLabels,
    bags_of,
    estimate_mean_operator,
)
from suffice.papers.bags import (
    METHODS,
    AlternatingMeanMap,
    LaplacianMeanMap,
    alternate,
    similarity_of,
)

TWO, THREE = (-1, 1), ("a", "b", "c")


def homogeneous(shares, sizes, means, rng=None, spread=0.0):
    """Return rows about their class means, class codes and bags with exactly these shares."""
    counts = np.rint(np.asarray(sizes)[:, None] * shares).astype(int)
    codes = np.concatenate([np.repeat(np.arange(len(means)), line) for line in counts])
    bags = np.repeat(np.arange(len(sizes)), counts.sum(axis=1))
    rows = np.asarray(means)[codes]
    if rng is not None:
        rows = rows + spread * rng.normal(size=rows.shape)
    return rows, codes, bags


SHARES2 = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
SHARES3 = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
SIZES = (40, 100, 20, 60)


def clouds(seed=1, bags=8, per_bag=150):
    """Return rows in bags whose positions differ, and signs that depend on the rows."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(bags), per_bag)
    rows = rng.normal(size=(len(codes), 3)) + rng.normal(size=(bags, 3))[codes]
    rows = np.column_stack([rows, np.ones(len(rows))])
    signs = np.where(rows @ [2.0, -1.0, 0.5, 0.2] + rng.normal(size=len(rows)) > 0, 1, -1)
    return rows, signs, codes, np.bincount(codes, signs > 0) / per_bag


# The mean map


@pytest.mark.parametrize(
    ("shares", "classes"), [(SHARES2, TWO), (SHARES3, THREE)], ids=["two", "three"]
)
def test_the_mean_map_is_exact_for_homogeneous_bags_without_noise(shares, classes):
    means = np.random.default_rng(0).normal(size=(len(classes), 5))
    rows, codes, bags = homogeneous(shares, SIZES, means)
    truth = estimate_mean_operator(rows, PlainLabels(np.array(classes)[codes], classes))
    estimate = estimate_mean_operator(rows, KnownProportions(bags, shares, classes))
    assert np.abs(estimate.operator - truth.operator).max() < 1e-10


def test_for_two_classes_the_share_of_the_second_is_enough():
    rows, signs, bags, shares = clouds()
    short_form = estimate_mean_operator(rows, KnownProportions(bags, shares, TWO))
    both = np.column_stack([1 - shares, shares])
    assert np.array_equal(
        short_form.operator,
        estimate_mean_operator(rows, KnownProportions(bags, both, TWO)).operator,
    )
    # an intercept has the same mean in every bag, so its coordinate is known
    assert short_form.operator[-1] == pytest.approx(signs.mean(), abs=1e-10)


@pytest.mark.parametrize(
    ("shares", "classes"), [(SHARES2, TWO), (SHARES3, THREE)], ids=["two", "three"]
)
@pytest.mark.parametrize("gap", [0.3, 4.0])
def test_the_mean_maps_covariance_holds_from_both_sides(shares, classes, gap):
    """Squared errors over their stated mean: deviation about sqrt(2 / 600) = .06.

    .25 is four of those. A covariance of twice or half the size is refused.
    """
    rng = np.random.default_rng(2)
    means = gap * np.eye(3)[: len(classes)]
    total, stated, draws = np.zeros(3), np.zeros(3), 200
    for _ in range(draws):
        rows, codes, bags = homogeneous(shares, SIZES, means, rng, 1.0)
        truth = estimate_mean_operator(rows, PlainLabels(np.array(classes)[codes], classes))
        estimate = estimate_mean_operator(rows, KnownProportions(bags, shares, classes))
        error = (estimate.operator - truth.operator).reshape(3, -1)
        total += (error**2).mean(axis=1) / draws
        root = estimate.noise.array
        stated += estimate.noise.variance * (root**2).sum(axis=1) / draws
    ratio = total.sum() / stated.sum()
    assert abs(ratio - 1) < 0.25
    assert not abs(ratio / 2 - 1) < 0.25
    assert not abs(ratio * 2 - 1) < 0.25


def test_bags_that_are_not_homogeneous_break_it_as_the_note_says():
    """The printed condition E[x|y,j] = E[x|j] is an erratum: here it fails and so does this."""
    rows, signs, bags, shares = clouds()
    estimate = estimate_mean_operator(rows, KnownProportions(bags, shares, TWO))
    error = estimate.operator - rows.T @ signs / len(rows)
    stated = estimate.noise.variance * (estimate.noise.array**2).sum(axis=1)
    assert (error[:3] ** 2 > 16 * stated[:3]).any()


# The Laplacian mean map


@pytest.mark.parametrize("similarity", ["gaussian", "normalised-cut"])
def test_a_heavy_laplacian_is_the_mean_map(similarity):
    rows, _, bags, shares = clouds()
    heavy = LaplacianMeanMap(similarity, weight=1e7)
    smoothed = estimate_mean_operator(rows, KnownProportions(bags, shares, TWO, heavy))
    mean_map = estimate_mean_operator(rows, KnownProportions(bags, shares, TWO))
    assert np.abs(smoothed.operator - mean_map.operator).max() < 1e-5
    light = LaplacianMeanMap(similarity, weight=1e-2)
    other = estimate_mean_operator(rows, KnownProportions(bags, shares, TWO, light))
    assert np.abs(other.operator - mean_map.operator).max() > 1e-2


def test_without_neighbours_a_bag_explains_its_own_mean_alone():
    """The least-norm solution: b+ = pi b / (pi^2 + (1 - pi)^2), b- likewise."""
    rows, _, codes, shares = clouds()
    bags = bags_of(rows, codes, shares, 2)
    weights = LaplacianMeanMap("none").weights(bags)
    norm = shares**2 + (1 - shares) ** 2
    expected = bags.weights[:, None] * np.column_stack([(1 - shares) ** 2, shares**2])
    assert np.allclose(weights, expected / norm[:, None], atol=1e-7)


def test_the_laplacian_solution_minimises_the_printed_objective():
    rows, _, codes, shares = clouds(bags=5)
    bags = bags_of(rows, codes, shares, 2)
    weight, near = 0.7, similarity_of(bags, "gaussian", 1.5)

    def objective(parts):
        minus, plus = parts
        gap = bags.means - shares[:, None] * plus - (1 - shares)[:, None] * minus
        rough = sum(
            near[i, j] * np.sum((part[i] - part[j]) ** 2)
            for part in parts
            for i in range(5)
            for j in range(5)
        )
        return np.sum(gap**2) + weight / 2 * rough

    # by brute force: the objective is quadratic, so its gradient at zero and Hessian give it all
    d, size = rows.shape[1], 10
    solution = np.zeros((2, 5, d))
    unit = np.eye(size).reshape(size, 2, 5)
    for column in range(d):
        base = np.zeros((2, 5, d))

        def at(z, column=column, base=base):
            point = base.copy()
            point[:, :, column] = z
            return objective(point)

        zero = at(np.zeros((2, 5)))
        single = np.array([at(u) for u in unit])
        hessian = np.array([[at(u + v) for v in unit] for u in unit])
        hessian = hessian - single[:, None] - single[None] + zero
        gradient = single - zero - np.diag(hessian) / 2
        solution[:, :, column] = -np.linalg.solve(hessian, gradient).reshape(2, 5)
    minus, plus = solution
    mu = bags.weights @ (shares[:, None] * plus - (1 - shares)[:, None] * minus)
    method = LaplacianMeanMap("gaussian", 1.5, weight)
    estimate = estimate_mean_operator(rows, KnownProportions(codes, shares, TWO, method))
    assert np.allclose(estimate.operator, mu, atol=1e-6)


def test_the_normalised_cut_is_that_of_all_pairs_of_rows():
    rows, _, codes, shares = clouds(bags=4, per_bag=12)
    apart = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    across = np.array(
        [[apart[codes == i][:, codes == j].sum() for j in range(4)] for i in range(4)]
    )
    near = similarity_of(bags_of(rows, codes, shares, 2), "normalised-cut", None)
    for i in range(4):
        for j in range(4):
            own = (across[i, i], across[j, j])
            both = sum(mine / (mine + across[i, j]) for mine in own)
            assert near[i, j] == pytest.approx(0.0 if i == j else both)


def test_bags_in_separate_corners_do_not_break_the_solution():
    rows, _, codes, shares = clouds()
    far = rows + 1e4 * codes[:, None]
    method = LaplacianMeanMap("gaussian", 1.0)  # exp(-10^4) is zero: no graph at all
    estimate = estimate_mean_operator(far, KnownProportions(codes, shares, TWO, method))
    assert np.isfinite(estimate.operator).all()


# The alternating mean map


def test_the_alternating_objective_never_rises():
    rows, _, codes, shares = clouds(per_bag=60)
    bags = bags_of(rows, codes, shares, 2)
    for seed in range(10):
        start = np.random.default_rng(seed).normal(size=4) / 10
        _, risks = alternate(rows, bags, start, AlternatingMeanMap("min"))
        assert len(risks) > 1
        assert (np.diff(risks) <= 1e-8).all()


@pytest.mark.parametrize("labelling", ["min", "max"])
def test_alternation_keeps_to_the_proportions_and_to_the_best_round(labelling):
    rows, _, codes, shares = clouds(per_bag=60)
    bags = bags_of(rows, codes, shares, 2)
    one_hot = np.column_stack([rows, np.eye(8)[codes]])  # the operator there tells the proportions
    wide = bags_of(one_hot, codes, shares, 2)
    method = AlternatingMeanMap(labelling, start=MeanMap())
    operator, _ = alternate(one_hot, wide, np.ones(12) / 10, method)
    assert np.allclose(operator[4:], (2 * shares - 1) / 8, atol=1e-12)
    _, best = alternate(rows, bags, np.ones(4) / 10, method)
    _, first = alternate(rows, bags, np.ones(4) / 10, AlternatingMeanMap(labelling, max_rounds=1))
    assert min(best) <= min(first) + 1e-12


def test_alternation_finds_labels_that_the_mean_map_cannot():
    rows, signs, codes, shares = clouds()
    truth = rows.T @ signs / len(rows)
    error = {
        name: np.linalg.norm(
            estimate_mean_operator(rows, KnownProportions(codes, shares, TWO, name)).operator
            - truth
        )
        for name in ("mean-map", "alternating-min")
    }
    assert error["alternating-min"] < error["mean-map"] / 2


def test_bags_of_one_row_each_are_all_the_labels():
    rows, signs, _, _ = clouds(per_bag=20)
    single_rows = KnownProportions(np.arange(len(rows)), (signs > 0) * 1.0, TWO, "alternating-min")
    estimate = estimate_mean_operator(rows, single_rows)
    assert np.allclose(estimate.operator, rows.T @ signs / len(rows), atol=1e-12)


# Every method


@pytest.mark.parametrize("name", ["mean-map", *METHODS])
def test_every_method_says_what_its_covariance_is_worth(name):
    rows, _, codes, shares = clouds(per_bag=30)
    estimate = estimate_mean_operator(rows, KnownProportions(codes, shares, TWO, name))
    assert estimate.operator.shape == (4,)
    assert estimate.noise.form == ("none" if name.startswith("alternating") else "factor")


@pytest.mark.parametrize("name", ["mean-map", *METHODS])
@pytest.mark.parametrize(
    ("codes", "shares", "reason"),
    [
        ([0, 0, 1, 1], [0.5, 0.5], "too much alike"),
        ([0, 0, 0, 0], [0.5], "1 bags cannot tell 2"),
        ([0, 0, 1, 2], [0.2, 0.6], "numbers from 0 to 1"),
        ([0, 0, -1, 1], [0.2, 0.6], "another number"),
        ([0, 0, 1, 1], [0.2, 0.6, 0.9], "1 of 3 bags have no rows"),
        ([0, 0, 1], [0.2, 0.6], "each of the 4 rows"),
        ([0.0, 0.0, 1.0, 1.0], [0.2, 0.6], "one whole number"),
        ([0, 0, 1, 1], [0.2, 1.6], "between 0 and 1"),
        ([0, 0, 1, 1], [[0.2, 0.7], [0.5, 0.5]], "sum to one"),
        ([0, 0, 1, 1], [[0.2], [0.5]], "2 columns, one per class"),
        ([0, 0, 1, 1], [0.2, np.nan], "between 0 and 1"),
        ([0, 0, 1, 1], "half", "2 columns, one per class"),
    ],
)
def test_bags_that_do_not_fit_are_refused(name, codes, shares, reason):
    rows = np.random.default_rng(0).normal(size=(4, 2))
    with pytest.raises(ParameterError, match=reason):
        estimate_mean_operator(rows, KnownProportions(codes, shares, TWO, name))


@pytest.mark.parametrize("name", METHODS)
def test_only_the_mean_map_knows_more_than_two_classes(name):
    rows, _, bags = homogeneous(SHARES3, SIZES, np.eye(3))
    with pytest.raises(ParameterError, match="use method='mean-map'"):
        estimate_mean_operator(rows, KnownProportions(bags, SHARES3, THREE, name))


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        (LaplacianMeanMap, {"similarity": "cosine"}, "similarity must be one of"),
        (LaplacianMeanMap, {"weight": 0.0}, "weight"),
        (LaplacianMeanMap, {"scale": -1.0}, "scale"),
        (AlternatingMeanMap, {"labelling": "mid"}, "min or max"),
        (AlternatingMeanMap, {"lam": 0.0}, "lam"),
        (AlternatingMeanMap, {"max_rounds": 0}, "max_rounds"),
    ],
)
def test_options_outside_their_domain_are_refused(method, options, reason):
    with pytest.raises(ParameterError, match=reason):
        method(**options)


def test_a_method_that_does_not_exist_is_refused():
    rows, _, codes, shares = clouds(per_bag=5)
    with pytest.raises(ParameterError, match="mean-map, laplacian"):
        estimate_mean_operator(rows, KnownProportions(codes, shares, TWO, "magic"))
