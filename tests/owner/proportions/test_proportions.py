"""Noisy label proportions: the noise is what was promised, sets that overlap are paid for."""

import math
from functools import partial
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from builders import assert_noise
from suffice.engines.engine import Threads
from suffice.errors import (
    BudgetError,
    ForeignRowsError,
    ParameterError,
    PrivacyError,
    TableError,
    UnprotectedError,
)
from suffice.models.simplex import nearest_proportions
from suffice.owner.ledger import Ledger
from suffice.owner.proportions import (
    MECHANISMS,
    BagSource,
    LabelProportions,
    ScaledCounts,
    assign_bags,
    bag_sizes,
    best_count_noise,
    count_noise,
    plan_proportions,
    plan_skew,
    skew_epsilon,
)
from suffice.privacy.dirichlet import bounded_sigma, pair_delta
from suffice.privacy.events import Approximate, Gaussian, Laplace, gaussian_multiplier
from suffice.privacy.guarantee import Budget, Protection, Unit
from suffice.releases.codec import decode
from suffice.releases.merge import merge
from suffice.releases.release import encode
from suffice.tables import table as tables_table
from suffice.tables.bags import read_bags
from suffice.tables.sources import open_table

SOUND = tuple(name for name in MECHANISMS if name != "scaled-dirichlet")
rng = np.random.default_rng(4)
ROWS = 900
X = rng.normal(size=(ROWS, 3))
Y = rng.integers(0, 3, ROWS)
BAGS = np.array(["north", "south", "west"])[rng.integers(0, 3, ROWS)]
EXACT = np.stack([np.bincount(Y[b == BAGS], minlength=3) for b in ("north", "south", "west")])


def mechanism(epsilon: float = 1.0, delta: float = 0.0, **options) -> LabelProportions:
    return LabelProportions(epsilon, delta, **{"classes": (0, 1, 2), **options})


def many_draws(name: str, classes: int, sets: int, price: tuple, overlap: int = 1) -> np.ndarray:
    """Return the noise on the counts of many sets, drawn at once."""
    counts = np.full((sets, classes), 500)
    noise = count_noise(name, bag_sizes([500 * classes] * sets, classes, overlap), *price)
    return noise.draw(counts) - counts


def exact_counts(labels: np.ndarray, sets: list) -> np.ndarray:
    """Return the integers that noise is added to: rows of nothing, under these labels."""
    return counted(mechanism(epsilon=100.0), np.zeros((len(labels), 1)), labels, sets)


def counted(
    proportions: LabelProportions, rows: np.ndarray, labels: np.ndarray, sets: list
) -> np.ndarray:
    public = proportions.public(BagSource(rows, labels, sets))
    procedure = proportions.choose(public)
    make = partial(procedure.accumulator, identified=False)
    return Threads().fold(public.parts(), make).result()


# --- what leaves


@pytest.mark.parametrize("name", SOUND)
def test_a_release_holds_noisy_counts_and_their_projection(name):
    release = mechanism(2.0, 1e-3, mechanism=name).release(X, Y, BAGS, ledger=None)
    assert release.details["bags"] == ["north", "south", "west"]
    assert release.arrays["sizes"].tolist() == EXACT.sum(axis=1).tolist()
    assert release.rows == ROWS
    shares = release.arrays["proportions"]
    again = nearest_proportions(release.arrays["counts"] / release.arrays["sizes"][:, None])
    np.testing.assert_allclose(shares, again, atol=1e-12)
    assert np.abs(shares - EXACT / EXACT.sum(axis=1, keepdims=True)).max() < 0.3
    assert decode(encode(release)) == release
    guarantee = release.guarantee
    assert guarantee.unit is Unit.LABEL
    assert guarantee.kind is Protection.GLOBAL
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert guarantee.epsilon <= 2.0
    assert "not decided by looking at its label" in str(guarantee)


def test_the_projection_is_the_nearest_point_of_the_simplex(rng):
    """Against a slow twin: bisection for the shift."""
    noisy = rng.normal(0.2, 0.5, (40, 5))
    for row, projected in zip(noisy, nearest_proportions(noisy), strict=True):
        low, high = row.min() - 1, row.max()
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
        np.testing.assert_allclose(projected, np.maximum(row - low, 0), atol=1e-9)


