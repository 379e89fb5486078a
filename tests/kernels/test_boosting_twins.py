"""The boosting kernel against Algorithm 1 written out in numpy, a row and a round at a time."""

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from suffice.kernels import rados
from suffice.kernels.rados import LARGEST_EDGE, MEDIAN, STRONGEST

ORACLES = pytest.mark.parametrize("oracle", [STRONGEST, MEDIAN])
GENTLE = pytest.mark.parametrize("gentle", [True, False])


def slow_pick(edges, oracle):
    usable = sorted((abs(r), k) for k, r in enumerate(edges) if r != 0)
    if not usable:
        return -1
    if oracle == MEDIAN:
        return usable[len(usable) // 2][1]
    return usable[-1][1]


def slow_boost(rows, examples, *, oracle, cap, least, scale, gentle, rounds):
    """Return the weights after the last round, and the table of rounds."""
    n = len(rows)
    largest = np.abs(rows).max(axis=0)
    weights, theta, table = np.full(n, 1 / n), np.zeros(rows.shape[1]), []
    for _ in range(rounds):
        edges = [weights @ rows[:, k] / largest[k] if largest[k] else 0 for k in range(len(theta))]
        k = slow_pick(edges, oracle)
        if k < 0:
            break
        size = min(max(abs(edges[k]), least), cap, LARGEST_EDGE)
        step = np.sign(edges[k]) * size
        alpha = scale * np.log((1 + step) / (1 - step)) / (2 * largest[k])  # eq. (10)
        theta[k] += alpha
        if gentle:
            weights = weights * (1 - step * rows[:, k] / largest[k]) / (1 - step * edges[k])
        else:
            weights = np.exp(-rows @ theta)
            weights /= weights.sum()
        log_risk = np.log(np.mean(np.exp(-rows @ theta)))
        wrong = sum(edge @ theta <= 0 for edge in examples)
        table.append([k, edges[k], step, alpha, log_risk, wrong])
    return weights, np.array(table).reshape(-1, 6)


def fast_boost(
    rows, examples, *, oracle=STRONGEST, cap=1.0, least=0.0, scale=1.0, gentle=True, rounds
):
    weights, table = np.empty(len(rows)), np.empty((rounds, 6))
    done = rados.boost(rows, examples, oracle, cap, least, scale, gentle, weights, table)
    return weights, table[:done]


@ORACLES
@GENTLE
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (40, 6)])
@pytest.mark.parametrize(("least", "cap"), [(0.0, 1.0), (0.2, 1.0), (0.0, 0.3)])
def test_boost_equals_its_twin(oracle, gentle, shape, least, cap):
    rng = np.random.default_rng(shape[0])
    rows = rng.normal(size=shape) + rng.normal(size=shape[1])
    examples = rng.normal(size=(9, shape[1])) + 0.5
    scale = 0.5 if gentle else 1.0  # kappa is for rule (11) alone
    settings = {"oracle": oracle, "cap": cap, "least": least, "scale": scale, "gentle": gentle}
    paths = [boost(rows, examples, **settings, rounds=6) for boost in (fast_boost, slow_boost)]
    for fast, slow in zip(*paths, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-12)


@ORACLES
def test_without_an_edge_there_is_no_round(oracle):
    weights, table = fast_boost(
        np.zeros((4, 3)), np.ones((2, 3)), oracle=oracle, least=0.1, rounds=5
    )
    assert table.shape == (0, 6)
    np.testing.assert_array_equal(weights, 0.25)


@GENTLE
def test_weights_of_rows_with_huge_numbers_stay_a_distribution(gentle):
    """Where rows agree steps are long and e^(-margin) has no float: logarithms have."""
    rng = np.random.default_rng(0)
    rows = 1e6 * (1 + 1e-3 * rng.normal(size=(50, 3)))
    weights, table = fast_boost(rows, rows, gentle=gentle, rounds=500)
    assert table[-1, 4] < -800  # the risk itself is no float any more
    assert np.isfinite(table).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()


def test_an_example_on_the_boundary_is_not_on_the_right_side():
    rows, examples = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert fast_boost(rows, examples, rounds=1)[1][0, 5] == 2


def test_no_cached_kernel_builds_on_a_kernel_of_another_file():
    kernels = [item for item in vars(rados).values() if isinstance(item, CPUDispatcher)]
    assert kernels
    assert {kernel.__module__ for kernel in kernels} == {rados.__name__}
