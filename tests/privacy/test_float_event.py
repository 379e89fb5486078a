"""The float event: which floats come out must not tell what went in (Mironov 2012).

Textbook Laplace noise in floating point hits some floats only from one of two neighbours. Ours is
an integer times a public factor: every output of one neighbour is a possible output of the other.
"""

import numpy as np

from suffice.owner.mean_operator import MeanOperator


def off_lattice(values: np.ndarray, unit: float) -> float:
    """Return how often a value is no multiple of ``unit``."""
    steps = values / unit
    return float(np.mean(steps != np.rint(steps)))


def test_every_released_number_is_on_the_public_lattice_whatever_the_labels():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(64, 6))  # 64: dividing by a power of two is exact
    for labels in (np.zeros(64, dtype=int), np.ones(64, dtype=int), rng.integers(0, 2, 64)):
        for mechanism in ("laplace", "gaussian", "knorm"):
            release = MeanOperator(epsilon=1.0, delta=1e-6, mechanism=mechanism, map=None).release(
                X, labels, ledger=None
            )
            unit = release.details["step"] / 64
            assert off_lattice(release.arrays["mean_operator"], unit) == 0.0


def test_the_same_probe_flags_noise_drawn_in_floating_point():
    """Mironov's event: not a multiple of 2^-53, around 0 and around 1."""
    rng = np.random.default_rng(0)
    around_zero = off_lattice(0.0 + rng.laplace(size=100_000), 2.0**-53)
    around_one = off_lattice(1.0 + rng.laplace(size=100_000), 2.0**-53)
    assert around_zero > np.exp(1.0) * around_one  # far beyond a claimed epsilon of 1