def test_the_name_of_the_rows_does_not_depend_on_how_sets_are_given(rng):
    table = pa.table({"a": X[:, 0], "ward": BAGS, "sick": Y})
    by_column = mechanism().release(table, bags="ward", label="sick", ledger=None)
    order = rng.permutation(ROWS)
    shuffled = table.take(order)
    for bags in ("ward", BAGS[order]):
        features = None if bags is not None and isinstance(bags, str) else ["a"]
        other = mechanism().release(
            shuffled, bags=bags, label="sick", features=features, ledger=None
        )
        assert other.parts[0].rows == by_column.parts[0].rows
    elsewhere = mechanism().release(
        table, bags=BAGS[order], label="sick", features=["a"], ledger=None
    )
    assert elsewhere.parts[0].rows != by_column.parts[0].rows


# --- the noise


@pytest.mark.parametrize("overlap", [1, 2, 5])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_noise_has_its_law_and_its_scale(name, overlap):
    """2 r / epsilon, and the multiplier times sqrt(2 r), where a row is in up to r sets.

    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    noise = many_draws(name, 3, 2800 if name == "laplace" else 1400, (0.5, 1e-3), overlap)
    stated = count_noise(name, bag_sizes([1500] * 9, 3, overlap), 0.5, 1e-3).covariance().variance
    if name == "laplace":
        scale = 2 * overlap / 0.5
        assert stated == pytest.approx(2 * scale**2, rel=1e-6)
    else:
        scale = gaussian_multiplier(0.5, 1e-3) * math.sqrt(2 * overlap)
        assert stated == pytest.approx(scale**2, rel=1e-6)
    assert_noise(noise, scale, name)


def test_of_two_counts_neither_leaves_without_noise():
    """The second is the public size less the noisy first. Once in 10^7 the noise is zero."""
    counts = np.array([[10, 30], [25, 25]])
    noisy = count_noise("laplace", bag_sizes([40, 50], 2), 0.5, 0.0).draw(counts)
    assert noisy.sum(axis=1).tolist() == [40, 50]
    assert (noisy != counts).all()


@pytest.mark.parametrize("overlap", [1, 2, 3, 7])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_scale_of_gaussian_noise_is_the_multiplier_times_sqrt_two_r(overlap, classes):
    """To the lattice of 2^-24, whose cost is put on top, and never below."""
    for price in ((0.5, 1e-3), (3.0, 1e-9)):
        noise = count_noise("gaussian", bag_sizes([900] * 10, classes, overlap), *price)
        least = gaussian_multiplier(*price) * math.sqrt(2 * overlap)
        assert least * (1 - 1e-15) <= noise.scale <= least * (1 + 1e-9)


@pytest.mark.parametrize(
    ("sets", "overlap"),
    [
        ([[0, 1], [2, 3]], 1),
        ([[0, 1, 2], [2, 3], [1, 3]], 2),
        ([[0, 1], [0, 2], [0, 3, 1]], 3),
    ],
)
def test_one_label_moves_the_counts_by_the_root_of_two_r_and_no_more(sets, overlap):
    """By brute force: all 81 labelings of four rows, and all of their neighbours."""
    assert read_bags(open_table(np.zeros((4, 1))), sets).overlap == overlap
    counts = {
        labels: exact_counts(np.array(labels), sets).astype(int)
        for labels in product(range(3), repeat=4)
    }
    moved = [
        counts[first] - counts[other]
        for first, other in combinations(counts, 2)
        if sum(a != b for a, b in zip(first, other, strict=True)) == 1
    ]
    assert len(moved) == 81 * 8 // 2
    assert max((step**2).sum() for step in moved) == 2 * overlap
    assert max(np.abs(step).sum() for step in moved) == 2 * overlap
    assert max(np.abs(step[:, 0]).sum() for step in moved) == overlap  # where one says both
    for name in ("laplace", "gaussian"):
        reach = count_noise(name, bag_sizes([9] * 3, 3, overlap), 1.0, 1e-3).noise.sensitivity
        assert reach.l1 == 2**24 * 2 * overlap
        assert reach.l2 == pytest.approx(2**24 * math.sqrt(2 * overlap), rel=1e-14)
    sensitivity = count_noise("laplace", bag_sizes([9] * 3, 2, overlap), 1.0, 0.0).noise.sensitivity
    assert sensitivity.l1 == 2**24 * overlap


@pytest.mark.parametrize("overlap", [1, 3])
def test_the_urns_of_the_laplace_prior_hold_counts_with_all_of_their_noise(monkeypatch, overlap):
    """Two classes: the first count of an urn has noise of scale r / epsilon, the second the rest.

    What the urn adds protects nothing, and would hide that noise was missing.
    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    urns = []

    def look_into(weights: list[int], unit: int, balls: int) -> np.ndarray:
        urns.append([weight / unit for weight in weights])
        return np.array([balls, 0])

    monkeypatch.setattr("suffice.owner.proportions.draw_balls", look_into)
    many_draws("laplace-prior", 2, 8000, (0.5, 0.0), overlap)
    contents = np.array(urns)
    np.testing.assert_allclose(contents.sum(axis=1), 1000, rtol=1e-5)
    assert_noise(contents[:, 0] - 500, overlap / 0.5, "laplace")


