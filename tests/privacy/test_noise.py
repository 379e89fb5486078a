"""Samplers: right at the right scale, and the same test rejects 10 % too little noise.

The marked tests draw real noise: opendp cannot be seeded. All others repeat their noise (`seeds`),
the K-norm sampler among them, which runs as it is on bits that repeat.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from builders import assert_noise
from seeds import seeded
from suffice.errors import ParameterError
from suffice.privacy import noise as noises
from suffice.privacy.events import Laplace
from suffice.privacy.noise import (
    NOISES,
    GaussianNoise,
    KNormNoise,
    LaplaceNoise,
    Noise,
    Sensitivity,
    calibrated_noise,
    needs_delta,
)

ALARM = 1e-6
REACH = Sensitivity(l1=2**30, l2=2.0**29, dimension=20_000)
SMALL = Sensitivity(l1=2**30, l2=2.0**29, dimension=5)


def draws(noise: Noise, count: int) -> np.ndarray:
    """Return ``count`` noise vectors, one per row."""
    zero = np.zeros(noise.sensitivity.dimension, dtype=np.int64)
    return np.array([noise.add(zero) for _ in range(count)])


LAWS = {
    "laplace": LaplaceNoise.calibrated(REACH, 1.0),
    "gaussian": GaussianNoise.calibrated(REACH, 1.0, 1e-6),
    "knorm": KNormNoise.calibrated(SMALL, 1.0),
}


@pytest.fixture(scope="module")
def samples() -> dict[str, tuple]:
    """Return repeated noise: 20,000 numbers of either law of opendp, 2,500 vectors of K-norm."""
    count = {"laplace": 1, "gaussian": 1, "knorm": 2500}
    return {
        name: (draws(noise, count[name]).squeeze(), noise.scale) for name, noise in LAWS.items()
    }


# `assert_noise` fails by chance in 1e-7 of its calls. 20,000 numbers at 0.9 of the scale have a sum
# that is 9 standard deviations below the least that it accepts: they pass in less than 1e-18.
@pytest.mark.chance(1e-7)
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_opendp_draws_the_stated_law_and_ten_percent_too_little_is_noticed(name):
    noise = LAWS[name]
    assert_noise(draws(noise, 1), noise.scale, name)
    with pytest.raises(AssertionError, match="times the scale"):
        assert_noise(draws(replace(noise, scale=0.9 * noise.scale), 1), noise.scale, name)


@pytest.mark.parametrize("name", ["laplace", "gaussian", "knorm"])
def test_noise_has_the_stated_distribution(samples, name):
    values, scale = samples[name]
    assert_noise(values, scale, name)


@pytest.mark.parametrize("name", ["laplace", "gaussian", "knorm"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_ten_percent_less_or_more_noise_is_rejected(samples, name, factor):
    """So it is in every test that uses `assert_noise`, which asks for enough draws."""
    values, scale = samples[name]
    with pytest.raises(AssertionError, match="times the scale"):
        assert_noise(values * factor, scale, name)


@pytest.mark.parametrize(("name", "few"), [("laplace", 7000), ("gaussian", 3500), ("knorm", 1400)])
def test_too_few_draws_to_notice_ten_percent_are_refused(samples, name, few):
    values, scale = samples[name]
    with pytest.raises(AssertionError, match="too few"):
        assert_noise(values[:few], scale, name)


def test_another_law_of_the_same_scale_is_rejected(samples):
    values, scale = samples["gaussian"]
    mean_size = scale * math.sqrt(2 / math.pi)  # of a Laplace number: its scale
    with pytest.raises(AssertionError, match="laplace law"):
        assert_noise(values, mean_size, "laplace")


# Five standard deviations of Spearman's coefficient, which is normal for so many numbers: 5.8e-7.
@pytest.mark.chance(6e-7)
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_neighbouring_coordinates_are_independent(name):
    values = draws(LAWS[name], 1).ravel()
    assert abs(stats.spearmanr(values[:-1], values[1:]).statistic) < 5 / math.sqrt(len(values))


# No number has a probability above 1 / scale <= 2^-29 in any of these laws, and there are five.
@pytest.mark.chance(1e-8)
@pytest.mark.parametrize(
    "noise",
    [
        LaplaceNoise.calibrated(SMALL, 1.0),
        GaussianNoise.calibrated(SMALL, 1.0, 1e-6),
        KNormNoise.calibrated(SMALL, 1.0),
    ],
    ids=["laplace", "gaussian", "knorm"],
)
def test_repeated_calls_draw_anew(noise):
    first, second = draws(noise, 2)
    assert (first != second).all()


def test_the_direction_of_knorm_noise_is_uniform(samples):
    values = samples["knorm"][0]
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    covariance = unit.T @ unit / len(unit) * unit.shape[1]
    assert np.abs(covariance - np.eye(unit.shape[1])).max() < 6 / math.sqrt(len(unit))
    assert np.abs(unit.mean(axis=0)).max() < 6 / math.sqrt(len(unit) * unit.shape[1])


def test_the_stated_variance_is_that_of_the_lattice(monkeypatch):
    """Exact: the sum of k^2 P[k] over the integers."""
    monkeypatch.setattr(noises, "_LEAST_SIGMA", 1.0)
    line = np.arange(-4000, 4001)
    for scale in (0.4, 1.0, 7.3, 60.0):
        p = np.exp(-np.abs(line) / scale)
        stated = LaplaceNoise.of_scale(SMALL, scale).variance
        assert stated == pytest.approx((line**2 * p).sum() / p.sum())
    gaussian = coarse_noise("of_scale", 1)
    p = np.exp(-(line**2) / (2 * gaussian.scale**2))
    assert gaussian.variance == pytest.approx((line**2 * p).sum() / p.sum())


def test_the_stated_variance_of_knorm_noise_is_that_of_its_draws(samples):
    """2,500 vectors have it to 2 %, in standard deviations of their mean."""
    values = samples["knorm"][0].astype(np.float64)
    assert np.mean(values**2) == pytest.approx(LAWS["knorm"].variance, rel=0.08)


def test_knorm_on_a_coarse_lattice_has_exact_probabilities():
    """With scale 1 and D = 2 the cells are few: compare every probability, not just the radius."""
    from suffice.privacy.randomness import knorm_sample

    count, radius = 9000, 6
    frequencies = {}
    for _ in range(count):
        k = tuple(knorm_sample(2, 1.0).tolist())
        frequencies[k] = frequencies.get(k, 0) + 1
    cells = [(a, b) for a in range(-40, 41) for b in range(-40, 41)]
    weights = np.array([math.exp(-math.hypot(*k)) for k in cells])
    chance = dict(zip(cells, weights / weights.sum(), strict=True))
    near = [k for k in cells if math.hypot(*k) <= radius and chance[k] * count >= 5]
    observed = [frequencies.get(k, 0) for k in near]
    expected = [chance[k] * count for k in near]
    rest = count - sum(observed)
    p = stats.chisquare([*observed, rest], [*expected, count - sum(expected)]).pvalue
    assert p > ALARM
    wrong = np.array([math.exp(-math.hypot(*k) / 0.9) for k in cells])  # 10 % too little noise
    wrong_chance = dict(zip(cells, wrong / wrong.sum(), strict=True))
    expected = [wrong_chance[k] * count for k in near]
    assert stats.chisquare([*observed, rest], [*expected, count - sum(expected)]).pvalue < ALARM


def test_a_decision_of_the_knorm_sampler_is_the_same_with_more_bits():
    """Nothing is decided before it is settled: what few bits say, all further bits say too."""
    from suffice.privacy import randomness

    iv, settled, answers = randomness._context(), 0, set()
    with seeded(6):
        for _ in range(300):
            uniforms, decisions = randomness._Uniforms(4), []
            for bits in (2, 4, 6, 8, 12, 16, 32, 192):
                uniforms.reveal(bits)
                iv.prec = bits + 64
                decisions.append(randomness._decide(uniforms.enclosures(iv), 1, 1.0, iv))
            first = next(k for k, (decided, _) in enumerate(decisions) if decided)
            assert all(later == decisions[first] for later in decisions[first:])
            settled += first < 7
            answers.add(decisions[-1][1] is None)
    assert settled > 200
    assert answers == {True, False}


def test_each_law_is_scaled_by_its_own_norm_and_never_rounded_down():
    """Exact: the loss of scale and norm, as fractions, is no more than the event states."""
    rng = np.random.default_rng(8)
    for epsilon in rng.uniform(0.01, 9.0, 300).tolist():
        reach = Sensitivity(l1=2**30, l2=float(rng.uniform(2.0**20, 2.0**21)), dimension=5)
        laplace = LaplaceNoise.calibrated(reach, epsilon)
        loss = Fraction(reach.l1 + 2) / Fraction(laplace.scale)
        assert loss <= Fraction(laplace.event.bound) <= Fraction(epsilon)
        knorm = KNormNoise.calibrated(reach, epsilon)
        loss = Fraction(reach.l2) / Fraction(knorm.scale)
        assert loss <= Fraction(knorm.event.bound) <= Fraction(epsilon)
        assert float(loss) == pytest.approx(epsilon, rel=1e-9)
        gaussian = GaussianNoise.calibrated(reach, epsilon, 1e-6)
        multiplier = Fraction(gaussian.scale) / Fraction(reach.l2)
        assert multiplier * (1 - Fraction(1, 10**11)) < gaussian.event.multiplier <= multiplier


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.7, 20.0])
def test_the_stated_epsilon_never_exceeds_the_requested_one_and_wastes_nothing(epsilon):
    delta = 1e-6
    for noise, at in (
        (LaplaceNoise.calibrated(SMALL, epsilon), 0.0),
        (KNormNoise.calibrated(SMALL, epsilon), 0.0),
        (GaussianNoise.calibrated(SMALL, epsilon, delta), delta),
    ):
        stated = noise.event.epsilon(at)
        assert epsilon * (1 - 1e-6) < stated <= epsilon


@pytest.mark.parametrize(
    "noise",
    [
        LaplaceNoise.calibrated(Sensitivity(l1=6, l2=6.0, dimension=2), 1.5),
        LaplaceNoise.of_scale(Sensitivity(l1=6, l2=6.0, dimension=2), 5.0),
    ],
    ids=["calibrated", "of_scale"],
)
def test_the_laplace_bound_is_the_true_loss_of_the_lattice(noise):
    """Brute force: the discrete pair's curve lies below that of the stated event.

    The event is that of l1 + 2 steps (proofs/laplace.md); of l1 steps it would be too cheap.
    """
    line = np.arange(-400, 401)
    p = np.exp(-np.abs(line) / noise.scale)
    p /= p.sum()
    for shift in ((6, 0), (3, 3), (1, 5), (2, 2)):
        pair = np.outer(p, p), np.outer(np.roll(p, shift[0]), np.roll(p, shift[1]))
        for delta in (1e-4, 0.01, 0.1, 0.3):
            epsilon = noise.event.epsilon(delta)
            assert np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0).sum() <= delta + 1e-12
    assert noise.event.bound == pytest.approx((6 + 2) / noise.scale, rel=1e-9)
    too_cheap = math.exp(Laplace(6 / noise.scale).epsilon(0.01))
    assert np.maximum(p - too_cheap * np.roll(p, 6), 0).sum() > 0.01


def coarse_noise(make: str, dimension: int) -> GaussianNoise:
    """Return Gaussian noise on a lattice of some 30 to 100 steps a sigma, which is seen to cost."""
    reach = Sensitivity(l1=20 * dimension, l2=20.0, dimension=dimension)
    if make == "calibrated":
        return GaussianNoise.calibrated(reach, 1.0, 1e-6)
    return GaussianNoise.of_scale(reach, 30.0)


@pytest.mark.parametrize("dimension", [1, 3, 100])
@pytest.mark.parametrize("make", ["calibrated", "of_scale"])
def test_the_gaussian_event_holds_what_the_lattice_costs_in_all_coordinates(
    monkeypatch, make, dimension
):
    """Brute force, from both sides: the worst log-ratio of a coordinate, and its mass beyond 14."""
    monkeypatch.setattr(noises, "_LEAST_SIGMA", 1.0)
    noise = coarse_noise(make, dimension)
    sigma, event = noise.scale, noise.event
    n = np.arange(40 * math.ceil(sigma))
    p = np.exp(-(n**2) / (2 * sigma**2))
    p /= 2 * p.sum() - 1
    near = n <= 14 * sigma + noise.sensitivity.l2
    rounded = stats.norm.sf((n[near] - 0.5) / sigma) - stats.norm.sf((n[near] + 0.5) / sigma)
    worst = dimension * np.abs(np.log(rounded) - np.log(p[near])).max()
    assert worst <= event.slack <= 1.02 * worst
    beyond = dimension * 2 * p[n > 14 * sigma].sum()
    assert beyond <= event.tail <= 100 * beyond
    assert sigma / 20 * (1 - 1e-11) < event.multiplier <= sigma / 20


@pytest.mark.parametrize("make", ["calibrated", "of_scale"])
def test_the_gaussian_bound_is_the_true_loss_of_the_lattice(monkeypatch, make):
    """Brute force: the discrete pair's curve lies below that of the stated event, and near it."""
    monkeypatch.setattr(noises, "_LEAST_SIGMA", 1.0)
    noise = coarse_noise(make, 1)
    line = np.arange(-20 * math.ceil(noise.scale), 20 * math.ceil(noise.scale))
    p = np.exp(-(line**2) / (2 * noise.scale**2))
    p /= p.sum()
    q = np.roll(p, 20)
    for delta in (1e-8, 1e-5, 1e-2):
        epsilon = noise.event.epsilon(delta)
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta
        assert np.maximum(p - math.exp(0.9 * epsilon) * q, 0).sum() > delta


