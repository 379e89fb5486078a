"""Shaped releases derived a second time, by enumeration of labellings, neighbours and outputs.

`proofs/shaping.md` bounds what one label can move by norms. Here tables of a few rows are put on a
lattice so coarse that a row is worth about one step: all labellings are read, by the code that
reads an owner's, all neighbours are compared, and the exact privacy loss of the noisy integers is
counted over a box of outputs. Nothing is drawn, so nothing fails by chance.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from suffice.engines.engine import fold
from suffice.owner.labelled import PublicRows
from suffice.owner.mean_operator import ExactSums, Shape
from suffice.owner.source import Source, labelled_batches
from suffice.privacy.noise import KNormNoise, Sensitivity
from suffice.tables.columns import resolve_roles
from suffice.tables.pipeline import Column, Pipeline
from suffice.tables.sources import open_table

BITS = 48  # with a bound of 1 a row is 2^30 steps long, and a matrix of 2^20: up to four steps
EPSILON = 0.9


@dataclass(frozen=True)
class Case:
    """A table of a few rows, with a shape; every labelling of it is read."""

    rows: np.ndarray
    matrix: np.ndarray
    classes: int

    @property
    def shape(self) -> Shape:
        return Shape(self.matrix, BITS)

    def read(self, labels: tuple[int, ...], shape: Shape | None) -> ExactSums:
        """Return the exact sums of the rows under these labels; -1 is a label of no class."""
        table, width = open_table(self.rows), self.rows.shape[1]
        columns = tuple(Column(name) for name in table.schema.names)
        pipeline = Pipeline(columns, "error", np.zeros(width), np.ones(width), 1.0, 0.0)
        public = PublicRows(table, resolve_roles(table.schema), pipeline)
        source = Source(None, [*labels], outside="none")
        names = tuple(range(self.classes))
        batches = labelled_batches(table, public.roles, names, source)
        return fold(batches, ExactSums(public, names, shape))

    def labellings(self) -> list[tuple[int, ...]]:
        codes = range(-1, self.classes)
        return [*itertools.product(codes, repeat=len(self.rows))]

    def moves(self) -> list[np.ndarray]:
        """Return what one label moves: the difference of all neighbours' integers."""
        sums = {y: self.read(y, self.shape).result() for y in self.labellings()}
        return [
            (sums[first] - sums[other]).ravel()
            for first, other in itertools.product(sums, repeat=2)
            if sum(a != b for a, b in zip(first, other, strict=True)) == 1
        ]

    def sensitivity(self) -> Sensitivity:
        return self.read((0,) * len(self.rows), self.shape).sensitivity


def rounded_up(width: int, classes: int) -> Case:
    """Return rows that are worth .51 steps in every coordinate: -1 becomes +1, two steps away."""
    rows = np.full((2, width), 0.51 * 2**-2)
    rows[1] *= 0.001
    return Case(rows, 2**20 * np.eye(width, dtype=np.int64), classes)


def random_case(seed: int) -> Case:
    """Return a table and a matrix without any pattern."""
    rng = np.random.default_rng(seed)
    width, classes = 1 + seed % 2, 2 + seed % 3 // 2
    rows = rng.normal(size=(2, width)) * rng.choice([0.05, 0.3, 2.0])
    return Case(rows, rng.integers(-(2**20), 2**20, (width, width)), classes)


CASES = {
    "one, two classes": rounded_up(1, 2),
    "two, two classes": rounded_up(2, 2),
    "three, two classes": rounded_up(3, 2),
    "two, three classes": rounded_up(2, 3),
    **{f"drawn {seed}": random_case(seed) for seed in range(12)},
}


def largest_loss(moves: list[np.ndarray], scale: float) -> float:
    """Return the largest ln P[o] / P'[o] over neighbours and outputs, P[o] ~ e^(-||o - u|| / s).

    Outputs are those of a box around u that holds u and u': the loss of any other is no larger.
    """
    longest = 0.0
    for move in {tuple(move.tolist()) for move in moves}:
        reach = [range(min(0, x) - 1, max(0, x) + 2) if x else range(1) for x in move]
        outputs = np.array([*itertools.product(*reach)], dtype=float)
        gap = np.linalg.norm(outputs - move, axis=1) - np.linalg.norm(outputs, axis=1)
        longest = max(longest, float(gap.max()) / scale)
    return longest


@pytest.mark.parametrize("name", CASES)
def test_no_label_moves_more_than_is_stated(name):
    case = CASES[name]
    stated, moves = case.sensitivity(), case.moves()
    assert max(int(np.abs(move).sum()) for move in moves) <= stated.l1
    assert max(float(np.linalg.norm(move)) for move in moves) <= stated.l2
    assert stated.dimension == moves[0].size


@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_a_shaped_release_is_at_most_epsilon(name):
    case = CASES[name]
    noise = KNormNoise.calibrated(case.sensitivity(), EPSILON)
    assert largest_loss(case.moves(), noise.scale) <= EPSILON


@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_loss_comes_as_close_as_a_hundredth(width):
    """Both terms are needed: 2 ||a|| for the label, and one step per coordinate for rounding."""
    case = rounded_up(width, 2)
    noise = KNormNoise.calibrated(case.sensitivity(), EPSILON)
    assert 0.985 * EPSILON < largest_loss(case.moves(), noise.scale) <= EPSILON


def without(case: Case, what: str) -> float:
    """Return how far a label is said to move the integers by a broken copy of the sensitivity."""
    exact = case.read((0,) * len(case.rows), case.shape)
    width, (_, two) = case.rows.shape[1], exact._shaped
    return {
        "rounding": 2 * two,
        "the change of sign": two + math.sqrt(width),
        "all coordinates but one": exact.sensitivity.l2 / math.sqrt(width),
        "the shape": exact._sums.reach.l2 * 2.0**-30,
    }[what]


@pytest.mark.parametrize(
    "what", ["rounding", "the change of sign", "all coordinates but one", "the shape"]
)
def test_a_sensitivity_that_leaves_something_out_is_noticed(what):
    case = rounded_up(2, 2)
    wrong = KNormNoise.calibrated(Sensitivity(1, without(case, what), 2), EPSILON)
    assert largest_loss(case.moves(), wrong.scale) > 1.1 * EPSILON


def supports_meet(first: list[Fraction], other: list[Fraction]) -> bool:
    """Say whether integers added to two vectors can give the same output."""
    return all((a - b).denominator == 1 for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_integers_before_noise_are_needed(name):
    """Noise on A s / 2^b as it is would tell neighbours apart for certain: rounding comes first."""
    case = CASES[name]
    sums = {y: case.read(y, None).result() for y in case.labellings()}
    exact = {
        y: [Fraction(int(x), 2**BITS) for x in (s.astype(object) @ case.matrix.T).ravel()]
        for y, s in sums.items()
    }
    apart = 0
    for first, other in itertools.combinations(exact, 2):
        if sum(a != b for a, b in zip(first, other, strict=True)) == 1:
            apart += not supports_meet(exact[first], exact[other])
            rounded = [
                [Fraction(math.floor(x + Fraction(1, 2))) for x in exact[y]] for y in (first, other)
            ]
            assert supports_meet(*rounded)
            assert rounded[0] == case.read(first, case.shape).result().ravel().tolist()
    assert apart