def test_the_scale_of_laplace_noise_is_two_over_epsilon_and_half_of_it_for_two_classes():
    """So for all seeds but one of 10^7; noise that is 10 % off is rejected."""
    three = count_noise("laplace", bag_sizes([1000], 3), 0.1, 0.0)
    two = count_noise("laplace", bag_sizes([1000], 2), 0.1, 0.0)
    assert three.scale == pytest.approx(20, rel=1e-6)
    assert two.scale == pytest.approx(10, rel=1e-6)
    noise = many_draws("laplace", 2, 8000, (0.1, 0.0))
    np.testing.assert_array_equal(noise.sum(axis=1), 0.0)
    assert_noise(noise[:, 0], 10.0, "laplace")
    # v I, restricted to what keeps the total, is the covariance of (z, -z)
    assert two.covariance().variance / 2 == pytest.approx(2 * 10**2, rel=1e-5)


@pytest.mark.parametrize("name", SOUND)
def test_predicted_and_measured_distortion_agree(name):
    price = (0.2, 0.01)
    noise = many_draws(name, 4, 60 if "bounded" in name else 250, price)
    measured = np.abs(nearest_proportions((noise + 500) / 2000) - 0.25).sum(axis=1)
    predicted = count_noise(name, bag_sizes([2000], 4), *price).distortion()[0]
    error = measured.std() / math.sqrt(len(measured))
    assert abs(measured.mean() - predicted) < 6 * error + 0.01 * predicted


def test_the_papers_setting_is_released_at_half_its_distortion_with_a_global_guarantee():
    """Section 4.1, m = 1000, c = 5, (.05, .05): the paper prints .06, and .15 for Laplace."""
    counts = np.tile([50, 50, 50, 50, 800], (3000, 1))
    name, noise = best_count_noise(bag_sizes([1000] * 3000, 5), 0.05, 0.05)
    shares = nearest_proportions(noise.draw(counts) / 1000)
    distances = np.abs(shares - counts / 1000).sum(axis=1)
    assert noise.kind is Protection.GLOBAL
    assert name == "gaussian"
    assert distances.mean() + 6 * distances.std() / math.sqrt(3000) <= 0.030
    assert count_noise("laplace", bag_sizes([1000], 5), 0.05, 0.0).distortion()[0] > 0.15


def test_auto_never_takes_what_is_not_differentially_private(monkeypatch):
    """However good the prediction for it may be."""
    monkeypatch.setattr(ScaledCounts, "distortion", lambda self: np.zeros(len(self.bags.sizes)))
    name, noise = best_count_noise(bag_sizes([300, 400], 3), 1.0, 1e-3)
    assert name != "scaled-dirichlet"
    assert noise.kind is Protection.GLOBAL