@pytest.mark.parametrize("reach", [(0, 1.0, 3), (1, 0.0, 3), (1, math.inf, 3), (1, 1.0, 0)])
def test_an_impossible_sensitivity_is_refused(reach):
    with pytest.raises(ParameterError):
        Sensitivity(*reach)


def test_a_coarse_lattice_is_refused_for_gaussian_noise():
    with pytest.raises(ParameterError, match="smaller rounding step"):
        GaussianNoise.calibrated(Sensitivity(10, 10.0, 3), 1.0, 1e-6)


def test_a_delta_below_the_tail_is_refused_and_not_searched_for():
    with pytest.raises(ParameterError, match="delta must exceed"):
        GaussianNoise.calibrated(SMALL, 1.0, 1e-42)
    assert GaussianNoise.calibrated(SMALL, 1.0, 1e-30).event.epsilon(1e-30) <= 1.0


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12])
def test_noise_that_would_not_fit_is_refused_before_it_is_drawn(epsilon):
    for mechanism in (LaplaceNoise, KNormNoise):
        with pytest.raises(ParameterError, match="too small"):
            mechanism.calibrated(SMALL, epsilon)


def test_noise_refuses_what_it_was_not_calibrated_for():
    noise = LaplaceNoise.calibrated(SMALL, 1.0)
    for size in (4, 6):
        with pytest.raises(ParameterError, match="dimension"):
            noise.add(np.zeros(size, dtype=np.int64))
    with pytest.raises(ParameterError, match="too large"):
        noise.add(np.full(5, 2**62, dtype=np.int64))
    with pytest.raises(ParameterError, match="too large"):
        noise.add(np.full(5, -(2**63), dtype=np.int64))


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon):
    for mechanism in (LaplaceNoise, KNormNoise):
        with pytest.raises(ParameterError, match="epsilon"):
            mechanism.calibrated(SMALL, epsilon)


def test_the_table_of_noises_has_every_noise_that_an_owner_can_name():
    subclasses = {LaplaceNoise, GaussianNoise, KNormNoise}
    assert {*NOISES.values()} == subclasses
    expected = {
        "laplace": LaplaceNoise.calibrated(SMALL, 0.5),
        "gaussian": GaussianNoise.calibrated(SMALL, 0.5, 1e-6),
        "knorm": KNormNoise.calibrated(SMALL, 0.5),
    }
    for name, noise in expected.items():
        assert calibrated_noise(name, SMALL, 0.5, 1e-6) == noise
        assert noise.name == name


def test_noise_that_needs_a_delta_is_refused_without_one_and_no_other():
    for name in NOISES:
        if needs_delta(name):
            with pytest.raises(ParameterError, match="delta above 0"):
                calibrated_noise(name, SMALL, 1.0)
        else:
            assert calibrated_noise(name, SMALL, 1.0).event.pure
    assert not needs_delta("response")
    with pytest.raises(ParameterError, match="Use laplace or gaussian or knorm"):
        calibrated_noise("response", SMALL, 1.0)
