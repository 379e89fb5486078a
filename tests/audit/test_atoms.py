"""What exact values and supports show: found where one side has it, and nowhere else."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.audit.auditor import audit_case, lowest_bits, support_scores
from suffice.audit.case import Case
from suffice.audit.search import Pair

ALPHA = 1e-7  # of each bound below: the chance that a sound mechanism is flagged here


def slow_lowest_bit(number: float) -> float:
    """Return the exponent of the largest power of two that divides a number."""
    top, bottom = Fraction(number).as_integer_ratio()
    power = 0
    while top % 2 == 0:
        top, power = top // 2, power + 1
    return power - math.log2(bottom)


@given(st.floats(allow_nan=False, allow_infinity=False).filter(bool))
def test_lowest_bits_are_those_of_fractions(number):
    assert lowest_bits(np.array([number]))[0] == slow_lowest_bit(number)


@given(st.integers(-(2**63) + 1, 2**63 - 1).filter(bool))
def test_lowest_bits_of_integers_are_those_of_fractions(number):
    assert lowest_bits(np.array([number]))[0] == slow_lowest_bit(number)


def test_what_has_no_lowest_bit_lies_beyond_all_grids():
    zero, nan, infinite = lowest_bits(np.array([0.0, np.nan, np.inf]))
    assert zero > 1023
    assert nan == infinite > zero


def sides(draw, size=4000):
    rng = np.random.default_rng(0)
    return draw(rng, 0, size), draw(rng, 1, size)


# Outputs of two numbers under D (side 0) and under D' (side 1), and the score that tells them.
LEAKS = {
    "sign of zero": lambda rng, side, n: np.c_[np.full(n, -0.0 if side else 0.0), rng.random(n)],
    "no number": lambda rng, side, n: np.c_[np.full(n, np.nan if side else 1.0), rng.random(n)],
    "zero for nobody": lambda rng, side, n: rng.normal(size=(n, 2)) * (1, side),
    "clipped elsewhere": lambda rng, side, n: np.minimum(rng.normal(size=(n, 2)), 0.5 + side),
    "equal numbers": lambda rng, side, n: rng.normal(size=(n, 2))[:, [0, side]],
    "exact difference": lambda rng, side, n: np.add(
        rng.normal(size=(n, 1)), (0.0, 1.0 + 2.0**-40 * side)
    ),
    "coarser grid": lambda rng, side, n: (
        np.rint(rng.normal(size=(n, 2)) * 2.0 ** (20 - side)) * 2.0 ** (side - 20)
    ),
    "parity": lambda rng, side, n: 2 * rng.integers(-(2**40), 2**40, (n, 2)) + side,
    "floating-point noise": lambda rng, side, n: side + rng.laplace(size=(n, 2)),
}


def case_of(draw, claimed=1.0):
    rng = np.random.default_rng(1)
    return Case(
        "test", "test", claimed=claimed, delta=0.0, pairs=lambda _: [Pair((0,), (1,))],
        sample=lambda data, n: draw(rng, data[0], n), score=None, samples=4000,
    )  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_what_one_side_never_gives_is_found(name):
    assert audit_case(case_of(LEAKS[name]), alpha=ALPHA).violated


@pytest.mark.parametrize("name", ["sign of zero", "exact difference", "coarser grid", "parity"])
def test_a_learnt_score_alone_does_not_find_it(name, monkeypatch):
    """So these scores are needed: with them left out the same leaks are not seen."""
    monkeypatch.setattr("suffice.audit.auditor.support_scores", lambda *_: {})
    assert not audit_case(case_of(LEAKS[name]), alpha=ALPHA).violated


@pytest.mark.parametrize("name", LEAKS)
def test_the_same_outputs_on_both_sides_are_not_flagged(name):
    def alike(rng, side, n):
        del side
        return LEAKS[name](rng, 1, n)

    finding = audit_case(case_of(alike, claimed=1e-6), alpha=ALPHA)
    assert not finding.violated


def test_noise_on_a_grid_has_no_atoms():
    def on_grid(rng, side, n):
        return np.rint((side + rng.laplace(size=(n, 2))) * 2.0**30) * 2.0**-30

    names = set(support_scores(*sides(on_grid)))
    assert names == {"number 1", "number 2", "grid of number 1", "grid of number 2", "grid"}
    assert not audit_case(case_of(on_grid, claimed=2.0), alpha=ALPHA).violated


def test_few_outcomes_are_counted_and_unknown_ones_score_nothing():
    rng = np.random.default_rng(8)
    codes = [rng.choice(3, (4000, 1), p=p) for p in ((0.6, 0.3, 0.1), (0.2, 0.3, 0.5))]
    score = support_scores(*codes)["atoms"]
    values = score(np.array([[0], [1], [2], [7]]))
    assert np.allclose(values, [np.log(3), 0, -np.log(5), 0], atol=0.25)