def test_auto_is_never_far_from_the_best():
    """After the projection, on skewed counts; lab/bench/proportions.py has 60 settings."""
    local = np.random.default_rng(0)
    for size, classes, price in (
        (300, 2, (0.2, 0.01)),
        (300, 3, (0.1, 1e-3)),
        (1000, 10, (0.1, 1e-3)),
        (1000, 5, (1.0, 1e-5)),
    ):
        sets = bag_sizes([size], classes)
        counts = np.full(classes, size // 20)
        counts[-1] += size - counts.sum()
        laplace, gaussian = (count_noise(n, sets, *price) for n in ("laplace", "gaussian"))
        own = local.laplace(
            0, laplace.scale, (20_000, 1 if laplace.noise_on_first_count_only else classes)
        )
        noises = {
            "laplace": np.hstack([own, -own]) if laplace.noise_on_first_count_only else own,
            "gaussian": local.normal(0, gaussian.scale, (20_000, classes)),
        }
        distances = {
            name: np.abs(nearest_proportions((counts + z) / size) - counts / size)
            .sum(axis=1)
            .mean()
            for name, z in noises.items()
        }
        chosen, _ = best_count_noise(sets, *price)
        assert distances[chosen] <= 1.05 * min(distances.values())


# --- what it costs


def test_disjoint_sets_cost_what_one_costs_and_sets_that_overlap_cost_more():
    price = (0.5, 1e-3)
    for name, factor in (("laplace", 2.0), ("gaussian", math.sqrt(2.0))):
        single = count_noise(name, bag_sizes([900], 3), *price)
        many = count_noise(name, bag_sizes([900] * 50, 3), *price)
        twice = count_noise(name, bag_sizes([900] * 50, 3, overlap=2), *price)
        assert many.scale == pytest.approx(single.scale, rel=1e-6)
        assert twice.scale == pytest.approx(factor * single.scale, rel=1e-5)
        assert twice.event.epsilon(price[1]) <= price[0]


def test_overlap_is_found_in_columns_and_in_index_sets():
    table = pa.table({"a": X[:, 0], "ward": BAGS, "half": np.arange(ROWS) % 2, "sick": Y})
    single = mechanism(mechanism="laplace").release(
        table, bags="ward", label="sick", features=["a"], ledger=None
    )
    both = mechanism(mechanism="laplace").release(
        table, bags=("ward", "half"), label="sick", features=["a"], ledger=None
    )
    assert both.noise.variance == pytest.approx(4 * single.noise.variance, rel=1e-5)
    assert both.rows == 2 * ROWS
    assert "up to 2 of them" in str(both.guarantee)
    sets = [np.arange(600), np.arange(300, 900), np.arange(100, 500)]
    three = mechanism(mechanism="laplace").release(X, Y, sets, ledger=None)
    assert three.noise.variance == pytest.approx(9 * single.noise.variance, rel=1e-5)


def test_events_are_those_of_the_mechanism():
    events = {}
    for name in SOUND:
        noise = count_noise(name, bag_sizes([900], 3), 0.5, 1e-3)
        events[name] = noise.event
        assert noise.event.epsilon(1e-3) <= 0.5
    assert isinstance(events["laplace"], Laplace)
    assert isinstance(events["laplace-prior"], Laplace)
    assert isinstance(events["gaussian"], Gaussian)
    assert events["scaled-dirichlet-bounded"] == Approximate(0.5, 1e-3)


def test_the_bounded_dirichlet_keeps_delta_for_its_worst_neighbours_and_for_overlaps():
    noise = count_noise("scaled-dirichlet-bounded", bag_sizes([900] * 4, 3, overlap=2), 0.5, 0.01)
    cost = float(pair_delta(noise.kappa + 1, noise.kappa, noise.sigma, 0.25))
    assert 0.9 * 0.005 < cost <= 0.005
    with_kappa = mechanism(0.5, 0.01, mechanism="scaled-dirichlet-bounded", kappa=64)
    assert with_kappa.release(X, Y, BAGS, ledger=None).guarantee.kind is Protection.GLOBAL


def test_the_bounded_dirichlet_has_its_spread_and_ten_per_cent_less_is_noticed():
    """Seeded: the share of one class against its Beta law; the urn alone is in test_dirichlet."""
    sets, classes, size = 1500, 3, 300
    about = bag_sizes([size] * sets, classes)
    noise = count_noise("scaled-dirichlet-bounded", about, 1.0, 0.05, kappa=8)
    counts = np.tile([30, 70, 200], (sets, 1))
    total = size + classes * noise.kappa
    shares = (noise.draw(counts)[:, 0] + noise.kappa) / total
    a, b = noise.sigma * (30 + noise.kappa), noise.sigma * (total - 30 - noise.kappa)
    assert stats.kstest(shares, stats.beta(a, b).cdf).pvalue > 1e-3
    limit = 2.5 * math.sqrt(2 / sets)
    assert abs(shares.var() / stats.beta(a, b).var() - 1) < limit
    assert abs(0.81 * shares.var() / stats.beta(a, b).var() - 1) > limit


def test_where_no_sigma_exists_it_is_refused_from_public_numbers_alone():
    assert bounded_sigma(5, 0.05, 0.01) is None
    for labels in (Y, np.zeros_like(Y)):
        with pytest.raises(ParameterError, match="need a kappa of at least"):
            mechanism(0.05, 0.01, mechanism="scaled-dirichlet-bounded", kappa=5).release(
                X, labels, BAGS, ledger=None
            )


def test_scaled_dirichlet_leaves_only_unprotected_and_never_from_a_ledger(tmp_path):
    unsound = mechanism(0.5, 0.05, mechanism="scaled-dirichlet")
    with pytest.raises(UnprotectedError, match="unprotected"):
        unsound.release(X, Y, BAGS, ledger=None)
    release = unsound.release(X, Y, BAGS, ledger=None, unprotected=True)
    assert release.guarantee.kind is Protection.DATA_DEPENDENT
    assert "Not differentially private" in str(release.guarantee)
    assert "one way only" not in str(release.guarantee)
    printed = mechanism(0.5, 0.05, mechanism="scaled-dirichlet", sigma_rule="tail")
    release = printed.release(X, Y, BAGS, ledger=None, unprotected=True)
    assert "one way only" in str(release.guarantee)
    assert release.noise.form == "none"
    ledger = Ledger(tmp_path / "l", {"d": Budget(5.0, 0.09)})
    with pytest.raises(PrivacyError, match="without a ledger"):
        unsound.release(X, Y, BAGS, ledger=ledger, dataset="d", unprotected=True)
    rare = np.where(np.arange(ROWS) < 3, 2, Y % 2)
    with pytest.raises(ParameterError, match="too rare"):
        unsound.release(X, rare, BAGS, ledger=None, unprotected=True)
    assert best_count_noise(bag_sizes([900], 3), 0.5, 0.05)[1].kind is Protection.GLOBAL


# --- before a label is read, and the ledger


def test_predictions_for_many_sizes_are_those_for_each():
    sizes = list(range(60, 600, 3))
    for name in ("laplace-prior", "scaled-dirichlet", "scaled-dirichlet-bounded"):
        together = count_noise(name, bag_sizes(sizes, 3), 0.3, 0.01, kappa=64).distortion()
        for k in (0, 7, 100, len(sizes) - 1):
            single = count_noise(name, bag_sizes([sizes[k]], 3), 0.3, 0.01, kappa=64).distortion()
            assert together[k] == pytest.approx(single[0], rel=0.02)
        assert (np.diff(together) <= 0).all()
    tiny = count_noise("scaled-dirichlet", bag_sizes(list(range(5, 200)), 3), 0.3, 0.01)
    assert np.isinf(tiny.distortion()[:10]).all()
    assert np.isfinite(tiny.distortion()[-10:]).all()


def test_choice_and_plan_read_no_label():
    table = pa.table({"a": X[:, 0], "ward": BAGS})  # there is none
    source = BagSource(table, None, "ward")
    procedure = mechanism(0.5, 1e-3).choose(mechanism(0.5, 1e-3).public(source))
    assert procedure.public.bags.names == ("north", "south", "west")
    (guarantee,) = procedure.guarantees(procedure.accumulator(identified=False))
    assert guarantee.epsilon <= 0.5
    plan = plan_proportions(procedure.public.bags.sizes, 3, [0.5], 1e-3)
    assert plan.rows == mechanism(0.5, 1e-3).plan(source, [0.5]).rows
    (chosen,) = plan.chosen
    assert chosen["mechanism"] == procedure.mechanism
    assert chosen["distortion"] == pytest.approx(procedure.noise.distortion().mean())
    protected = {row["mechanism"]: row["protected"] for row in plan.rows}
    assert set(protected) == set(MECHANISMS)
    assert not protected["scaled-dirichlet"]
    assert chosen["distortion"] == min(row["distortion"] for row in plan.rows if row["protected"])
    assert " *" in str(plan)
    pure = plan_proportions([900], 3, 0.5)
    assert {row["mechanism"] for row in pure.rows} == {"laplace", "laplace-prior"}
    assert len({row["epsilon"] for row in pure.rows}) == 5


def test_a_ledger_pays_once_and_gives_the_same_bytes_again(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0, 1e-6)})
    laplace = mechanism(0.6, mechanism="laplace")
    first = laplace.release(X, Y, BAGS, ledger=ledger, dataset="d")
    again = laplace.release(X, Y, BAGS, ledger=ledger, dataset="d")
    assert encode(first) == encode(again)
    with pytest.raises(BudgetError):
        mechanism(0.5, mechanism="laplace").release(X, Y, BAGS, ledger=ledger, dataset="d")
    other = mechanism(0.3, mechanism="laplace")
    sets = np.arange(ROWS) % 2
    assert other.release(X, Y, sets, ledger=ledger, dataset="d").details["bags"] == [0, 1]


