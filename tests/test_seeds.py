"""Noise in tests repeats itself, has the law that it stands for, and needs no switch in src/.

And the sum of what is left to chance: how often a run of the suite fails though nothing is wrong.
"""

import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from builders import assert_noise, make_release
from seeds import MOST_CHANCE, RATES, Stream, chance_of, gaussian_noise, laplace_noise, seeded
from suffice import participant
from suffice.privacy.noise import NOISES, Sensitivity, calibrated_noise
from suffice.privacy.randomness import private_bits, private_words
from suffice.releases.release import encode

DRAWS = {
    **{
        f"{name} of {size}": lambda name=name, size=size: calibrated_noise(
            name, Sensitivity(2**20, 2.0**20, size), 1.0, 1e-6
        ).add(np.zeros(size, dtype=np.int64))
        for name in NOISES
        for size in (3, 4)
    },
    "words": lambda: private_words(5),
    "other words": lambda: private_words(6),
    "bits": lambda: private_bits(700),
    "a participant's noise": lambda: participant._laplace(participant.Fraction(1000)),
    "a participant's token": lambda: participant.secrets.token_bytes(8),
}


def drawn(names) -> dict[str, list[str]]:
    """Return two draws of each sampler, in the order of their names."""
    found = {name: [] for name in DRAWS}
    for name in [*names, *names]:
        found[name].append(repr(DRAWS[name]()))
    return found


def test_the_same_seed_gives_the_same_noise_in_any_order_of_draws():
    with seeded(1):
        first = drawn(DRAWS)
    with seeded(1):
        assert drawn(list(reversed(DRAWS))) == first
    with seeded(1):
        alone = {name: [repr(draw())] for name, draw in list(DRAWS.items())[::3]}
    assert all(first[name][0] == draws[0] for name, draws in alone.items())
    with seeded(2):
        other = drawn(DRAWS)
    for name in DRAWS:
        assert len({*first[name], *other[name]}) == 4, name


def test_the_last_digits_of_a_scale_do_not_change_the_noise():
    """Machines that compute another last digit of a scale do not draw other noise."""
    for law in (laplace_noise, gaussian_noise):
        near = [law(Stream("s"), scale, 1000) for scale in (2.0**40, 2.0**40 * (1 + 1e-12))]
        assert np.abs(near[0] - near[1]).max() < 2**40 * 1e-9
        far = law(Stream("s"), 2.0**40 * 1.01, 1000)
        assert abs(np.corrcoef(near[0], far)[0, 1]) < 0.2


@pytest.mark.parametrize("law", [laplace_noise, gaussian_noise])
def test_the_samplers_of_tests_have_the_law_of_opendp(law):
    name = law.__name__.removesuffix("_noise")
    assert_noise(law(Stream("here"), 2.0**40, 20_000), 2.0**40, name)
    with pytest.raises(AssertionError, match="times the scale"):
        assert_noise(law(Stream("here"), 0.9 * 2.0**40, 20_000), 2.0**40, name)


def test_on_a_coarse_grid_too_laplace_noise_of_tests_has_its_law():
    values = np.abs(laplace_noise(Stream("coarse"), 0.7, 200_000))
    share = np.exp(-1 / 0.7)
    zeros, ones = (1 - share) / (1 + share), 2 * share * (1 - share) / (1 + share)
    assert np.mean(values == 0) == pytest.approx(zeros, abs=0.005)
    assert np.mean(values == 1) == pytest.approx(ones, abs=0.005)


def test_the_scale_is_read_off_the_measurement_that_the_package_built():
    for name in ("laplace", "gaussian"):
        noise = calibrated_noise(name, Sensitivity(2**30, 2.0**30, 20_000), 0.7, 1e-6)
        assert_noise(noise.add(np.zeros(20_000, dtype=np.int64)), noise.scale, name)


@pytest.fixture(scope="module")
def shared_release() -> bytes:
    return encode(make_release())


def test_a_fixture_that_tests_share_is_seeded_by_its_own_name(shared_release, request):
    with seeded(f"{request.node.parent.nodeid}::shared_release[0]"):
        assert encode(make_release()) == shared_release


def test_a_test_is_seeded_by_its_name(request):
    here = encode(make_release())
    with seeded(request.node.nodeid):
        assert encode(make_release()) == here


def test_threads_of_a_test_are_seeded_too():
    found = []
    with seeded(3):
        thread = threading.Thread(target=lambda: found.append(private_bits(64)))
        thread.start()
        thread.join()
    with seeded(3):
        assert found == [private_bits(64)]


@pytest.mark.chance(2.0**-64)
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_forks_off_has_real_noise():
    there, here = os.pipe()
    with seeded(4):
        if (child := os.fork()) == 0:
            os.write(here, private_words(1).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(there, 8) != private_words(1).tobytes()
    os.close(there)
    os.close(here)


@pytest.mark.chance(2.0**-64)
def test_a_test_of_chance_has_real_noise_and_no_other_has():
    """Mark and seed exclude each other: only the mark leaves noise as it is."""
    with seeded(5):
        repeated = private_bits(64)
    assert private_bits(64) != repeated
    with seeded(5):
        assert private_bits(64) == repeated


def test_the_suite_fails_by_chance_in_less_than_one_of_10000_runs(request):
    """Summed over all tests that were collected, also those that this run leaves out."""
    rates = request.config.stash[RATES]
    assert (
        rates[
            f"{request.node.parent.nodeid}::{test_a_process_that_forks_off_has_real_noise.__name__}"
        ]
        == 2.0**-64
    )
    assert sum(rates.values()) < MOST_CHANCE


def test_a_mark_states_a_small_probability(request):
    for rate in (-1e-9, MOST_CHANCE, 1, float("nan")):
        item = SimpleNamespace(
            nodeid="x", get_closest_marker=lambda _, rate=rate: SimpleNamespace(args=(rate,))
        )
        with pytest.raises(pytest.UsageError, match="chance"):
            chance_of(item)
    assert chance_of(request.node) == 0