def test_two_owners_keep_their_own_noise():
    first = mechanism(1.0, mechanism="laplace").release(X, Y, BAGS, ledger=None)
    theirs = np.char.add("their ", BAGS)
    other = mechanism(0.5, mechanism="laplace", pipeline=first.pipeline)
    both = merge([first, other.release(X + 1, Y, theirs, ledger=None)])
    assert both.details["bags"][3:] == ["their north", "their south", "their west"]
    variances = np.diag(both.noise.dense(6))
    np.testing.assert_allclose(variances, np.repeat([8.0, 32.0], 3), rtol=1e-5)
    assert decode(encode(both)) == both
    with pytest.raises(ParameterError, match="bags must have different names"):
        merge([first, other.release(X + 2, Y, BAGS, ledger=None)])
    exact = mechanism(1.0, mechanism="laplace-prior", pipeline=first.pipeline)
    assert merge([first, exact.release(X + 3, Y, theirs, ledger=None)]).noise.form == "none"


# --- bad input


def test_labels_that_are_missing_or_of_no_class_are_refused():
    with pytest.raises(TableError, match="of 900 labels are missing or not in the class list"):
        mechanism(classes=(0, 1)).release(X, Y, BAGS, ledger=None)
    holes = Y.astype(float)
    holes[7] = np.nan
    with pytest.raises(TableError, match="1 of 900 labels"):
        mechanism().release(X, holes, BAGS, ledger=None)
    with pytest.raises(TableError, match="missing values"):
        mechanism().release(
            np.where(np.arange(ROWS)[:, None] == 3, np.nan, X), Y, BAGS, ledger=None
        )


def test_a_set_is_neither_a_feature_nor_the_label():
    table = pa.table({"a": X[:, 0], "ward": BAGS, "sick": Y})
    for bags, features in (("sick", ["a"]), ("ward", ["a", "ward"])):
        with pytest.raises(TableError, match="two roles"):
            mechanism().release(table, bags=bags, label="sick", features=features, ledger=None)


@pytest.mark.parametrize(
    ("options", "arguments", "says"),
    [
        ({}, {"bags": None}, "Choose the bags"),
        ({}, {"y": None}, "labels once"),
        ({"names": ["north", "south", "west", "east"]}, {}, "for example 'east'"),
        ({"names": ["north", "north"]}, {}, "same name"),
        ({"epsilon": 0.001}, {}, "too small.*Join bags, or raise --epsilon"),
        ({"mechanism": "magic"}, {}, "must be one of auto, laplace"),
        ({"mechanism": "gaussian"}, {}, "delta above 0"),
        ({"epsilon": -1.0}, {}, "epsilon must be a positive"),
        (
            {"sigma_rule": "x", "mechanism": "scaled-dirichlet", "delta": 0.05},
            {},
            "sigma_rule must be one of",
        ),
    ],
)
def test_what_cannot_be_released_is_refused_with_what_to_change(options, arguments, says):
    inputs = {"y": Y, "bags": BAGS, **arguments}
    with pytest.raises((ParameterError, TableError), match=says):
        mechanism(**{"epsilon": 1.0, **options}).release(
            X, inputs["y"], inputs["bags"], ledger=None, unprotected=True
        )


def test_a_plan_needs_sizes_and_classes():
    for bad in ([], [0], [10.5], [[3]]):
        with pytest.raises(ParameterError, match="sizes"):
            plan_proportions(bad, 2, 1.0)
    with pytest.raises(ParameterError, match="two classes"):
        plan_proportions([10], 1, 1.0)
    with pytest.raises(ParameterError, match="overlap"):
        plan_proportions([10], 2, 1.0, overlap=2)
    with pytest.raises(ParameterError, match="at least one epsilon"):
        plan_proportions([10], 2, [])


# --- sets formed by the labels


def test_skewed_sets_cost_what_randomised_response_costs():
    assert skew_epsilon(0.9, 2) == pytest.approx(math.log(9))
    assert skew_epsilon(0.9, 5) == pytest.approx(math.log(36))
    for bad in (0.5, 0.3, 1.0):
        with pytest.raises(ParameterError, match="skew"):
            skew_epsilon(bad, 2)
    assigned = assign_bags(X, Y, skew=0.8, classes=(0, 1, 2), ledger=None)
    assert assigned.guarantee.epsilon == pytest.approx(math.log(8), rel=1e-9)
    assert assigned.guarantee.epsilon <= math.log(8) * (1 + 1e-12)
    own_bag = (assigned.arrays["answers"] == Y).mean()
    assert abs(own_bag - 0.8) < 6 * math.sqrt(0.16 / ROWS)
    with pytest.raises(ParameterError, match="once"):
        assign_bags(X, Y, skew=0.8, epsilon=1.0, ledger=None)


def test_both_releases_are_paid_for_and_the_second_says_what_the_first_cost(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(3.0)})
    outside = assign_bags(X, Y, skew=0.8, classes=(0, 1, 2), ledger=None)
    with pytest.raises(PrivacyError, match="not charged to this ledger"):
        mechanism(0.5).release(X, Y, outside, ledger=ledger, dataset="d")
    assigned = assign_bags(X, Y, skew=0.8, classes=(0, 1, 2), ledger=ledger, dataset="d")
    with pytest.raises(
        PrivacyError, match="not charged to this ledger"
    ):  # another draw of what was paid
        mechanism(0.5).release(X, Y, outside, ledger=ledger, dataset="d")
    release = mechanism(0.5).release(X, Y, assigned, ledger=ledger, dataset="d")
    (balance,) = ledger.balances()
    assert balance.spent == pytest.approx(math.log(8) + 0.5, rel=1e-6)
    assert "formed by randomised response" in str(release.guarantee)
    assert "2.07945" in str(release.guarantee)
    shares = release.arrays["proportions"]
    assert release.details["bags"] == [0, 1, 2]
    assert (np.diag(shares) > 0.6).all()
    with pytest.raises(BudgetError):
        mechanism(0.6).release(X, Y, assigned, ledger=ledger, dataset="d")
    with pytest.raises(ForeignRowsError, match="other rows"):
        mechanism(0.1).release(X[::-1], Y[::-1], assigned, ledger=None)
    with pytest.raises(ParameterError, match="other classes"):
        mechanism(0.1, classes=(2, 1, 0)).release(X, Y, assigned, ledger=None)
    with pytest.raises(ParameterError, match="assign_bags"):
        mechanism(0.1).release(X, Y, release, ledger=None)


def test_the_trade_between_skew_and_noise_has_a_middle():
    plan = plan_skew(6000, 2, 3.0, 1e-6)
    costs = [row["sets_epsilon"] + row["counts_epsilon"] for row in plan.rows]
    np.testing.assert_allclose(costs, 3.0)
    for name in ("distortion", "separation"):
        assert [row[name] for row in plan.rows] == sorted(row[name] for row in plan.rows)
    (chosen,) = plan.chosen
    assert chosen not in (plan.rows[0], plan.rows[-1])
    with pytest.raises(ParameterError, match="No skew"):
        plan_skew(6000, 2, 0.1)
    with pytest.raises(ParameterError, match="a row for every bag"):
        plan_skew(1, 2, 1.0)


def test_counts_over_several_batches_are_those_of_one(monkeypatch):
    """The rows arrive in pieces; sets are found by the position of a row."""
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 128)
    np.testing.assert_array_equal(counted(mechanism(), X, Y, BAGS), EXACT)


# --- the plan in a notebook


def test_a_plan_prints_as_a_table_and_is_one_in_a_notebook():
    plan = plan_proportions([900, 500], 3, [0.5], 1e-6)
    head, first, *_ = str(plan).splitlines()
    assert head.split() == ["epsilon", "mechanism", "error", "worst", "bag", "guarantee"]
    assert first.startswith("0.5")
    assert repr(plan) == f"{plan.title}\n{plan}"
    page = plan._repr_html_()
    assert page.startswith(f'<table><caption style="text-align:left">{plan.title}</caption>')
    assert page.count("<tr>") == 1 + len(plan.rows)
